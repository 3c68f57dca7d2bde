/* SPDX-License-Identifier: MIT */
/* srtf.h - jobs that are nearest to their end go first. */
#pragma once

#include "sim/share_play.h"

enum { SPOT_SRTF_TIME, SPOT_SRTF_SERVICE };

extern const struct spot_share_player spot_srtf_players[]; /* ends with a NULL name */
