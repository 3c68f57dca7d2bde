/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/pio.h"
#include "migrate.h"

int input_open(struct input *in, const char *path, struct spot_err *err)
{
    struct stat st;

    *in = (struct input){ .fd = STDIN_FILENO, .name = "<stdin>" };
    if (path && strcmp(path, "-") != 0) {
        in->name = path;
        in->fd = open(path, O_RDONLY | O_CLOEXEC);
        if (in->fd < 0)
            return spot_err_sys(err, "cannot open '%s'", path);
    } else if (isatty(STDIN_FILENO)) {
        return spot_err_set(err, SPOT_EUSAGE,
                            "standard input is a terminal: name a file or use a pipe");
    }
    if (fstat(in->fd, &st))
        return spot_err_sys(err, "cannot read %s", in->name);
    if (S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        spot_err_sys(err, "cannot read %s", in->name);
        input_close(in);
        return -1;
    }
    /* the position of an inherited descriptor is shared, so only files opened here are read at any
     * offset */
    in->is_regular = S_ISREG(st.st_mode) && in->fd != STDIN_FILENO;
    in->n_byte = in->is_regular ? (uint64_t)st.st_size : 0;
    in->changed = st.st_mtim;
    return 0;
}

void input_close(struct input *in)
{
    if (in->fd > STDIN_FILENO)
        close(in->fd);
    in->fd = -1;
}

int input_read(struct input *in, void *data, size_t n_byte, size_t *n_read, struct spot_err *err)
{
    char *at = data;

    *n_read = 0;
    while (*n_read < n_byte) {
        const ssize_t n = read(in->fd, at + *n_read, n_byte - *n_read);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return spot_err_sys(err, "cannot read %s", in->name);
        if (n == 0)
            break;
        *n_read += (size_t)n;
    }
    return 0;
}

static int read_at(struct input *in, uint64_t at, void *data, size_t n_byte, struct spot_err *err)
{
    const ssize_t n = spot_read_at(in->fd, at, data, n_byte);

    if (n < 0)
        return spot_err_sys(err, "cannot read %s", in->name);
    return (size_t)n < n_byte ? spot_err_set(err, SPOT_EDATA, "%s: ends early", in->name) : 0;
}

int input_unchanged(const struct input *in, struct spot_err *err)
{
    struct stat st;

    if (!in->is_regular)
        return 0;
    if (fstat(in->fd, &st))
        return spot_err_sys(err, "cannot read %s", in->name);
    if ((uint64_t)st.st_size == in->n_byte && st.st_mtim.tv_sec == in->changed.tv_sec &&
        st.st_mtim.tv_nsec == in->changed.tv_nsec)
        return 0;
    return spot_err_set(err, SPOT_EDATA, "%s: changed while it was read", in->name);
}

int input_skip(struct input *in, uint64_t n_byte, struct spot_err *err)
{
    const off_t at = lseek(in->fd, (off_t)n_byte, SEEK_CUR);

    if (at < 0)
        return spot_err_sys(err, "cannot read %s", in->name);
    return (uint64_t)at > in->n_byte ? spot_err_set(err, SPOT_EDATA, "%s: ends early", in->name)
                                     : 0;
}

/* Reads in pieces, so that a large announced size alone does not allocate memory. */
static int read_text(struct input *in, uint64_t n_byte, struct spot_buf *header,
                     struct spot_err *err)
{
    while (n_byte) {
        const size_t want = n_byte < 1 << 20 ? (size_t)n_byte : 1 << 20;
        size_t got;

        if (input_read(in, spot_buf_more(header, want), want, &got, err))
            return -1;
        header->n += got;
        if (!header->n)
            return spot_err_set(err, SPOT_EDATA, "%s: empty, expected a safetensors file",
                                in->name);
        if (got < want)
            return spot_err_set(err, SPOT_EDATA, "%s: cut short in the safetensors header",
                                in->name);
        n_byte -= got;
    }
    return 0;
}

int input_stream(struct input *in, struct spot_stream_reader *reader, struct spot_err *err)
{
    size_t want, got;

    do {
        void *to = spot_stream_reader_room(reader, &want);

        if (input_read(in, to, want, &got, err)) {
            struct spot_err earlier = { 0 };

            if (err && spot_stream_reader_drain(reader, &earlier))
                *err = earlier;
            return -1;
        }
        if (spot_stream_reader_took(reader, got, err))
            return -1;
    } while (got == want);
    return spot_stream_reader_finish(reader, err);
}

