/* SPDX-License-Identifier: MIT */
/* Shortest remaining first: by time (SRTF), or by time x workers, as Tiresias (Gu et al., NSDI
 * 2019) ranks jobs of known length. Each job takes the free type on which it ends first, including
 * the time of a start. There is no released code to follow: a sentence describes both. */
#include "peers/share_peers.h"

#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"

struct entry {
    size_t k;
    double rank;
};

static int by_rank(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->rank < y->rank || x->rank > y->rank)
        return x->rank < y->rank ? -1 : 1;
    return (x->k > y->k) - (x->k < y->k);
}

/* The end on a type, including what the job would lose by moving there. */
static double end_s(const struct spot_share_state *s, const struct spot_share_view *v, size_t k,
                    size_t j)
{
    const struct spot_share_want *want = &v->want[k];
    const double rate = v->rate[k * s->n_type + j];
    const bool stays = want->on == (int)j;

    if (!(rate > 0))
        return INFINITY;
    return stays ? want->left / rate : (want->left + want->unsaved) / rate + s->play->switch_s;
}

static double rank(const struct spot_share_state *s, const struct spot_share_view *v, size_t k)
{
    double least = INFINITY;

    for (size_t j = 0; j < s->n_type; j++)
        least = fmin(least, end_s(s, v, k, j));
    return s->player->kind == SPOT_SRTF_SERVICE ? least * (double)v->want[k].scale : least;
}

static void place(struct spot_share_state *s, const struct spot_share_view *v, size_t k,
                  int64_t *there)
{
    const int64_t scale = v->want[k].scale;
    double least = INFINITY;
    size_t at = s->n_type;

    for (size_t j = 0; j < s->n_type; j++)
        if (there[j] >= scale && end_s(s, v, k, j) < least) {
            least = end_s(s, v, k, j);
            at = j;
        }
    if (at == s->n_type)
        return;
    there[at] -= scale;
    s->pick[s->n_pick++] =
        (struct spot_share_pick){ v->job[k], (int)at, scale, v->rate[k * s->n_type + at] };
}

static int srtf_pick(struct spot_share_state *s, struct spot_err *err)
{
    struct spot_share_view v;
    struct entry *entry;
    int64_t *there = spot_xcalloc(s->n_type, sizeof(*there));

    (void)err;
    spot_share_view_of(s, &v);
    entry = spot_xcalloc(v.problem.n_job, sizeof(*entry));
    for (size_t j = 0; j < s->n_type; j++)
        there[j] = s->count[j];
    for (size_t k = 0; k < v.problem.n_job; k++)
        entry[k] = (struct entry){ k, rank(s, &v, k) };
    if (v.problem.n_job)
        qsort(entry, v.problem.n_job, sizeof(*entry), by_rank);
    for (size_t k = 0; k < v.problem.n_job; k++)
        place(s, &v, entry[k].k, there);
    free(entry);
    free(there);
    spot_share_view_release(&v);
    return 0;
}

const struct spot_share_player spot_srtf_players[] = {
    { .name = "srtf",
      .about = "shortest remaining time first, each where it ends first",
      .pick = srtf_pick,
      .kind = SPOT_SRTF_TIME },
    { .name = "srsf",
      .about = "shortest remaining service (time x workers) first",
      .pick = srtf_pick,
      .kind = SPOT_SRTF_SERVICE },
    { 0 },
};
