/* SPDX-License-Identifier: MIT */
/* spot-run roll: deploys another version of the model to a running server. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/rows.h"
#include "cli/tool.h"
#include "cluster/client.h"
#include "comm/wire.h"
#include "common/clock.h"
#include "model/status_doc.h"
#include "run.h"
#include "serve/serve_protocol.h"

static struct {
    const char *join, *key_file;
    double timeout_s;
    bool is_quiet;
} o;

static const struct spot_opt option[] = {
    { SPOT_OPT_GROUP, .help = "options" },
    SPOT_ROW_JOIN(&o.join),
    SPOT_ROW_KEY_FILE(&o.key_file),
    SPOT_ROW_REACH(&o.timeout_s),
    { SPOT_OPT_FLAG, 'q', "quiet", &o.is_quiet, NULL, "do not show progress", 0, 0 },
    { .type = SPOT_OPT_END },
};

/* Writes the path so that workers in other directories can use it. */
static int put_dir(const char *dir, struct spot_buf *out, struct spot_err *err)
{
    char here[4096], path[8192];

    if (*dir == '/') {
        spot_put_text(out, dir);
        return 0;
    }
    if (!getcwd(here, sizeof(here)))
        return spot_err_sys(err, "cannot determine the working directory");
    snprintf(path, sizeof(path), "%s/%s", here, dir);
    spot_put_text(out, path);
    return 0;
}

static int ask(const char *dir, struct spot_err *err)
{
    struct spot_buf question = { 0 }, answer = { 0 };
    int rc = put_dir(dir, &question, err);

    if (!rc)
        rc = spot_client_ask(o.join, o.key_file, o.timeout_s, (enum spot_message)SPOT_MSG_ROLL,
                             question.data, question.n, &answer, err);
    if (rc > 0)
        rc = spot_err_set(err, rc == 1 ? SPOT_EINFEASIBLE : SPOT_EDATA, "refused: %.*s",
                          (int)answer.n, (const char *)answer.data);
    spot_buf_release(&question);
    spot_buf_release(&answer);
    return rc;
}

static void tell(const struct spot_status_rollout *rollout)
{
    static char before[160];
    char line[160];

    snprintf(line, sizeof(line),
             "%lld replicas have the new version, %lld do not; %lld requests of the old version "
             "are running",
             (long long)rollout->replicas, (long long)rollout->replicas_left,
             (long long)rollout->requests_left);
    if (!o.is_quiet && strcmp(line, before) != 0)
        spot_tool_note("%s", line);
    memcpy(before, line, sizeof(before));
}

/* Returns 1 while the rollout is in progress, 0 when all replicas have the version, or -1 with
 * *err. */
static int judge(const struct spot_status_rollout *rollout, struct spot_err *err)
{
    const char *const state = rollout->state;

    if (!state)
        return spot_err_set(err, SPOT_ESYS, "the server has no record of this roll");
    if (!strcmp(state, "rolling"))
        tell(rollout);
    if (!strcmp(state, "reading") || !strcmp(state, "rolling"))
        return 1;
    if (!strcmp(state, "done"))
        return 0;
    return spot_err_set(err, SPOT_EINFEASIBLE, "%s: %s", state, rollout->why);
}

/* A server that was killed meanwhile continues from its journal, so it is looked for again. */
static int look(struct spot_err *err)
{
    struct spot_buf answer = { 0 };
    struct spot_status status;
    int rc =
        spot_client_ask(o.join, o.key_file, o.timeout_s, SPOT_MSG_STATUS, NULL, 0, &answer, err);

    if (!rc)
        rc = spot_status_parse(&status, (const char *)answer.data, answer.n, "status", err);
    if (!rc) {
        rc = judge(&status.rollout, err);
        spot_status_release(&status);
    }
    spot_buf_release(&answer);
    return rc;
}

static int run_roll(char **operand, size_t n, struct spot_err *err)
{
    int rc;

    if (!n)
        return spot_err_set(err, SPOT_EUSAGE, "the directory of the model is missing");
    rc = ask(operand[0], err);
    if (rc)
        return rc;
    while ((rc = look(err)) > 0)
        spot_clock_sleep(0.2);
    return rc;
}

const struct spot_cli run_roll_command = {
    .name = "spot-run roll",
    .brief = "give a running server another version of its model",
    .n_operand_max = 1,
    .required = (const struct spot_opt_required[]){ { "join", "the address of the server" },
                                                    { NULL, NULL } },
    .synopsis = "--join ADDR [--key-file FILE] DIR",
    .summary = "Give a running server another version of its model, replica by replica; a request "
               "ends on the version it began on.",
    .examples = "  spot-run roll --join unix:/tmp/job models/v2\n",
    .option = option,
    .run = run_roll,
};
