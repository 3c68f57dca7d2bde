/* SPDX-License-Identifier: MIT */
#include "text/pattern.h"

#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "common/xalloc.h"
#include "text/pattern_state.h"
#include "text/unicode_class.h"

/* A step of the program that is compiled from the tree. */
struct step {
    enum { STEP_SET, STEP_AHEAD, STEP_FORK, STEP_MATCH } type;
    bool is_not;
    uint32_t set;
    uint32_t next, other; /* FORK: first next, then other */
};

enum { MATCHED = 0x8000, DEAD = 0x7FFF, CLASSES_MAX = 250, BMP = 0x10000 };

struct run {
    uint32_t first;
    uint8_t class;
};

/* Characters that no set distinguishes form one class; the last class is the end of the text. */
struct spot_pattern {
    uint8_t of[BMP];
    struct run *run; /* [n_run] of the others, ascending */
    size_t n_run, run_cap;
    uint8_t invalid;
    uint32_t n_class;
    uint64_t *sets; /* [n_class] sets that contain it, a bit each */
    uint16_t
        *to; /* [n_state][n_class] the next state; MATCHED: a match ended before this character */
    uint32_t n_state;
};

/* --- classes ----------------------------------------------------------------------------- */

static bool has(const struct spot_pattern_set *s, uint32_t code, uint32_t category)
{
    bool is = (s->categories >> category & 1) || (s->has_space && spot_char_is_space(code)) ||
              (s->has_no_space && !spot_char_is_space(code));

    for (uint32_t i = 0; !is && i < s->n; i++)
        is = code >= s->range[i][0] && code <= s->range[i][1];
    return is != s->is_not;
}

/* The last character after `code` that is surely in the same sets. */
static uint32_t same_until(const struct spot_pattern_tree *t, uint32_t code, uint32_t last)
{
    /* where spaces begin and end above Latin-1 */
    static const uint32_t edge[] = { 0x1680, 0x1681, 0x2000, 0x200B, 0x2028, 0x202A,
                                     0x202F, 0x2030, 0x205F, 0x2060, 0x3000, 0x3001 };

    for (size_t i = 0; i < sizeof(edge) / sizeof(edge[0]); i++)
        if (edge[i] > code && edge[i] <= last)
            last = edge[i] - 1;
    for (size_t i = 0; i < t->n_set; i++)
        for (uint32_t k = 0; k < t->set[i].n; k++) {
            const uint32_t *const range = t->set[i].range[k];

            if (range[0] > code && range[0] <= last)
                last = range[0] - 1;
            if (range[1] >= code && range[1] < last)
                last = range[1];
        }
    return code < 0x100 ? code : last;
}

static uint32_t class_of(struct spot_pattern *p, const struct spot_pattern_tree *t, uint32_t code,
                         uint32_t category)
{
    uint64_t sets = 0;
    uint32_t i = 0;

    for (size_t k = 0; k < t->n_set; k++)
        sets |= (uint64_t)has(&t->set[k], code, category) << k;
    while (i < p->n_class && p->sets[i] != sets)
        i++;
    if (i == p->n_class && i < CLASSES_MAX)
        p->sets[p->n_class++] = sets;
    return i;
}

/* Returns false if there are too many. */
static bool make_classes(struct spot_pattern *p, const struct spot_pattern_tree *t)
{
    uint32_t last = 0, class = 0;

    p->sets = spot_xcalloc(CLASSES_MAX + 1, sizeof(*p->sets));
    for (uint32_t code = 0; code < 0x110000; code = last + 1) {
        const uint32_t category = spot_char_category(code, &last);

        last = same_until(t, code, last < 0x10FFFF ? last : 0x10FFFF);
        class = class_of(p, t, code, category);
        for (uint32_t c = code; c <= last && c < BMP; c++)
            p->of[c] = (uint8_t) class;
        if (last < BMP || (p->n_run && p->run[p->n_run - 1].class == class))
            continue;
        p->run = spot_xgrow(p->run, &p->run_cap, p->n_run + 1, sizeof(*p->run));
        p->run[p->n_run++] = (struct run){ code, (uint8_t) class };
    }
    p->invalid = (uint8_t)class_of(p, t, UINT32_MAX, SPOT_CHAR_C);
    p->n_class++; /* the end */
    return p->n_class <= CLASSES_MAX;
}

