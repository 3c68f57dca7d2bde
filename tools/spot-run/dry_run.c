/* SPDX-License-Identifier: MIT */
#include "dry_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

#include "cli/tool.h"
#include "common/json_writer.h"
#include "common/memory.h"
#include "common/prov.h"
#include "engine/kernel.h"
#include "model/job_doc.h"
#include "model/throughput.h"
#include "train/estimate.h"
#include "train/grid_choice.h"

/* 10 Gbit/s, as a coordinator takes it before anything moved. */
static const double usual_byte_per_s = 1.25e9;

/* What is written beside two generations that stay. */
enum { GENERATIONS = 3 };

struct told {
    struct spot_estimate e;
    double step_s;         /* 0: not known */
    const char *step_from; /* "profile", "layer" or "none" */
    double byte_per_s;
    const char *rate_from; /* "profile" or "assumed" */
    double node_byte;      /* of one member, by the profile; 0: not known */
    struct spot_job_doc job;
    uint64_t job_xxh3;
    bool has_job;
};

/* --- what is known ------------------------------------------------------------ */

/* The slope of what was measured between two members. */
static double rate_of(const struct spot_job_doc *job)
{
    const struct spot_job_cost *const c = &job->cost;
    const struct spot_job_xy *last, *first;

    if (c->n_p2p < 2)
        return 0;
    first = &c->p2p[0];
    last = &c->p2p[c->n_p2p - 1];
    return last->y > first->y ? (last->x - first->x) / (last->y - first->y) : 0;
}

/* A profile of another job tells nothing of this one. */
static int check_profile(const char *path, const struct spot_job_doc *job,
                         const struct spot_job_config *c, struct spot_err *err)
{
    const struct spot_shape *const s = &job->model.shape;

    if (job->kind != SPOT_JOB_TRAIN)
        return spot_err_set(err, SPOT_EDATA, "%s: /kind: expected \"train\"", path);
    if (job->global_batch != c->global_batch)
        return spot_err_set(err, SPOT_EDATA, "%s: /global_batch: expected %lld, got %lld", path,
                            (long long)c->global_batch, (long long)job->global_batch);
    if (s->n_layer && (s->n_layer != c->shape.n_layer || s->width != c->shape.width))
        return spot_err_set(err, SPOT_EDATA,
                            "%s: /model: expected %lld layers of width %lld, got %lld of %lld",
                            path, (long long)c->shape.n_layer, (long long)c->shape.width,
                            (long long)s->n_layer, (long long)s->width);
    return 0;
}

static int load_profile(struct told *t, const char *path, const struct spot_job_config *c,
                        struct spot_err *err)
{
    if (spot_job_doc_load(&t->job, path, err))
        return -1;
    t->has_job = true;
    t->job_xxh3 = t->job.json.hash;
    if (check_profile(path, &t->job, c, err))
        return -1;
    t->node_byte = t->job.memory.node_byte;
    if (rate_of(&t->job) > 0) {
        t->byte_per_s = rate_of(&t->job);
        t->rate_from = "profile";
    }
    return 0;
}

static int time_by_profile(struct told *t, const char *path, struct spot_err *err)
{
    const struct spot_grid *const g = &t->e.grid;
    struct spot_throughput table;
    double samples_per_s;

    if (g->M > 1)
        return spot_err_set(err, SPOT_EINFEASIBLE, "%s: plans do not support tensor groups", path);
    if (spot_throughput_init(&table, &t->job, (int)spot_grid_size(g), SPOT_THROUGHPUT_BOTH, err))
        return -1;
    samples_per_s = spot_throughput_at(&table, (int)g->D, (int)g->P);
    spot_throughput_release(&table);
    if (samples_per_s <= 0)
        return spot_err_set(err, SPOT_EINFEASIBLE, "%s has no speed for grid %lldx%lld", path,
                            (long long)g->D, (long long)g->P);
    t->step_s = (double)t->job.global_batch / samples_per_s;
    t->step_from = "profile";
    return 0;
}

/* --- does it fit? ---------------------------------------------------------------- */

static int refuse(struct spot_err *err, const char *what, double need_byte, double room_byte)
{
    return spot_err_set(err, SPOT_EINFEASIBLE, "%s needs %.3g GB, %.3g GB are available", what,
                        need_byte / 1e9, room_byte / 1e9);
}

/* Room on the disk of a directory that may not be there yet; infinite where it cannot be told. */
static double disk_byte(const char *path)
{
    char dir[4096];
    struct statvfs fs;
    char *slash;

    snprintf(dir, sizeof(dir), "%s", path);
    if (statvfs(dir, &fs)) {
        slash = strrchr(dir, '/');
        snprintf(slash ? slash + 1 : dir, 2, ".");
        if (statvfs(dir, &fs))
            return INFINITY;
    }
    return (double)fs.f_bavail * (double)fs.f_frsize;
}

