/* SPDX-License-Identifier: MIT */
#include "train/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/num.h"
#include "common/rng.h"
#include "common/xalloc.h"

/* A print takes as long per element of the state as SPARE_TOKENS / 100 tokens. */
enum { SPARE_TOKENS = 1024 };

int spot_verify_parse(const char *text, double *share, struct spot_err *err)
{
    *share = strcmp(text, "auto") ? 0 : SPOT_VERIFY_AUTO;
    if (!strcmp(text, "off") || !strcmp(text, "auto"))
        return 0;
    if (spot_num_parse(text, share) || !(*share > 0) || *share > 1)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--verify must be off, auto or a share of the microbatches in (0, 1], "
                            "got '%s'",
                            text);
    return 0;
}

struct spot_verify_rate spot_verify_rate(double share, int64_t n_microbatch, uint32_t D)
{
    const double each = share * (double)n_microbatch / D; /* of a pipeline, in a step */

    if (D < 2 || share <= 0)
        return (struct spot_verify_rate){ 0, 0 };
    if (each >= 1)
        return (struct spot_verify_rate){ 1, (int64_t)ceil(each - 1e-9) };
    return (struct spot_verify_rate){ (int64_t)floor(fmin(1 / each + 1e-9, 1e15)), 1 };
}

struct spot_verify_rate spot_verify_spare_rate(int64_t n_microbatch, int64_t n_token, uint32_t D)
{
    const int64_t own = n_microbatch / D, n = own / 4;

    return (struct spot_verify_rate){ 1 + (SPARE_TOKENS - 1) / (own * n_token), n > 1 ? n : 1 };
}

struct spot_verify_set spot_verify_draw(const struct spot_form *form, uint32_t d, int64_t n,
                                        uint64_t seed, int64_t step)
{
    struct spot_rng rng;
    int64_t begin, end;

    spot_form_microbatches(form, d, &begin, &end);
    n = n < end - begin ? n : end - begin;
    spot_rng_init(&rng, spot_rng_mix(seed, (uint64_t)step), d);
    begin += (int64_t)spot_rng_below(&rng, (uint64_t)(end - begin - n + 1));
    return (struct spot_verify_set){ begin, n };
}

uint32_t spot_verify_turn(uint32_t D, uint64_t seed, int64_t step)
{
    struct spot_rng rng;

    spot_rng_init(&rng, spot_rng_mix(seed, (uint64_t)step), UINT64_MAX);
    return 1 + (uint32_t)spot_rng_below(&rng, D - 1);
}

/* --- the order ----------------------------------------------------------------- */

void spot_verify_order_put(struct spot_buf *out, const struct spot_verify_order *o)
{
    spot_put_i64(out, o->first.begin);
    spot_put_i64(out, o->first.n);
    spot_put_i64(out, o->again.begin);
    spot_put_i64(out, o->again.n);
}

static void check_within(struct spot_wire_in *in, const struct spot_verify_set *set, int64_t begin,
                         int64_t end)
{
    in->bad |= set->n < 0 || set->begin < begin || set->begin > end || set->n > end - set->begin;
}

void spot_verify_order_get(struct spot_wire_in *in, const struct spot_form *form, uint32_t d,
                           struct spot_verify_order *o)
{
    int64_t begin, end;

    o->first.begin = spot_get_i64(in);
    o->first.n = spot_get_i64(in);
    o->again.begin = spot_get_i64(in);
    o->again.n = spot_get_i64(in);
    spot_form_microbatches(form, d, &begin, &end);
    check_within(in, &o->first, begin, end);
    check_within(in, &o->again, 0, form->share[form->D]);
    if (in->bad)
        *o = (struct spot_verify_order){ .first = { 0, 0 } };
}

/* --- prints -------------------------------------------------------------------- */

enum { LOW_BITS = 12, LANES = 4 };

/* Add n elements from `at` on, within one interval of 4096, while they are in the cache. The sum of
 * k s[k] is computed by additions only: of m rows the j-th is in m - j of the running totals. */
static void add_block(struct spot_sum_print *p, const int64_t *sum, size_t n, size_t at)
{
    const uint64_t both[2] = { p->hash, spot_hash64(sum, n * sizeof(*sum)) };
    const size_t m = n / LANES;
    uint64_t lane[LANES] = { 0 }, running[LANES] = { 0 }, total = 0, weighted = 0;

    for (size_t j = 0; j < m; j++)
        for (size_t l = 0; l < LANES; l++) {
            lane[l] += (uint64_t)sum[j * LANES + l];
            running[l] += lane[l];
        }
    for (size_t l = 0; l < LANES; l++) {
        total += lane[l];
        weighted += LANES * (m * lane[l] - running[l]) + l * lane[l];
    }
    for (size_t k = m * LANES; k < n; k++) {
        total += (uint64_t)sum[k];
        weighted += (uint64_t)sum[k] * k;
    }
    p->hash = spot_hash64(both, sizeof(both));
    p->total += total;
    p->low += weighted + total * (at & ((1 << LOW_BITS) - 1));
    p->high += total * (at >> LOW_BITS);
}

struct spot_sum_print spot_sum_print(const struct spot_arena *arena, const int64_t *sum, int t)
{
    const int n_shard = arena->tensor[t].is_sharded ? arena->n_shard : 1;
    const size_t n = (size_t)(arena->tensor[t].rows * arena->tensor[t].cols);
    struct spot_sum_print p = { 0 };

