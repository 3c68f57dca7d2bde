/* SPDX-License-Identifier: MIT */
/* temp.h - the directory for temporary files. */
#ifndef SPOT_COMMON_TEMP_H
#define SPOT_COMMON_TEMP_H

#ifdef __cplusplus
extern "C" {
#endif

/* A template NAME-XXXXXX for mkstemp() or mkdtemp(), in $TMPDIR, or in /tmp if that is unset or
 * empty. Freed by the caller. */
char *spot_temp_template(const char *name);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_TEMP_H */
