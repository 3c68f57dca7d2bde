/* SPDX-License-Identifier: MIT */
#include "job_options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cli/tool.h"
#include "common/json_writer.h"
#include "common/memory.h"
#include "common/prov.h"
#include "engine/kernel.h"
#include "train/estimate.h"
#include "train/grid_choice.h"

/* 10 Gbit/s, which a coordinator assumes before anything was transferred. */
static const double assumed_byte_per_s = 1.25e9;

/* Two generations are kept, and another is being written. */
enum { GENERATIONS = 3 };

struct told {
    struct spot_estimate e;
    double step_s; /* 0: not known */
};

/* --- does it fit? ---------------------------------------------------------------- */

static int refuse(struct spot_err *err, const char *what, double need_byte, double room_byte)
{
    return spot_err_set(err, SPOT_EINFEASIBLE, "%s needs %.3g GB, %.3g GB are available", what,
                        need_byte / 1e9, room_byte / 1e9);
}

/* Free space on the disk of a directory that may not exist yet; infinite if unknown. */
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

static int check_fit(const struct told *t, const struct spot_trainer_options *c,
                     struct spot_err *err)
{
    const double here_byte = (double)spot_memory_available();
    const struct spot_estimate *const e = &t->e;

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

static int print_json(const struct told *t, bool fits, uint64_t seed, struct spot_err *err)
{
    const struct spot_estimate *const e = &t->e;
    struct spot_prov prov = { .tool = "spot-run train", .seed = seed };
    struct spot_jw jw;

    spot_jw_init(&jw, stdout, true);
    spot_jw_begin_doc(&jw, "spot.estimate", 1, &prov);
    put_grid(&jw, &e->grid);
    spot_jw_int(&jw, "members", e->n_member);
    spot_jw_int(&jw, "params", e->n_param);
    spot_jw_real(&jw, "state_byte", e->state_byte);
    spot_jw_bool(&jw, "fits", fits);
    if (t->step_s > 0)
        spot_jw_real(&jw, "step_s", t->step_s);
    spot_jw_real(&jw, "link_byte_per_s", assumed_byte_per_s);
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
        printf("a step takes %.4g s (from one layer computed here, no waits)\n", t->step_s);
    else
        printf("the time of a step is unknown\n");
    print_memory(e);
    printf("\nmoves at %.4g MB/s (assumed)\n", assumed_byte_per_s / 1e6);
    for (size_t i = 0; i < e->n_move; i++)
        printf("%-16s to %-8s %10.1f MB %10.3f s\n", e->move[i].kind,
               spot_grid_text(&e->move[i].to, grid), (double)e->move[i].byte / 1e6,
               e->move[i].move_s);
    printf("a generation: %.1f MB, %.3f s to the coordinator where workers do not see --state\n",
           e->generation_byte / 1e6, e->generation_s);
}

/* --- the command --- */

static struct spot_estimate_options options_of(const struct spot_trainer_options *c,
                                               int64_t n_worker)
{
    struct spot_estimate_options o = { .config = &c->config,
                                       .grid = c->grid,
                                       .n_thread = (int)c->n_thread,
                                       .recompute = c->recompute,
                                       .no_buddies = c->no_buddies,
                                       .saves = c->save != NULL,
                                       .byte_per_s = assumed_byte_per_s };

    o.n_member = n_worker ? n_worker : spot_grid_size(&c->grid);
    o.n_member += !o.n_member;
    if (!o.grid.D)
        o.grid = spot_grid_choose((uint32_t)o.n_member, &o.grid, spot_job_microbatches(&c->config),
                                  spot_shape_bundles(&c->config.shape), c->config.shape.n_shard);
    return o;
}

static int estimate(struct told *t, const struct spot_trainer_options *c, int64_t n_worker,
                    struct spot_err *err)
{
    struct spot_estimate_options o;
    struct spot_err why = { 0 };
    int rc = 0;

    if (spot_job_config_check(&c->config, err))
        return -1;
    o = options_of(c, n_worker);
    if (spot_estimate_init(&t->e, &o, err))
        return -1;
    if (check_fit(t, c, &why) == 0 &&
        spot_estimate_step(&o, c->n_local ? o.n_member : 1, &t->step_s, err))
        return -1;
    if (isatty(STDOUT_FILENO))
        print_text(t);
    else
        rc = print_json(t, !why.code, c->config.seed, err);
    return rc || !why.code ? rc : spot_err_set(err, why.code, "%s", why.msg);
}

int dry_run_print(const struct spot_trainer_options *c, int64_t n_worker, struct spot_err *err)
{
    struct told t = { .step_s = 0 };
    const int rc = estimate(&t, c, n_worker, err);

    spot_estimate_release(&t.e);
    return rc;
}
