/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700 /* st_mtim */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/json_writer.h"
#include "engine/kernel.h"
#include "model/plan_doc.h"
#include "train/trainer_state.h"

int spot_coord_check_grid(const struct spot_coord *c, const struct spot_degrees *grid,
                          const char *what, enum spot_code code, struct spot_err *err)
{
    if (grid->D > c->n_microbatch || grid->P > (uint32_t)c->n_bundle)
        return spot_err_set(err, code,
                            "%s: the job has %lld microbatches in a step and %d bundles to make "
                            "stages of",
                            what, (long long)c->n_microbatch, c->n_bundle);
    if (c->config.shape.n_shard % grid->M)
        return spot_err_set(err, code, "%s: M = %u does not divide the job's %lld shards", what,
                            (unsigned)grid->M, (long long)c->config.shape.n_shard);
    if (grid->M > 1 && !spot_kernel_shares_stages(c->config.kernel))
        return spot_err_set(err, SPOT_EINFEASIBLE,
                            "%s: M > 1 wants kernel cuda-bf16-tp or cuda-fp32-tp, not %s", what,
                            c->config.kernel);
    return 0;
}

/* Take a plan over. *changed: another grid is wanted than before. */
int spot_coord_plan_text(struct spot_coord *c, const char *text, size_t n_byte, const char *source,
                         enum spot_plan_way way, bool *changed, struct spot_err *err)
{
    double *const newest_s = &c->plan_time_s[way == SPOT_PLAN_FILE ? way : SPOT_PLAN_PUSHED];
    struct spot_degrees want;
    struct spot_plan_doc plan;
    char grid[SPOT_DEGREES_TEXT], what[SPOT_DEGREES_TEXT + 24];
    int rc = -1;

    *changed = false;
    if (spot_plan_doc_parse(&plan, text, n_byte, source, err))
        return -1;
    if (plan.epoch >= 0 && plan.epoch < (int64_t)c->machine.epoch) {
        spot_err_set(err, SPOT_EINFEASIBLE, "the plan is for epoch %lld, the job is at epoch %u",
                     (long long)plan.epoch, (unsigned)c->machine.epoch);
        goto out;
    }
    if (plan.time_s < *newest_s && way != SPOT_PLAN_FORCED) {
        spot_err_set(err, SPOT_EINFEASIBLE,
                     "the plan is of time %g s, one of %g s came before it; spot-run replan "
                     "--force gives it all the same",
                     plan.time_s, *newest_s);
        goto out;
    }
    want = (struct spot_degrees){ (uint32_t)plan.next.d, (uint32_t)plan.next.p,
                                  plan.next.m > 1 ? (uint32_t)plan.next.m : 1 };
    snprintf(what, sizeof(what), "the plan wants %s", spot_degrees_text(&want, grid));
    if (spot_coord_check_grid(c, &want, what, SPOT_EINFEASIBLE, err))
        goto out;
    if (plan.time_s > *newest_s) /* one that is forced lets nothing older in after it */
        *newest_s = plan.time_s;
    c->has_plan = true;
    c->force_time_s = plan.time_s;
    *changed = c->is_suspended != spot_plan_doc_is_suspend(&plan) || c->want.D != want.D ||
               c->want.P != want.P || c->want.M != want.M;
    c->is_suspended = spot_plan_doc_is_suspend(&plan);
    c->want = want;
    rc = 0;
out:
    spot_plan_doc_release(&plan);
    return rc;
}

static int read_plan(struct spot_coord *c, bool *changed, struct spot_err *err)
{
    struct stat st;
    FILE *in;
    char *text;
    size_t n;
    int rc;

    if (!stat(c->options->plan, &st) && !S_ISREG(st.st_mode)) /* a pipe would stop the job */
        return spot_err_set(err, SPOT_EUSAGE, "--plan wants a file, '%s' is none",
                            c->options->plan);
    in = fopen(c->options->plan, "re");
    if (!in)
        return spot_err_sys(err, "cannot open '%s'", c->options->plan);
    text = calloc(1, SPOT_PLAN_MAX + 1);
    n = text ? fread(text, 1, SPOT_PLAN_MAX + 1, in) : 0;
    fclose(in);
    rc = n > SPOT_PLAN_MAX
             ? spot_err_set(err, SPOT_EDATA, "%s: larger than %d bytes", c->options->plan,
                            SPOT_PLAN_MAX)
             : spot_coord_plan_text(c, text, n, c->options->plan, SPOT_PLAN_FILE, changed, err);
    free(text);
    return rc;
}

