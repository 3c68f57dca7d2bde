/* SPDX-License-Identifier: MIT */
#include "common/version.h"

#ifndef SPOT_VERSION
#define SPOT_VERSION "0.0.0-dev"
#endif

const char *spot_version(void)
{
    return SPOT_VERSION;
}
