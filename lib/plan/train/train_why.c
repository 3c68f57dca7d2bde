/* SPDX-License-Identifier: MIT */
#include "plan/train_why.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/xalloc.h"
#include "plan/train/train_score.h"

const char *spot_train_say(struct spot_train_plan *plan, const char *fmt, ...)
{
    char line[512];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    plan->text = spot_xgrow(plan->text, &plan->text_cap, plan->n_text + 1, sizeof(*plan->text));
    return plan->text[plan->n_text++] = spot_xstrdup(line);
}

void spot_train_because(struct spot_train_plan *plan, const char *sentence)
{
    plan->doc.why[plan->doc.n_why++] = sentence;
}

static const char *plural(long long n)
{
    return n == 1 ? "" : "s";
}

/* The probability that at least one instance is lost, and the mean number in that case. */
static double loss_dist(const struct spot_change_dist *dist, double *mean)
{
    double prob = 0;

    *mean = 0;
    for (size_t i = 0; i < dist->n_change; i++)
        if (dist->change[i].lost) {
            prob += dist->change[i].prob;
            *mean += dist->change[i].prob * dist->change[i].lost;
        }
    *mean = prob > 0 ? *mean / prob : 0;
    return prob;
}

static void reason_of_solver(struct spot_train_plan *plan, const struct spot_train_question *q)
{
    const struct spot_train_choice *c = &plan->choice[0];
    double mean;

    if (loss_dist(q->dist, &mean) <= 0 && q->solver == SPOT_SOLVER_LIVEPUT) {
        spot_train_because(
            plan, spot_train_say(plan, "%d x %d gives %.6g samples/s", c->d, c->p, c->raw));
        return;
    }
    if (q->solver == SPOT_SOLVER_LIVEPUT) {
        spot_train_because(
            plan,
            spot_train_say(plan,
                           "%d x %d gives %.6g samples/s undisturbed and %.6g expected with those "
                           "losses",
                           c->d, c->p, c->raw, c->samples_per_s));
        return;
    }
    spot_train_because(
        plan, spot_train_say(plan,
                             "%d x %d gives %.6g samples/s undisturbed and %.6g over the next %d "
                             "interval%s, later changes of the grid included and paid",
                             c->d, c->p, c->raw, c->samples_per_s, q->horizon, plural(q->horizon)));
    if (!q->current_d)
        spot_train_because(
            plan, spot_train_say(plan, "nothing runs now: the start itself is not charged"));
    else if (c->d == q->current_d && c->p == q->current_p && !q->leaving)
        spot_train_because(plan, spot_train_say(plan, "it runs already: nothing is paid"));
    else if (spot_train_missing(q))
        spot_train_because(
            plan, spot_train_say(
                      plan,
                      "coming from %d x %d with %d of its %d instances lost, any of them, costs "
                      "%.3g s, %.4g samples",
                      q->current_d, q->current_p, spot_train_missing(q),
                      q->current_d * q->current_p, c->cost_s, c->cost_s * c->raw));
    else
        spot_train_because(
            plan, spot_train_say(plan, "coming from %d x %d costs %.3g s, %.4g samples",
                                 q->current_d, q->current_p, c->cost_s, c->cost_s * c->raw));
}

static void reason_of_runner_up(struct spot_train_plan *plan, const struct spot_train_question *q)
{
    const struct spot_train_choice *c = &plan->choice[0];
    int d, p;
    const double fastest = spot_throughput_best(q->throughput, spot_train_staying(q), &d, &p);

    if (fastest <= c->raw * (1 + 1e-9)) {
        spot_train_because(plan,
                           spot_train_say(plan, "no grid of %d instance%s is faster",
                                          spot_train_staying(q), plural(spot_train_staying(q))));
        return;
    }
    for (size_t i = 1; i < plan->n_choice; i++)
        if (plan->choice[i].d == d && plan->choice[i].p == p) {
            spot_train_because(
                plan, spot_train_say(plan,
                                     "the fastest grid, %d x %d, gives %.6g undisturbed but %.6g "
                                     "expected%s",
                                     d, p, fastest, plan->choice[i].samples_per_s,
                                     q->solver == SPOT_SOLVER_LIVEPUT ? " with those losses" : ""));
            return;
        }
    spot_train_because(
        plan,
        spot_train_say(plan,
                       "the fastest grid, %d x %d, gives %.6g undisturbed but is not allowed: "
                       "spares or risk",
                       d, p, fastest));
}

