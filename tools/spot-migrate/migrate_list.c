/* SPDX-License-Identifier: MIT */
/* list and extract: both walk chunk headers and leave what they do not need unread. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/rows.h"
#include "cli/table.h"
#include "common/json_writer.h"
#include "common/le.h"
#include "common/prov.h"
#include "common/xalloc.h"
#include "migrate.h"
#include "shard/stream.h"

struct walk {
    struct input in;
    struct spot_coder coder;
    struct spot_stream_info info;
    struct spot_buf header;
    struct spot_st st;
    struct spot_chunk_map map;
    uint64_t head_byte; /* where the first chunk starts */
};

/* HEAD is read in the steps that spot_stream_get_head asks for. */
static int read_head(struct walk *w, struct spot_err *err)
{
    struct spot_buf bytes = { 0 };
    size_t used = 0, need = 0, got;
    uint64_t n_json;
    int rc = -1;

    do {
        if (spot_stream_get_head(&w->coder, bytes.data, bytes.n, &w->info, &w->header, &used, &need,
                                 err)) {
            const struct spot_err inner = *err;

            spot_err_set(err, inner.code, "%s: %s", w->in.name, inner.msg);
            goto out;
        }
        if (used)
            break;
        if (input_read(&w->in, spot_buf_more(&bytes, need - bytes.n), need - bytes.n, &got, err))
            goto out;
        bytes.n += got;
        if (bytes.n < need) {
            spot_err_set(err, SPOT_EDATA, bytes.n ? "%s: the stream ends early" : "%s: empty",
                         w->in.name);
            goto out;
        }
    } while (!used);
    w->head_byte = bytes.n;
    if (spot_st_prefix(w->header.data, w->in.name, &n_json, err) ||
        spot_st_parse(&w->st, (const char *)w->header.data + SPOT_ST_PREFIX_BYTE,
                      w->header.n - SPOT_ST_PREFIX_BYTE, w->in.name, err) ||
        spot_chunk_map_init(&w->map, &w->st, w->info.chunk_byte, err))
        goto out;
    rc = 0;
out:
    spot_buf_release(&bytes);
    return rc;
}

static int walk_open(struct walk *w, const char *path, struct spot_err *err)
{
    memset(w, 0, sizeof(*w));
    spot_coder_init(&w->coder);
    if (input_open(&w->in, path, err))
        return -1;
    return read_head(w, err);
}

static void walk_close(struct walk *w)
{
    spot_chunk_map_release(&w->map);
    spot_st_release(&w->st);
    spot_buf_release(&w->header);
    spot_coder_release(&w->coder);
    input_close(&w->in);
}

static int next_chunk(struct walk *w, struct spot_chunk *chunk, struct spot_err *err)
{
    unsigned char head[SPOT_CHUNK_HEAD_BYTE];
    size_t got;

    if (input_read(&w->in, head, sizeof(head), &got, err))
        return -1;
    if (got < sizeof(head))
        return spot_err_set(err, SPOT_EDATA, "%s: the stream ends early", w->in.name);
    return spot_chunk_parse(head, &w->map, w->info.stream_id, chunk, err);
}

/* --- list --- */

struct row {
    uint64_t stored_byte, n_chunk;
};

static int gather(struct walk *w, struct row *row, struct spot_err *err)
{
    const uint64_t n = spot_chunk_map_count(&w->map);

    for (uint64_t i = 0; i < n; i++) {
        struct spot_chunk chunk;

        if (next_chunk(w, &chunk, err) || input_skip(&w->in, chunk.stored_byte, err))
            return -1;
        if (chunk.seq != i)
            return spot_err_set(err, SPOT_EDATA, "%s: chunk %u, expected %" PRIu64, w->in.name,
                                chunk.seq, i);
        row[chunk.tensor].stored_byte += SPOT_CHUNK_HEAD_BYTE + (uint64_t)chunk.stored_byte;
        row[chunk.tensor].n_chunk++;
    }
    return 0;
}

static double ratio_of(const struct spot_st_tensor *t, const struct row *row)
{
    return row->stored_byte ? (double)(t->end - t->begin) / (double)row->stored_byte : 1;
}

static int print_json(const struct walk *w, const struct row *row, FILE *out,
                      const struct spot_tool_common *common, struct spot_err *err)
{
    const struct spot_prov prov = { .tool = "spot-migrate",
                                    .seed = common->seed,
                                    .is_off = !common->provenance };
    struct spot_jw jw;

    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.tensors", 1, &prov);
    spot_jw_str(&jw, "source", w->info.source);
    spot_jw_int(&jw, "chunk_byte", w->info.chunk_byte);
    spot_jw_int(&jw, "data_byte", (int64_t)w->st.data_byte);
    spot_jw_array(&jw, "tensors");
    for (size_t i = 0; i < w->st.n_tensor; i++) {
        const struct spot_st_tensor *t = &w->st.tensor[i];
        int64_t dim[SPOT_ST_DIMS_MAX];

        for (int d = 0; d < t->n_dim; d++)
            dim[d] = (int64_t)t->dim[d];
        spot_jw_object(&jw, NULL);
        spot_jw_str(&jw, "name", t->name);
        spot_jw_str(&jw, "dtype", spot_dtype_name(t->dtype));
        spot_jw_ints(&jw, "shape", dim, (size_t)t->n_dim);
        spot_jw_int(&jw, "begin_byte", (int64_t)t->begin);
        spot_jw_int(&jw, "raw_byte", (int64_t)(t->end - t->begin));
        spot_jw_int(&jw, "stored_byte", (int64_t)row[i].stored_byte);
        spot_jw_int(&jw, "chunks", (int64_t)row[i].n_chunk);
        spot_jw_end(&jw);
    }
    spot_jw_end(&jw);
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}