/* The plan file, when it was replaced: inode, size and time in one number. */
static uint64_t stamp_of(const char *path)
{
    struct stat st;

    if (stat(path, &st))
        return 0;
    return ((uint64_t)st.st_ino * 31 + (uint64_t)st.st_size +
            (uint64_t)st.st_mtim.tv_sec * UINT64_C(1000000007) + (uint64_t)st.st_mtim.tv_nsec) |
           1;
}

/* A plan file that is bad now leaves the plan in force; a warning says why. */
void spot_coord_plan_check(struct spot_coord *c, bool force, bool *changed)
{
    struct spot_err err = { 0 };
    uint64_t stamp;

    *changed = false;
    if (!c->options->plan || (!force && spot_clock_s() - c->plan_check_s < 0.1))
        return;
    c->plan_check_s = spot_clock_s();
    stamp = stamp_of(c->options->plan);
    if (!stamp || (stamp == c->plan_stamp && !force))
        return;
    c->plan_stamp = stamp;
    if (read_plan(c, changed, &err))
        c->options->warn("%s; the plan in force stays", err.msg);
}

int spot_coord_plan_first(struct spot_coord *c, struct spot_err *err)
{
    bool changed;

    if (!c->options->plan)
        return 0;
    c->plan_stamp = stamp_of(c->options->plan);
    return read_plan(c, &changed, err);
}

static const char *phase_name(enum spot_phase phase)
{
    static const char *const name[] = { [SPOT_PHASE_WAIT] = "wait",
                                        [SPOT_PHASE_QUIESCE] = "quiesce",
                                        [SPOT_PHASE_FORM] = "form",
                                        [SPOT_PHASE_MIGRATE] = "migrate",
                                        [SPOT_PHASE_RUN] = "run" };

    return name[phase];
}

/* What a member is to who looks on: a mirror is a spare, though it takes part in the votes. */
static const char *role_of(const struct spot_coord *c, const struct spot_member *m, bool has_place)
{
    if (!has_place && spot_coord_is_aside(c, m->id))
        return "aside";
    if (!c->form.D || c->machine.phase == SPOT_PHASE_WAIT)
        return "waiting";
    return has_place ? "active" : m->role == SPOT_ROLE_SOURCE ? "source" : "spare";
}

