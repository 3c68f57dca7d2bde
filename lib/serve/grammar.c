/* SPDX-License-Identifier: MIT */
/* The state of a text in the network is a set of ways; each is a node and the frames of the rules
 * and loops around it. Sets and their transitions by bytes are created on demand, and dropped when
 * there are many: a state has its text, so it finds its set again. The ways of a set, and their
 * order, are a function of the text alone. */
#include "serve/grammar.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/hash.h"
#include "common/xalloc.h"
#include "serve/grammar_state.h"

enum {
    WAYS_MAX = 640, /* maximum of a set: further ways are dropped; each kept one can reach an end */
    SETS_MAX = 4096,
    FRAMES_MAX = 1 << 16,
    VISITS_MAX = 1 << 14,
    MASKS = 32,
    MASK_COST_MAX = 1 << 20, /* 10 to 20 ms; typical schemas take a fortieth of it */
    SET_COST = 128,
    TEXT_COST_MAX = 1 << 24, /* maximum cost of a text, plus BYTE_COST_MAX for each of its bytes */
    BYTE_COST_MAX = 256,
    UNKNOWN = -1,
    DEAD = -2,
};

struct visit {
    uint32_t step, node, frame, turn;
};

struct set {
    size_t first, n; /* ways */
    bool may_end;
    uint32_t n_mask; /* the mask that last counted this set; the bytes whose steps it counted */
    uint64_t counted[4];
    int32_t next[256];
    uint16_t cost[256]; /* cost of each step whose `next` is known */
};

struct index { /* a hash table with open addressing; slots hold an index plus 1 */
    uint32_t *slot;
    size_t n_slot;
};

struct mask {
    int32_t set;
    bool is_too_much;
    uint8_t *allowed; /* [n_vocabulary] */
};

struct spot_grammar {
    struct spot_gnet net;
    const struct spot_grammar_words *words;

    struct spot_gframe *frame; /* [0] is the bottom */
    struct spot_gway *way;
    struct set *set;
    size_t n_frame, frame_cap, n_way, way_cap, n_set, set_cap;
    struct index frames, sets;
    uint64_t generation; /* incremented each time that all sets are dropped */
    struct mask mask[MASKS];
    size_t next_mask;
    uint32_t n_mask; /* number of the mask being filled, */
    uint64_t cost;   /* and its cost so far */

    /* scratch data of one step */
    struct spot_gway *found; /* [WAYS_MAX] */
    struct visit *visit;     /* a table; only entries of this step are valid */
    size_t n_found, n_visit;
    uint32_t n_step;
    bool may_end;
};

struct spot_grammar_state {
    struct spot_grammar *g;
    struct spot_buf text;
    uint64_t generation;
    int32_t set;
    uint64_t cost; /* cost of the steps along the text */
};

/* --- sets and frames, each once ---------------------------------------------- */

static uint64_t hash(const void *data, size_t n)
{
    return spot_hash64(data, n);
}

static void index_clear(struct index *x, size_t n_slot)
{
    x->slot = spot_xrealloc(x->slot, n_slot, sizeof(*x->slot));
    x->n_slot = n_slot;
    memset(x->slot, 0, n_slot * sizeof(*x->slot));
}

static void grow_frames(struct spot_grammar *g)
{
    index_clear(&g->frames, 2 * g->frames.n_slot);
    for (size_t k = 0; k < g->n_frame; k++) {
        size_t i = hash(&g->frame[k], sizeof(*g->frame)) & (g->frames.n_slot - 1);

        while (g->frames.slot[i])
            i = (i + 1) & (g->frames.n_slot - 1);
        g->frames.slot[i] = (uint32_t)k + 1;
    }
}

static uint32_t frame_of(struct spot_grammar *g, struct spot_gframe f)
{
    size_t i;

    if (2 * g->n_frame > g->frames.n_slot)
        grow_frames(g);
    i = hash(&f, sizeof(f)) & (g->frames.n_slot - 1);

    for (; g->frames.slot[i]; i = (i + 1) & (g->frames.n_slot - 1))
        if (!memcmp(&g->frame[g->frames.slot[i] - 1], &f, sizeof(f)))
            return g->frames.slot[i] - 1;
    g->frame = spot_xgrow(g->frame, &g->frame_cap, g->n_frame + 1, sizeof(f));
    g->frame[g->n_frame++] = f;
    g->frames.slot[i] = (uint32_t)g->n_frame;
    return (uint32_t)g->n_frame - 1;
}