static uint32_t class_at(const struct spot_pattern *p, const char *text, size_t n, size_t *length)
{
    uint32_t code;
    size_t low = 0, high = p->n_run;

    *length = spot_utf8_char(text, n, &code);
    if (code < BMP)
        return p->of[code];
    if (code == UINT32_MAX)
        return p->invalid;
    while (high - low > 1) {
        const size_t mid = low + (high - low) / 2;

        if (p->run[mid].first <= code)
            low = mid;
        else
            high = mid;
    }
    return p->run[low].class;
}

/* --- the program ------------------------------------------------------------------------- */

struct maker {
    const struct spot_pattern_tree *t;
    struct spot_pattern *p;
    struct step *step; /* [n_step] */
    size_t n_step, step_cap;
    uint32_t *list; /* positions in the program, of all states, concatenated */
    size_t n_list, list_cap;
    size_t *begin; /* [n_state + 1] in list */
    size_t begin_cap;
    uint32_t *seen; /* [n_step] the last round in which the step was added to a state */
    uint32_t round;
};

/* Appends a step. The program is built from its end to its start, so that the next step exists
 * before the one that leads to it. */
static uint32_t put(struct maker *m, struct step step)
{
    if (m->n_step >= SPOT_PATTERN_NODES_MAX)
        return 0;
    m->step = spot_xgrow(m->step, &m->step_cap, m->n_step + 1, sizeof(*m->step));
    m->step[m->n_step] = step;
    return (uint32_t)m->n_step++;
}

static uint32_t emit(struct maker *m, uint32_t at, uint32_t next);

static uint32_t emit_repeat(struct maker *m, const struct spot_pattern_node *n, uint32_t next)
{
    const int optional = n->max < 0 ? 0 : n->max - n->min;
    uint32_t loop, out = next;

    /* possessive: the text may continue only where the repetition cannot */
    if (n->is_possessive)
        out = put(m, (struct step){ STEP_AHEAD, true, m->t->node[n->a].set, next, 0 });
    next = out;
    if (n->max < 0) {
        loop = put(m, (struct step){ STEP_FORK, false, 0, 0, out });
        next = emit(m, n->a, loop);
        if (loop < m->n_step)
            m->step[loop].next = next;
        next = loop;
    }
    for (int i = 0; i < optional && m->n_step < SPOT_PATTERN_NODES_MAX; i++)
        next = put(m, (struct step){ STEP_FORK, false, 0, emit(m, n->a, next), out });
    for (int i = 0; i < n->min && m->n_step < SPOT_PATTERN_NODES_MAX; i++)
        next = emit(m, n->a, next);
    return next;
}

/* Compiles a node that is followed by step `next`; returns its first step. The depth of recursion
 * is that of the pattern's brackets and sequences, which is small. */
static uint32_t emit(struct maker *m, uint32_t at, uint32_t next)
{
    const struct spot_pattern_node *const n = &m->t->node[at];
    uint32_t a;

    switch ((enum spot_pattern_type)n->type) {
    case SPOT_PATTERN_EMPTY:
        return next;
    case SPOT_PATTERN_SET:
        return put(m, (struct step){ STEP_SET, false, n->set, next, 0 });
    case SPOT_PATTERN_AHEAD:
        return put(m, (struct step){ STEP_AHEAD, n->is_not, n->set, next, 0 });
    case SPOT_PATTERN_THEN:
        return emit(m, n->a, emit(m, n->b, next));
    case SPOT_PATTERN_EITHER:
        a = emit(m, n->a, next);
        return put(m, (struct step){ STEP_FORK, false, 0, a, emit(m, n->b, next) });
    default:
        return emit_repeat(m, n, next);
    }
}

/* --- the states --------------------------------------------------------------------------- */

/* Whether a character of the class is in a set; the end of the text is in none. */
static bool is_in(const struct maker *m, uint32_t class, uint32_t set)
{
    return class + 1 < m->p->n_class && (m->p->sets[class] >> set & 1);
}

