/* SPDX-License-Identifier: MIT */
#include "common/out.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/xalloc.h"

bool spot_out_is_special(const char *path)
{
    struct stat st;

    return !stat(path, &st) && !S_ISREG(st.st_mode);
}

int spot_out_open(struct spot_out *out, const char *path, struct spot_err *err)
{
    memset(out, 0, sizeof(*out));
    if (!path || !strcmp(path, "-")) {
        out->file = stdout;
        return 0;
    }
    if (!*path)
        return spot_err_set(err, SPOT_EUSAGE, "the name of an output file is empty");
    out->path = spot_xstrdup(path);
    if (!spot_out_is_special(path)) {
        const size_t n = strlen(path) + 32;

        out->temporary = spot_xcalloc(n, 1);
        snprintf(out->temporary, n, "%s.tmp.%ld", path, (long)getpid());
    }
    out->file = fopen(out->temporary ? out->temporary : path, "we");
    if (!out->file) {
        spot_err_sys(err, "cannot write '%s'", path);
        free(out->path);
        free(out->temporary);
        memset(out, 0, sizeof(*out));
        return -1;
    }
    return 0;
}

static void forget(struct spot_out *out)
{
    if (out->file && out->file != stdout)
        fclose(out->file);
    free(out->path);
    free(out->temporary);
    memset(out, 0, sizeof(*out));
}

int spot_out_commit(struct spot_out *out, struct spot_err *err)
{
    const char *name = out->path ? out->path : "output";

    if (fflush(out->file) || ferror(out->file)) {
        spot_err_sys(err, "cannot write %s", name);
        spot_out_discard(out);
        return -1;
    }
    if (out->temporary) {
        if (fsync(fileno(out->file)) || rename(out->temporary, out->path)) {
            spot_err_sys(err, "cannot write '%s'", out->path);
            spot_out_discard(out);
            return -1;
        }
    }
    forget(out);
    return 0;
}

void spot_out_discard(struct spot_out *out)
{
    if (out->temporary)
        unlink(out->temporary);
    forget(out);
}

int spot_out_finish(struct spot_out *out, int rc, struct spot_err *err)
{
    if (!rc)
        return spot_out_commit(out, err);
    spot_out_discard(out);
    return rc;
}