static bool is_set(const struct spot_grammar *g, const struct set *s)
{
    return s->n == g->n_found && s->may_end == g->may_end &&
           !memcmp(&g->way[s->first], g->found, s->n * sizeof(*g->found));
}

/* Returns the set of the ways in `found`, creating it if it is new; DEAD if there are none. */
static int32_t set_of(struct spot_grammar *g)
{
    const size_t n_byte = g->n_found * sizeof(*g->found);
    size_t i = hash(g->found, n_byte) & (g->sets.n_slot - 1);
    struct set *s;

    if (!g->n_found && !g->may_end)
        return DEAD;
    for (; g->sets.slot[i]; i = (i + 1) & (g->sets.n_slot - 1))
        if (is_set(g, &g->set[g->sets.slot[i] - 1]))
            return (int32_t)g->sets.slot[i] - 1;
    g->set = spot_xgrow(g->set, &g->set_cap, g->n_set + 1, sizeof(*g->set));
    s = &g->set[g->n_set++];
    *s = (struct set){ .first = g->n_way, .n = g->n_found, .may_end = g->may_end };
    for (size_t k = 0; k < 256; k++)
        s->next[k] = UNKNOWN;
    g->way = spot_xgrow(g->way, &g->way_cap, g->n_way + g->n_found, sizeof(*g->way));
    memcpy(&g->way[g->n_way], g->found, n_byte);
    g->n_way += g->n_found;
    g->sets.slot[i] = (uint32_t)g->n_set;
    return (int32_t)g->n_set - 1;
}

/* --- ways without a byte ----------------------------------------------------- */

/* Marks an alternative as visited; true if it was. Also true when the table is full: the
 * alternative is then dropped. */
static bool was_visited(struct spot_grammar *g, struct visit v)
{
    size_t i;

    v.step = g->n_step;
    for (i = hash(&v, sizeof(v)) & (4 * VISITS_MAX - 1); g->visit[i].step == g->n_step;
         i = (i + 1) & (4 * VISITS_MAX - 1))
        if (!memcmp(&g->visit[i], &v, sizeof(v)))
            return true;
    if (g->n_visit == VISITS_MAX)
        return true;
    g->visit[i] = v;
    g->n_visit++;
    return false;
}

static void keep(struct spot_grammar *g, struct spot_gway w)
{
    if (g->n_found < WAYS_MAX)
        g->found[g->n_found++] = w;
}

static void go(struct spot_grammar *g, uint32_t node, uint32_t frame, uint32_t turn);

/* Enters or repeats a loop. Turn counts beyond the minimum of an unlimited loop make no difference
 * and become one. */
static void go_loop(struct spot_grammar *g, uint32_t node, uint32_t frame, uint32_t turn)
{
    const struct spot_gnode *const v = &g->net.node[node];
    const uint32_t then = v->max == SPOT_GRAMMAR_MANY && turn >= v->min ? v->min : turn + 1;

    if (turn < v->max)
        go(g, v->other, frame_of(g, (struct spot_gframe){ frame, node, then }), 0);
    if (turn >= v->min)
        go(g, v->next, frame, 0);
}

/* `turn`: how often a loop's body has been passed. The depth is bounded by the nodes between two
 * bytes. */
static void go(struct spot_grammar *g, uint32_t node, uint32_t frame, uint32_t turn)
{
    const struct spot_gnode *const v = &g->net.node[node];

    if (!v->is_alive || was_visited(g, (struct visit){ 0, node, frame, turn }))
        return;
    switch ((enum spot_gnode_kind)v->kind) {
    case SPOT_GNODE_BYTE:
        keep(g, (struct spot_gway){ node, frame });
        return;
    case SPOT_GNODE_SPLIT:
        go(g, v->next, frame, 0);
        go(g, v->other, frame, 0);
        return;
    case SPOT_GNODE_CALL:
        go(g, g->net.rule[v->other], frame_of(g, (struct spot_gframe){ frame, v->next, 0 }), 0);
        return;
    case SPOT_GNODE_LOOP:
        go_loop(g, node, frame, turn);
        return;
    case SPOT_GNODE_RETURN:
        if (!frame)
            g->may_end = true;
        else
            go(g, g->frame[frame].node, g->frame[frame].below, g->frame[frame].count);
        return;
    case SPOT_GNODE_NEVER:
        return;
    }
}

