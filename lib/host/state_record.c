/* SPDX-License-Identifier: MIT */
#include "host/state_record.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/utf8.h"
#include "common/xalloc.h"

int spot_state_id_compare(const struct spot_state_id *a, const struct spot_state_id *b)
{
    if (a->round != b->round)
        return a->round < b->round ? -1 : 1;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    return (a->key > b->key) - (a->key < b->key);
}

void spot_state_id_put(struct spot_buf *out, const struct spot_state_id *id)
{
    spot_put_u32(out, id->round);
    spot_put_u64(out, id->key);
    spot_put_u64(out, id->step);
}

void spot_state_id_get(struct spot_wire_in *in, struct spot_state_id *id)
{
    id->round = spot_get_u32(in);
    id->key = spot_get_u64(in);
    id->step = spot_get_u64(in);
}

void spot_state_record_release(struct spot_state_record *record)
{
    for (size_t i = 0; i < record->n_file; i++)
        free(record->file[i].path);
    free(record->file);
    free(record->chunk);
    *record = (struct spot_state_record){ 0 };
}

uint64_t spot_state_record_byte(const struct spot_state_record *record)
{
    uint64_t n = 0;

    for (size_t i = 0; i < record->n_file; i++)
        n += record->file[i].n_byte;
    return n;
}

/* The newest file of a record. Links are ignored: they are recreated for older files. */
struct spot_state_saved spot_state_record_saved(const struct spot_state_record *record)
{
    struct spot_state_saved saved = { 0 };
    const struct spot_state_file *last = NULL;

    for (size_t i = 0; i < record->n_file; i++)
        if (record->file[i].mode != SPOT_STATE_LINK &&
            (!last || record->file[i].at_ns >= last->at_ns))
            last = &record->file[i];
    if (!last)
        return saved;
    saved.at_ns = last->at_ns;
    snprintf(saved.what, sizeof(saved.what), "%.*s", (int)strcspn(last->path, "/"), last->path);
    spot_utf8_make_plain(saved.what);
    return saved;
}

static void put_when(uint64_t at_ns, char *text, size_t n)
{
    const time_t at_s = (time_t)(at_ns / 1000000000), now_s = time(NULL);
    struct tm at, now;

    if (!localtime_r(&at_s, &at) || !localtime_r(&now_s, &now) ||
        !strftime(text, n,
                  at.tm_year == now.tm_year && at.tm_yday == now.tm_yday ? "%H:%M:%S"
                                                                         : "%Y-%m-%d %H:%M:%S",
                  &at))
        *text = '\0';
}

void spot_state_describe(uint64_t step, const struct spot_state_saved *saved,
                         char text[SPOT_STATE_DESCRIBED])
{
    char number[48] = "", when[32] = "";

    if (step)
        snprintf(number, sizeof(number), "%s %llu", *saved->what ? "checkpoint" : "step",
                 (unsigned long long)step);
    if (saved->at_ns)
        put_when(saved->at_ns, when, sizeof(when));
    if (!*saved->what)
        snprintf(text, SPOT_STATE_DESCRIBED, "%s%s%s%s", step ? number : "step 0",
                 *when ? " (saved " : "", when, *when ? ")" : "");
    else if (*number || *when)
        snprintf(text, SPOT_STATE_DESCRIBED, "%s (%s%s%s%s)", saved->what, number,
                 *number && *when ? ", " : "", *when ? "saved " : "", when);
    else
        snprintf(text, SPOT_STATE_DESCRIBED, "%s", saved->what);
}

void spot_state_saved_put(struct spot_buf *out, const struct spot_state_saved *saved)
{
    spot_put_u64(out, saved->at_ns);
    spot_put_text(out, saved->what);
}

void spot_state_saved_get(struct spot_wire_in *in, struct spot_state_saved *saved)
{
    saved->at_ns = spot_get_u64(in);
    spot_get_plain(in, saved->what, sizeof(saved->what));
}

size_t spot_state_file_chunks(const struct spot_state_file *file)
{
    return (size_t)(file->n_byte / SPOT_STATE_CHUNK_BYTE +
                    (file->n_byte % SPOT_STATE_CHUNK_BYTE > 0));
}

size_t spot_state_file_chunk_byte(const struct spot_state_file *file, size_t i)
{
    const uint64_t left = file->n_byte - (uint64_t)i * SPOT_STATE_CHUNK_BYTE;

    return left < SPOT_STATE_CHUNK_BYTE ? (size_t)left : SPOT_STATE_CHUNK_BYTE;
}

/* --- pieces -------------------------------------------------------------------------- */

struct ordered {
    struct spot_state_piece piece;
    size_t at;
};

static int by_hash(const void *a, const void *b)
{
    const struct ordered *const x = a, *const y = b;

    if (x->piece.hash.high != y->piece.hash.high)
        return x->piece.hash.high < y->piece.hash.high ? -1 : 1;
    if (x->piece.hash.low != y->piece.hash.low)
        return x->piece.hash.low < y->piece.hash.low ? -1 : 1;
    return (x->at > y->at) - (x->at < y->at);
}

static int by_order(const void *a, const void *b)
{
    const struct ordered *const x = a, *const y = b;

    return (x->at > y->at) - (x->at < y->at);
}

