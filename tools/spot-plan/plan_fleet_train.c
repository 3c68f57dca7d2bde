/* SPDX-License-Identifier: MIT */
/* spot-plan fleet --kind train - a job, a goal and a catalogue in, instances out. */
#include "plan_fleet.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/table.h"
#include "common/json.h"
#include "common/out.h"
#include "model/job_async.h"
#include "model/job_doc.h"
#include "model/throughput.h"
#include "peers/spotdnn.h"
#include "plan/fleet_train.h"

enum { WHY_MAX = 12, WHY_TEXT = 256, ELSE_MAX = 3, SYNC_MAX = 512 };

/* A plan and its expected values; for a synchronous job iterations are 0. */
struct choice {
    int64_t count[SPOT_DNN_TYPES_MAX];
    double time_s, usd, usd_per_h, samples_per_s, iterations, norm_batch;
    bool is_there;
    const char *why;
};

struct session {
    const struct plan_fleet_train *o;
    enum { OURS, CODE, PAPER } solver;
    struct spot_job_async async;
    struct spot_job_doc job; /* of a synchronous job */
    struct spot_throughput throughput;
    struct train_offers offers;
    struct spot_dnn_type type[SPOT_DNN_TYPES_MAX];
    struct spot_dnn_job dnn;
    struct spot_sync_offer sync_offer[SPOT_SYNC_OFFERS_MAX];
    struct spot_sync_job sync;
    double samples_per_s[SYNC_MAX + 1];
    struct choice best, other[ELSE_MAX];
    struct spot_prov prov;
    char why[WHY_MAX][WHY_TEXT];
    size_t n_why;
};

static bool is_async(const struct session *s)
{
    return s->async.n_type > 0;
}

/* --- input --- */

static const struct spot_job_async_type *find_type(const struct session *s, const char *name)
{
    for (size_t i = 0; i < s->async.n_type; i++)
        if (!strcmp(s->async.type[i].instance_type, name))
            return &s->async.type[i];
    return NULL;
}

static bool runs(const char *type, void *user)
{
    const struct session *s = user;

    if (is_async(s))
        return find_type(s, type) != NULL;
    return !s->job.instance_type || !strcmp(s->job.instance_type, type);
}

static int check_goal(const struct session *s, struct spot_err *err)
{
    const struct plan_fleet_train *o = s->o;

    if (is_async(s) && o->samples > 0)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--samples has no effect with an 'async' job: --loss says when it is "
                            "done");
    if (!is_async(s) && (o->loss > 0 || o->loss_now > 0))
        return spot_err_set(err, SPOT_EUSAGE,
                            "--loss has no effect: %s has no 'async'; give --samples", o->job);
    if (is_async(s) && !(o->loss > 0))
        return spot_err_set(err, SPOT_EUSAGE, "--loss is needed, the goal of the training");
    if (is_async(s) && o->loss_now > 0 && o->loss_now <= o->loss)
        return spot_err_set(err, SPOT_EINFEASIBLE, "the loss is %g already: nothing to run",
                            o->loss_now);
    if (is_async(s) && o->loss_now > 0 && !(o->loss_now > s->async.gamma5))
        return spot_err_set(err, SPOT_EUSAGE, "--loss-now %g is not above gamma5 %g", o->loss_now,
                            s->async.gamma5);
    if (is_async(s) && s->solver == PAPER && !(s->async.gamma4 > 0))
        return spot_err_set(err, SPOT_EDATA, "%s: /async: spotdnn-paper needs gamma4", o->job);
    if (!is_async(s) && s->solver != OURS)
        return spot_err_set(err, SPOT_EDATA, "%s: the job has no 'async': spotDNN has no step law",
                            o->job);
    if (!is_async(s) && !(o->samples > 0))
        return spot_err_set(err, SPOT_EUSAGE,
                            "--samples is needed: %s has no 'async', so no loss says when it is "
                            "done",
                            o->job);
    return 0;
}

static int load_job(struct session *s, struct spot_err *err)
{
    if (spot_job_async_load(&s->async, s->o->job, err))
        return -1;
    if (is_async(s)) {
        spot_prov_add(&s->prov, s->async.json.source, s->async.json.hash);
        return 0;
    }
    if (!strcmp(s->o->job, "-"))
        return spot_err_set(err, SPOT_EUSAGE,
                            "--job -: a job without 'async' has to be a file that is read twice");
    if (spot_job_doc_load(&s->job, s->o->job, err))
        return -1;
    spot_prov_add(&s->prov, s->job.json.source, s->job.json.hash);
    return 0;
}