static void begin_step(struct spot_grammar *g)
{
    g->n_found = g->n_visit = 0;
    g->may_end = false;
    if (!++g->n_step) { /* n_step wraps around once in four billion steps */
        memset(g->visit, 0, 4 * VISITS_MAX * sizeof(*g->visit));
        g->n_step = 1;
    }
}

static int32_t first_set(struct spot_grammar *g)
{
    begin_step(g);
    go(g, g->net.start, 0, 0);
    return set_of(g);
}

static int32_t step(struct spot_grammar *g, int32_t at, uint8_t byte)
{
    int32_t next = g->set[at].next[byte];

    if (next != UNKNOWN)
        return next;
    begin_step(g);
    for (size_t i = 0; i < g->set[at].n; i++) {
        const struct spot_gway w = g->way[g->set[at].first + i];
        const struct spot_gnode *const v = &g->net.node[w.node];

        if (v->low <= byte && byte <= v->high)
            go(g, v->next, w.frame, 0);
    }
    next = set_of(g);
    g->set[at].next[byte] = next;
    g->set[at].cost[byte] = (uint16_t)(g->set[at].n + g->n_visit);
    return next;
}

/* --- forgetting -------------------------------------------------------------- */

static void forget(struct spot_grammar *g)
{
    index_clear(&g->frames, 4 * FRAMES_MAX);
    index_clear(&g->sets, 4 * SETS_MAX);
    g->n_frame = g->n_set = g->n_way = 0;
    g->generation++;
    frame_of(g, (struct spot_gframe){ 0, 0, 0 });
    for (size_t i = 0; i < MASKS; i++)
        g->mask[i].set = UNKNOWN;
}

/* Marks the frames that the ways of a set need, and those below them. */
static uint32_t *needed_frames(const struct spot_grammar *g, const struct set *s)
{
    uint32_t *const is_needed = spot_xcalloc(g->n_frame, sizeof(*is_needed));

    for (size_t i = 0; i < s->n; i++)
        is_needed[g->way[s->first + i].frame] = 1;
    for (size_t i = g->n_frame; i-- > 1;) /* lower frames come first */
        if (is_needed[i])
            is_needed[g->frame[i].below] = 1;
    return is_needed;
}

/* Forgets all sets but one. Returns its new number. */
static int32_t forget_others(struct spot_grammar *g, int32_t set)
{
    const struct set kept = g->set[set];
    const size_t n_frame = g->n_frame;
    uint32_t *const number = needed_frames(g, &kept);
    struct spot_gframe *const old = spot_xcalloc(n_frame, sizeof(*old));

    memcpy(old, g->frame, n_frame * sizeof(*old));
    begin_step(g);
    g->may_end = kept.may_end;
    g->n_found = kept.n;
    memcpy(g->found, &g->way[kept.first], kept.n * sizeof(*g->found));
    forget(g);
    number[0] = 0;
    for (size_t i = 1; i < n_frame; i++)
        if (number[i])
            number[i] = frame_of(
                g, (struct spot_gframe){ number[old[i].below], old[i].node, old[i].count });
    for (size_t i = 0; i < g->n_found; i++)
        g->found[i].frame = number[g->found[i].frame];
    free(old);
    free(number);
    return set_of(g);
}

static bool is_much(const struct spot_grammar *g)
{
    return g->n_set > SETS_MAX || g->n_frame > FRAMES_MAX || g->n_way > WAYS_MAX * SETS_MAX / 8;
}

/* Follows n bytes from a set. *cost: of these steps, as if none were cached. */
static int32_t walk(struct spot_grammar *g, int32_t at, const uint8_t *byte, size_t n,
                    uint64_t *cost)
{
    *cost = 0;
    for (size_t i = 0; i < n && at >= 0; i++) {
        const int32_t next = step(g, at, byte[i]);

        *cost += g->set[at].cost[byte[i]];
        at = next;
    }
    return at;
}

