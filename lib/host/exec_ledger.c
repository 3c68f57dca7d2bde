/* SPDX-License-Identifier: MIT */
#include "host/exec_ledger.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/safe_dir.h"
#include "common/xalloc.h"

void spot_exec_ledger_init(struct spot_exec_ledger *l)
{
    *l = (struct spot_exec_ledger){ .ledger = spot_ledger_new() };
}

void spot_exec_ledger_release(struct spot_exec_ledger *l)
{
    spot_ledger_free(l->ledger);
    free(l->asker);
    *l = (struct spot_exec_ledger){ 0 };
}

void spot_exec_ledger_begin(struct spot_exec_ledger *l, int64_t n_local, int64_t world,
                            int64_t step)
{
    spot_ledger_begin(l->ledger, n_local, world, step);
}

static void propose(struct spot_exec_ledger *l, const struct spot_ledger_plan *plan)
{
    if (l->has_proposed)
        return;
    l->proposed = *plan;
    l->has_proposed = true;
}

/* --- requests of ranks --- */

static void wait_for_plan(struct spot_exec_ledger *l, uint64_t ticket,
                          const struct spot_ledger_question *question)
{
    l->asker = spot_xgrow(l->asker, &l->asker_cap, l->n_asker + 1, sizeof(*l->asker));
    l->asker[l->n_asker++] = (struct spot_exec_asker){ .ticket = ticket, .question = *question };
}

int spot_exec_ledger_serve(void *user, const struct spot_rank_request *request,
                           struct spot_jw *answer, struct spot_err *err)
{
    struct spot_exec_ledger *const l = user;
    struct spot_ledger_question question;
    struct spot_ledger_share share;

    if (*l->conflict)
        return spot_err_set(err, SPOT_EDATA, "%s", l->conflict);
    if (spot_ledger_question_read(&question, request->doc, spot_ledger_plan(l->ledger), err))
        return -1;
    if (spot_ledger_plan(l->ledger) || !question.has_plan) {
        if (spot_ledger_question_take(&question, l->ledger, &share, err))
            return -1;
        spot_ledger_question_answer(&question, l->ledger, &share, answer);
        return 0;
    }
    propose(l, &question.plan);
    wait_for_plan(l, request->ticket, &question);
    return 1;
}

void spot_exec_ledger_gone(void *user, uint64_t ticket)
{
    struct spot_exec_ledger *const l = user;

    for (size_t i = l->n_asker; i-- > 0;)
        if (l->asker[i].ticket == ticket)
            l->asker[i] = l->asker[--l->n_asker];
}

/* --- the plan of the job ------------------------------------------------------------- */

const struct spot_ledger_plan *spot_exec_ledger_news(struct spot_exec_ledger *l)
{
    if (!l->has_proposed || l->is_told)
        return NULL;
    l->is_told = true;
    return &l->proposed;
}

void spot_exec_ledger_tell_again(struct spot_exec_ledger *l)
{
    const struct spot_ledger_plan *const plan = spot_ledger_plan(l->ledger);

    l->is_told = false;
    if (plan) /* the same plan as that of the other nodes */
        l->proposed = *plan;
}

static void answer_late(struct spot_exec_ledger *l, struct spot_rank_socket *socket,
                        const struct spot_exec_asker *asker)
{
    struct spot_ledger_share share;
    struct spot_err err = { 0 };
    struct spot_jw *jw;

    if (spot_ledger_question_take(&asker->question, l->ledger, &share, &err)) {
        spot_rank_socket_refuse(socket, asker->ticket, err.msg);
        return;
    }
    jw = spot_rank_socket_begin(socket, asker->ticket);
    if (!jw)
        return; /* the client has disconnected, and repeats the request if it returns */
    spot_ledger_question_answer(&asker->question, l->ledger, &share, jw);
    spot_rank_socket_end(socket);
}

void spot_exec_ledger_agreed(struct spot_exec_ledger *l, struct spot_rank_socket *socket,
                             const struct spot_ledger_plan *plan)
{
    struct spot_err err = { 0 };

    if (spot_ledger_declare(l->ledger, plan, &err) && !*l->conflict)
        snprintf(l->conflict, sizeof(l->conflict), "the job has another plan: %.200s", err.msg);
    while (l->n_asker) {
        const struct spot_exec_asker asker = l->asker[--l->n_asker];

        if (*l->conflict)
            spot_rank_socket_refuse(socket, asker.ticket, l->conflict);
        else
            answer_late(l, socket, &asker);
    }
}