static void set_dnn(struct session *s)
{
    const struct spot_job_async *a = &s->async;
    const double mb = 1e6;

    s->dnn = (struct spot_dnn_job){
        .param = a->param_byte / mb,
        .b_req = a->worker_byte_per_s / mb,
        .b_ps = a->server_byte_per_s / mb,
        .b_pcie = s->solver == CODE ? 0 : a->pcie_byte_per_s / mb,
        .alpha = a->alpha,
        .beta = a->beta,
        .gamma = { a->gamma1, a->gamma2, a->gamma3, a->gamma4, a->gamma5 },
        .is_paper = s->solver != CODE && a->gamma4 > 0,
        .type = s->type,
        .n_type = s->offers.n,
    };
    if (s->solver == OURS) {
        s->dnn.restart_s = s->o->restart_s;
        s->dnn.loss_now = s->o->loss_now;
    }
    for (size_t k = 0; k < s->offers.n; k++) {
        const struct train_offer *offer = &s->offers.offer[k];
        const struct spot_job_async_type *t = find_type(s, offer->type);
        const double alone_s =
            2 * s->dnn.param / s->dnn.b_req +
            (s->dnn.b_pcie > 0 ? 2 * (double)t->gpus * s->dnn.param / s->dnn.b_pcie : 0);
        const double up =
            s->solver == OURS ? spot_fleet_up_share(offer->loss_per_h, s->o->restart_s) : 1;

        s->type[k] = (struct spot_dnn_type){
            .usd_per_h = offer->usd_per_h,
            .comp_s = s->solver == CODE && t->comp_s > 0 ? t->comp_s : fmax(0, t->iter_s - alone_s),
            .batch = t->batch_per_gpu * (double)t->gpus,
            .iter_s = t->iter_s,
            .gpus = t->gpus,
            .quota = offer->quota,
            .up_share = up,
            .held = offer->held,
        };
    }
}

static int set_sync(struct session *s, struct spot_err *err)
{
    int64_t room = 0;
    int n_max;

    for (size_t k = 0; k < s->offers.n; k++) {
        const struct train_offer *offer = &s->offers.offer[k];

        room += offer->quota;
        s->sync_offer[k] = (struct spot_sync_offer){ offer->usd_per_h, offer->loss_per_h,
                                                     offer->quota, offer->held };
    }
    n_max = (int)(room < SYNC_MAX ? room : SYNC_MAX);
    if (spot_throughput_init(&s->throughput, &s->job, n_max ? n_max : 1, SPOT_THROUGHPUT_BOTH, err))
        return -1;
    for (int n = 1; n <= n_max; n++) {
        int d, p;

        s->samples_per_s[n] = spot_throughput_best(&s->throughput, n, &d, &p);
    }
    s->sync = (struct spot_sync_job){
        .samples = s->o->samples,
        .restart_s = s->o->restart_s,
        .samples_per_s = s->samples_per_s,
        .n_max = n_max,
        .offer = s->sync_offer,
        .n_offer = s->offers.n,
    };
    return 0;
}

/* --- the answer --- */

static void take_dnn(struct session *s, struct choice *c, int rc,
                     const struct spot_dnn_speed *speed, const char *why)
{
    c->is_there = !rc;
    c->why = why;
    c->time_s = speed->time_s;
    c->usd = speed->usd;
    c->samples_per_s = speed->samples_per_s;
    c->iterations = speed->iterations;
    c->norm_batch = speed->norm_batch;
    for (size_t k = 0; k < s->offers.n; k++)
        c->usd_per_h += (double)c->count[k] * s->type[k].usd_per_h;
}

