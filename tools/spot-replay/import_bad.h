/* SPDX-License-Identifier: MIT */
#pragma once

#include "common/bad_rows.h"

/* Say how many rows were left out, if any were, and why the first was. */
void import_warn_bad(const struct spot_bad_rows *bad);
