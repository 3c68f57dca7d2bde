/* SPDX-License-Identifier: MIT */
/* version.h - the version string. */
#ifndef SPOT_COMMON_VERSION_H
#define SPOT_COMMON_VERSION_H

#ifdef __cplusplus
extern "C" {
#endif

const char *spot_version(void);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_VERSION_H */
