/* SPDX-License-Identifier: MIT */
/* Prints which samples a step reads: asks the agent in a rank of exec, or computes it here. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/rows.h"
#include "cli/tool.h"
#include "common/json.h"
#include "common/num.h"
#include "common/xalloc.h"
#include "host/ledger_answer.h"
#include "host/ledger_audit.h"
#include "host/rank_ask.h"
#include "host/rank_socket.h"
#include "run.h"

static const uint64_t unsaid = RANK_UNSAID;
static const double limit_s = 600; /* limit for an answer: a node may be without a coordinator */

static struct {
    uint64_t step, dataset_size, global_batch, seed;
    const char *rest, *order, *format;
    bool has_ranges, is_check;
} o = {
    .step = UINT64_MAX, .dataset_size = UINT64_MAX, .global_batch = UINT64_MAX, .seed = UINT64_MAX
};

static const struct spot_opt option[] = {
    { SPOT_OPT_GROUP, .help = "step" },
    SPOT_U64("step", &o.step, "n",
             "step to read, counted from 0 (default: the first not yet taken)", 0,
             9007199254740992.0),
    { SPOT_OPT_GROUP, .help = "plan, declared for the whole job by the first request" },
    SPOT_U64("dataset-size", &o.dataset_size, "n", "number of samples in the dataset", 1,
             9007199254740992.0),
    SPOT_ROW_SAMPLES(&o.global_batch),
    SPOT_U64("seed", &o.seed, "n", "seed of the order of each epoch (default: 0)", 0,
             9007199254740992.0),
    SPOT_TEXT("rest", &o.rest, "name",
              "last batch of an epoch: wrap, drop or short (default: wrap)"),
    SPOT_TEXT("order", &o.order, "name",
              "order of an epoch: shuffled or sequential (default: shuffled)"),
    { SPOT_OPT_GROUP, .help = "more" },
    SPOT_TEXT("format", &o.format, "name",
              "json: the agent's answer; csv: a row per sample (default: json)"),
    SPOT_FLAG("ranges", &o.has_ranges, "print positions in the order of the epoch, not samples"),
    SPOT_FLAG("check", &o.is_check, "count lost and repeated samples in a log of exec --events"),
    { .type = SPOT_OPT_END },
};

/* --- the request --- */

/* What the environment of a rank provides. */
struct place {
    uint64_t rank, world, round;
};

int rank_variable(const char *name, uint64_t usual, uint64_t *value, struct spot_err *err)
{
    const char *const text = getenv(name);
    double number;

    *value = usual;
    if (!text || !*text)
        return 0;
    if (spot_num_parse(text, &number) || number < 0 || number > UINT32_MAX ||
        number != (double)(uint64_t)number)
        return spot_err_set(err, SPOT_EUSAGE, "%s: expected a whole number, got '%.40s'", name,
                            text);
    *value = (uint64_t)number;
    return 0;
}

void rank_put(struct spot_jw *jw, const char *key, uint64_t value)
{
    if (value != unsaid)
        spot_jw_int(jw, key, (int64_t)value);
}

static void write_question(struct spot_jw *jw, const struct place *place)
{
    spot_jw_object(jw, NULL);
    spot_jw_str(jw, "op", "samples");
    rank_put(jw, "step", o.step);
    rank_put(jw, "rank", place->rank);
    rank_put(jw, "world", place->world);
    rank_put(jw, "round", place->round);
    rank_put(jw, "dataset_size", o.dataset_size);
    rank_put(jw, "global_batch", o.global_batch);
    rank_put(jw, "seed", o.seed);
    if (o.rest)
        spot_jw_str(jw, "rest", o.rest);
    if (o.order)
        spot_jw_str(jw, "order", o.order);
    if (o.has_ranges)
        spot_jw_bool(jw, "list", false);
    spot_jw_end(jw);
}

/* --- the answer --- */

/* The same request and answer without an agent. */
static int answer_here(const char *text, size_t n, struct spot_jw *jw, struct spot_err *err)
{
    struct spot_ledger *const ledger = spot_ledger_new();
    struct spot_ledger_question question;
    struct spot_ledger_share share;
    struct spot_json_doc doc;
    int rc = spot_json_parse(&doc, text, n, "question", err);

    spot_ledger_begin(ledger, 1, SPOT_LEDGER_WORLD_MAX, -1);
    if (!rc)
        rc = spot_ledger_question_read(&question, &doc, NULL, err);
    if (!rc)
        rc = spot_ledger_question_take(&question, ledger, &share, err);
    if (!rc) {
        spot_jw_object(jw, NULL);
        spot_jw_bool(jw, "ok", true);
        spot_ledger_question_answer(&question, ledger, &share, jw);
        spot_jw_end(jw);
    } else if (err->code == SPOT_EDATA) {
        err->code = SPOT_EUSAGE; /* the cause is the command line */
    }
    spot_json_release(&doc);
    spot_ledger_free(ledger);
    return rc;
}

static int answer_there(const char *path, const char *text, size_t n, struct spot_buf *answer,
                        struct spot_err *err)
{
    struct spot_json_doc doc;
    const struct spot_json_value *wrong;
    int rc;

    signal(SIGPIPE, SIG_IGN); /* the agent may leave; nothing else is written before its answer */
    rc = spot_rank_ask(path, text, n, limit_s, answer, err);
    signal(SIGPIPE, SIG_DFL);
    if (rc || spot_json_parse(&doc, (const char *)answer->data, answer->n, "answer", err))
        return -1;
    wrong = spot_json_get(doc.root, "error");
    if (wrong)
        rc = spot_err_set(err, SPOT_EINFEASIBLE, "%.400s",
                          spot_json_is_string(wrong) ? spot_json_text(wrong) : "refused");
    spot_json_release(&doc);
    return rc;
}