static void reason_of_changes(struct spot_train_plan *plan, const struct spot_train_question *q)
{
    double mean, prob = loss_dist(q->dist, &mean), gain = 0;

    for (size_t i = 0; i < q->dist->n_change; i++)
        gain += q->dist->change[i].gained ? q->dist->change[i].prob : 0;
    if (prob > 0)
        spot_train_because(
            plan,
            spot_train_say(plan,
                           "the next %.6g s lose an instance with probability %.3g (then %.3g on "
                           "average)",
                           q->dist->interval_s, prob, mean));
    else if (gain > 0)
        spot_train_because(plan,
                           spot_train_say(plan, "the next %.6g s are expected to lose nothing",
                                          q->dist->interval_s));
    else
        spot_train_because(plan,
                           spot_train_say(plan, "nothing is expected to change in the next %.6g s",
                                          q->dist->interval_s));
}

/* True if grids of more than n instances have a known speed, possibly from the curve only. */
static bool knows_beyond(const struct spot_throughput *t, int n)
{
    for (int i = 0; i < t->n_grid; i++) {
        const int d = t->grid_order[i] / (t->p_max + 1), p = t->grid_order[i] % (t->p_max + 1);

        if (d * p > n && spot_throughput_at(t, d, p) > 0)
            return true;
    }
    return false;
}

const char *spot_train_source(const struct spot_train_question *q,
                              const struct spot_train_choice *c)
{
    static const char *const name[] = { [SPOT_SPEED_PROFILE] = "profile",
                                        [SPOT_SPEED_INTERPOLATED] = "interpolated",
                                        [SPOT_SPEED_EXTRAPOLATED] = "extrapolated",
                                        [SPOT_SPEED_CURVE] = "law" };

    return name[spot_throughput_from(q->throughput, c->d, c->p)];
}

/* How a speed is known, in words; "" if it was measured. */
const char *spot_train_by_what(const struct spot_train_question *q,
                               const struct spot_train_choice *c)
{
    static const char *const words[] = {
        [SPOT_SPEED_UNKNOWN] = "",
        [SPOT_SPEED_PROFILE] = "",
        [SPOT_SPEED_INTERPOLATED] = " by what was measured around it",
        [SPOT_SPEED_EXTRAPOLATED] = " if it goes on from what was measured",
        [SPOT_SPEED_CURVE] = " by the fitted curve",
    };

    return words[spot_throughput_from(q->throughput, c->d, c->p)];
}

/* Speeds that were not measured, and more instances than the profile has grids for. */
static void reason_of_profile(struct spot_train_plan *plan, const struct spot_train_question *q)
{
    static const char *const words[] = {
        [SPOT_SPEED_INTERPOLATED] = "lies between those measured around it",
        [SPOT_SPEED_EXTRAPOLATED] = "goes on from measured ones, at most in proportion",
        [SPOT_SPEED_CURVE] = "is that of the fitted curve, not a measured one",
    };
    const struct spot_train_choice *c = &plan->choice[0];
    const enum spot_speed_from from = spot_throughput_from(q->throughput, c->d, c->p);
    const int most = spot_job_profiled(q->job);

    if (c->d * c->p > most)
        spot_train_because(
            plan,
            spot_train_say(plan, "the profile ends at %d instance%s: the speed of %d x %d %s", most,
                           plural(most), c->d, c->p,
                           from == SPOT_SPEED_CURVE ? "is that of the fitted curve" : words[from]));
    else if (from != SPOT_SPEED_PROFILE)
        spot_train_because(
            plan, spot_train_say(plan, "the speed of %d x %d %s", c->d, c->p, words[from]));
    else if (spot_train_staying(q) > most && !knows_beyond(q->throughput, most))
        spot_train_because(
            plan,
            spot_train_say(plan, "the profile ends at %d instance%s: no larger grid is looked at",
                           most, plural(most)));
}