/* Adds a position to the state once; the first one counts. */
static void add(struct maker *m, uint32_t place)
{
    for (size_t i = m->p->n_state ? m->begin[m->p->n_state] : 0; i < m->n_list; i++)
        if (m->list[i] == place)
            return;
    m->list = spot_xgrow(m->list, &m->list_cap, m->n_list + 1, sizeof(*m->list));
    m->list[m->n_list++] = place;
}

/* Follow the alternatives at a position before a character of a class, in order, and add the
 * positions after it. Returns true at a match, after which no alternative counts. */
static bool follow(struct maker *m, uint32_t place, uint32_t class)
{
    while (m->seen[place] != m->round) {
        const struct step s = m->step[place];

        m->seen[place] = m->round;
        if (s.type == STEP_MATCH)
            return true;
        if (s.type == STEP_SET) {
            if (is_in(m, class, s.set))
                add(m, s.next);
            return false;
        }
        if (s.type == STEP_AHEAD && is_in(m, class, s.set) == s.is_not)
            return false;
        if (s.type == STEP_FORK && follow(m, s.next, class))
            return true;
        place = s.type == STEP_FORK ? s.other : s.next;
    }
    return false;
}

/* The state for the list that was just added; a new one if there is none. */
static uint32_t state_of(struct maker *m)
{
    struct spot_pattern *const p = m->p;
    const size_t at = m->begin[p->n_state], n = m->n_list - at;
    uint32_t i = 0;

    if (!n)
        return DEAD;
    while (i < p->n_state &&
           (m->begin[i + 1] - m->begin[i] != n ||
            memcmp(m->list + m->begin[i], m->list + at, n * sizeof(*m->list)) != 0))
        i++;
    if (i < p->n_state) {
        m->n_list = at;
        return i;
    }
    p->n_state++;
    m->begin = spot_xgrow(m->begin, &m->begin_cap, p->n_state + (size_t)1, sizeof(*m->begin));
    m->begin[p->n_state] = m->n_list;
    return i;
}

static uint16_t step_over(struct maker *m, uint32_t state, uint32_t class)
{
    bool has_matched = false;
    uint32_t to;

    m->round++;
    for (size_t i = m->begin[state]; i < m->begin[state + 1] && !has_matched; i++)
        has_matched = follow(m, m->list[i], class);
    to = state_of(m);
    return (uint16_t)(to | (has_matched ? MATCHED : 0U));
}

static bool make_states(struct maker *m, uint32_t first)
{
    struct spot_pattern *const p = m->p;
    size_t cap = 0;

    m->begin = spot_xgrow(NULL, &m->begin_cap, 1, sizeof(*m->begin));
    m->begin[0] = 0;
    m->seen = spot_xcalloc(m->n_step, sizeof(*m->seen));
    add(m, first);
    (void)state_of(m);
    for (uint32_t s = 0; s < p->n_state; s++) {
        if (p->n_state > SPOT_PATTERN_STATES_MAX)
            return false;
        p->to = spot_xgrow(p->to, &cap, (s + (size_t)1) * p->n_class, sizeof(*p->to));
        for (uint32_t c = 0; c < p->n_class; c++)
            p->to[s * (size_t)p->n_class + c] = step_over(m, s, c);
    }
    return true;
}

/* Properties of states that are reached before a match. */
enum { OPEN = 1, DONE = 2, CAN_FAIL = 4 };

static uint16_t next_of(const struct spot_pattern *p, uint32_t state, uint32_t class)
{
    return p->to[state * (size_t)p->n_class + class];
}

/* Marks states from which the text can end without a match. Returns true if a state was newly
 * marked. */
static bool find_failing(const struct spot_pattern *p, uint8_t *known)
{
    bool is_new = false;

    for (uint32_t s = 0; s < p->n_state; s++)
        for (uint32_t c = 0; c < p->n_class && !(known[s] & CAN_FAIL); c++) {
            const uint16_t to = next_of(p, s, c);
            const bool ends = to == DEAD || (!(to & MATCHED) && c + 1 == p->n_class);

            if (ends || (!(to & MATCHED) && (known[to] & CAN_FAIL))) {
                known[s] |= CAN_FAIL;
                is_new = true;
            }
        }
    return is_new;
}

/* True if matching can continue forever and then fail: each position of a text could cost reading
 * all of the rest. */