static void print_rows(const struct walk *w, const struct row *row, FILE *out,
                       enum spot_format format)
{
    static const struct spot_column column[] = {
        { "name", false },    { "dtype", false },      { "shape", false },
        { "raw_byte", true }, { "stored_byte", true }, { "ratio", true },
    };
    struct spot_table table;

    spot_table_init(&table, column, sizeof(column) / sizeof(column[0]));
    for (size_t i = 0; i < w->st.n_tensor; i++) {
        const struct spot_st_tensor *t = &w->st.tensor[i];
        char shape[SPOT_ST_DIMS_MAX * 21 + 1] = "";
        size_t n = 0;

        for (int d = 0; d < t->n_dim; d++)
            n += (size_t)snprintf(shape + n, sizeof(shape) - n, "%s%" PRIu64, d ? "x" : "",
                                  t->dim[d]);
        spot_table_text(&table, t->name);
        spot_table_text(&table, spot_dtype_name(t->dtype));
        spot_table_text(&table, shape);
        spot_table_int(&table, (long long)(t->end - t->begin));
        spot_table_int(&table, (long long)row[i].stored_byte);
        spot_table_fixed(&table, ratio_of(t, &row[i]), 3);
    }
    spot_table_print(&table, out, format);
    spot_table_release(&table);
}

static int list(const struct spot_tool_common *common, const char *path, struct spot_err *err)
{
    enum spot_format format;
    struct row *row = NULL;
    struct spot_out out;
    struct walk w;
    int rc = -1;

    if (spot_format_parse(common->format, &format, err))
        return -1;
    if (format == SPOT_FORMAT_AUTO)
        format = !common->output && isatty(STDOUT_FILENO) ? SPOT_FORMAT_TABLE : SPOT_FORMAT_JSON;
    if (walk_open(&w, path, err))
        goto out;
    row = spot_xcalloc(w.st.n_tensor, sizeof(*row));
    if (gather(&w, row, err) || spot_out_open(&out, common->output, err))
        goto out;
    rc = 0;
    if (format == SPOT_FORMAT_JSON)
        rc = print_json(&w, row, out.file, common, err);
    else
        print_rows(&w, row, out.file, format);
    rc = spot_out_finish(&out, rc, err);
out:
    free(row);
    walk_close(&w);
    return rc;
}

static struct spot_tool_common common = SPOT_TOOL_COMMON_DEFAULT;

static const struct spot_opt list_option[] = {
    SPOT_TOOL_OPTIONS(&common),
    { SPOT_OPT_END },
};

static const struct spot_cli list_cli = {
    .name = "spot-migrate list",
    .writes = (const char *const[]){ "output", NULL },
    .n_operand_max = 1,
    .synopsis = "[options] [stream.szt]",
    .summary = "List the tensors of a stream and the bytes that each takes.",
    .examples = "  spot-migrate list m.szt | jq -r '.tensors[].name'\n"
                "  spot-migrate list --format table m.szt\n",
    .option = list_option,
};

static int migrate_list(char **operand, size_t n, struct spot_err *err)
{
    (void)n;
    return list(&common, operand[0], err);
}

const struct spot_command migrate_list_command = {
    .name = "list",
    .brief = "list the tensors of a stream",
    .cli = &list_cli,
    .common = &common,
    .run = migrate_list,
};

/* --- extract --- */

struct extract {
    struct spot_tool_common common;
    const char *name;
    bool is_raw;
};

/* Go to the first chunk of a tensor: by the seek table of a file, chunk by chunk in a pipe. The
 * table is not believed: the chunk found there has to say that it is the one looked for. */