static void choose_dnn(struct session *s)
{
    int (*const search[])(const struct spot_dnn_job *, double, double, int64_t *,
                          struct spot_dnn_speed *) = { spot_dnn_best, spot_dnn_window,
                                                       spot_dnn_algorithm1 };
    const double loss = s->o->loss, deadline_s = s->o->deadline_s;
    struct spot_dnn_speed speed;
    struct spot_dnn_type kept[SPOT_DNN_TYPES_MAX];
    int rc = search[s->solver](&s->dnn, loss, deadline_s, s->best.count, &speed);

    take_dnn(s, &s->best, rc, &speed, NULL);
    if (rc || s->solver != OURS)
        return;
    rc = spot_dnn_window(&s->dnn, loss, deadline_s, s->other[0].count, &speed);
    take_dnn(s, &s->other[0], rc, &speed, "spotDNN's window of the sorted instances");
    memcpy(kept, s->type, sizeof(kept));
    for (size_t k = 0; k < s->offers.n; k++) /* without spot */
        s->type[k].quota = s->offers.offer[k].is_spot ? 0 : kept[k].quota;
    rc = spot_dnn_best(&s->dnn, loss, deadline_s, s->other[1].count, &speed);
    take_dnn(s, &s->other[1], rc, &speed, "on demand only");
    memcpy(s->type, kept, sizeof(kept));
    rc = spot_dnn_fastest(&s->dnn, loss, s->other[2].count, &speed);
    take_dnn(s, &s->other[2], rc, &speed, "the fastest");
}

static void take_sync(struct choice *c, int rc, const struct spot_sync_speed *speed,
                      const char *why)
{
    c->is_there = !rc;
    c->why = why;
    c->time_s = speed->time_s;
    c->usd = speed->usd;
    c->usd_per_h = speed->usd_per_h;
    c->samples_per_s = speed->samples_per_s;
}

static void choose_sync(struct session *s)
{
    struct spot_sync_offer kept[SPOT_SYNC_OFFERS_MAX];
    const double deadline_s = s->o->deadline_s;
    struct spot_sync_speed speed;
    int rc = spot_sync_best(&s->sync, deadline_s, s->best.count, &speed);

    take_sync(&s->best, rc, &speed, NULL);
    if (rc)
        return;
    memcpy(kept, s->sync_offer, sizeof(kept));
    for (size_t k = 0; k < s->offers.n; k++)
        s->sync_offer[k].quota = s->offers.offer[k].is_spot ? 0 : kept[k].quota;
    rc = spot_sync_best(&s->sync, deadline_s, s->other[0].count, &speed);
    take_sync(&s->other[0], rc, &speed, "on demand only");
    memcpy(s->sync_offer, kept, sizeof(kept));
    rc = spot_sync_best(&s->sync, 1.001 * spot_sync_earliest(&s->sync, deadline_s),
                        s->other[1].count, &speed);
    take_sync(&s->other[1], rc, &speed, "the fastest");
}

static int say_infeasible(const struct session *s, struct spot_err *err)
{
    const double most_s = 1e30, deadline_s = s->o->deadline_s;
    int64_t count[SPOT_DNN_TYPES_MAX];
    struct spot_dnn_speed fastest;
    double earliest_s, lowest;

    if (!is_async(s)) {
        earliest_s = spot_sync_earliest(&s->sync, most_s);
        if (isinf(earliest_s))
            return spot_err_set(err, SPOT_EINFEASIBLE, "no fleet within the quotas runs the job");
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "no fleet within the quotas ends in %.6g s: a deadline of %.10g s "
                            "would do, or %.4g samples",
                            deadline_s, ceil(earliest_s),
                            floor(s->o->samples * deadline_s / earliest_s));
    }
    if (!(s->o->loss > s->async.gamma5))
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "the loss never falls to %g: it nears gamma5, %g, from above",
                            s->o->loss, s->async.gamma5);
    if (s->solver != OURS)
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "spotDNN's search finds no plan that ends in %.6g s; --solver spot "
                            "tries all plans",
                            deadline_s);
    if (spot_dnn_fastest(&s->dnn, s->o->loss, count, &fastest))
        return spot_err_set(err, SPOT_EINFEASIBLE, "no plan within the quotas reaches the loss %g",
                            s->o->loss);
    earliest_s = fastest.time_s;
    lowest = spot_dnn_lowest(&s->dnn, s->o->loss, deadline_s);
    if (isinf(lowest))
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "no plan within the quotas reaches a loss of %g in %.6g s: a deadline "
                            "of %.0f s would do",
                            s->o->loss, deadline_s, ceil(earliest_s));
    return spot_err_set(err, SPOT_EINFEASIBLE,
                        "no plan within the quotas reaches a loss of %g in %.6g s: a deadline of "
                        "%.0f s would do, or a loss of %.4g",
                        s->o->loss, deadline_s, ceil(earliest_s), lowest);
}

