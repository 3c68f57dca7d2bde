/* SPDX-License-Identifier: MIT */
/* version.h - the one place that knows the version string. */
#pragma once

const char *spot_version(void);