int input_safetensors(struct input *in, struct spot_buf *header, struct spot_st *st,
                      struct spot_err *err)
{
    uint64_t n_json;

    if (read_text(in, SPOT_ST_PREFIX_BYTE, header, err) ||
        spot_st_prefix(header->data, in->name, &n_json, err) || read_text(in, n_json, header, err))
        return -1;
    in->data_at = header->n;
    if (spot_st_parse(st, (const char *)header->data + SPOT_ST_PREFIX_BYTE, n_json, in->name, err))
        return -1;
    if (in->is_regular && in->n_byte - header->n != st->data_byte) {
        spot_err_set(err, SPOT_EDATA,
                     "%s: the header announces %" PRIu64 " bytes of data, the file has %" PRIu64,
                     in->name, st->data_byte, in->n_byte - header->n);
        spot_st_release(st);
        return -1;
    }
    return 0;
}

static int read_data(void *user, uint64_t at, void *data, size_t n_byte, struct spot_err *err)
{
    struct input *in = user;

    return read_at(in, in->data_at + at, data, n_byte, err) || input_unchanged(in, err) ? -1 : 0;
}

struct spot_source input_source(struct input *in, const struct spot_buf *header)
{
    return (struct spot_source){
        .header = header->data, .n_header = header->n, .read = read_data, .user = in
    };
}

int output_open(struct spot_out *out, const char *path, struct spot_err *err)
{
    if ((!path || !strcmp(path, "-")) && isatty(STDOUT_FILENO))
        return spot_err_set(err, SPOT_EUSAGE,
                            "standard output is a terminal: use -o FILE or a pipe");
    return spot_out_open(out, path, err);
}

int output_write(struct spot_out *out, const void *data, size_t n_byte, struct spot_err *err)
{
    if (n_byte && fwrite(data, 1, n_byte, out->file) != n_byte)
        return spot_err_sys(err, "cannot write %s", out->path ? out->path : "output");
    return 0;
}

bool output_is_file(const struct spot_out *out)
{
    return out->temporary != NULL;
}

int output_write_at(struct spot_out *out, uint64_t at, const void *data, size_t n_byte,
                    struct spot_err *err)
{
    return spot_write_at(fileno(out->file), at, data, n_byte)
               ? spot_err_sys(err, "cannot write %s", out->path)
               : 0;
}

void progress_start(struct progress *p, const struct spot_tool_common *common, uint64_t total_byte,
                    uint64_t first_byte)
{
    *p = (struct progress){ .is_on = !common->quiet && isatty(STDERR_FILENO),
                            .start_s = spot_clock_s(),
                            .total_byte = total_byte,
                            .first_byte = first_byte };
    p->next_s = p->start_s + 1;
}

void progress_show(struct progress *p, uint64_t done_byte)
{
    enum { WIDTH = 30 };
    double now_s, rate, share;
    char bar[WIDTH + 1];

    if (!p->is_on || (now_s = spot_clock_s()) < p->next_s)
        return;
    p->next_s = now_s + 0.25;
    p->is_shown = true;
    rate = (double)(done_byte - p->first_byte) / (now_s - p->start_s);
    if (!p->total_byte) {
        fprintf(stderr, "\r%8.1f MiB  %7.1f MiB/s ", (double)done_byte / 1048576, rate / 1048576);
        return;
    }
    share = (double)done_byte / (double)p->total_byte;
    for (int i = 0; i < WIDTH; i++)
        bar[i] = i < share * WIDTH ? '#' : '.';
    bar[WIDTH] = '\0';
    fprintf(stderr, "\r[%s] %5.1f %%  %7.1f MiB/s  %.0f s left   ", bar, 100 * share,
            rate / 1048576, rate > 0 ? (double)(p->total_byte - done_byte) / rate : 0.0);
}

void progress_end(struct progress *p)
{
    if (p->is_shown)
        fprintf(stderr, "\r%78s\r", "");
    p->is_shown = false;
}