static void explain(struct session *s)
{
    static const char *const how[] = { "of all plans within the quotas none is cheaper",
                                       "spotDNN's released search over windows: not all plans",
                                       "spotDNN's Algorithm 1: not all plans" };
    int64_t joins = 0, leaves = 0;

    snprintf(s->why[s->n_why++], WHY_TEXT, "%s", how[s->solver]);
    if (is_async(s))
        snprintf(s->why[s->n_why++], WHY_TEXT,
                 "%.0f iterations of %.1f samples at %.1f samples/s%s", s->best.iterations,
                 s->best.norm_batch, s->best.samples_per_s,
                 s->dnn.is_paper || s->solver == CODE
                     ? ""
                     : "; no gamma4: all fleets of a size count as equally even");
    else
        snprintf(s->why[s->n_why++], WHY_TEXT, "%.1f samples/s, the pauses after losses included",
                 s->best.samples_per_s);
    for (size_t k = 0; k < s->offers.n && s->solver == OURS; k++) {
        const struct train_offer *offer = &s->offers.offer[k];

        joins += s->best.count[k] > offer->held ? s->best.count[k] - offer->held : 0;
        leaves += s->best.count[k] < offer->held ? offer->held - s->best.count[k] : 0;
        if (s->best.count[k] && offer->loss_per_h > 0 && s->n_why < WHY_MAX - 3)
            snprintf(s->why[s->n_why++], WHY_TEXT,
                     "each %.40s on spot is lost %.3g times an hour and computes %.1f %% of the "
                     "time",
                     offer->type, offer->loss_per_h,
                     100 * spot_fleet_up_share(offer->loss_per_h, s->o->restart_s));
    }
    if (s->o->current && s->solver == OURS)
        snprintf(s->why[s->n_why++], WHY_TEXT, "%lld join and %lld leave what runs now",
                 (long long)joins, (long long)leaves);
    snprintf(s->why[s->n_why++], WHY_TEXT, "ends %.0f s before the deadline",
             s->o->deadline_s - s->best.time_s);
}

/* --- output --- */