/* The set of a state; if it was forgotten, it is computed again. */
static int32_t set_now(struct spot_grammar_state *s)
{
    struct spot_grammar *const g = s->g;

    if (is_much(g) && s->generation == g->generation) {
        s->set = forget_others(g, s->set);
        s->generation = g->generation;
    } else if (is_much(g)) {
        forget(g);
    }
    if (s->generation != g->generation) {
        s->set = walk(g, first_set(g), s->text.data, s->text.n, &s->cost);
        s->generation = g->generation;
    }
    return s->set;
}

struct spot_gstand spot_grammar_stand(struct spot_grammar_state *s)
{
    const struct spot_grammar *const g = s->g;
    const int32_t set = set_now(s); /* may reallocate the array of sets */
    const struct set *const now = &g->set[set];

    return (struct spot_gstand){ .net = &g->net,
                                 .frame = g->frame,
                                 .way = &g->way[now->first],
                                 .n_way = now->n,
                                 .may_end = now->may_end };
}

/* --- masks ------------------------------------------------------------------- */

/* The cost of a mask is computed as if nothing were cached: a function of the text, so that all
 * replicas and coordinators reject the same ones. A step counts once per mask. */

static void count_set(struct spot_grammar *g, int32_t at)
{
    struct set *const s = &g->set[at];

    if (s->n_mask == g->n_mask)
        return;
    s->n_mask = g->n_mask;
    memset(s->counted, 0, sizeof(s->counted));
    g->cost += SET_COST;
}

static void count_step(struct spot_grammar *g, int32_t at, uint8_t byte)
{
    struct set *const s = &g->set[at];
    const uint64_t bit = UINT64_C(1) << (byte % 64);

    count_set(g, at);
    if (s->counted[byte / 64] & bit)
        return;
    s->counted[byte / 64] |= bit;
    g->cost += s->cost[byte];
}

/* Compute the tokens allowed after a set: sorted tokens share the sets of their common prefixes.
 * Nothing is dropped meanwhile; the cost limits the number of new sets. Returns false if it exceeds
 * the limit. */
static bool fill_mask(struct spot_grammar *g, int32_t set, uint8_t *allowed)
{
    const struct spot_grammar_words *const w = g->words;
    int32_t *const at = spot_xcalloc(w->n_byte_max + 1, sizeof(*at)); /* set after i bytes */
    size_t n_known = 0; /* at[0..n_known] are still valid from the previous token */

    memset(allowed, 0, w->n_vocabulary);
    at[0] = set;
    g->n_mask++;
    g->cost = 0;
    for (size_t i = 0; i < w->n_word && g->cost <= MASK_COST_MAX; i++) {
        const struct spot_grammar_word *const t = &w->word[i];

        if (n_known > t->common)
            n_known = t->common;
        while (n_known < t->n && at[n_known] >= 0) {
            at[n_known + 1] = step(g, at[n_known], t->byte[n_known]);
            count_step(g, at[n_known], t->byte[n_known]);
            n_known++;
        }
        allowed[t->id] = n_known == t->n && at[n_known] >= 0;
    }
    free(at);
    return g->cost <= MASK_COST_MAX;
}

static const struct mask *mask_of(struct spot_grammar_state *s)
{
    struct spot_grammar *const g = s->g;
    const int32_t set = set_now(s);
    struct mask *m;

    for (size_t i = 0; i < MASKS; i++)
        if (g->mask[i].set == set)
            return &g->mask[i];
    m = &g->mask[g->next_mask];
    g->next_mask = (g->next_mask + 1) % MASKS;
    if (!m->allowed)
        m->allowed = spot_xcalloc(g->words->n_vocabulary, 1);
    m->is_too_much = !fill_mask(g, set, m->allowed);
    m->set = set;
    return m;
}

static bool is_too_much(const struct spot_grammar_state *s)
{
    return s->cost > TEXT_COST_MAX + (uint64_t)BYTE_COST_MAX * s->text.n;
}

/* --- interface --------------------------------------------------------- */

