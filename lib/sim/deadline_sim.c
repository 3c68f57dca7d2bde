/* SPDX-License-Identifier: MIT */
#include "sim/deadline_sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

const char *const spot_deadline_policy_name[SPOT_DEADLINE_POLICIES] = {
    "on-demand", "greedy",    "uniform-progress", "uniform-no-hysteresis",
    "spot",      "known-law", "offline",
};
const char *const spot_deadline_policy_about[SPOT_DEADLINE_POLICIES] = {
    "on demand from the start",
    "spot where it is, on demand when the deadline asks for it",
    "keeps work in step with time (Can't Be Late)",
    "the same, back to spot at once",
    "least expected cost under run lengths learnt so far",
    "the same under the run lengths of the whole trace, which nobody knows",
    "least cost with the whole trace known",
};

static const double CELLS = 1 << 24; /* what one plan of many may take: some 0.1 s */

struct player {
    const struct spot_deadline_play *play;
    enum spot_deadline_policy policy;
    struct spot_run_count count;
    struct spot_deadline_table table;
    int64_t solved_at;   /* tick; -1: not yet */
    const uint8_t *mode; /* of the offline optimum */
};

static bool has_spot(const struct spot_deadline_play *play, size_t tick)
{
    return tick < play->n && play->has_spot[tick];
}

static void count_runs(struct spot_run_count *count, const struct spot_deadline_play *play,
                       size_t end)
{
    *count = (struct spot_run_count){ 0 };
    for (size_t i = 0; i < end; i++)
        spot_run_count_add(count, play->has_spot[i]);
}

static int solve(struct player *p, const struct spot_deadline_now *now, int64_t tick,
                 struct spot_err *err)
{
    const bool is_known = p->policy == SPOT_DEADLINE_PLAY_KNOWN;
    const struct spot_deadline_effort effort = { is_known ? 0 : p->play->learn_ticks, CELLS };
    struct spot_run_count all;
    struct spot_run_dist dist;

    count_runs(&all, p->play, p->play->n);
    spot_run_dist_learn_zone(&dist, is_known ? &all : &p->count, p->play->job.tick_s);
    spot_deadline_release(&p->table);
    p->solved_at = tick;
    return spot_deadline_solve(&p->table, &p->play->job, &dist, now, spot_run_stage(p->count.age),
                               &effort, err);
}

static int decide(struct player *p, const struct spot_deadline_now *now, int64_t tick,
                  enum spot_deadline_mode *want, struct spot_err *err)
{
    const struct spot_deadline_job *job = &p->play->job;
    const int64_t learn = p->policy == SPOT_DEADLINE_PLAY_SPOT ? p->play->learn_ticks : 0;

    switch (p->policy) {
    case SPOT_DEADLINE_PLAY_GREEDY:
        *want = spot_deadline_follow(SPOT_DEADLINE_GREEDY, job, now);
        return 0;
    case SPOT_DEADLINE_PLAY_UNIFORM:
        *want = spot_deadline_follow(SPOT_DEADLINE_UNIFORM, job, now);
        return 0;
    case SPOT_DEADLINE_PLAY_NO_HYSTERESIS:
        *want = spot_deadline_follow(SPOT_DEADLINE_UNIFORM_NO_HYSTERESIS, job, now);
        return 0;
    case SPOT_DEADLINE_PLAY_SPOT:
    case SPOT_DEADLINE_PLAY_KNOWN:
        if ((p->solved_at < 0 || (learn && tick - p->solved_at >= learn)) &&
            solve(p, now, tick, err))
            return -1;
        *want = spot_deadline_ask(&p->table, job, now, spot_run_stage(p->count.age));
        return 0;
    case SPOT_DEADLINE_PLAY_OFFLINE:
        *want = p->mode[tick];
        return 0;
    case SPOT_DEADLINE_PLAY_ON_DEMAND:
    case SPOT_DEADLINE_POLICIES:
        break;
    }
    *want = SPOT_DEADLINE_ON_DEMAND;
    return 0;
}

static int play_all(struct player *p, struct spot_deadline_result *r, uint8_t *mode,
                    struct spot_err *err)
{
    const struct spot_deadline_play *play = p->play;
    struct spot_deadline_now now = { .left_s = play->job.work_s };
    size_t launches = 0;

    for (int64_t tick = 0; now.left_s > 1e-6; tick++) {
        const size_t at = play->start + (size_t)tick;
        enum spot_deadline_mode want, held;

        now.has_spot = has_spot(play, at);
        spot_run_count_add(&p->count, now.has_spot);
        if (now.mode == SPOT_DEADLINE_SPOT && !now.has_spot)
            now.mode = SPOT_DEADLINE_IDLE;
        held = now.mode;
        if (decide(p, &now, tick, &want, err))
            return -1;
        launches += want != SPOT_DEADLINE_IDLE && want != held;
        r->usd += spot_deadline_step(&play->job, &now, want);
        if (mode && at < play->n)
            mode[tick] = (uint8_t)want;
    }
    r->finish_s = now.elapsed_s;
    r->is_late = now.elapsed_s > play->job.deadline_s * (1 + 1e-12);
    r->switches = launches ? launches - 1 : 0;
    return 0;
}

/* The series from the start on, with nothing behind its end. */
static int know_all(struct player *p, uint8_t **plan, struct spot_err *err)
{
    const struct spot_deadline_now now = { .left_s = p->play->job.work_s };
    const size_t ticks = (size_t)spot_deadline_ticks(&p->play->job, &now);
    uint8_t *up = spot_xcalloc(ticks, 1);
    double usd;

    *plan = spot_xcalloc(ticks, 1);
    for (size_t i = 0; i < ticks; i++)
        up[i] = has_spot(p->play, p->play->start + i);
    usd = spot_deadline_offline(&p->play->job, up, ticks, *plan);
    free(up);
    p->mode = *plan;
    return isnan(usd) ? spot_err_set(
                            err, SPOT_EUSAGE,
                            "the offline optimum requires whole seconds of work, tick and restart")
                      : 0;
}

int spot_deadline_play_run(const struct spot_deadline_play *play, enum spot_deadline_policy policy,
                           struct spot_deadline_result *result, uint8_t *mode, struct spot_err *err)
{
    const struct spot_deadline_now start = { .left_s = play->job.work_s };
    struct player p = { .play = play, .policy = policy, .solved_at = -1 };
    uint8_t *plan = NULL;
    int rc;

    memset(result, 0, sizeof(*result));
    if (spot_deadline_check(&play->job, &start, err))
        return -1;
    count_runs(&p.count, play, play->start);
    rc = policy == SPOT_DEADLINE_PLAY_OFFLINE ? know_all(&p, &plan, err) : 0;
    rc = rc ? rc : play_all(&p, result, mode, err);
    spot_deadline_release(&p.table);
    free(plan);
    return rc;
}
