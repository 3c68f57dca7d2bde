/* SPDX-License-Identifier: MIT */
/* Loss, perplexity and bits per byte of a corpus under a model. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checkpoint/state_command.h"
#include "cli/rows.h"
#include "cli/tool.h"
#include "common/clock.h"
#include "common/hash.h"
#include "common/json_writer.h"
#include "common/num.h"
#include "common/out.h"
#include "common/prov.h"
#include "common/xalloc.h"
#include "job_options.h"
#include "run.h"
#include "train/evaluate.h"
#include "train/saved_model.h"
#include "weights/hf_family.h"
#include "weights/load.h"

struct options {
    struct job_options job;
    struct spot_tool_common common;
    struct spot_saved_place state;
    uint64_t step, stride, batch;
    bool across, has_step;
};

/* The result and what it was computed on. */
struct result {
    struct spot_loss loss;
    int64_t n_token, n_byte; /* of the corpus; n_byte -1: unknown */
    struct spot_buf rows;    /* lines of CSV, if requested */
};

/* The name of the durable state; NULL: the model is not from durable state. */
static const char *state_of(const struct options *o)
{
    return o->state.dir || o->state.command ? spot_saved_place_name(&o->state) : NULL;
}

/* --- the model ---------------------------------------------------------------- */

/* A directory with a tokenizer means that the corpus is text for it. */
static const char *tokenizer_of(const char *load, char path[static 4096])
{
    static const char *const file[] = { "tokenizer.json", "vocab.json" };

    for (size_t i = 0; i < sizeof(file) / sizeof(file[0]); i++) {
        const int n = snprintf(path, 4096, "%s/%s", load, file[i]);

        if (n < 4096 && !access(path, R_OK))
            return load;
    }
    return NULL;
}

static int load_weights(const struct options *o, const struct spot_shape *shape,
                        struct spot_saved_model *m, struct spot_err *err)
{
    struct spot_weights *const weights = spot_weights_open(o->job.c.load, shape, err);
    int rc = weights ? 0 : -1;

    m->shape = *shape;
    m->n_bundle = spot_shape_bundles(shape);
    m->bundle = spot_xcalloc((size_t)m->n_bundle, sizeof(struct spot_bundle *));
    for (int b = 0; !rc && b < m->n_bundle; b++) {
        m->bundle[b] = spot_xcalloc(1, sizeof(struct spot_bundle));
        rc = spot_bundle_init(m->bundle[b], shape, b, err);
        if (!rc)
            rc = spot_weights_read(weights, m->bundle[b], err);
        if (!rc)
            spot_weights_only(m->bundle[b]);
    }
    spot_weights_close(weights);
    return rc;
}

/* Set the options that describe a model from an existing one. */
static int take_state(struct options *o, struct spot_saved_model *m, struct spot_err *err)
{
    const struct spot_shape *const s = &m->shape;
    struct job_options *const j = &o->job;
    const int64_t seq = j->c.config.shape.seq;

    if (seq > s->seq)
        return spot_err_set(err, SPOT_EUSAGE, "--seq %lld, but the job of '%s' has %lld positions",
                            (long long)seq, state_of(o), (long long)s->seq);
    if (seq && seq < s->seq && spot_saved_model_shorten(m, seq, err))
        return -1;
    j->c.config.shape = *s;
    j->arch = spot_hf_family_of(s)->type;
    j->has_kind = true;
    j->is_tied = s->is_tied != 0;
    if (!j->tokens)
        j->tokens = m->tokens;
    if (!j->c.tokenizer && *m->tokenizer && !strcmp(j->tokens, "bytes"))
        j->c.tokenizer = m->tokenizer;
    return 0;
}

/* --- the corpus --------------------------------------------------------------- */

/* Bytes of the text of these tokens; -1: unknown. */
static int count_bytes(const struct spot_corpus *corpus, const struct spot_bpe *bpe,
                       int64_t *n_byte, struct spot_err *err)
{
    enum { BLOCK = 4096 };
    uint32_t token[BLOCK];

    *n_byte = bpe ? 0 : corpus->token_byte == 1 ? (int64_t)corpus->n_token : -1;
    for (size_t at = 0; bpe && at < corpus->n_token; at += BLOCK) {
        const size_t left = corpus->n_token - at, n = left < BLOCK ? left : BLOCK;

        if (spot_corpus_read(corpus, at, n, token, err))
            return -1;
        for (size_t i = 0; i < n; i++) {
            size_t of_token = 0;

            if (spot_bpe_token(bpe, token[i], &of_token))
                *n_byte += (int64_t)of_token;
        }
    }
    return 0;
}

