/* SPDX-License-Identifier: MIT */
#include "checkpoint/bundle_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/bundle_io.h"
#include "common/buf.h"
#include "common/pio.h"
#include "common/safe_dir.h"

enum { PATH_SIZE = 2 * PATH_MAX + 64, NONCE_TEXT = 17 };

/* --- the number ------------------------------------------------------------- */

static const char mark_name[] = "nonce";

int spot_bundle_file_mark(int dir_fd, uint64_t nonce, struct spot_err *err)
{
    char text[NONCE_TEXT];

    snprintf(text, sizeof(text), "%016" PRIx64, nonce);
    return spot_safe_replace(dir_fd, mark_name, text, strlen(text), false)
               ? spot_err_sys(err, "cannot write '%s'", mark_name)
               : 0;
}

void spot_bundle_file_unmark(int dir_fd)
{
    (void)unlinkat(dir_fd, mark_name, 0);
}

bool spot_bundle_file_sees(const char *dir, uint64_t nonce)
{
    char path[PATH_SIZE], text[NONCE_TEXT], got[NONCE_TEXT] = "";
    bool is_same;
    int fd;

    if (!*dir || !nonce)
        return false;
    snprintf(path, sizeof(path), "%s/%s", dir, mark_name);
    fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* does not block on a pipe of that name */
    if (fd < 0)
        return false;
    snprintf(text, sizeof(text), "%016" PRIx64, nonce);
    is_same =
        spot_read_at(fd, 0, got, sizeof(got) - 1) == (ssize_t)sizeof(got) - 1 && !strcmp(got, text);
    close(fd);
    return is_same;
}

/* --- the file ----------------------------------------------------------------- */

void spot_bundle_file_name(int index, char name[SPOT_BUNDLE_FILE_NAME])
{
    snprintf(name, SPOT_BUNDLE_FILE_NAME, "bundle-%04d", index);
}

void spot_bundle_file_path(const char *dir, int index, char *path, size_t size)
{
    snprintf(path, size, "%s/bundle-%04d", dir, index);
}

struct out {
    const char *path;
    int fd;
    size_t n_byte;
    struct spot_hash_stream *hash;
};

static int write_piece(struct out *out, const struct spot_buf *piece, struct spot_err *err)
{
    if (spot_write_at(out->fd, out->n_byte, piece->data, piece->n))
        return spot_err_sys(err, "cannot write '%s'", out->path);
    spot_hash_stream_add(out->hash, piece->data, piece->n);
    out->n_byte += piece->n;
    return 0;
}

static int write_all(struct out *out, const struct spot_bundle *bundle, bool (*goes_on)(void *),
                     void *user, struct spot_err *err)
{
    struct spot_bundle_writer *const writer = spot_bundle_writer_new(bundle, err);
    struct spot_buf piece = { 0 };
    int more = writer ? 1 : -1;

    while (more > 0) {
        piece.n = 0;
        more = goes_on(user) ? spot_bundle_writer_next(writer, &piece, err)
                             : spot_err_set(err, SPOT_EPREEMPTED, "the write was cancelled");
        if (more >= 0 && write_piece(out, &piece, err))
            more = -1;
    }
    spot_buf_release(&piece);
    spot_bundle_writer_free(writer);
    return more;
}

/* Create a new file, replacing any existing entry: another writer's file, or a link. -1 with
 * errno. */
static int open_new(int dir_fd, const char *name)
{
    if (dir_fd < 0 || (unlinkat(dir_fd, name, 0) && errno != ENOENT))
        return -1;
    return spot_safe_open(dir_fd, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
}

int spot_bundle_file_write(const char *dir, const struct spot_bundle *bundle,
                           bool (*goes_on)(void *), void *user, struct spot_written *written,
                           struct spot_err *err)
{
    const int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char path[PATH_SIZE], name[SPOT_BUNDLE_FILE_NAME];
    struct out out = { .path = path };
    int rc;

    spot_bundle_file_path(dir, bundle->index, path, sizeof(path));
    spot_bundle_file_name(bundle->index, name);
    out.fd = open_new(dir_fd, name);
    if (out.fd < 0) {
        spot_err_sys(err, "cannot write '%s'", path);
        spot_close(dir_fd);
        return -1;
    }
    out.hash = spot_hash_stream_new();
    rc = write_all(&out, bundle, goes_on, user, err);
    if (!rc && fsync(out.fd))
        rc = spot_err_sys(err, "cannot sync '%s'", path);
    if (close(out.fd) && !rc)
        rc = spot_err_sys(err, "cannot write '%s'", path);
    if (rc)
        (void)unlinkat(dir_fd, name, 0);
    close(dir_fd);
    *written = (struct spot_written){ out.n_byte, spot_hash_stream_128(out.hash) };
    spot_hash_stream_free(out.hash);
    return rc;
}

int spot_bundle_file_check(int dir_fd, int index, size_t n_byte, struct spot_err *err)
{
    char name[SPOT_BUNDLE_FILE_NAME];
    struct stat st;
    int fd;

    spot_bundle_file_name(index, name);
    /* opened, since cached attributes of another host's file may be out of date before that */
    fd = spot_safe_open_file(dir_fd, name, &st);
    if (fd < 0)
        return spot_err_sys(err, "cannot open '%s', which was written", name);
    close(fd);
    return (size_t)st.st_size == n_byte
               ? 0
               : spot_err_set(err, SPOT_EDATA, "'%s' has %lld bytes, %zu were written", name,
                              (long long)st.st_size, n_byte);
}
