/* SPDX-License-Identifier: MIT */
#include "trace/load_trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/csv_reader.h"
#include "common/csv_write.h"
#include "common/xalloc.h"
#include "trace/time_order.h"
#include "trace/trace.h"
#include "trace/trace_write.h"

static void grow(struct spot_load *load)
{
    size_t cap = load->cap;

    load->time_s = spot_xgrow(load->time_s, &cap, load->n + 1, sizeof(*load->time_s));
    load->prompt_token = spot_xrealloc(load->prompt_token, cap, sizeof(*load->prompt_token));
    load->output_token = spot_xrealloc(load->output_token, cap, sizeof(*load->output_token));
    if (load->id)
        load->id = spot_xrealloc(load->id, cap, sizeof(*load->id));
    if (load->block_end)
        load->block_end = spot_xrealloc(load->block_end, cap, sizeof(*load->block_end));
    load->cap = cap;
}

void spot_load_add(struct spot_load *load, double time_s, int32_t prompt_token,
                   int32_t output_token, const char *id)
{
    if (load->n == load->cap)
        grow(load);
    if (id && *id && !load->id) { /* the first request with an id */
        load->id = spot_xcalloc(load->cap, sizeof(*load->id));
        for (size_t i = 0; i < load->n; i++)
            load->id[i] = spot_xstrdup("");
    }
    load->time_s[load->n] = time_s;
    load->prompt_token[load->n] = prompt_token;
    load->output_token[load->n] = output_token;
    if (load->id)
        load->id[load->n] = spot_xstrdup(id ? id : "");
    if (load->block_end)
        load->block_end[load->n] = load->n_block;
    load->n++;
}

int spot_load_add_blocks(struct spot_load *load, int64_t block_token, const uint32_t *block,
                         size_t n, struct spot_err *err)
{
    const int64_t room = (load->prompt_token[load->n - 1] + block_token - 1) / block_token;

    if (load->block_token && block_token != load->block_token)
        return spot_err_set(err, SPOT_EDATA, "blocks of %lld tokens among those of %d",
                            (long long)block_token, load->block_token);
    if ((int64_t)n > room)
        return spot_err_set(err, SPOT_EDATA, "%zu blocks of a prompt that has %lld", n,
                            (long long)room);
    if (n > SPOT_LOAD_BLOCKS_MAX - load->n_block)
        return spot_err_set(err, SPOT_EDATA, "more than %d blocks", SPOT_LOAD_BLOCKS_MAX);
    load->block_token = (int32_t)block_token;
    if (!load->block_end) /* the first request with blocks */
        load->block_end = spot_xcalloc(load->cap, sizeof(*load->block_end));
    load->block =
        spot_xgrow(load->block, &load->block_cap, load->n_block + n, sizeof(*load->block));
    if (n)
        memcpy(load->block + load->n_block, block, n * sizeof(*block));
    load->block_end[load->n - 1] = load->n_block += n;
    return 0;
}

const uint32_t *spot_load_blocks(const struct spot_load *load, size_t i, size_t *n)
{
    const size_t from = load->block_end && i ? load->block_end[i - 1] : 0;

    *n = load->block_end ? load->block_end[i] - from : 0;
    return load->block ? load->block + from : NULL;
}

static void copy_row(struct spot_load *to, const struct spot_load *from, size_t k)
{
    size_t n;
    const uint32_t *block = spot_load_blocks(from, k, &n);

    spot_load_add(to, from->time_s[k], from->prompt_token[k], from->output_token[k],
                  from->id ? from->id[k] : NULL);
    if (n)
        /* these were added successfully before */
        spot_load_add_blocks(to, from->block_token, block, n, NULL);
}

void spot_load_release(struct spot_load *load)
{
    for (size_t i = 0; load->id && i < load->n; i++)
        free(load->id[i]);
    free(load->id);
    free(load->time_s);
    free(load->prompt_token);
    free(load->output_token);
    free(load->block);
    free(load->block_end);
    *load = (struct spot_load){ 0 };
}

/* --- reading --- */

enum { TIME, PROMPT, OUTPUT, ID, BLOCKS, N_WANT };

static const char *const want[N_WANT] = { "time_s", "prompt_tokens", "output_tokens", "?id",
                                          "?blocks" };