/* For a corpus of tokens the tokenizer only tells how long the text was. */
static int open_tokenizer(struct options *o, struct spot_bpe **bpe, struct spot_err *err)
{
    struct job_options *const j = &o->job;

    if (!j->c.tokenizer || !strcmp(j->tokens, "bytes"))
        return 0;
    *bpe = spot_bpe_open(j->c.tokenizer, err);
    j->c.tokenizer = NULL;
    return *bpe ? 0 : -1;
}

/* --- the answer --------------------------------------------------------------- */

static void put_real(struct spot_jw *jw, const char *key, double x)
{
    if (isfinite(x))
        spot_jw_real(jw, key, x);
    else
        spot_jw_null(jw, key);
}

static int write_doc(const struct options *o, const struct spot_saved_model *m,
                     const struct result *r, const char *kernel, const struct spot_prov *prov,
                     FILE *out, struct spot_err *err)
{
    struct spot_jw jw;

    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.eval", 1, prov);
    spot_jw_str(&jw, "model", o->job.c.load ? o->job.c.load : state_of(o));
    if (state_of(o))
        spot_jw_int(&jw, "step", m->step);
    spot_jw_str(&jw, "kernel", kernel);
    spot_jw_int(&jw, "seq", m->shape.seq);
    spot_jw_int(&jw, "stride", (int64_t)o->stride);
    spot_jw_bool(&jw, "across", o->across);
    spot_jw_int(&jw, "windows", r->loss.n_window);
    spot_jw_int(&jw, "tokens", r->n_token);
    spot_jw_int(&jw, "predicted", r->loss.n_predicted);
    if (r->n_byte >= 0)
        spot_jw_int(&jw, "bytes", r->n_byte);
    spot_jw_real(&jw, "loss", spot_loss_mean(&r->loss));
    put_real(&jw, "perplexity", exp(spot_loss_mean(&r->loss)));
    if (r->n_byte > 0)
        spot_jw_real(&jw, "bits_per_byte",
                     spot_loss_bits_per_byte(&r->loss, r->n_token, r->n_byte));
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}

static void write_table(const struct spot_saved_model *m, const struct options *o,
                        const struct result *r, FILE *out)
{
    char model[64];
    struct spot_table table;

    if (state_of(o))
        snprintf(model, sizeof(model), "step %lld", (long long)m->step);
    else
        snprintf(model, sizeof(model), "%.60s", o->job.c.load);
    spot_table_init(&table, "model,tokens#,predicted#,loss#,perplexity#,bits_per_byte#");
    spot_table_add(&table, "%s %lld %lld %.6f %.4f", model, (long long)r->n_token,
                   (long long)r->loss.n_predicted, spot_loss_mean(&r->loss),
                   exp(spot_loss_mean(&r->loss)));
    if (r->n_byte > 0)
        spot_table_add(&table, "%.6f", spot_loss_bits_per_byte(&r->loss, r->n_token, r->n_byte));
    else
        spot_table_add(&table, "%s", "");
    spot_table_print(&table, out, SPOT_FORMAT_TABLE);
    spot_table_release(&table);
}

static uint64_t hash_of(const struct spot_saved_model *m)
{
    struct spot_hash_stream *const hash = spot_hash_stream_new();
    uint64_t sum;

    for (int b = 0; b < m->n_bundle; b++)
        spot_hash_stream_add(hash, m->bundle[b]->plane[SPOT_PLANE_MASTER],
                             m->bundle[b]->arena.n_elem * sizeof(float));
    sum = spot_hash_stream_64(hash);
    spot_hash_stream_free(hash);
    return sum;
}

static int print(const struct options *o, const struct spot_saved_model *m,
                 const struct spot_corpus *corpus, const struct result *r, const char *kernel,
                 enum spot_format format, struct spot_err *err)
{
    struct spot_prov prov = { .tool = "spot-run eval",
                              .seed = o->common.seed,
                              .is_off = !o->common.provenance };
    struct spot_out out;
    int rc = 0;

    if (!isfinite(r->loss.sum))
        return spot_err_set(err, SPOT_EINFEASIBLE, "the loss is not finite");
    if (spot_out_open(&out, o->common.output, err))
        return -1;
    spot_prov_add(&prov, o->job.c.load ? o->job.c.load : state_of(o), hash_of(m));
    spot_prov_add(&prov, corpus->source, corpus->xxh3);
    if (format == SPOT_FORMAT_JSON)
        rc = write_doc(o, m, r, kernel, &prov, out.file, err);
    else if (format == SPOT_FORMAT_CSV)
        fprintf(out.file, "at,token,loss\n%.*s", (int)r->rows.n, (const char *)r->rows.data);
    else
        write_table(m, o, r, out.file);
    spot_prov_release(&prov);
    return spot_out_finish(&out, rc, err);
}

