/* SPDX-License-Identifier: MIT */
/* liveput.h - the pipelines of a grid that survive a loss of instances: exact distributions, no
 * sampling.
 *
 * A grid has D pipelines of P stages on one instance each, and s spares: N = D*P + s. Of the N, v
 * uniformly chosen ones vanish. r_k of stage k's D replicas survive. Then
 *   intact       K = pipelines none of whose stages was hit,
 *   recoverable  M = min_k r_k: pipelines that survivors can form without moving state
 *                (intra-stage migration).
 *
 * Every distribution is a coefficient of a product of polynomials with non-negative coefficients
 * (generating functions; x counts victims), taken under the distribution that each instance
 * vanishes independently with probability v/N and conditioned on v. So all terms are probabilities:
 * nothing cancels and nothing overflows, for any N. Derivation: docs/design/06-liveput.md.
 *
 * Instances with G stages of one pipeline each: give P/G for P. Instances with G replicas of one
 * stage each: give D/G for D and multiply pipelines by G.
 */
#ifndef SPOT_PLAN_LIVEPUT_H
#define SPOT_PLAN_LIVEPUT_H

#ifdef __cplusplus
extern "C" {
#endif

/* d, p >= 1; s >= 0; 0 <= v <= d*p + s. */
struct spot_liveput {
    int d, p, s, v;
};

/* weight[j] = P[j of the lost are among `in` of n instances]: hypergeometric, [lost + 1];
 * 0 <= in, lost <= n. */
void spot_liveput_spread(int n, int in, int lost, double *weight);

/* S(keep) = P[M >= keep]; 1 for keep <= 0, 0 for keep > d. */
double spot_liveput_hold(const struct spot_liveput *grid, int keep);

/* The same for victims[n_v], ascending, 0 <= v <= d*p + s, instead of grid->v: hold[n_v]. One
 * product of polynomials serves all of them, so that N in the thousands is fast. */
void spot_liveput_hold_many(const struct spot_liveput *grid, int keep, const int *victims, int n_v,
                            double *hold);

/* pmf[0..d] of K. Sums to 1 within rounding. */
void spot_liveput_intact(const struct spot_liveput *grid, double *pmf);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_PLAN_LIVEPUT_H */