struct reader {
    struct spot_load *load;
    int64_t context;
    int64_t prompt, output; /* the only lengths that the profile has; 0: any */
    uint32_t *block;        /* blocks of a row */
    size_t block_cap;
};

static int check_id(const struct spot_csv_row *row, struct spot_err *err)
{
    const char *id = row->field[ID];

    if (id && strlen(id) > SPOT_LOAD_ID_MAX)
        return spot_csv_fail(row, ID, err, "longer than %d bytes", SPOT_LOAD_ID_MAX);
    for (; id && *id; id++)
        if ((unsigned char)*id < 0x20 || *id == 0x7F)
            return spot_csv_fail(row, ID, err, "control character in a name");
    return 0;
}

/* Parse "46-57" or "2000" up to a blank. Returns the text after it, or NULL if it is neither. */
static const char *take_range(const char *at, unsigned long *first, unsigned long *last)
{
    char *end;

    if (*at < '0' || *at > '9')
        return NULL;
    *first = *last = strtoul(at, &end, 10);
    if (*end == '-') {
        if (end[1] < '0' || end[1] > '9')
            return NULL;
        *last = strtoul(end + 1, &end, 10);
    }
    if (*first > *last || *last > UINT32_MAX || (*end && *end != ' '))
        return NULL;
    return *end ? end + 1 : end;
}

static int read_blocks(struct reader *r, const struct spot_csv_row *row, struct spot_err *err)
{
    const char *at = row->field[BLOCKS];
    char *end;
    const long token = strtol(at, &end, 10);
    const size_t most = (size_t)r->load->prompt_token[r->load->n - 1];
    unsigned long first, last;
    struct spot_err why;
    size_t n = 0;

    at = end;
    if (token < 1 || token > SPOT_LOAD_TOKENS_MAX || *at++ != ':')
        return spot_csv_fail(row, BLOCKS, err, "expected blocks like 512:46-57 2000");
    while (*at) {
        at = take_range(at, &first, &last);
        if (!at)
            return spot_csv_fail(row, BLOCKS, err, "expected numbers 0..4294967295 and ranges");
        if (last - first >= most || n + (last - first) >= most)
            return spot_csv_fail(row, BLOCKS, err, "more blocks than the prompt has tokens");
        r->block = spot_xgrow(r->block, &r->block_cap, n + last - first + 1, sizeof(*r->block));
        for (; first <= last; first++)
            r->block[n++] = (uint32_t)first;
    }
    if (spot_load_add_blocks(r->load, token, r->block, n, &why))
        return spot_csv_fail(row, BLOCKS, err, "%s", why.msg);
    return 0;
}

static int on_row(const struct spot_csv_row *row, void *user, struct spot_err *err)
{
    struct reader *r = user;
    struct spot_load *load = r->load;
    int64_t prompt, output;
    double time_s;

    if (spot_csv_real(row, TIME, 0, SPOT_TRACE_TIME_MAX_S, &time_s, err) ||
        spot_csv_int(row, PROMPT, 1, SPOT_LOAD_TOKENS_MAX, &prompt, err) ||
        spot_csv_int(row, OUTPUT, 1, SPOT_LOAD_TOKENS_MAX, &output, err) || check_id(row, err))
        return -1;
    if (load->n && time_s < load->time_s[load->n - 1])
        return spot_csv_fail(row, TIME, err, "%.15g is before the request above it, at %.15g",
                             time_s, load->time_s[load->n - 1]);
    if (r->context && prompt + output > r->context)
        return spot_csv_fail(row, PROMPT, err,
                             "%lld and output_tokens %lld are above the context, "
                             "%lld",
                             (long long)prompt, (long long)output, (long long)r->context);
    if (r->prompt && (prompt != r->prompt || output != r->output))
        return spot_csv_fail(row, PROMPT, err,
                             "%lld and output_tokens %lld, and the job's profile is of %lld and "
                             "%lld; --arrivals-only takes the times alone",
                             (long long)prompt, (long long)output, (long long)r->prompt,
                             (long long)r->output);
    if (load->n == SPOT_LOAD_ROWS_MAX)
        return spot_csv_fail(row, TIME, err, "more than %d requests", SPOT_LOAD_ROWS_MAX);
    spot_load_add(load, time_s, (int32_t)prompt, (int32_t)output, row->field[ID]);
    return row->field[BLOCKS] && *row->field[BLOCKS] ? read_blocks(r, row, err) : 0;
}

