/* SPDX-License-Identifier: MIT */
/* temp.h - the directory for temporary files. */
#pragma once

/* A template NAME-XXXXXX for mkstemp() or mkdtemp(), in $TMPDIR, or in /tmp if that is unset or
 * empty. Freed by the caller. */
char *spot_temp_template(const char *name);
