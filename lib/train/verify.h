/* SPDX-License-Identifier: MIT */
/* verify.h - which microbatches of a step are computed a second time, by which member, and the
 * reports that are compared: docs/design/33-evidence.md. Pure: no clock, no sockets. A report is of
 * one stage, after the microbatches of a set: hashes of what crossed its boundaries, and for each
 * tensor a print of its gradient sums.
 */
#ifndef SPOT_TRAIN_VERIFY_H
#define SPOT_TRAIN_VERIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "comm/wire.h"
#include "common/err.h"
#include "shard/arena.h"
#include "train/form.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "off", "auto" (-1) or a share in (0, 1]. Returns 0, or -1 with *err (SPOT_EUSAGE). */
int spot_verify_parse(const char *text, double *share, struct spot_err *err);

#define SPOT_VERIFY_AUTO (-1.0)

/* How much is checked: in each step with step % every == 0, n microbatches of each pipeline. So
 * each member is covered in every `every` steps, and at least the share of all microbatches is
 * computed again. 0, 0: nothing is checked, since there is only one pipeline. */
struct spot_verify_rate {
    int64_t every, n;
};
struct spot_verify_rate spot_verify_rate(double share, int64_t n_microbatch, uint32_t D);
/* The rate for an idle member, which checks one pipeline after the other: a quarter of that
 * pipeline's microbatches, so that it need not be as fast, and so seldom that the hashes, each of
 * which costs as much as a few tokens, take a hundredth of a step. Each member is covered once in
 * every `every` D steps. n_token: of a microbatch. */
struct spot_verify_rate spot_verify_spare_rate(int64_t n_microbatch, int64_t n_token, uint32_t D);

/* Microbatches [begin, begin + n); n 0: none. */
struct spot_verify_set {
    int64_t begin, n;
};

/* The microbatches of the form's pipeline d that are checked in this step: at most n, drawn by
 * (seed, step, d). */
struct spot_verify_set spot_verify_draw(const struct spot_form *form, uint32_t d, int64_t n,
                                        uint64_t seed, int64_t step);
/* The pipeline that pipeline d checks is d - r mod D; 1 <= r < D is drawn. */
uint32_t spot_verify_turn(uint32_t D, uint64_t seed, int64_t step);

/* --- the order to a member: at the end of ROUND ------------------------------ */

/* A member's order: compute `again`, microbatches of another pipeline, before all others; then
 * `first`, some of its own, before the rest; report on both. */
struct spot_verify_order {
    struct spot_verify_set first, again;
};
void spot_verify_order_put(struct spot_buf *out, const struct spot_verify_order *order);
/* Sets in->bad if a set is not within the form, or `first` not within pipeline d. */
void spot_verify_order_get(struct spot_wire_in *in, const struct spot_form *form, uint32_t d,
                           struct spot_verify_order *order);

/* --- reports ------------------------------------------------------------------- */

/* Fingerprint of a tensor's sums s[i]: a hash, and, modulo 2^64, the sums of s[i], (i mod 4096)
 * s[i] and (i / 4096) s[i]. Two prints identify a single element that differs. */
struct spot_sum_print {
    uint64_t hash, total, low, high;
};
struct spot_sum_print spot_sum_print(const struct spot_arena *arena, const int64_t *sum, int t);
/* Returns the index, below n, of the only element that differs, and the difference; -1 if several
 * differ. */
int64_t spot_sum_print_element(const struct spot_sum_print *a, const struct spot_sum_print *b,
                               int64_t n, int64_t *difference);

/* Hashes of the data that cross the boundaries of a stage; 0 where there is no boundary. Tokens are
 * the act_in of the first and the dact_out of the last. */
struct spot_verify_edge {
    uint64_t act_in, act_out, dact_out, dact_in; /* dact_out is received, dact_in is sent */
};

struct spot_verify_report {
    struct spot_verify_edge edge;
    size_t n_print;
    struct spot_sum_print *print; /* [n_print], by bundle and tensor of the stage */
};
void spot_verify_report_put(struct spot_buf *out, const struct spot_verify_report *report);
/* Reads a report of n_print prints. Release it in any case. */
void spot_verify_report_get(struct spot_wire_in *in, size_t n_print,
                            struct spot_verify_report *report);
void spot_verify_report_release(struct spot_verify_report *report);
void spot_verify_report_copy(struct spot_verify_report *to, const struct spot_verify_report *from);

/* True if two reports of a stage on the same set are equal. */
bool spot_verify_report_equal(const struct spot_verify_report *a,
                              const struct spot_verify_report *b);
/* a[P] and b[P]: the reports of two pipelines on the same set, by stage. Returns the stage that
 * received other tokens, or whose outputs differ although its inputs are equal; -1 if all reports
 * are equal. */
int spot_verify_stage(const struct spot_verify_report *a, const struct spot_verify_report *b,
                      uint32_t P);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_VERIFY_H */
