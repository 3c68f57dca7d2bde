/* SPDX-License-Identifier: MIT */
/* change_worth.h - when a running job should change to another grid: at once, ahead, or later.
 *
 * The new grid gives r' samples a second for as long as it lasts, X seconds, exponentially
 * distributed with mean L; the current one gives r. After X the members change anyhow, so only the
 * samples until then differ. With E[min(X, t)] = L (1 - exp(-t / L)):
 *   at once   all stand still while an epoch is formed, F, and while state moves, T;
 *   ahead     an epoch of the old grid is formed, F; it works while state moves beside its steps, A
 *             = T + one step, since what moves waits for the step's end; then the new one is
 *             formed, F;
 *   later     the old grid continues.
 * docs/design/16-precopy.md.
 */
#ifndef SPOT_TRAIN_CHANGE_WORTH_H
#define SPOT_TRAIN_CHANGE_WORTH_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Rates are > 0, times >= 0, all finite; lasts_s is > 0 and may be INFINITY. */
struct spot_change_worth {
    double now_per_s, then_per_s; /* r, r': samples, in any unit */
    double form_s;                /* F */
    double moves_s;               /* T */
    double step_s;                /* of the current grid */
    double lasts_s;               /* L */
};

enum spot_change_when { SPOT_CHANGE_AT_ONCE, SPOT_CHANGE_PRECOPY, SPOT_CHANGE_LATER };

/* Expected number of samples lost by this way, compared with running on the new grid at once and
 * without a pause. Negative if the current grid is faster. */
double spot_change_cost(const struct spot_change_worth *worth, enum spot_change_when when);

/* Returns the cheaper of AT_ONCE and AHEAD; but AHEAD if a change at once would stop all members
 * for more than a twentieth of a step and AHEAD costs at most half a step's samples more. */
enum spot_change_when spot_change_how(const struct spot_change_worth *worth);

/* True if the change pays off in that way; never if the new grid is no faster. */
bool spot_change_pays(const struct spot_change_worth *worth);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_CHANGE_WORTH_H */