/* --- the command --- */

/* State of an evaluation in progress. */
struct going {
    double shown_s;
    struct spot_buf *rows;
};

static void add_row(void *user, int64_t at, uint32_t token, double loss)
{
    struct going *const g = user;
    char text[SPOT_NUM_TEXT], line[96];
    const int n = snprintf(line, sizeof(line), "%lld,%u,%s\n", (long long)at, (unsigned)token,
                           isfinite(loss) ? spot_num_format(loss, text) : "nan");

    spot_buf_add(g->rows, line, (size_t)n);
}

static void draw_progress(void *user, int64_t done, int64_t of)
{
    struct going *const g = user;
    const double now_s = spot_clock_s();

    if (now_s - g->shown_s < 0.1 && done < of)
        return;
    g->shown_s = now_s;
    fputs("\r\033[K", stderr);
    if (done < of)
        fprintf(stderr, "window %lld/%lld", (long long)done, (long long)of);
    fflush(stderr);
}

static int evaluate(const struct options *o, const struct spot_saved_model *m,
                    const struct spot_corpus *corpus, const struct spot_kernel *kernel,
                    enum spot_format format, struct result *r, struct spot_err *err)
{
    struct going going = { .rows = &r->rows };
    const struct spot_evaluation e = {
        .shape = &m->shape,
        .bundle = m->bundle,
        .kernel = kernel,
        .corpus = corpus,
        .stride = (int64_t)o->stride,
        .across = o->across,
        .batch = (int)o->batch,
        .n_thread = (int)o->job.c.n_thread,
        .progress = isatty(STDERR_FILENO) && !o->common.quiet ? draw_progress : NULL,
        .row = format == SPOT_FORMAT_CSV ? add_row : NULL,
        .user = &going,
    };

    r->n_token = (int64_t)corpus->n_token;
    return spot_evaluate(&e, &r->loss, err);
}

static int check(const struct options *o, enum spot_format *format, struct spot_err *err)
{
    if (!o->job.c.load == !state_of(o))
        return spot_err_set(err, SPOT_EUSAGE,
                            o->job.c.load ? "give only one of --load and --state"
                                          : "--load or --state is missing: the model");
    if (o->has_step && o->job.c.load)
        return spot_err_set(err, SPOT_EUSAGE, "--step is for --state or --state-command");
    if (!strncmp(o->job.device, "cuda", 4))
        return spot_err_set(err, SPOT_EUSAGE, "--device %s: eval computes on the CPU",
                            o->job.device);
    if (o->common.format && strcmp(o->common.format, "json") != 0 &&
        strcmp(o->common.format, "table") != 0 && strcmp(o->common.format, "csv") != 0)
        return spot_err_set(err, SPOT_EUSAGE, "an evaluation is json, table or csv, not %s",
                            o->common.format);
    if (spot_format_parse(o->common.format, format, err))
        return -1;
    *format = spot_format_settle(*format, o->common.output, SPOT_FORMAT_JSON);
    return 0;
}

/* Set the options that were not given from the model. */
static int settle(struct options *o, struct spot_saved_model *m, struct spot_bpe **bpe,
                  struct spot_err *err)
{
    char path[4096];
    struct job_options *const j = &o->job;

    if (!j->data.n)
        return job_options_check(j, err);
    if (state_of(o))
        if (spot_saved_model_read(m, &o->state, o->has_step ? (int64_t)o->step : SPOT_NEWEST_STEP,
                                  spot_tool_warn, err) ||
            take_state(o, m, err))
            return -1;
    if (!j->tokens)
        j->tokens = "bytes";
    if (o->job.c.load && !j->c.tokenizer)
        j->c.tokenizer = tokenizer_of(o->job.c.load, path);
    if (open_tokenizer(o, bpe, err) || job_options_shape(j, err) || job_options_check(j, err) ||
        job_options_settle(j, err))
        return -1;
    if (!o->stride)
        o->stride = (uint64_t)j->c.config.shape.seq;
    if (o->stride > (uint64_t)j->c.config.shape.seq)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--stride %llu is more than the %lld tokens of a window",
                            (unsigned long long)o->stride, (long long)j->c.config.shape.seq);
    if (!j->c.n_thread)
        j->c.n_thread = (uint64_t)sysconf(_SC_NPROCESSORS_ONLN);
    return 0;
}

static int eval(struct options *o, struct spot_saved_model *m, struct spot_corpus *corpus,
                struct spot_bpe **bpe, struct spot_err *err)
{
    const struct spot_trainer_options *const c = &o->job.c;
    const struct spot_shape *const shape = &c->config.shape;
    const struct spot_kernel *kernel;
    struct result r = { .rows = { 0 } };
    enum spot_format format;
    int rc;

