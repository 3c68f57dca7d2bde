/* SPDX-License-Identifier: MIT */
/* version.h - the one place that knows the version string. */
#ifndef SPOT_COMMON_VERSION_H
#define SPOT_COMMON_VERSION_H

const char *spot_version(void);

#endif /* SPOT_COMMON_VERSION_H */
