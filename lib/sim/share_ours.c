/* SPDX-License-Identifier: MIT */
#include "sim/share_state.h"

int share_pick_ours(struct share_state *s, struct spot_err *err)
{
    (void)s;
    return spot_err_set(err, SPOT_EUSAGE, "not yet");
}