static int check_fit(const struct told *t, const struct spot_coordinator_options *c,
                     struct spot_err *err)
{
    const double here_byte = (double)spot_memory_available();
    const struct spot_estimate *const e = &t->e;
    double most_byte = 0;

    for (int64_t p = 0; p < e->grid.P; p++)
        most_byte = fmax(most_byte, e->worker[p].total_byte);
    if (t->node_byte > 0 && most_byte > t->node_byte)
        return refuse(err, "a worker", most_byte, t->node_byte);
    if (c->n_local && e->all_byte > here_byte)
        return refuse(err, "the job with all its local workers", e->all_byte, here_byte);
    if (e->coordinator_byte > here_byte)
        return refuse(err, "the coordinator", e->coordinator_byte, here_byte);
    if (c->state && !c->state_command && GENERATIONS * e->generation_byte > disk_byte(c->state))
        return refuse(err, "--state on its disk", GENERATIONS * e->generation_byte,
                      disk_byte(c->state));
    return 0;
}

/* --- the document ------------------------------------------------------------------ */

static void put_worker(struct spot_jw *jw, const char *key, const struct spot_estimate_worker *w)
{
    spot_jw_object(jw, key);
    spot_jw_int(jw, "params", w->n_param);
    spot_jw_real(jw, "weights_byte", w->weights_byte);
    spot_jw_real(jw, "moments_byte", w->moments_byte);
    spot_jw_real(jw, "sums_byte", w->sums_byte);
    spot_jw_real(jw, "activations_byte", w->activation_byte);
    spot_jw_real(jw, "mirrors_byte", w->mirror_byte);
    spot_jw_real(jw, "transit_byte", w->transit_byte);
    spot_jw_real(jw, "process_byte", w->process_byte);
    spot_jw_real(jw, "total_byte", w->total_byte);
    spot_jw_end(jw);
}

static void put_grid(struct spot_jw *jw, const struct spot_grid *g)
{
    spot_jw_int(jw, "D", g->D);
    spot_jw_int(jw, "P", g->P);
    spot_jw_int(jw, "M", g->M);
}

