/* SPDX-License-Identifier: MIT */
/* Warm spares: a member without a place mirrors stages, so that it holds the state of a member that
 * is killed. Missing bundles are sent one by one during the steps, as before a new grid
 * (trainer_precopy.c); from then on the spare receives the sums and applies the updates, like a
 * buddy. Stages held by the fewest failure domains come first, and several spares mirror different
 * ones. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "train/trainer_member_state.h"
#include "train/trainer_move_state.h"
#include "train/trainer_place_state.h"

/* Sums are sent to a spare in every step, at most for half of the step's time. Bundles already
 * mirrored are kept up to a multiple of that, so that one short step does not drop them. */
static const double share_of_step = 0.5, patience = 2;

struct warm {
    const struct spot_trainer *c;
    const struct spot_form *form;
    uint32_t *spare; /* [n_spare] */
    size_t n_spare;
    uint8_t *mirrors;           /* [n_spare * P] whether a spare mirrors a stage */
    struct spot_precopy *entry; /* [n_entry] */
    size_t n_entry;
};

/* --- possible mirrors -------------------------------------------------------- */

static bool is_possible(const struct spot_trainer *c)
{
    return !c->options->no_buddies && !c->options->observer && c->step_s > 0 && c->form.D;
}

static bool is_spare(const struct warm *w, const struct spot_member *m)
{
    return spot_view_may_place(w->c->view, m) && spot_form_position(w->form, m->id) < 0 &&
           !spot_trainer_member(w->c, m->id)->cannot_mirror;
}

static void list_spares(struct warm *w)
{
    const struct spot_machine *const machine = w->c->machine;

    w->spare = spot_xcalloc(machine->n_member, sizeof(*w->spare));
    for (size_t i = 0; i < machine->n_member; i++)
        if (is_spare(w, &machine->member[i]))
            w->spare[w->n_spare++] = machine->member[i].id;
    w->mirrors = spot_xcalloc(w->n_spare * w->form->P, 1);
    for (size_t i = 0; i < w->n_spare; i++)
        for (uint32_t p = 0; p < w->form->P; p++)
            w->mirrors[i * w->form->P + p] = w->form->buddy[p] == w->spare[i];
}

static size_t n_mirrored(const struct warm *w, size_t spare)
{
    size_t n = 0;

    for (uint32_t p = 0; p < w->form->P; p++)
        n += w->mirrors[spare * w->form->P + p];
    return n;
}

static size_t n_mirrors(const struct warm *w, uint32_t p)
{
    size_t n = 0;

    for (size_t i = 0; i < w->n_spare; i++)
        n += w->mirrors[i * w->form->P + p];
    return n;
}

/* Failure domains that hold the stage now. */
static size_t n_domain(const struct warm *w, uint32_t p)
{
    const uint32_t n_replica = spot_form_replicas(w->form);
    size_t n = 0;

    for (uint32_t i = 0; i < n_replica; i++) {
        uint32_t k = 0;

        while (k < i && !spot_trainer_same_domain(w->c, spot_form_replica(w->form, p, k),
                                                  spot_form_replica(w->form, p, i)))
            k++;
        n += k == i;
    }
    return n;
}

/* The stage with fewest spares, then with fewest domains, that this one does not mirror; P: none.
 */
static uint32_t neediest(const struct warm *w, size_t spare)
{
    const uint32_t P = w->form->P;
    uint32_t best = P;
    size_t least = SIZE_MAX;

    for (uint32_t p = 0; p < P; p++) {
        const size_t need = n_mirrors(w, p) * (SPOT_MEMBERS_MAX + 1) + n_domain(w, p);

        if (!w->mirrors[spare * P + p] && need < least) {
            least = need;
            best = p;
        }
    }
    return best;
}

/* --- bundles ------------------------------------------------------------------ */

static bool holds(const struct warm *w, uint32_t id, uint32_t b)
{
    return w->form->step >= 0 && spot_trainer_member(w->c, id)->held[b] == w->form->step;
}

static double sums_byte(const struct warm *w, uint32_t b)
{
    return (double)spot_trainer_bundle_byte(w->c, (int)b) / SPOT_PLANES / sizeof(float) *
           sizeof(int64_t);
}

/* Bytes of sums that may be sent to a spare in a step. */
static double room_byte(const struct warm *w, uint32_t id)
{
    const struct spot_trainer_member *const who = spot_trainer_member(w->c, id);
    const double link_byte = spot_trainer_best_byte_per_s(w->c) * w->c->step_s * share_of_step;

    return who->warm_byte > 0 ? fmin(link_byte, who->warm_byte) : link_byte;
}

/* Add bundles from the end of a stage, in the order in which sums complete. */
static void add_stage(struct warm *w, uint32_t id, uint32_t p, double *room)
{
    for (uint32_t b = w->form->stage[p + 1]; b-- > w->form->stage[p];) {
        const double n_byte = sums_byte(w, b);
        const double slack = holds(w, id, b) ? room_byte(w, id) * (patience - 1) : 0;

        if (n_byte > *room + slack)
            continue;
        *room -= n_byte;
        w->entry[w->n_entry++] = (struct spot_precopy){ b, id };
    }
}

/* Spares take turns, so that each mirrors one stage before any mirrors two; stages that a spare
 * already holds come first. */