    if (check(o, &format, err) || settle(o, m, bpe, err) ||
        !(kernel = spot_kernel_find(c->config.kernel, err)) || spot_shape_check(shape, err) ||
        spot_corpus_open_all(corpus, c->data, c->n_data, c->bpe, c->token_byte, shape->vocab,
                             err) ||
        (c->load && load_weights(o, shape, m, err)) ||
        count_bytes(corpus, *bpe ? *bpe : c->bpe, &r.n_byte, err) ||
        evaluate(o, m, corpus, kernel, format, &r, err))
        rc = -1;
    else
        rc = print(o, m, corpus, &r, spot_kernel_name(kernel), format, err);
    spot_buf_release(&r.rows);
    return rc;
}

/* The options; the table below fills them. */
static struct options o = { .job = JOB_OPTIONS_DEFAULT,
                            .common = SPOT_TOOL_COMMON_DEFAULT,
                            .batch = 1 };

static const struct spot_opt option_table[] = {
    { SPOT_OPT_GROUP, .help = "options" },
    SPOT_ROW_DATA(&o.job.data),
    SPOT_ROW_WEIGHTS(&o.job.c.load),
    SPOT_ROW_STATE(&o.state.dir),
    SPOT_ROW_STATE_COMMAND(&o.state.command),
    SPOT_ROW_STEP(&o.step),
    SPOT_ROW_TOKENIZER(&o.job.c.tokenizer),
    SPOT_ROW_TOKENS(&o.job.tokens),
    SPOT_U64("seq", &o.job.c.config.shape.seq, "T", "tokens per window (default: the model's)", 1,
             1 << 20),
    SPOT_U64("stride", &o.stride, "n", "distance between windows (default: --seq, no overlap)", 1,
             1 << 20),
    SPOT_FLAG("across", &o.across, "also predict the token after each window, as in training"),
    SPOT_U64("batch", &o.batch, "n", "windows per batch (default: 1)", 1, 4096),
    SPOT_ROW_THREADS(&o.job.c.n_thread),
    SPOT_ROW_DEVICE(&o.job.device),
    { SPOT_OPT_GROUP, .help = "common" },
    { SPOT_OPT_STRING, 'o', "output", &o.common.output, "file",
      "write here, complete or not at all (default: stdout)", 0, 0 },
    SPOT_TEXT("format", &o.common.format, "name",
              "table on a terminal, else json; csv: the loss of each token"),
    { SPOT_OPT_FLAG, 'q', "quiet", &o.common.quiet, NULL, "no warnings, no progress", 0, 0 },
    SPOT_FLAG("provenance", &o.common.provenance, "write made_by (default: yes; --no-provenance)"),
    { .type = SPOT_OPT_END },
};
static bool said[sizeof(option_table) / sizeof(option_table[0])];

static bool was_said(const char *name)
{
    for (size_t i = 0; option_table[i].type != SPOT_OPT_END; i++)
        if (option_table[i].long_name && !strcmp(option_table[i].long_name, name))
            return said[i];
    return false;
}

/* Unless given otherwise, the model determines the data, and all processors compute. */
static void prepare_eval(void)
{
    o.job.device = "cpu";
    o.job.tokens = NULL;
    o.job.c.n_thread = 0;
    o.state.timeout_s = derived("SPOT_TEST_STATE_TIMEOUT_S", SPOT_STATE_COMMAND_LIMIT_S);
}

static int run_eval(struct spot_err *err)
{
    struct spot_saved_model model = { .bundle = NULL };
    struct spot_corpus corpus = { .fd = -1 };
    struct spot_bpe *bpe = NULL;
    int rc;

    o.has_step = was_said("step");
    rc = eval(&o, &model, &corpus, &bpe, err);
    spot_corpus_release(&corpus);
    spot_bpe_free(o.job.c.bpe);
    spot_bpe_free(bpe);
    spot_saved_model_release(&model);
    free(o.job.data.item);
    return rc;
}

const struct spot_cli run_eval_command = {
    .name = "spot-run eval",
    .brief = "measure the loss of a corpus under a model",
    .reads = (const char *const[]){ "data", "tokenizer", "load", NULL },
    .writes = (const char *const[]){ "output", NULL },
    .given = said,
    .synopsis = "--data FILE... (--load DIR | --state DIR | --state-command CMD) [options]",
    .summary = "Measure loss, perplexity and bits per byte of a corpus under a model.",
    .examples = "  spot-run eval --data test.txt --load model --stride 512\n",
    .option = option_table,
    .common = &o.common,
    .prepare = prepare_eval,
    .run_alone = run_eval,
};