static void write_buy(struct spot_jw *jw, const struct session *s, const struct choice *c)
{
    spot_jw_array(jw, "buy");
    for (size_t k = 0; k < s->offers.n; k++) {
        if (!c->count[k])
            continue;
        spot_jw_object(jw, NULL);
        spot_jw_str(jw, "zone", s->offers.offer[k].zone);
        spot_jw_str(jw, "instance_type", s->offers.offer[k].type);
        spot_jw_str(jw, "market", s->offers.offer[k].is_spot ? "spot" : "on-demand");
        spot_jw_int(jw, "count", c->count[k]);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

static void write_expected(struct spot_jw *jw, const struct choice *c)
{
    spot_jw_object(jw, "expected");
    spot_jw_real(jw, "usd", c->usd);
    spot_jw_real(jw, "time_s", c->time_s);
    spot_jw_real(jw, "usd_per_h", c->usd_per_h);
    spot_jw_real(jw, "samples_per_s", c->samples_per_s);
    if (c->iterations > 0)
        spot_jw_real(jw, "iterations", c->iterations);
    spot_jw_end(jw);
}

static int write_json(const struct session *s, FILE *out, struct spot_err *err)
{
    struct spot_jw jw;

    spot_jw_init(&jw, out, true);
    spot_jw_begin_doc(&jw, "spot.plan", 1, &s->prov);
    spot_jw_str(&jw, "kind", "fleet");
    if (is_async(s) ? s->async.name : s->job.name)
        spot_jw_str(&jw, "job", is_async(s) ? s->async.name : s->job.name);
    write_buy(&jw, s, &s->best);
    write_expected(&jw, &s->best);
    if (s->solver == OURS) { /* all plans were tried */
        spot_jw_real(&jw, "bound", s->best.usd);
        spot_jw_real(&jw, "gap", 0);
    }
    spot_jw_array(&jw, "why");
    for (size_t i = 0; i < s->n_why; i++)
        spot_jw_str(&jw, NULL, s->why[i]);
    spot_jw_end(&jw);
    spot_jw_array(&jw, "alternatives");
    for (size_t i = 0; i < ELSE_MAX; i++) {
        const struct choice *c = &s->other[i];

        if (!c->is_there)
            continue;
        spot_jw_object(&jw, NULL);
        write_buy(&jw, s, c);
        spot_jw_real(&jw, "usd", c->usd);
        spot_jw_real(&jw, "time_s", c->time_s);
        spot_jw_str(&jw, "why", c->why);
        spot_jw_end(&jw);
    }
    spot_jw_end(&jw);
    spot_jw_end(&jw);
    return spot_jw_close(&jw, err);
}

static void print_table(const struct session *s, FILE *out)
{
    struct spot_table table;

    spot_table_init(&table, "zone,instance_type,market,count#,usd/h#");
    for (size_t k = 0; k < s->offers.n; k++) {
        const struct train_offer *offer = &s->offers.offer[k];

        if (!s->best.count[k])
            continue;
        spot_table_add(&table, "%s %s %s %lld %.4f", offer->zone, offer->type,
                       offer->is_spot ? "spot" : "on-demand", (long long)s->best.count[k],
                       (double)s->best.count[k] * offer->usd_per_h);
    }
    spot_table_print(&table, out, SPOT_FORMAT_TABLE);
    spot_table_release(&table);
    fprintf(out, "\n%.4f usd in %.2f h\n", s->best.usd, s->best.time_s / 3600);
    for (size_t i = 0; i < s->n_why; i++)
        fprintf(out, "%s\n", s->why[i]);
    for (size_t i = 0; i < ELSE_MAX; i++)
        if (s->other[i].is_there)
            fprintf(out, "%s: %.4f usd in %.2f h\n", s->other[i].why, s->other[i].usd,
                    s->other[i].time_s / 3600);
}

static int write_plan(const struct session *s, enum spot_format format, struct spot_err *err)
{
    struct spot_out out;
    int rc = 0;

    if (spot_out_open(&out, s->o->common->output, err))
        return -1;
    if (format == SPOT_FORMAT_TABLE)
        print_table(s, out.file);
    else
        rc = write_json(s, out.file, err);
    return spot_out_finish(&out, rc, err);
}

static int prepare(struct session *s, struct spot_err *err)
{
    const size_t most = is_async(s) ? SPOT_DNN_TYPES_MAX : SPOT_SYNC_OFFERS_MAX;

    if (check_goal(s, err) || train_offers_read(&s->offers, &s->prov, err))
        return -1;
    if (s->offers.n > most)
        return spot_err_set(err, SPOT_EDATA,
                            "%s: %zu offers are of the job's types, and %zu are the most: name "
                            "fewer zones, or one --market",
                            s->o->catalogue, s->offers.n, most);
    if (!is_async(s))
        return set_sync(s, err);
    set_dnn(s);
    return 0;
}

static int run(struct session *s, struct spot_err *err)
{
    enum spot_format format;

    if (spot_format_parse(s->o->common->format, &format, err))
        return -1;
    format = spot_format_settle(format, s->o->common->output, SPOT_FORMAT_JSON);
    if (load_job(s, err) || prepare(s, err))
        return -1;
    (is_async(s) ? choose_dnn : choose_sync)(s);
    if (!s->best.is_there)
        return say_infeasible(s, err);
    explain(s);
    if (s->o->explain && !s->o->common->quiet && format != SPOT_FORMAT_TABLE)
        for (size_t i = 0; i < s->n_why; i++)
            fprintf(stderr, "%s\n", s->why[i]);
    return write_plan(s, format, err);
}

int plan_fleet_train(const struct plan_fleet_train *options, struct spot_err *err)
{
    struct session s = {
        .o = options,
        .solver = !strcmp(options->solver, "spotdnn-code")    ? CODE
                  : !strcmp(options->solver, "spotdnn-paper") ? PAPER
                                                              : OURS,
        .prov = { .tool = "spot-plan",
                  .seed = options->common->seed,
                  .is_off = !options->common->provenance },
    };
    int rc;

    s.offers = (struct train_offers){ .options = options, .runs = runs, .user = &s };
    rc = run(&s, err);
    train_offers_release(&s.offers);
    spot_throughput_release(&s.throughput);
    spot_job_doc_release(&s.job);
    spot_job_async_release(&s.async);
    spot_prov_release(&s.prov);
    return rc;
}