static bool is_endless(const struct spot_pattern *p, uint32_t state, uint8_t *known)
{
    known[state] |= OPEN;
    for (uint32_t c = 0; c + 1 < p->n_class; c++) {
        const uint16_t to = next_of(p, state, c);

        if ((to & MATCHED) || to == DEAD || !(known[to] & CAN_FAIL) || (known[to] & DONE))
            continue;
        if ((known[to] & OPEN) || is_endless(p, to, known))
            return true;
    }
    known[state] = DONE | CAN_FAIL;
    return false;
}

static int check(const struct spot_pattern *p, struct spot_err *err)
{
    uint8_t *const known = spot_xcalloc(p->n_state, 1);
    bool is;

    while (find_failing(p, known))
        ;
    is = is_endless(p, 0, known);
    free(known);
    if (is)
        return spot_err_set(err, SPOT_EDATA,
                            "the pattern can look at any number of characters and then not match "
                            "them, which is not supported: cutting a text would take the square of "
                            "its length");
    for (uint32_t c = 0; c < p->n_class; c++)
        if (p->to[c] & MATCHED)
            return spot_err_set(err, SPOT_EDATA,
                                "the pattern matches an empty text, which is not supported");
    return 0;
}

/* --- opening ------------------------------------------------------------------------------- */

static struct spot_pattern *make(const struct spot_pattern_tree *t, struct spot_err *err)
{
    struct maker m = { .t = t, .p = spot_xcalloc(1, sizeof(*m.p)) };
    bool is_small = make_classes(m.p, t);
    const uint32_t first = emit(&m, t->root, put(&m, (struct step){ .type = STEP_MATCH }));

    is_small = is_small && m.n_step < SPOT_PATTERN_NODES_MAX && make_states(&m, first);
    if (!is_small)
        spot_err_set(err, SPOT_EDATA, "the pattern is too large: %zu steps, %u states", m.n_step,
                     (unsigned)m.p->n_state);
    if (!is_small || check(m.p, err)) {
        spot_pattern_free(m.p);
        m.p = NULL;
    }
    free(m.step);
    free(m.list);
    free(m.begin);
    free(m.seen);
    return m.p;
}

struct spot_pattern *spot_pattern_new(const char *text, struct spot_err *err)
{
    struct spot_pattern_tree t;
    struct spot_pattern *const p = spot_pattern_read(&t, text, err) ? NULL : make(&t, err);

    spot_pattern_release(&t);
    return p;
}

struct spot_pattern *spot_pattern_of_text(const char *text, struct spot_err *err)
{
    char *const quoted = spot_xcalloc(2 * strlen(text) + 1, 1), *to = quoted;
    struct spot_pattern *p;

    for (; *text; text++) {
        if (strchr("\\|()[]{}^$*+?.", *text))
            *to++ = '\\';
        *to++ = *text;
    }
    p = spot_pattern_new(quoted, err);
    free(quoted);
    return p;
}

void spot_pattern_free(struct spot_pattern *p)
{
    if (!p)
        return;
    free(p->run);
    free(p->sets);
    free(p->to);
    free(p);
}

enum spot_pattern_found spot_pattern_match(const struct spot_pattern *p, const char *text, size_t n,
                                           bool is_end, size_t *length)
{
    size_t at = 0, best = 0, step = 1;
    uint32_t state = 0;

    while (state != DEAD) {
        const unsigned char byte = at < n ? (unsigned char)text[at] : 0;
        uint32_t class = p->n_class - 1;
        uint16_t to;

        if (best && at - best > SPOT_PATTERN_LOOK_MAX)
            break;
        if (at == n && !is_end)
            return SPOT_PATTERN_MORE;
        if (at < n && byte < 0x80) {
            class = p->of[byte];
            step = 1;
        } else if (at < n) {
            class = class_at(p, text + at, n - at, &step);
            if (!is_end && step == 1 && n - at < SPOT_UTF8_MAX) /* may be completed later */
                return SPOT_PATTERN_MORE;
        }
        to = p->to[state * (size_t)p->n_class + class];
        if (to & MATCHED)
            best = at;
        if (at == n)
            break;
        at += step;
        state = to & DEAD;
    }
    *length = best;
    return best ? SPOT_PATTERN_FOUND : SPOT_PATTERN_NONE;
}