    for (int s = 0; s < n_shard; s++) {
        const int64_t *const from = sum + spot_arena_offset(arena, t, s);

        for (size_t i = 0, m; i < n; i += m) {
            const size_t at = (size_t)s * n + i;

            m = (1 << LOW_BITS) - (at & ((1 << LOW_BITS) - 1));
            m = m < n - i ? m : n - i;
            add_block(&p, from + i, m, at);
        }
    }
    return p;
}

/* The smallest k with k x = y modulo 2^64; false if there is none. */
static bool divide(uint64_t y, uint64_t x, uint64_t *k)
{
    const int shift = __builtin_ctzll(x);
    const uint64_t odd = x >> shift;
    uint64_t inverse = odd; /* Newton: correct bits double from 3 */

    if (y & ((UINT64_C(1) << shift) - 1))
        return false;
    for (int i = 0; i < 5; i++)
        inverse *= 2 - odd * inverse;
    *k = (y >> shift) * inverse;
    if (shift)
        *k &= UINT64_MAX >> shift;
    return *k * x == y;
}

int64_t spot_sum_print_element(const struct spot_sum_print *a, const struct spot_sum_print *b,
                               int64_t n, int64_t *difference)
{
    const uint64_t delta = b->total - a->total;
    uint64_t low, high;

    *difference = (int64_t)delta;
    if (!delta || !divide(b->low - a->low, delta, &low) ||
        !divide(b->high - a->high, delta, &high) || low >> LOW_BITS || high > (uint64_t)n ||
        (int64_t)(high << LOW_BITS | low) >= n)
        return -1;
    return (int64_t)(high << LOW_BITS | low);
}

/* --- reports ------------------------------------------------------------------- */

void spot_verify_report_put(struct spot_buf *out, const struct spot_verify_report *r)
{
    const struct spot_verify_edge *const e = &r->edge;

    spot_put_u64(out, e->act_in);
    spot_put_u64(out, e->act_out);
    spot_put_u64(out, e->dact_out);
    spot_put_u64(out, e->dact_in);
    for (size_t i = 0; i < r->n_print; i++) {
        spot_put_u64(out, r->print[i].hash);
        spot_put_u64(out, r->print[i].total);
        spot_put_u64(out, r->print[i].low);
        spot_put_u64(out, r->print[i].high);
    }
}

void spot_verify_report_get(struct spot_wire_in *in, size_t n_print, struct spot_verify_report *r)
{
    spot_verify_report_release(r);
    r->edge.act_in = spot_get_u64(in);
    r->edge.act_out = spot_get_u64(in);
    r->edge.dact_out = spot_get_u64(in);
    r->edge.dact_in = spot_get_u64(in);
    r->n_print = n_print;
    r->print = spot_xcalloc(n_print + 1, sizeof(*r->print));
    for (size_t i = 0; i < n_print; i++) {
        r->print[i].hash = spot_get_u64(in);
        r->print[i].total = spot_get_u64(in);
        r->print[i].low = spot_get_u64(in);
        r->print[i].high = spot_get_u64(in);
    }
}

void spot_verify_report_release(struct spot_verify_report *r)
{
    free(r->print);
    *r = (struct spot_verify_report){ .n_print = 0 };
}

void spot_verify_report_copy(struct spot_verify_report *to, const struct spot_verify_report *from)
{
    spot_verify_report_release(to);
    *to = *from;
    to->print = spot_xcalloc(from->n_print + 1, sizeof(*to->print));
    if (from->n_print)
        memcpy(to->print, from->print, from->n_print * sizeof(*to->print));
}

static bool sums_equal(const struct spot_verify_report *a, const struct spot_verify_report *b)
{
    return a->n_print == b->n_print &&
           (!a->n_print || !memcmp(a->print, b->print, a->n_print * sizeof(*a->print)));
}

bool spot_verify_report_equal(const struct spot_verify_report *a,
                              const struct spot_verify_report *b)
{
    return !memcmp(&a->edge, &b->edge, sizeof(a->edge)) && sums_equal(a, b);
}

/* A wrong activation changes everything computed from it, in later stages and then, backward, in
 * earlier ones. So forward passes are compared first, from the first stage on, then backward passes
 * from the last. */
int spot_verify_stage(const struct spot_verify_report *a, const struct spot_verify_report *b,
                      uint32_t P)
{
    bool differs = false;

    if (a[0].edge.act_in != b[0].edge.act_in)
        return 0;
    if (a[P - 1].edge.dact_out != b[P - 1].edge.dact_out)
        return (int)P - 1;
    for (uint32_t p = 0; p < P; p++)
        if (a[p].edge.act_in == b[p].edge.act_in && a[p].edge.act_out != b[p].edge.act_out)
            return (int)p;
    for (uint32_t p = P; p-- > 0;) {
        if (a[p].edge.dact_out == b[p].edge.dact_out &&
            (a[p].edge.dact_in != b[p].edge.dact_in || !sums_equal(&a[p], &b[p])))
            return (int)p;
        differs |= !spot_verify_report_equal(&a[p], &b[p]);
    }
    return differs ? (int)P - 1 : -1;
}