static int go_to(struct walk *w, uint64_t first, struct spot_err *err)
{
    unsigned char foot[9], entry[8];
    uint64_t n_entry, at = 0, table_at;

    if (!w->in.is_regular) {
        for (uint64_t i = 0; i < first; i++) {
            struct spot_chunk chunk;

            if (next_chunk(w, &chunk, err) || input_skip(&w->in, chunk.stored_byte, err))
                return -1;
        }
        return 0;
    }
    if (w->in.n_byte < sizeof(foot) ||
        input_read_at(&w->in, w->in.n_byte - sizeof(foot), foot, sizeof(foot), err))
        return -1;
    n_entry = spot_le_get(foot, 4);
    if (spot_le_get(foot + 5, 4) != UINT64_C(0x8F92EAB1) ||
        n_entry != spot_chunk_map_count(&w->map) + 2 ||
        w->in.n_byte < sizeof(foot) + sizeof(entry) * n_entry)
        return spot_err_set(err, SPOT_EDATA, "%s: no seek table at the end of the stream",
                            w->in.name);
    table_at = w->in.n_byte - sizeof(foot) - sizeof(entry) * n_entry;
    for (uint64_t i = 0; i <= first; i++) {
        if (input_read_at(&w->in, table_at + i * sizeof(entry), entry, sizeof(entry), err))
            return -1;
        at += spot_le_get(entry, 4);
    }
    if (at > w->in.n_byte)
        return spot_err_set(err, SPOT_EDATA, "%s: the seek table points beyond the end",
                            w->in.name);
    if (lseek(w->in.fd, (off_t)at, SEEK_SET) < 0)
        return spot_err_sys(err, "cannot read %s", w->in.name);
    return 0;
}

static int copy_chunks(struct walk *w, uint64_t first, uint64_t end, struct spot_out *out,
                       struct spot_err *err)
{
    struct spot_buf frames = { 0 }, raw = { 0 };
    size_t got;
    int rc = 0;

    for (uint64_t i = first; i < end && !rc; i++) {
        struct spot_chunk chunk;

        rc = next_chunk(w, &chunk, err);
        if (!rc && chunk.seq != i)
            rc = spot_err_set(err, SPOT_EDATA, "%s: chunk %u, expected %" PRIu64, w->in.name,
                              chunk.seq, i);
        if (rc)
            break;
        rc = input_read(&w->in, spot_buf_more(&frames, chunk.stored_byte), chunk.stored_byte, &got,
                        err);
        if (!rc && got < chunk.stored_byte)
            rc = spot_err_set(err, SPOT_EDATA, "%s: the stream ends early", w->in.name);
        if (!rc)
            rc = spot_chunk_decode(&w->coder, &chunk, frames.data,
                                   spot_buf_more(&raw, chunk.raw_byte), err);
        if (!rc)
            rc = output_write(out, raw.data, chunk.raw_byte, err);
    }
    spot_buf_release(&frames);
    spot_buf_release(&raw);
    return rc;
}

static int extract(const struct extract *x, const char *path, struct spot_err *err)
{
    struct spot_buf header = { 0 };
    struct spot_out out;
    struct walk w;
    ptrdiff_t t;
    int rc = -1;

    if (walk_open(&w, path, err))
        goto out;
    t = spot_st_find(&w.st, x->name);
    if (t < 0) {
        spot_err_set(err, SPOT_EINFEASIBLE, "%s: no tensor '%.256s'", w.in.name, x->name);
        goto out;
    }
    if (go_to(&w, w.map.first[t], err) || output_open(&out, x->common.output, err))
        goto out;
    if (!x->is_raw)
        spot_st_write(&w.st.tensor[t], 1, &header);
    rc = output_write(&out, header.data, header.n, err);
    if (!rc)
        rc = copy_chunks(&w, w.map.first[t], w.map.first[t + 1], &out, err);
    rc = spot_out_finish(&out, rc, err);
out:
    spot_buf_release(&header);
    walk_close(&w);
    return rc;
}

static struct extract extracted = { .common = SPOT_TOOL_COMMON_DEFAULT };

static const struct spot_opt extract_option[] = {
    { SPOT_OPT_GROUP, .help = "extract" },
    { SPOT_OPT_STRING, 0, "tensor", &extracted.name, "name", "name of the tensor", 0, 0 },
    { SPOT_OPT_FLAG, 0, "raw", &extracted.is_raw, NULL,
      "write only the tensor's bytes, without a safetensors header", 0, 0 },
    SPOT_TOOL_OPTIONS_WRITE(&extracted.common,
                            "write here, complete or not at all (default: stdout)"),
    { SPOT_OPT_END },
};

static const struct spot_cli extract_cli = {
    .name = "spot-migrate extract",
    .writes = (const char *const[]){ "output", NULL },
    .n_operand_max = 1,
    .required = (const struct spot_opt_required[]){ { "tensor", "its name" }, { NULL, NULL } },
    .synopsis = "--tensor name [options] [stream.szt]",
    .summary = "Write one tensor of a stream, verified; in a file, only its chunks are read.",
    .examples = "  spot-migrate extract --tensor w m.szt >w.safetensors\n"
                "  spot-migrate extract --tensor w --raw m.szt | od -f | head\n",
    .option = extract_option,
};

static int migrate_extract(char **operand, size_t n, struct spot_err *err)
{
    (void)n;
    return extract(&extracted, operand[0], err);
}

const struct spot_command migrate_extract_command = {
    .name = "extract",
    .brief = "write one tensor of a stream",
    .cli = &extract_cli,
    .common = &extracted.common,
    .run = migrate_extract,
};