static void put_moves(struct spot_jw *jw, const struct spot_estimate *e)
{
    spot_jw_array(jw, "moves");
    for (size_t i = 0; i < e->n_move; i++) {
        spot_jw_object(jw, NULL);
        spot_jw_str(jw, "kind", e->move[i].kind);
        put_grid(jw, &e->move[i].to);
        spot_jw_int(jw, "moved_byte", e->move[i].byte);
        spot_jw_real(jw, "move_s", e->move[i].move_s);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

static int print_json(const struct told *t, const struct dry_run *how, bool fits, uint64_t seed,
                      struct spot_err *err)
{
    const struct spot_estimate *const e = &t->e;
    struct spot_prov prov = { .tool = "spot-run train", .seed = seed };
    struct spot_jw jw;

    if (how->profile)
        spot_prov_add(&prov, strcmp(how->profile, "-") != 0 ? how->profile : "<stdin>",
                      t->job_xxh3);
    spot_jw_init(&jw, stdout, true);
    spot_jw_begin_doc(&jw, "spot.estimate", 1, &prov);
    put_grid(&jw, &e->grid);
    spot_jw_int(&jw, "members", e->n_member);
    spot_jw_int(&jw, "params", e->n_param);
    spot_jw_real(&jw, "state_byte", e->state_byte);
    spot_jw_bool(&jw, "fits", fits);
    if (t->step_s > 0)
        spot_jw_real(&jw, "step_s", t->step_s);
    spot_jw_str(&jw, "step_from", t->step_from);
    spot_jw_real(&jw, "link_byte_per_s", t->byte_per_s);
    spot_jw_str(&jw, "link_from", t->rate_from);
    spot_jw_array(&jw, "stages");
    for (int64_t p = 0; p < e->grid.P; p++)
        put_worker(&jw, NULL, &e->worker[p]);
    spot_jw_end(&jw);
    if (e->spare.n_param)
        put_worker(&jw, "spare", &e->spare);
    spot_jw_real(&jw, "coordinator_byte", e->coordinator_byte);
    spot_jw_real(&jw, "relay_byte", e->relay_byte);
    spot_jw_real(&jw, "all_byte", e->all_byte);
    put_moves(&jw, e);
    spot_jw_object(&jw, "generation");
    spot_jw_real(&jw, "generation_byte", e->generation_byte);
    spot_jw_real(&jw, "send_s", e->generation_s);
    spot_jw_end(&jw);
    spot_jw_end(&jw);
    spot_prov_release(&prov);
    return spot_jw_close(&jw, err);
}

/* --- for people ----------------------------------------------------------------------- */

static void print_worker(const char *what, const struct spot_estimate_worker *w)
{
    printf("%-10s %10.1f %9.1f %9.1f %9.1f %11.1f %9.1f %9.1f %9.1f\n", what,
           (double)w->n_param / 1e6, w->weights_byte / 1e6, w->moments_byte / 1e6,
           w->sums_byte / 1e6, w->activation_byte / 1e6, w->mirror_byte / 1e6,
           w->transit_byte / 1e6, w->total_byte / 1e6);
}

static void print_memory(const struct spot_estimate *e)
{
    char what[32];

    printf("\nmost memory of a worker, MB\n%-10s %10s %9s %9s %9s %11s %9s %9s %9s\n", "",
           "params/M", "weights", "moments", "sums", "activations", "mirrors", "transit", "all");
    for (int64_t p = 0; p < e->grid.P; p++) {
        snprintf(what, sizeof(what), "stage %lld", (long long)p);
        print_worker(what, &e->worker[p]);
    }
    if (e->spare.n_param)
        print_worker("a spare", &e->spare);
    printf("coordinator %.1f MB at most, %.1f MB more where workers do not see its --state; all "
           "processes %.1f MB\n",
           e->coordinator_byte / 1e6, e->relay_byte / 1e6, e->all_byte / 1e6);
}

static void print_text(const struct told *t)
{
    const struct spot_estimate *const e = &t->e;
    char grid[SPOT_GRID_TEXT];

    printf("grid %s of %lld members: %.2f M parameters, state %.1f MB\n",
           spot_grid_text(&e->grid, grid), (long long)e->n_member, (double)e->n_param / 1e6,
           e->state_byte / 1e6);
    if (t->step_s > 0)
        printf("a step takes %.4g s (%s)\n", t->step_s,
               !strcmp(t->step_from, "profile") ? "by the profile"
                                                : "from one layer computed here, no waits");
    else
        printf("the time of a step is unknown\n");
    print_memory(e);
    printf("\nmoves at %.4g MB/s (%s)\n", t->byte_per_s / 1e6, t->rate_from);
    for (size_t i = 0; i < e->n_move; i++)
        printf("%-16s to %-8s %10.1f MB %10.3f s\n", e->move[i].kind,
               spot_grid_text(&e->move[i].to, grid), (double)e->move[i].byte / 1e6,
               e->move[i].move_s);
    printf("a generation: %.1f MB, %.3f s to the coordinator where workers do not see --state\n",
           e->generation_byte / 1e6, e->generation_s);
}

/* --- the whole --------------------------------------------------------------------------- */

static struct spot_estimate_options options_of(const struct told *t, const struct dry_run *how,
                                               const struct spot_coordinator_options *c)
{
    struct spot_estimate_options o = { .config = &c->config,
                                       .grid = c->grid,
                                       .n_thread = (int)c->n_thread,
                                       .recompute = c->recompute,
                                       .no_buddies = c->no_buddies,
                                       .saves = c->save != NULL,
                                       .byte_per_s = t->byte_per_s };

    o.n_member = how->n_worker ? how->n_worker : spot_grid_size(&c->grid);
    o.n_member += !o.n_member;
    if (!o.grid.D)
        o.grid = spot_grid_choose((uint32_t)o.n_member, &o.grid, spot_job_microbatches(&c->config),
                                  spot_shape_bundles(&c->config.shape), c->config.shape.n_shard);
    return o;
}

static int tell(struct told *t, const struct dry_run *how, const struct spot_coordinator_options *c,
                struct spot_err *err)
{
    const bool is_json = how->format && !strcmp(how->format, "json");
    struct spot_estimate_options o;
    struct spot_err why = { 0 };
    int rc = 0;

    if (spot_job_config_check(&c->config, err) ||
        (how->profile && load_profile(t, how->profile, &c->config, err)))
        return -1;
    o = options_of(t, how, c);
    if (spot_estimate_init(&t->e, &o, err))
        return -1;
    if (check_fit(t, c, &why) == 0)
        rc = how->profile ? time_by_profile(t, how->profile, err)
                          : spot_estimate_step(&o, c->n_local ? o.n_member : 1, &t->step_s, err);
    if (rc)
        return -1;
    if (!how->profile && t->step_s > 0)
        t->step_from = "layer";
    if (is_json)
        rc = print_json(t, how, !why.code, c->config.seed, err);
    else
        print_text(t);
    return rc || !why.code ? rc : spot_err_set(err, why.code, "%s", why.msg);
}

int dry_run_print(const struct dry_run *how, const struct spot_coordinator_options *c,
                  struct spot_err *err)
{
    struct told t = { .byte_per_s = usual_byte_per_s, .step_from = "none", .rate_from = "assumed" };
    const int rc = tell(&t, how, c, err);

    spot_estimate_release(&t.e);
    if (t.has_job)
        spot_job_doc_release(&t.job);
    return rc;
}
