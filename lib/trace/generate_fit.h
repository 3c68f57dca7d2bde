/* SPDX-License-Identifier: MIT */
/* generate_fit.h - fits the model of generate.h to a trace. */
#ifndef SPOT_TRACE_GENERATE_FIT_H
#define SPOT_TRACE_GENERATE_FIT_H

#include "trace/generate.h"
#include "trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

/* All series are treated as zones of one model, sampled every interval_s > 0. Batch sizes by
 * expectation maximisation (censored geometric plus an atom at "all"), busy spells and rates by a
 * two-state hidden Markov chain (Baum-Welch), kept only if its BIC is better than that of one
 * state. Not identified, and therefore taken from the profile typical: tail, busy_common; shocks
 * are fitted as ordinary losses, shock_per_h is 0.
 *   *cap  the largest count of any series
 * Returns 0, or -1 with *err (SPOT_EINFEASIBLE): nothing was ever lost or gained. */
int spot_trace_model_fit(const struct spot_trace *trace, double interval_s,
                         struct spot_trace_model *model, int32_t *cap, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_GENERATE_FIT_H */