/* --- as part of a state --- */

static void put_plan(const struct spot_ledger_plan *plan, struct spot_jw *jw)
{
    spot_jw_object(jw, NULL);
    spot_jw_int(jw, "dataset_size", plan->n_sample);
    spot_jw_int(jw, "global_batch", plan->batch);
    spot_jw_int(jw, "seed", plan->seed);
    spot_jw_str(jw, "rest", spot_ledger_rest_name(plan->rest));
    spot_jw_str(jw, "order", plan->is_sequential ? "sequential" : "shuffled");
    spot_jw_end(jw);
}

int spot_exec_ledger_save(const struct spot_exec_ledger *l, int dir_fd, struct spot_err *err)
{
    const struct spot_ledger_plan *const plan = spot_ledger_plan(l->ledger);
    char *text = NULL;
    size_t n = 0;
    struct spot_jw jw;
    FILE *out;
    int rc;

    /* an existing file has this plan: it came with the state, or was written here */
    if (!plan || !faccessat(dir_fd, SPOT_EXEC_LEDGER_FILE, F_OK, AT_SYMLINK_NOFOLLOW))
        return 0;
    out = spot_xmemory_open(&text, &n);
    spot_jw_init(&jw, out, false);
    put_plan(plan, &jw);
    (void)spot_jw_close(&jw, NULL);
    spot_xmemory_close(out);
    rc = spot_safe_replace(dir_fd, SPOT_EXEC_LEDGER_FILE, text, n, true);
    free(text);
    return rc ? spot_err_sys(err, "cannot write '" SPOT_EXEC_LEDGER_FILE "'") : 0;
}

static int load_plan(struct spot_exec_ledger *l, FILE *in, struct spot_ledger_plan *plan,
                     struct spot_err *err)
{
    struct spot_json_doc doc;
    int rc;

    if (spot_json_load(&doc, in, SPOT_EXEC_LEDGER_FILE, err))
        return -1;
    rc = spot_ledger_plan_read(&doc, plan, err) <= 0 || spot_ledger_declare(l->ledger, plan, err);
    spot_json_release(&doc);
    return rc;
}

void spot_exec_ledger_load(struct spot_exec_ledger *l, int dir_fd)
{
    const int fd = spot_safe_open_file(dir_fd, SPOT_EXEC_LEDGER_FILE, NULL);
    FILE *const in = fd < 0 ? NULL : fdopen(fd, "r");
    struct spot_ledger_plan plan = { 0 };
    struct spot_err err = { 0 };

    if (!in) {
        if (fd >= 0)
            close(fd);
        return;
    }
    if (load_plan(l, in, &plan, &err))
        snprintf(l->conflict, sizeof(l->conflict),
                 "the state that this round goes on from has another plan: %.150s", err.msg);
    else
        propose(l, &plan);
    fclose(in);
}

/* --- on the wire ----------------------------------------------------------------------- */

void spot_exec_put_plan(struct spot_buf *out, const struct spot_ledger_plan *plan)
{
    spot_put_i64(out, plan->n_sample);
    spot_put_i64(out, plan->batch);
    spot_put_i64(out, plan->seed);
    spot_put_u8(out, (uint8_t)plan->rest);
    spot_put_u8(out, plan->is_sequential);
}

void spot_exec_get_plan(struct spot_wire_in *in, struct spot_ledger_plan *plan)
{
    uint8_t rest;

    plan->n_sample = spot_get_i64(in);
    plan->batch = spot_get_i64(in);
    plan->seed = spot_get_i64(in);
    rest = spot_get_u8(in);
    plan->rest = rest < SPOT_LEDGER_RESTS ? (enum spot_ledger_rest)rest : SPOT_LEDGER_WRAP;
    plan->is_sequential = spot_get_u8(in);
    if (rest >= SPOT_LEDGER_RESTS || spot_ledger_plan_check(plan, NULL))
        in->bad = true;
}
