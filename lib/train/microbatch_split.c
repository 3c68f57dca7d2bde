/* SPDX-License-Identifier: MIT */
#include "train/microbatch_split.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/num.h"

static int bad(const char *text, struct spot_err *err)
{
    return spot_err_set(
        err, SPOT_EUSAGE,
        "--shares must be even, measured, or a weight above 0 for each pipeline such "
        "as 1,4; got '%s'",
        text);
}

int spot_split_parse(const char *text, struct spot_split_policy *policy, struct spot_err *err)
{
    const char *at = text;

    *policy = (struct spot_split_policy){ .kind = SPOT_SPLIT_GIVEN };
    if (!strcmp(text, "even") || !strcmp(text, "measured")) {
        policy->kind = *text == 'e' ? SPOT_SPLIT_EVEN : SPOT_SPLIT_MEASURED;
        return 0;
    }
    for (;;) {
        const size_t n = strcspn(at, ",");
        char one[SPOT_NUM_TEXT];
        double weight;

        snprintf(one, sizeof(one), "%.*s", n < sizeof(one) ? (int)n : 0, at);
        if (policy->n_weight == SPOT_SPLIT_MAX || spot_num_parse(one, &weight) || weight < 1e-6 ||
            weight > 1e6)
            return bad(text, err);
        policy->weight[policy->n_weight++] = weight;
        if (!at[n])
            return 0;
        at += n + 1;
    }
}

void spot_split_even(int64_t n_microbatch, uint32_t D, uint32_t *share)
{
    assert(D >= 1 && n_microbatch >= D);
    for (uint32_t d = 0; d <= D; d++)
        share[d] = (uint32_t)(n_microbatch * d / D);
}

void spot_split_by_time(int64_t n_microbatch, uint32_t D, const double *microbatch_s,
                        uint32_t *share)
{
    assert(D >= 1 && n_microbatch >= D);
    share[0] = 0;
    for (uint32_t d = 0; d < D; d++) {
        assert(microbatch_s[d] > 0);
        share[d + 1] = 1; /* until the sums below, the number of pipeline d */
    }
    for (int64_t j = D; j < n_microbatch; j++) {
        uint32_t best = 0;

        for (uint32_t d = 1; d < D; d++)
            if ((share[d + 1] + 1) * microbatch_s[d] < (share[best + 1] + 1) * microbatch_s[best])
                best = d;
        share[best + 1]++;
    }
    for (uint32_t d = 0; d < D; d++)
        share[d + 1] += share[d];
}

double spot_split_makespan(uint32_t D, const uint32_t *share, const double *microbatch_s)
{
    double most = 0;

    for (uint32_t d = 0; d < D; d++)
        most = fmax(most, (share[d + 1] - share[d]) * microbatch_s[d]);
    return most;
}

/* --- drift ------------------------------------------------------------------- */

static const double worth = 0.15;
enum { PATIENCE = 5, PATIENCE_MAX = 640 };

void spot_split_drift_begin(struct spot_split_drift *drift)
{
    drift->n_commit = drift->n = 0;
}

bool spot_split_drifts(struct spot_split_drift *drift, double now_s, double best_s)
{
    if (best_s > (1 - worth) * now_s) {
        drift->n = 0;
        if (drift->n_commit > PATIENCE_MAX)
            drift->patience = 0; /* no drift for a long time: react to the next one at once */
        return false;
    }
    if (!drift->patience)
        drift->patience = PATIENCE;
    if (++drift->n < drift->patience)
        return false;
    drift->patience = 2 * drift->patience < PATIENCE_MAX ? 2 * drift->patience : PATIENCE_MAX;
    return true;
}
