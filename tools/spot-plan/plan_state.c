/* SPDX-License-Identifier: MIT */
#include "plan_commands.h"

#include <errno.h>
#include <string.h>

#include "common/out.h"

int plan_state_read(const char *path, char line[SPOT_DECISION_STATE_MAX], struct spot_err *err)
{
    FILE *in = path ? fopen(path, "re") : NULL;
    size_t n;

    *line = '\0';
    if (!in)
        return path && errno != ENOENT ? spot_err_sys(err, "cannot read '%s'", path) : 0;
    n = fread(line, 1, SPOT_DECISION_STATE_MAX - 1, in);
    line[n] = '\0';
    line[strcspn(line, "\n")] = '\0';
    fclose(in);
    return 0;
}

int plan_state_write(const char *path, const char *line, struct spot_err *err)
{
    struct spot_out out;

    if (!path)
        return 0;
    if (spot_out_open(&out, path, err))
        return -1;
    fprintf(out.file, "%s\n", line);
    return spot_out_finish(&out, 0, err);
}
