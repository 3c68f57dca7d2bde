/* SPDX-License-Identifier: MIT */
/* The time that each rank takes for a step. Ranks that wait for each other have the same pace, so
 * only times measured without waits (busy_s) show which rank is slow. */
#include <math.h>

#include "common/clock.h"
#include "host/exec_agent_state.h"

static const double tell_s = 1;         /* between two reports to the coordinator */
static const double newest_share = 0.2; /* weight of the newest step in the mean */

void spot_exec_beat(struct spot_exec_agent *e, int64_t rank, int64_t step, double own_s)
{
    struct spot_exec_pace *p;
    const double now_s = spot_clock_s();
    struct spot_err why;
    uint32_t local;
    double one_s;

    if (spot_exec_local_of(e, rank, &local, &why))
        return;
    p = &e->pace[local];
    if (p->is_own && isnan(own_s))
        return;
    if (!isnan(own_s) && !p->is_own)
        *p = (struct spot_exec_pace){ .is_own = true };
    if (p->at_s > 0 && step > p->step) {
        one_s = (isnan(own_s) ? now_s - p->at_s : own_s) / (double)(step - p->step);
        p->one_s = p->one_s > 0 ? (1 - newest_share) * p->one_s + newest_share * one_s : one_s;
        e->has_pace = true;
    }
    if (p->at_s > 0 && step == p->step)
        return; /* a data loader repeats its request */
    p->step = step;
    p->at_s = now_s;
}

int spot_exec_serve_beat(void *agent, const struct spot_rank_request *request,
                         struct spot_jw *answer, struct spot_err *err)
{
    struct {
        double busy_s;
    } said = { .busy_s = NAN };
    static const struct spot_field field[] = {
        { "busy_s", SPOT_F_REAL, 0, "s", 0, 1e9, false },
        { 0 },
    };
    uint32_t local;

    (void)answer;
    if (spot_json_read_fields(request->doc, request->doc->root, "", field, &said, err) ||
        spot_exec_local_of(agent, request->rank, &local, err))
        return -1;
    if (request->step < 0)
        return spot_err_set(err, SPOT_EDATA, "step: a beat must name the completed step");
    spot_exec_beat(agent, request->rank, request->step, said.busy_s);
    return 0;
}

int spot_exec_serve_samples(void *agent, const struct spot_rank_request *request,
                            struct spot_jw *answer, struct spot_err *err)
{
    struct spot_exec_agent *const e = agent;

    if (request->step >= 0)
        spot_exec_beat(e, request->rank, request->step, NAN);
    return spot_exec_ledger_serve(&e->ledger, request, answer, err);
}

void spot_exec_samples_gone(void *agent, uint64_t ticket)
{
    spot_exec_ledger_gone(&((struct spot_exec_agent *)agent)->ledger, ticket);
}

void spot_exec_pace_begin(struct spot_exec_agent *e)
{
    for (uint32_t i = 0; i < e->options->n_rank; i++)
        e->pace[i] = (struct spot_exec_pace){ 0 };
    e->has_pace = false;
}

int spot_exec_tell_pace(struct spot_exec_agent *e, struct spot_err *err)
{
    struct spot_buf out = { 0 };

    if (!e->has_pace || spot_clock_s() - e->paced_s < tell_s)
        return 0;
    e->has_pace = false;
    e->paced_s = spot_clock_s();
    spot_put_u32(&out, e->options->n_rank);
    for (uint32_t i = 0; i < e->options->n_rank; i++) {
        spot_put_u64(&out, (uint64_t)e->pace[i].step);
        spot_put_f64(&out, e->pace[i].one_s);
    }
    return spot_agent_send(&e->agent, SPOT_MSG_EXEC_PACE, 0, &out, err);
}