static int read_rows(struct reader *r, FILE *in, const char *source, struct spot_err *err)
{
    struct spot_load *const load = r->load;
    int rc;

    *load = (struct spot_load){ 0 };
    rc = spot_csv_read(in, source, want, N_WANT, on_row, r, &load->xxh3, err);
    free(r->block);
    if (!rc && !load->n)
        rc = spot_err_set(err, SPOT_EDATA, "%s:2:1: no requests after the header", source);
    if (rc)
        spot_load_release(load);
    return rc;
}

int spot_load_read(struct spot_load *load, FILE *in, const char *source, int64_t context,
                   struct spot_err *err)
{
    struct reader r = { .load = load, .context = context };

    return read_rows(&r, in, source, err);
}

static int read_path(struct reader *r, const char *path, struct spot_err *err)
{
    FILE *in;
    int rc;

    *r->load = (struct spot_load){ 0 };
    if (!path || !strcmp(path, "-"))
        return read_rows(r, stdin, "<stdin>", err);
    in = fopen(path, "re");
    if (!in)
        return spot_err_sys(err, "cannot open %s", path);
    rc = read_rows(r, in, path, err);
    fclose(in);
    return rc;
}

int spot_load_read_path(struct spot_load *load, const char *path, int64_t context,
                        struct spot_err *err)
{
    struct reader r = { .load = load, .context = context };

    return read_path(&r, path, err);
}

int spot_load_read_alike(struct spot_load *load, const char *path, int64_t prompt_token,
                         int64_t output_token, struct spot_err *err)
{
    struct reader r = { .load = load, .prompt = prompt_token, .output = output_token };

    return read_path(&r, path, err);
}

/* --- changing --- */

void spot_load_sort(struct spot_load *load)
{
    size_t *const order = spot_xcalloc(load->n + 1, sizeof(*order));
    struct spot_load sorted = { .xxh3 = load->xxh3 };

    spot_time_order(load->time_s, sizeof(*load->time_s), load->n, order);
    for (size_t i = 0; i < load->n; i++)
        copy_row(&sorted, load, order[i]);
    free(order);
    spot_load_release(load);
    *load = sorted;
}

void spot_load_shift(struct spot_load *load, double origin_s)
{
    for (size_t i = 0; i < load->n; i++)
        load->time_s[i] = rint((load->time_s[i] - origin_s) * 1e6) / 1e6;
}

int spot_load_cut(struct spot_load *load, double from_s, double to_s, struct spot_err *err)
{
    struct spot_load kept = { .xxh3 = load->xxh3 };

    for (size_t i = 0; i < load->n; i++)
        if (load->time_s[i] >= from_s && load->time_s[i] <= to_s)
            copy_row(&kept, load, i);
    spot_load_release(load);
    *load = kept;
    if (!kept.n)
        return spot_err_set(err, SPOT_EINFEASIBLE, "no request from %.15g s to %.15g s", from_s,
                            to_s);
    return 0;
}

/* Written as ranges of consecutive numbers. */
static void put_blocks(const struct spot_load *load, size_t k, FILE *out)
{
    size_t n;
    const uint32_t *block = spot_load_blocks(load, k, &n);

    if (n)
        fprintf(out, "%d:", load->block_token);
    for (size_t i = 0, from; i < n; i++) {
        for (from = i; i + 1 < n && block[i] + 1 == block[i + 1] && block[i + 1]; i++)
            ;
        fprintf(out, "%s%u", from ? " " : "", block[from]);
        if (i > from)
            fprintf(out, "-%u", block[i]);
    }
}

void spot_load_write(const struct spot_load *load, FILE *out)
{
    fprintf(out, "time_s,prompt_tokens,output_tokens%s%s\n", load->id ? ",id" : "",
            load->block_token ? ",blocks" : "");
    for (size_t i = 0; i < load->n; i++) {
        spot_trace_put_real(out, load->time_s[i]);
        fprintf(out, ",%d,%d", load->prompt_token[i], load->output_token[i]);
        if (load->id) {
            putc(',', out);
            spot_csv_put(out, load->id[i], ',');
        }
        if (load->block_token) {
            putc(',', out);
            put_blocks(load, i, out);
        }
        putc('\n', out);
    }
}