static void put_members(const struct spot_coord *c, struct spot_jw *jw)
{
    spot_jw_array(jw, "members");
    for (size_t i = 0; i < c->machine.n_member; i++) {
        const struct spot_member *m = &c->machine.member[i];
        const int64_t position = c->form.D && c->machine.phase != SPOT_PHASE_WAIT
                                     ? spot_form_position(&c->form, m->id)
                                     : -1;

        spot_jw_object(jw, NULL);
        spot_jw_int(jw, "member", m->id);
        spot_jw_str(jw, "name", spot_coord_find(c, m->id)->name);
        spot_jw_str(jw, "role", role_of(c, m, position >= 0));
        if (position >= 0) {
            const struct spot_form_place at = spot_form_place(&c->form, position);

            spot_jw_int(jw, "d", at.d);
            spot_jw_int(jw, "p", at.p);
            spot_jw_int(jw, "m", at.m);
        }
        spot_jw_bool(jw, "leaving", m->is_leaving);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

/* Who gets no place for now, though it may be there. */
static void put_aside(const struct spot_suspects *suspects, struct spot_jw *jw)
{
    spot_jw_array(jw, "aside");
    for (size_t i = 0; i < suspects->n; i++) {
        const struct spot_suspect *const s = &suspects->suspect[i];

        if (s->aside_until_s <= 0)
            continue;
        spot_jw_object(jw, NULL);
        spot_jw_str(jw, "name", s->name);
        spot_jw_str(jw, "why", s->why);
        spot_jw_int(jw, "times", s->n_aside);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

/* Oldest first. */
static void put_events(const struct spot_journal *j, struct spot_jw *jw)
{
    const size_t n = j->n_recent < SPOT_RECENT_MAX ? j->n_recent : SPOT_RECENT_MAX;

    spot_jw_array(jw, "events");
    for (size_t i = j->n_recent - n; i < j->n_recent; i++) {
        const struct spot_recent *r = &j->recent[i % SPOT_RECENT_MAX];

        spot_jw_object(jw, NULL);
        spot_jw_str(jw, "event", r->event);
        spot_jw_real(jw, "time_s", r->time_s);
        spot_jw_int(jw, "epoch", r->epoch);
        spot_jw_int(jw, "step", r->step);
        if (*r->name)
            spot_jw_str(jw, "name", r->name);
        spot_jw_end(jw);
    }
    spot_jw_end(jw);
}

/* Tokens learnt in a second at the present pace, 0 before there is one. */
static double token_rate(const struct spot_coord *c)
{
    return c->step_s > 0 ? (double)(c->config.global_batch * c->config.shape.seq) / c->step_s : 0;
}

static void put_want(const struct spot_coord *c, struct spot_jw *jw)
{
    if (c->want.D) {
        spot_jw_object(jw, "want");
        spot_jw_int(jw, "D", c->want.D);
        spot_jw_int(jw, "P", c->want.P);
        spot_jw_int(jw, "M", c->want.M);
        spot_jw_end(jw);
    }
    if (c->has_plan)
        spot_jw_real(jw, "plan_time_s", c->force_time_s);
    spot_jw_bool(jw, "suspended", c->is_suspended);
}

/* A spot.status/1 document. */
void spot_coord_status(const struct spot_coord *c, struct spot_buf *out)
{
    char *text = NULL;
    size_t n = 0;
    FILE *memory = open_memstream(&text, &n);
    struct spot_jw jw;

    if (!memory)
        return;
    spot_jw_init(&jw, memory, true);
    spot_jw_object(&jw, NULL);
    spot_jw_str(&jw, "schema", "spot.status/1");
    spot_jw_real(&jw, "time_s", spot_journal_time(&c->journal));
    spot_jw_str(&jw, "phase", phase_name(c->machine.phase));
    spot_jw_int(&jw, "epoch", c->machine.epoch);
    spot_jw_int(&jw, "step", c->machine.round);
    spot_jw_int(&jw, "steps", c->config.n_step);
    spot_jw_int(&jw, "durable_step", spot_store_newest(c->store));
    if (c->knows_loss)
        spot_jw_real(&jw, "loss", (double)c->last_loss);
    spot_jw_int(&jw, "D", c->form.D);
    spot_jw_int(&jw, "P", c->form.P);
    spot_jw_int(&jw, "M", c->form.M);
    put_want(c, &jw);
    spot_jw_real(&jw, "step_s", c->step_s);
    if (c->step_s > 0 && !c->is_suspended)
        spot_jw_real(&jw, "eta_s", c->step_s * (double)(c->config.n_step - c->machine.round));
    spot_jw_real(&jw, "tokens_per_s", token_rate(c));
    if (c->options->price_usd_per_h > 0)
        spot_jw_real(&jw, "spent_usd", c->spent_usd);
    if (c->options->budget_usd > 0)
        spot_jw_real(&jw, "budget_usd", c->options->budget_usd);
    put_members(c, &jw);
    put_aside(&c->suspects, &jw);
    put_events(&c->journal, &jw);
    spot_jw_end(&jw);
    (void)spot_jw_close(&jw, NULL);
    fclose(memory);
    spot_buf_add(out, text, n);
    free(text);
}