static void choose(struct warm *w)
{
    double *const room = spot_xcalloc(w->n_spare, sizeof(*room));

    w->entry = spot_xcalloc(w->n_spare * (size_t)w->c->n_bundle, sizeof(*w->entry));
    for (size_t i = 0; i < w->n_spare; i++)
        room[i] = room_byte(w, w->spare[i]);
    for (size_t n = 0, most = 0; most <= w->form->P; n++) {
        const size_t i = n % (w->n_spare ? w->n_spare : 1);
        uint32_t p;

        if (!w->n_spare)
            break;
        most = n / w->n_spare;
        p = neediest(w, i);
        /* beyond its first, a spare mirrors only stages that no other spare does */
        if (p == w->form->P || (n_mirrored(w, i) && n_mirrors(w, p)))
            continue;
        w->mirrors[i * w->form->P + p] = 1;
        add_stage(w, w->spare[i], p, &room[i]);
    }
    free(room);
}

static void swap(struct warm *w, size_t i, size_t k)
{
    const uint32_t P = w->form->P, id = w->spare[i];

    w->spare[i] = w->spare[k];
    w->spare[k] = id;
    for (uint32_t p = 0; p < P; p++) {
        const uint8_t mirrors = w->mirrors[i * P + p];

        w->mirrors[i * P + p] = w->mirrors[k * P + p];
        w->mirrors[k * P + p] = mirrors;
    }
}

static void keep_where_held(struct warm *w)
{
    for (size_t i = 0; i < w->n_spare; i++)
        for (size_t k = i + 1; k < w->n_spare; k++) {
            const uint32_t p = neediest(w, i);
            const uint32_t last = p < w->form->P ? w->form->stage[p + 1] - 1 : 0;

            if (p < w->form->P && !holds(w, w->spare[i], last) && holds(w, w->spare[k], last))
                swap(w, i, k);
        }
}

static void decide(struct warm *w)
{
    list_spares(w);
    keep_where_held(w);
    choose(w);
}

static void release(struct warm *w)
{
    free(w->spare);
    free(w->mirrors);
    free(w->entry);
}

/* --- the form -------------------------------------------------------------------- */

static void put(struct spot_trainer *c, const struct warm *w)
{
    struct spot_form *const f = &c->form;

    f->precopy = spot_xcalloc(w->n_entry, sizeof(*f->precopy));
    for (int is_held = 1; is_held >= 0; is_held--) {
        for (size_t i = 0; i < w->n_entry; i++)
            if (holds(w, w->entry[i].to, w->entry[i].bundle) == is_held)
                f->precopy[f->n_precopy++] = w->entry[i];
        if (is_held)
            f->n_precopied = f->n_precopy;
    }
    for (size_t i = 0; i < w->n_entry; i++)
        spot_view_set_role(c->view, w->entry[i].to, SPOT_ROLE_ACTIVE);
}

void spot_trainer_warm(struct spot_trainer *c)
{
    struct warm w = { .c = c, .form = &c->form };

    if (!is_possible(c))
        return;
    decide(&w);
    if (w.n_entry)
        put(c, &w);
    release(&w);
}

/* Bytes of sums of the entries with receiver `id`. */
static double entries_byte(const struct warm *w, const struct spot_precopy *entry, size_t n,
                           uint32_t id)
{
    double n_byte = 0;

    for (size_t i = 0; i < n; i++)
        n_byte += entry[i].to == id ? sums_byte(w, entry[i].bundle) : 0;
    return n_byte;
}

/* True if there is a spare that joined after the epoch was formed, or whose limit has doubled
 * since: before a step's time was known the limit was small. */
bool spot_trainer_lacks_warm(const struct spot_trainer *c)
{
    const struct spot_form *const f = &c->form;
    struct warm w = { .c = c, .form = f };
    bool lacks = false;

    if (!is_possible(c) || c->movement.is_for_grid || c->machine->phase != SPOT_PHASE_RUN)
        return false;
    decide(&w);
    for (size_t i = 0; i < w.n_spare; i++) {
        const double could = entries_byte(&w, w.entry, w.n_entry, w.spare[i]);

        lacks |= could > 0 && could >= 2 * entries_byte(&w, f->precopy, f->n_precopy, w.spare[i]);
    }
    release(&w);
    return lacks;
}

double spot_trainer_warmth(const struct spot_trainer *c, uint32_t id)
{
    double mirrored = 0, all = 0;

    for (uint32_t b = 0; b < (uint32_t)c->n_bundle; b++) {
        const double n_byte = (double)spot_trainer_bundle_byte(c, (int)b);

        all += n_byte;
        mirrored += spot_form_keeps(&c->form, id, b) ? n_byte : 0;
    }
    return mirrored / all;
}

bool spot_trainer_mirrors(const struct spot_trainer *c, uint32_t id, uint32_t p)
{
    uint32_t b = c->form.stage[p];

    while (b < c->form.stage[p + 1] && spot_form_keeps(&c->form, id, b))
        b++;
    return b == c->form.stage[p + 1];
}

void spot_trainer_cool(const struct spot_trainer *c, struct spot_trainer_member *who)
{
    const uint32_t id = spot_peer_id(who->peer);
    const struct warm w = { .c = c, .form = &c->form };
    double asked = 0;

    for (size_t i = 0; i < c->form.n_precopy; i++)
        if (c->form.precopy[i].to == id)
            asked += sums_byte(&w, c->form.precopy[i].bundle);
    who->warm_byte = asked / 2;
    who->cannot_mirror = c->movement.is_for_grid || spot_form_position(&c->form, id) >= 0 ||
                         asked <= 0 || who->warm_byte < sums_byte(&w, 0) / 64;
    for (uint32_t p = 0; p < c->form.P; p++)
        who->cannot_mirror |= c->form.buddy[p] == id;
}
