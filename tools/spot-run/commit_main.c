/* SPDX-License-Identifier: MIT */
/* spot-run commit - run inside the COMMAND of spot-run exec: commits the contents of
 * SPOT_STATE_DIR. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/tool.h"
#include "common/json.h"
#include "host/rank_ask.h"
#include "host/rank_socket.h"
#include "run.h"

static struct {
    uint64_t step;
    double timeout_s;
    bool durable, all_ranks, is_quiet;
} o = { .step = RANK_UNSAID, .timeout_s = 600 };

static const double answer_s = 5; /* extra time for an answer that says why it took too long */

static const struct spot_opt option[] = {
    SPOT_U64("step", &o.step, "n", "number of the step (default: the next one)", 0,
             9007199254740992.0),
    SPOT_FLAG("durable", &o.durable, "wait until another node holds it too"),
    SPOT_FLAG("all-ranks", &o.all_ranks,
              "all ranks have files of their own: wait until each has called this"),
    SPOT_SECS("timeout", &o.timeout_s, "time",
              "time limit for the other ranks and the coordinator (default: 10m)", 0, 1e7),
    { SPOT_OPT_FLAG, 'q', "quiet", &o.is_quiet, NULL, "do not print the step", 0, 0 },
    { .type = SPOT_OPT_END },
};

/* --- the request ----------------------------------------------------------------------------- */

static int compose(char *line, size_t n, struct spot_err *err)
{
    uint64_t rank, round;
    struct spot_jw jw;
    FILE *out;

    if (rank_variable("RANK", RANK_UNSAID, &rank, err) ||
        rank_variable("TORCHELASTIC_RESTART_COUNT", RANK_UNSAID, &round, err))
        return -1;
    out = fmemopen(line, n, "w");
    if (!out)
        return spot_err_sys(err, "no memory");
    spot_jw_init(&jw, out, false);
    spot_jw_object(&jw, NULL);
    spot_jw_str(&jw, "op", "commit");
    rank_put(&jw, "rank", rank);
    rank_put(&jw, "round", round);
    rank_put(&jw, "step", o.step);
    spot_jw_real(&jw, "wait_s", o.timeout_s);
    if (!o.all_ranks)
        spot_jw_bool(&jw, "alone", true);
    if (o.durable)
        spot_jw_bool(&jw, "durable", true);
    spot_jw_end(&jw);
    fclose(out); /* it fits, since it contains no text of the user */
    return 0;
}

struct answer {
    const char *error;
    int64_t step;
    bool durable;
};

static const struct spot_field answer_field[] = {
    { "error", SPOT_F_STR, offsetof(struct answer, error), NULL, 0, 0, false },
    { "step", SPOT_F_INT, offsetof(struct answer, step), "1", 0, 0, false },
    { "durable", SPOT_F_BOOL, offsetof(struct answer, durable), NULL, 0, 0, false },
    { 0 },
};

static int read_answer(const struct spot_buf *line, struct spot_err *err)
{
    struct answer a = { .durable = true };
    struct spot_json_doc doc;
    int rc;

    if (spot_json_parse(&doc, (const char *)line->data, line->n, "answer", err))
        return -1;
    rc = spot_json_read_fields(&doc, doc.root, "", answer_field, &a, err);
    if (!rc && a.error)
        rc = spot_err_set(err, SPOT_EINFEASIBLE, "not committed: %.400s", a.error);
    else if (!rc && o.durable && !a.durable)
        rc = spot_err_set(err, SPOT_EINFEASIBLE,
                          "step %lld is committed, but there is no other node to hold it",
                          (long long)a.step);
    else if (!rc && !o.is_quiet && (printf("%lld\n", (long long)a.step) < 0 || fflush(stdout)))
        rc = spot_err_sys(err, "cannot write output");
    spot_json_release(&doc);
    return rc;
}

static int run_commit(struct spot_err *err)
{
    const char *const path = getenv(SPOT_SOCKET_ENV);
    struct spot_buf answer = { 0 };
    char line[4096];
    int rc;

    if (!path || !*path)
        return spot_err_set(err, SPOT_EUSAGE,
                            "SPOT_SOCKET is not set: run this in a rank of spot-run exec");
    signal(SIGPIPE, SIG_IGN);
    if (compose(line, sizeof(line), err))
        return -1;
    rc = spot_rank_ask(path, line, strlen(line), o.timeout_s + answer_s, &answer, err) ||
                 read_answer(&answer, err)
             ? -1
             : 0;
    spot_buf_release(&answer);
    return rc;
}

const struct spot_cli run_commit_command = {
    .name = "spot-run commit",
    .brief = "in a rank of exec: commit what lies in SPOT_STATE_DIR",
    .synopsis = "[options]",
    .summary = "Commit the files in SPOT_STATE_DIR of this node, for all ranks of spot-run exec.",
    .examples = "  spot-run commit --step 40\n",
    .option = option,
    .run_alone = run_commit,
};
