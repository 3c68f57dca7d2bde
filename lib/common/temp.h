/* SPDX-License-Identifier: MIT */
/* temp.h - the directory for temporary files. */
#ifndef SPOT_COMMON_TEMP_H
#define SPOT_COMMON_TEMP_H

#ifdef __cplusplus
extern "C" {
#endif

/* NAME-XXXXXX in $TMPDIR, or in /tmp where that is unset or empty: what mkstemp() and mkdtemp()
 * take. Freed by the caller. */
char *spot_temp_template(const char *name);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_TEMP_H */
