/* SPDX-License-Identifier: MIT */
/* The other way to commit: a file `manifest`, renamed into place in the directory of the program.
 */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/json.h"
#include "common/safe_dir.h"
#include "common/xalloc.h"
#include "host/exec_agent_state.h"

static const struct spot_field manifest_field[] = {
    { "step", SPOT_F_INT, 0, "1", 0, 9007199254740992.0, true }, { 0 }
};

static const char taken[] = "manifest.taken", answer[] = "manifest.answer";

void spot_exec_manifest_release(struct spot_exec_manifest *m)
{
    for (size_t i = 0; m->path && i < m->n; i++)
        free(m->path[i]);
    free(m->path);
    *m = (struct spot_exec_manifest){ 0 };
}

static int read_files(const struct spot_json_doc *doc, struct spot_exec_manifest *m,
                      struct spot_err *err)
{
    const struct spot_json_value *files;

    if (spot_json_array(doc, doc->root, "", "files", false, SPOT_STATE_FILES_MAX, &files, err))
        return -1;
    if (!files)
        return 0;
    m->path = spot_xcalloc(spot_json_array_size(files), sizeof(char *));
    for (size_t i = 0; i < spot_json_array_size(files); i++) {
        const struct spot_json_value *const file = spot_json_entry(files, i);
        const char *const path = spot_json_text(file);
        char at[48];

        snprintf(at, sizeof(at), "/files/%zu", i);
        if (!path || !spot_state_path_is_below(path))
            return spot_json_fail(doc, at, err,
                                  "expected the path of a file below the state directory");
        m->path[m->n++] = spot_xstrdup(path);
    }
    return 0;
}

static int read_document(FILE *in, struct spot_exec_manifest *m, struct spot_err *err)
{
    struct spot_json_doc doc;
    int64_t step = 0;
    int rc;

    if (spot_json_load(&doc, in, taken, err))
        return -1;
    rc = spot_json_read_fields(&doc, doc.root, "", manifest_field, &step, err) ||
                 read_files(&doc, m, err)
             ? -1
             : 0;
    m->step = (uint64_t)step;
    spot_json_release(&doc);
    return rc;
}

static int read_manifest(int dir_fd, struct spot_exec_manifest *m, struct spot_err *err)
{
    const int fd = spot_safe_open_file(dir_fd, taken, NULL);
    FILE *in;
    int rc;

    if (fd < 0)
        return spot_err_set(err, SPOT_EDATA, "manifest: not a file that can be read");
    in = fdopen(fd, "r");
    if (!in) {
        close(fd);
        return spot_err_sys(err, "cannot read 'manifest'");
    }
    rc = read_document(in, m, err);
    fclose(in);
    return rc;
}

/* Moved away before it is read: one that is renamed into place meanwhile is the next one. */
int spot_exec_manifest_claim(int dir_fd, struct spot_exec_manifest *m, struct spot_err *err)
{
    int rc;

    *m = (struct spot_exec_manifest){ 0 };
    if (faccessat(dir_fd, "manifest", F_OK, AT_SYMLINK_NOFOLLOW))
        return 0;
    (void)unlinkat(dir_fd, answer, 0);
    if (spot_safe_remove(dir_fd, taken, err)) /* a directory, which a rank made */
        return -1;
    if (renameat(dir_fd, "manifest", dir_fd, taken))
        return errno == ENOENT ? 0 : spot_err_sys(err, "cannot move 'manifest'");
    rc = read_manifest(dir_fd, m, err);
    (void)spot_safe_remove(dir_fd, taken, NULL);
    return rc ? -1 : 1;
}

void spot_exec_manifest_answer(int dir_fd, uint64_t step, const char *why)
{
    FILE *const out = spot_safe_begin(dir_fd, answer);
    struct spot_jw jw;

    if (!out)
        return; /* a full directory: the log of the job tells */
    spot_jw_init(&jw, out, false);
    spot_jw_object(&jw, NULL);
    if (*why) {
        spot_jw_str(&jw, "error", why);
    } else {
        spot_jw_bool(&jw, "ok", true);
        spot_jw_int(&jw, "step", (int64_t)step);
    }
    spot_jw_end(&jw);
    (void)spot_safe_end(out, dir_fd, answer, false, spot_jw_close(&jw, NULL));
}