/* A curve is unreliable if it rests on few entries, or does not fit those it rests on. */
static void reason_of_caveat(struct spot_train_plan *plan, const struct spot_train_question *q)
{
    enum { POINTS_FEW = 3 };
    const struct spot_step_curve *curve = &q->throughput->curve;
    bool is_used = false, is_guessed = false;

    for (size_t i = 0; i < plan->n_choice; i++) {
        const enum spot_speed_from from =
            spot_throughput_from(q->throughput, plan->choice[i].d, plan->choice[i].p);

        is_used |= from == SPOT_SPEED_CURVE;
        is_guessed |= from == SPOT_SPEED_INTERPOLATED || from == SPOT_SPEED_EXTRAPOLATED;
    }
    if (is_used && (curve->n_point < POINTS_FEW || !spot_step_curve_is_trusted(curve))) {
        plan->caveat = spot_train_say(
            plan,
            "speeds by the fitted curve are doubtful: it rests on %zu profile entr%s "
            "and misses %s by up to %.0f %%",
            curve->n_point, curve->n_point == 1 ? "y" : "ies", curve->n_point == 1 ? "it" : "one",
            100 * curve->miss_max);
    } else if (is_guessed && curve->n_point < POINTS_FEW) {
        plan->caveat =
            spot_train_say(plan, "speeds that were not measured rest on %zu profile entr%s",
                           curve->n_point, curve->n_point == 1 ? "y" : "ies");
    } else if (is_guessed && curve->miss_max > 0.2) {
        const char *missed = spot_train_say(
            plan,
            "the fitted curve misses a measured grid by %.0f %%: it is not used, speeds that were "
            "not measured lie between those that were or go on from them",
            100 * curve->miss_max);

        if (curve->n_point >=
            /* with fewer entries the curve is a proportion, which may not fit */
            SPOT_CURVE_POINTS_MIN)
            plan->caveat = missed;
        else
            spot_train_because(plan, missed);
    }
    if (plan->caveat)
        spot_train_because(plan, plan->caveat);
}

/* Instances that no grid can use: a step has no microbatch for more pipelines, the model no bundle
 * for more stages. */
static void reason_of_idle(struct spot_train_plan *plan, const struct spot_train_question *q)
{
    const struct spot_train_choice *c = &plan->choice[0];
    const int idle = spot_train_staying(q) - c->d * c->p - q->spares_min;
    const int most_d = spot_job_pipelines_max(q->job), most_p = spot_job_stages_max(q->job);

    if (c->d == most_d && idle >= c->p)
        spot_train_because(
            plan,
            spot_train_say(plan,
                           "%d machine%s would idle: a step has %d microbatch%s, more than %d x %d "
                           "leaves pipelines without one",
                           idle, plural(idle), most_d, most_d == 1 ? "" : "es", c->d, c->p));
    else if (c->p == most_p && c->d < most_d && idle >= c->d && idle < c->p)
        spot_train_because(
            plan, spot_train_say(
                      plan, "%d machine%s would idle: the job has %d bundles, one for each stage",
                      idle, plural(idle), most_p));
}

