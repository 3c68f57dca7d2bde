/* SPDX-License-Identifier: MIT */
#ifndef SPOT_REPLAY_IMPORT_BAD_H
#define SPOT_REPLAY_IMPORT_BAD_H

#include "common/bad_rows.h"

/* Say how many rows were left out, if any were, and why the first was. */
void import_warn_bad(const struct spot_bad_rows *bad);

#endif /* SPOT_REPLAY_IMPORT_BAD_H */