struct spot_grammar *spot_grammar_new(const char *form, size_t n_byte,
                                      const struct spot_grammar_words *words, struct spot_err *err)
{
    struct spot_grammar *const g = spot_xcalloc(1, sizeof(*g));

    g->words = words;
    spot_gnet_init(&g->net);
    if (spot_gnet_of_form(&g->net, form, n_byte, err)) {
        spot_grammar_free(g);
        return NULL;
    }
    g->found = spot_xcalloc(WAYS_MAX, sizeof(*g->found));
    g->visit = spot_xcalloc(4 * (size_t)VISITS_MAX, sizeof(*g->visit));
    forget(g);
    return g;
}

int spot_grammar_check(const char *form, size_t n_byte, struct spot_err *err)
{
    struct spot_gnet net;
    int rc;

    spot_gnet_init(&net);
    rc = spot_gnet_of_form(&net, form, n_byte, err);
    spot_gnet_release(&net);
    return rc;
}

size_t spot_grammar_byte(const struct spot_grammar *g)
{
    size_t n = sizeof(*g) + g->net.cap * sizeof(*g->net.node) + g->frame_cap * sizeof(*g->frame) +
               g->way_cap * sizeof(*g->way) + g->set_cap * sizeof(*g->set) +
               g->frames.n_slot * sizeof(*g->frames.slot) + g->sets.n_slot * sizeof(*g->sets.slot) +
               WAYS_MAX * sizeof(*g->found) + 4 * (size_t)VISITS_MAX * sizeof(*g->visit);

    for (size_t i = 0; i < MASKS; i++)
        n += g->mask[i].allowed ? g->words->n_vocabulary : 0;
    return n;
}

void spot_grammar_free(struct spot_grammar *g)
{
    if (!g)
        return;
    spot_gnet_release(&g->net);
    for (size_t i = 0; i < MASKS; i++)
        free(g->mask[i].allowed);
    free(g->frame);
    free(g->way);
    free(g->set);
    free(g->frames.slot);
    free(g->sets.slot);
    free(g->found);
    free(g->visit);
    free(g);
}

struct spot_grammar_state *spot_grammar_begin(struct spot_grammar *g)
{
    struct spot_grammar_state *const s = spot_xcalloc(1, sizeof(*s));

    s->g = g;
    s->generation = g->generation - 1; /* its set is not known yet */
    return s;
}

void spot_grammar_end(struct spot_grammar_state *s)
{
    if (!s)
        return;
    spot_buf_release(&s->text);
    free(s);
}

int spot_grammar_push(struct spot_grammar_state *s, uint32_t token)
{
    const struct spot_grammar_words *const w = s->g->words;
    const size_t begin = token < w->n_vocabulary ? w->begin[token] : 0;
    const size_t n = token < w->n_vocabulary ? w->begin[token + 1] - begin : 0;
    uint64_t cost = 0;
    const int32_t next = n ? walk(s->g, set_now(s), w->text.data + begin, n, &cost) : DEAD;

    if (next < 0)
        return -1;
    spot_buf_add(&s->text, w->text.data + begin, n);
    s->set = next;
    s->cost += cost;
    return 0;
}

bool spot_grammar_may_end(struct spot_grammar_state *s)
{
    const int32_t set = set_now(s); /* may reallocate the array of sets */

    return s->g->set[set].may_end;
}

bool spot_grammar_must_end(struct spot_grammar_state *s)
{
    const int32_t set = set_now(s);

    return !s->g->set[set].n;
}

int spot_grammar_mask(struct spot_grammar_state *s, const uint32_t *end, size_t n_end, float *logit,
                      size_t n)
{
    const struct mask *const m = is_too_much(s) ? NULL : mask_of(s);
    bool may_end;

    if (!m || m->is_too_much)
        return -1;
    may_end = spot_grammar_may_end(s);
    for (size_t i = 0; i < n; i++) {
        bool is_end = false;

        if (i < s->g->words->n_vocabulary && m->allowed[i])
            continue;
        for (size_t k = 0; k < n_end && may_end && !is_end; k++)
            is_end = end[k] == i;
        if (!is_end)
            logit[i] = -INFINITY;
    }
    return 0;
}