/* --- output --- */

static int print_rows(const struct spot_json_doc *doc, struct spot_err *err)
{
    const struct spot_json_value *const ranges = spot_json_get(doc->root, "ranges");
    const struct spot_json_value *const samples = spot_json_get(doc->root, "samples");
    const struct spot_json_value *range;
    size_t n = 0, i;

    printf("step,epoch,position%s\n", samples ? ",sample" : "");
    spot_json_array_foreach(ranges, i, range)
    {
        const int64_t to = spot_json_integer(spot_json_get(range, "to"));

        for (int64_t at = spot_json_integer(spot_json_get(range, "from")); at < to; at++, n++) {
            printf("%lld,%lld,%lld", (long long)spot_json_integer(spot_json_get(doc->root, "step")),
                   (long long)spot_json_integer(spot_json_get(range, "epoch")), (long long)at);
            if (samples)
                printf(",%lld", (long long)spot_json_integer(spot_json_entry(samples, n)));
            putchar('\n');
        }
    }
    return ferror(stdout) ? spot_err_sys(err, "cannot write output") : 0;
}

static int print_answer(const struct spot_buf *answer, struct spot_err *err)
{
    struct spot_json_doc doc;
    int rc = 0;

    if (!o.format || !strcmp(o.format, "json")) {
        if (fwrite(answer->data, 1, answer->n, stdout) != answer->n || putchar('\n') == EOF)
            rc = spot_err_sys(err, "cannot write output");
        return rc;
    }
    if (spot_json_parse(&doc, (const char *)answer->data, answer->n, "answer", err))
        return -1;
    rc = print_rows(&doc, err);
    spot_json_release(&doc);
    return rc;
}

/* --- the command --- */

static int ask(const char *text, size_t n, struct spot_buf *answer, struct spot_err *err)
{
    const char *const path = getenv(SPOT_SOCKET_ENV);
    char *here = NULL;
    size_t n_here = 0;
    struct spot_jw jw;
    FILE *out;
    int rc;

    if (path)
        return answer_there(path, text, n, answer, err);
    if (o.step == unsaid)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--step is missing: there is no agent to count steps");
    out = spot_xmemory_open(&here, &n_here);
    spot_jw_init(&jw, out, false);
    rc = answer_here(text, n, &jw, err);
    spot_xmemory_close(out);
    spot_buf_add(answer, here, n_here);
    free(here);
    return rc;
}

static int check_log(const char *path, struct spot_err *err)
{
    struct spot_ledger_audit a;
    const char *source;
    FILE *const in = spot_tool_open(path, &source, err);
    char epochs[SPOT_NUM_TEXT];
    int rc;

    if (!in)
        return -1;
    rc = spot_ledger_audit(in, source, &a, err);
    if (in != stdin)
        fclose(in);
    if (rc)
        return -1;
    if (!a.has_plan)
        return spot_err_set(err, SPOT_EDATA, "%s: no rank asked for samples in this log", source);
    printf("steps,commits,samples,epochs,lost,repeated,done_again\n");
    printf("%lld,%lld,%lld,%s,%lld,%lld,%lld\n", (long long)(a.steps - a.first),
           (long long)a.commits, (long long)a.samples, spot_num_format(a.epochs, epochs),
           (long long)a.lost_samples, (long long)a.repeated_samples,
           (long long)(a.rolled_back * a.plan.batch));
    return a.lost || a.repeated
               ? spot_err_set(err, SPOT_EINFEASIBLE, "%s: %lld samples are lost, %lld repeated",
                              source, (long long)a.lost_samples, (long long)a.repeated_samples)
               : 0;
}

static int run_ledger(char **operand, size_t n, struct spot_err *err)
{
    struct place place;
    struct spot_buf answer = { 0 };
    char question[1024];
    struct spot_jw jw;
    FILE *out;
    int rc;

    if (o.is_check)
        return check_log(n ? operand[0] : "-", err);
    if (n)
        return spot_err_set(err, SPOT_EUSAGE, "'%.200s': only --check reads a file", operand[0]);
    if (rank_variable("RANK", 0, &place.rank, err) ||
        rank_variable("WORLD_SIZE", 1, &place.world, err) ||
        rank_variable("TORCHELASTIC_RESTART_COUNT", unsaid, &place.round, err))
        return -1;
    out = fmemopen(question, sizeof(question), "w");
    if (!out)
        return spot_err_sys(err, "no memory");
    spot_jw_init(&jw, out, false);
    write_question(&jw, &place);
    fclose(out); /* it fits, since it contains no text of the user */
    rc = ask(question, strlen(question), &answer, err);
    if (!rc)
        rc = print_answer(&answer, err);
    spot_buf_release(&answer);
    return rc;
}

const struct spot_cli run_ledger_command = {
    .name = "spot-run ledger",
    .brief = "the samples of a step of any trainer, each once an epoch",
    .choice = (const struct spot_opt_choice[]){ { "rest", "wrap|drop|short" },
                                                { "order", "shuffled|sequential" },
                                                { "format", "json|csv" },
                                                { NULL, NULL } },
    .n_operand_max = 1,
    .synopsis = "[--step N] [--dataset-size N --global-batch N] [options] | --check LOG",
    .summary = "Print the samples that a step of any trainer reads, each once an epoch.",
    .examples = "  spot-run ledger --step 7 --dataset-size 50000 --global-batch 256 | jq .samples\n"
                "  RANK=0 WORLD_SIZE=2 spot-run ledger --step 3 --dataset-size 10 \\\n"
                "      --global-batch 4 --format csv\n"
                "  spot-run ledger --check events.jsonl\n",
    .option = option,
    .run = run_ledger,
};