/* Add the pieces to all[] from n_all on; returns the new number. */
static size_t add_pieces(const struct spot_state_record *record, struct ordered *all, size_t n_all)
{
    size_t c = 0;

    for (size_t f = 0; f < record->n_file; f++)
        for (size_t i = 0; i < spot_state_file_chunks(&record->file[f]); i++, n_all++)
            all[n_all] =
                (struct ordered){ .piece = { record->chunk[c++],
                                             spot_state_file_chunk_byte(&record->file[f], i) },
                                  .at = n_all };
    return n_all;
}

struct spot_state_piece *spot_state_record_pieces(const struct spot_state_record *record,
                                                  size_t n_record, size_t *n)
{
    struct spot_state_piece *piece;
    struct ordered *all;
    size_t n_all = 0;

    for (size_t r = 0; r < n_record; r++)
        n_all += record[r].n_chunk;
    all = spot_xcalloc(n_all, sizeof(*all));
    piece = spot_xcalloc(n_all, sizeof(*piece));
    n_all = 0;
    for (size_t r = 0; r < n_record; r++)
        n_all = add_pieces(&record[r], all, n_all);
    qsort(all, n_all, sizeof(*all), by_hash);
    *n = 0;
    for (size_t i = 0; i < n_all; i++)
        if (!i || !spot_hash128_equal(all[i].piece.hash, all[*n - 1].piece.hash))
            all[(*n)++] = all[i];
    qsort(all, *n, sizeof(*all), by_order);
    for (size_t i = 0; i < *n; i++)
        piece[i] = all[i].piece;
    free(all);
    return piece;
}

/* --- encoding --- */

void spot_state_record_put(struct spot_buf *out, const struct spot_state_record *record)
{
    size_t at = 0;

    spot_put_text(out, record->run_id);
    spot_state_id_put(out, &record->id);
    spot_put_u32(out, record->place);
    spot_put_u32(out, record->world);
    spot_put_u32(out, (uint32_t)record->n_file);
    for (size_t f = 0; f < record->n_file; f++) {
        spot_put_text(out, record->file[f].path);
        spot_put_u32(out, record->file[f].mode);
        spot_put_u64(out, record->file[f].n_byte);
        spot_put_u64(out, record->file[f].at_ns);
        for (size_t i = 0; i < spot_state_file_chunks(&record->file[f]); i++, at++) {
            spot_put_u64(out, record->chunk[at].high);
            spot_put_u64(out, record->chunk[at].low);
        }
    }
}

/* True for paths such as "a/b" that stay below the directory. */
bool spot_state_path_is_below(const char *path)
{
    size_t depth = 0;

    do {
        const size_t n = strcspn(path, "/");

        if (!n || (n == 1 && *path == '.') || (n == 2 && !strncmp(path, "..", 2)) ||
            ++depth > SPOT_STATE_DEPTH_MAX)
            return false;
        path += n;
    } while (*path++);
    return true;
}

static bool is_odd(const struct spot_state_file *file)
{
    return file->mode == SPOT_STATE_LINK ? !file->n_byte || file->n_byte >= SPOT_STATE_PATH_MAX
                                         : file->mode > 0777;
}

static bool get_file(struct spot_wire_in *in, struct spot_state_record *record)
{
    struct spot_state_file *const file = &record->file[record->n_file];
    char path[SPOT_STATE_PATH_MAX];
    size_t n;

    spot_get_text(in, path, sizeof(path));
    file->mode = spot_get_u32(in);
    file->n_byte = spot_get_u64(in);
    file->at_ns = spot_get_u64(in);
    file->first_chunk = record->n_chunk;
    n = spot_state_file_chunks(file);
    if (in->bad || !spot_state_path_is_below(path) || is_odd(file) ||
        n > (size_t)(in->end - in->at) / 16 || (record->n_file && strcmp(file[-1].path, path) >= 0))
        return false;
    file->path = spot_xstrdup(path);
    record->n_file++;
    record->chunk = spot_xrealloc(record->chunk, record->n_chunk + n, sizeof(*record->chunk));
    for (size_t i = 0; i < n; i++, record->n_chunk++) {
        record->chunk[record->n_chunk].high = spot_get_u64(in);
        record->chunk[record->n_chunk].low = spot_get_u64(in);
    }
    return true;
}

int spot_state_record_get(struct spot_wire_in *in, struct spot_state_record *record,
                          struct spot_err *err)
{
    uint32_t n_file;
    bool is_good;

    *record = (struct spot_state_record){ 0 };
    spot_get_text(in, record->run_id, sizeof(record->run_id));
    spot_state_id_get(in, &record->id);
    record->place = spot_get_u32(in);
    record->world = spot_get_u32(in);
    n_file = spot_get_count(in, 16);
    is_good = !in->bad && record->place < record->world && n_file <= SPOT_STATE_FILES_MAX;
    if (is_good)
        record->file = spot_xcalloc(n_file, sizeof(*record->file));
    while (is_good && record->n_file < n_file)
        is_good = get_file(in, record);
    if (is_good && spot_wire_in_done(in))
        return 0;
    spot_state_record_release(record);
    return spot_err_set(err, SPOT_EDATA, "malformed record of a committed state");
}