static void reason_of_warm(struct spot_train_plan *plan, const struct spot_train_question *q)
{
    const struct spot_train_choice *c = &plan->choice[0];

    if (q->warm && !c->spares)
        spot_train_because(plan, spot_train_say(plan, "no spare is left to mirror stages"));
    else if (q->warm && !c->warm)
        spot_train_because(plan, spot_train_say(plan, "no spare mirrors a stage: what it would be "
                                                      "sent takes more than half of a step"));
    else if (c->warm)
        spot_train_because(
            plan, spot_train_say(plan,
                                 "%d warm spare%s: what %s sent takes %.3g %% of a step; when one "
                                 "instance is lost it saves %.3g s of transfers on average",
                                 c->warm, plural(c->warm), c->warm == 1 ? "it is" : "they are",
                                 100 * c->mirror_share, c->warm_saves_s));
}

void spot_train_why(struct spot_train_plan *plan, const struct spot_train_question *q)
{
    const struct spot_train_choice *c = &plan->choice[0];

    spot_train_because(plan,
                       spot_train_say(plan, "%d instance%s now; %d x %d uses %d and keeps %d spare",
                                      q->dist->now, plural(q->dist->now), c->d, c->p, c->d * c->p,
                                      c->spares));
    if (c->d * c->p > spot_train_staying(q))
        spot_train_because(plan,
                           spot_train_say(plan,
                                          "it waits for %d more; what is not there when it starts "
                                          "is cut to fewer pipelines",
                                          c->d * c->p - spot_train_staying(q)));
    reason_of_idle(plan, q);
    if (q->leaving)
        spot_train_because(plan, spot_train_say(plan, "%d of them %s under notice", q->leaving,
                                                q->leaving == 1 ? "is" : "are"));
    if (q->objective != SPOT_OBJECTIVE_SAMPLES && spot_train_staying(q) > c->d * c->p + c->spares)
        spot_train_because(plan, spot_train_say(plan, "%d machine%s not pay: let them go",
                                                spot_train_staying(q) - c->d * c->p - c->spares,
                                                spot_train_staying(q) - c->d * c->p - c->spares == 1
                                                    ? " does"
                                                    : "s do"));
    reason_of_changes(plan, q);
    reason_of_solver(plan, q);
    reason_of_warm(plan, q);
    if (c->break_prob > 0)
        spot_train_because(
            plan,
            spot_train_say(plan,
                           "with probability %.3g fewer than %d pipeline%s survive%s without a "
                           "transfer, with %.3g some stage loses %s replica%s",
                           c->break_prob, c->d, plural(c->d), c->d == 1 ? "s" : "", c->loss_prob,
                           c->d == 1 ? "its only" : "all its", plural(c->d)));
    reason_of_runner_up(plan, q);
    reason_of_profile(plan, q);
    reason_of_caveat(plan, q);
    if (q->throughput->curve.n_outlier)
        spot_train_because(
            plan,
            spot_train_say(plan, "%zu profile entr%s more than 1.4 times off the fitted curve",
                           q->throughput->curve.n_outlier,
                           q->throughput->curve.n_outlier == 1 ? "y is" : "ies are"));
}

/* The fewest instances of a grid whose speed is known. */
static int fewest_instances(const struct spot_throughput *t)
{
    int fewest = t->n_max, d, p;

    while (fewest > 1 && spot_throughput_best(t, fewest - 1, &d, &p) > 0)
        fewest--;
    return fewest;
}

void spot_train_why_suspend(struct spot_train_plan *plan, const struct spot_train_question *q)
{
    if (!plan->doc.n_why)
        spot_train_because(
            plan,
            spot_train_say(plan,
                           "suspend: %d instance%s now, %d to be kept spare, and the smallest grid "
                           "of known speed needs %d",
                           spot_train_staying(q), plural(spot_train_staying(q)), q->spares_min,
                           fewest_instances(q->throughput)));
    if (plan->doc.n_why == 1 && q->max_loss_prob < 1)
        spot_train_because(
            plan, spot_train_say(plan, "and none loses a whole stage with probability below %.3g",
                                 q->max_loss_prob));
    spot_train_because(
        plan, spot_train_say(plan, "the state stays safe; the job resumes when enough are back"));
}
