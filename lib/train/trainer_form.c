/* SPDX-License-Identifier: MIT */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/xalloc.h"
#include "plan/migration.h"
#include "train/grid_choice.h"
#include "train/trainer_durable_state.h"
#include "train/trainer_member_state.h"
#include "train/trainer_move_state.h"
#include "train/trainer_place_state.h"

enum { PLACEMENTS_MAX = 300 }; /* compared while all members wait */

/* --- the state's step ---------------------------------------------- */

static bool is_held(const struct spot_trainer *c, int bundle, int64_t step)
{
    for (size_t i = 0; i < c->machine->n_member; i++)
        if (spot_trainer_holds(c, c->machine->member[i].id, bundle, step))
            return true;
    return false;
}

static bool is_whole(const struct spot_trainer *c, int64_t step)
{
    for (int b = 0; b < c->n_bundle; b++)
        if (!is_held(c, b, step))
            return false;
    return true;
}

/* True if a generation is being written that the next epoch may need; the epoch waits until it is
 * written or fails. */
bool spot_trainer_awaits_store(const struct spot_trainer *c)
{
    const int64_t writing = spot_store_writing(c->saver.store), step = spot_trainer_newest(c);

    return writing >= 0 && (writing > step || !is_whole(c, step));
}

/* The newest step whose state is valid: parts that must come from the disk are read and verified
 * first; a generation that was damaged since it was written is set aside. -1 with *err when the
 * disk cannot be read. */
static int64_t sound_step(struct spot_trainer *c, struct spot_err *err)
{
    for (;;) {
        const int64_t step = spot_trainer_newest(c), durable = spot_store_newest(c->saver.store);
        struct spot_err why = { 0 };
        int n_bad;

        if (step != durable || is_whole(c, step))
            return step;
        n_bad = spot_store_verify(c->saver.store, &why);
        if (n_bad < 0)
            return spot_err_set(err, why.code, "%s", why.msg);
        if (n_bad > 0)
            c->options->warn("%s; %d generation%s set aside", why.msg, n_bad, n_bad > 1 ? "s" : "");
        if (spot_store_newest(c->saver.store) == durable)
            return step;
    }
}

/* --- the grid ------------------------------------------------------------ */

/* A grid without pipelines means that there are no members, or that the plan suspends the job. */
static struct spot_grid choose(const struct spot_trainer *c)
{
    const uint32_t n = (uint32_t)spot_view_placeable(c->view);

    return n && !spot_group_is_suspended(c->group)
               ? spot_grid_choose(n, &c->want, c->n_microbatch, c->n_bundle,
                                  c->config.shape.n_shard)
               : (struct spot_grid){ 0 };
}

bool spot_trainer_would_change(void *job, struct spot_view *view)
{
    struct spot_trainer *const c = job;
    const struct spot_grid grid = choose(c), now = spot_form_grid(&c->form);

    (void)view;
    if (!spot_grid_equal(&grid, &now) && !spot_trainer_puts_off(c, &grid))
        return true;
    /* mirroring also costs an epoch: if a new member is not worth an epoch for a place, it is not
     * worth one for mirroring */
    return spot_trainer_lacks_buddy(c) || (!c->movement.is_put_off && spot_trainer_lacks_warm(c)) ||
           spot_trainer_finds_newer(c) || spot_trainer_breaks_pin(c);
}

static void set_grid(struct spot_trainer *c, const struct spot_grid *grid, int64_t step)
{
    struct spot_form *const f = &c->form;

    f->D = (uint32_t)grid->D;
    f->P = (uint32_t)grid->P;
    f->M = (uint32_t)grid->M;
    f->step = step;
    f->stage = spot_xcalloc(f->P + 1, sizeof(*f->stage));
    f->member = spot_xcalloc(spot_form_size(f), sizeof(*f->member));
    f->buddy = spot_xcalloc(f->P, sizeof(*f->buddy));
    spot_grid_stages(&c->config.shape, f->P, f->stage);
    f->share = spot_xcalloc(f->D + 1, sizeof(*f->share));
}

/* Report, once for each number of members, that the requested grid is not possible. */
static void report_compromise(struct spot_trainer *c, const struct spot_grid *grid)
{
    const struct spot_grid *const want = &c->want;
    const size_t n = spot_view_placeable(c->view);
    char wanted[SPOT_GRID_TEXT], had[SPOT_GRID_TEXT];

    if (!want->D || spot_grid_equal(grid, want) || n == c->compromise_n)
        return;
    c->compromise_n = n;
    c->options->warn("grid %s is wanted, %zu member%s make%s %s", spot_grid_text(want, wanted), n,
                     n == 1 ? "" : "s", n == 1 ? "s" : "", spot_grid_text(grid, had));
}

/* --- placement ----------------------------------------------------------- */

int64_t spot_trainer_bundle_byte(const struct spot_trainer *c, int bundle)
{
    struct spot_arena arena;

    spot_arena_of(&c->config.shape, bundle, &arena);
    return (int64_t)(arena.n_elem * sizeof(float) * SPOT_PLANES);
}

/* Describe the required moves: nodes are members in machine order, positions those of the form; all
 * members of a tensor group need the whole stage. */
struct problem {
    int64_t *byte;
    uint8_t *holds, *needs;
    struct spot_cluster_node *node;
};

static void fill_problem(const struct spot_trainer *c, struct problem *p)
{
    const size_t n_node = c->machine->n_member, n_bundle = (size_t)c->n_bundle;
    const uint32_t n_position = spot_form_size(&c->form);

    p->byte = spot_xcalloc(n_bundle, sizeof(*p->byte));
    p->holds = spot_xcalloc(n_node * n_bundle, 1);
    p->needs = spot_xcalloc(n_position * n_bundle, 1);
    p->node = spot_xcalloc(n_node, sizeof(*p->node));
    for (size_t b = 0; b < n_bundle; b++)
        p->byte[b] = spot_trainer_bundle_byte(c, (int)b);
    for (size_t i = 0; i < n_node; i++) {
        const struct spot_member *const member = &c->machine->member[i];
        const struct spot_trainer_member *const who = spot_trainer_member(c, member->id);
        const double byte_per_s = spot_trainer_byte_per_s(c, who);

        p->node[i] = (struct spot_cluster_node){
            .out_byte_per_s = byte_per_s,
            .in_byte_per_s = byte_per_s,
            .slots = spot_view_may_place(c->view, member),
            .is_leaving = member->is_leaving,
            .deadline_s = member->is_leaving ? spot_peer_time_left_s(who->peer) : INFINITY,
        };
        for (size_t b = 0; b < n_bundle; b++)
            p->holds[i * n_bundle + b] = spot_trainer_holds(c, member->id, (int)b, c->form.step);
    }
    for (uint32_t k = 0; k < n_position; k++) {
        const uint32_t stage = spot_form_place(&c->form, k).p;

        for (uint32_t b = c->form.stage[stage]; b < c->form.stage[stage + 1]; b++)
            p->needs[k * n_bundle + b] = 1;
    }
}

static void free_problem(struct problem *p)
{
    free(p->byte);
    free(p->holds);
    free(p->needs);
    free(p->node);
}

enum spot_origin spot_trainer_origin(const struct spot_trainer *c)
{
    if (c->form.step == spot_store_newest(c->saver.store))
        return SPOT_FROM_STORE;
    return c->weights ? SPOT_FROM_WEIGHTS : SPOT_FROM_NOTHING;
}

/* Add transfers of bundles without a holder, from their origin to every position that needs
 * them. */
static void restore(struct spot_trainer *c, const struct spot_reshard *state,
                    const struct spot_migration_plan *plan)
{
    struct spot_form *f = &c->form;

    if (plan->n_loss && spot_trainer_origin(c) == SPOT_FROM_STORE)
        f->manifest = spot_store_manifest(c->saver.store, f->step);
    for (size_t i = 0; i < plan->n_loss; i++) {
        const size_t bundle = plan->loss[i].part;

        assert(f->step == 0 || f->step == spot_store_newest(c->saver.store));
        for (int w = 0; w < state->part[bundle].n_want; w++)
            f->transfer[f->n_transfer++] =
                (struct spot_transfer){ .bundle = (uint32_t)bundle,
                                        .origin = spot_trainer_origin(c),
                                        .to = f->member[state->part[bundle].want[w]] };
    }
}

/* Roles, members by position and transfers from the solution. */
static void apply(struct spot_trainer *c, const struct spot_reshard *state,
                  const struct spot_migration_plan *plan)
{
    const struct spot_member *member = c->machine->member;
    struct spot_form *f = &c->form;

    for (size_t i = 0; i < c->machine->n_member; i++)
        spot_view_set_role(c->view, member[i].id, SPOT_ROLE_SPARE);
    for (size_t i = 0; i < plan->n_move; i++)
        spot_view_set_role(c->view, member[plan->move[i].from].id, SPOT_ROLE_SOURCE);
    for (uint32_t k = 0; k < spot_form_size(f); k++) {
        f->member[k] = member[plan->node_of_position[k]].id;
        spot_view_set_role(c->view, f->member[k], SPOT_ROLE_ACTIVE);
    }
    f->transfer =
        spot_xcalloc(plan->n_move + plan->n_loss * spot_form_size(f), sizeof(*f->transfer));
    restore(c, state, plan);
    for (size_t i = 0; i < plan->n_move; i++)
        f->transfer[f->n_transfer++] =
            (struct spot_transfer){ .bundle = (uint32_t)plan->move[i].part,
                                    .origin = SPOT_FROM_MEMBER,
                                    .from = member[plan->move[i].from].id,
                                    .to = member[plan->move[i].to].id };
}

/* List all members that take part: each must be able to reach every other. */
void spot_trainer_list_peers(struct spot_trainer *c)
{
    const struct spot_member *member = c->machine->member;
    struct spot_form *f = &c->form;

    f->peer = spot_xcalloc(c->machine->n_member, sizeof(*f->peer));
    for (size_t i = 0; i < c->machine->n_member; i++)
        if (member[i].role != SPOT_ROLE_SPARE)
            f->peer[f->n_peer++].id = member[i].id; /* addresses differ: see report_member */
}

/* The transfers that place() adds, and their bytes. */
struct moved {
    size_t n_transfer;
    int64_t moved_byte, restored_byte; /* each bundle counts once, however many receive it */
};

/* The node of each position, if the plan pins all of them; else NULL. */
static int *pinned_places(const struct spot_trainer *c)
{
    const uint32_t n = spot_form_size(&c->form);
    int *const place = spot_xcalloc(n, sizeof(*place));

    for (uint32_t k = 0; k < n; k++)
        place[k] = -1;
    spot_trainer_pin(c, place);
    for (uint32_t k = 0; k < n; k++)
        if (place[k] < 0) {
            free(place);
            return NULL;
        }
    return place;
}

/* Compute the moves to the places of the plan. Positions that it leaves open are chosen by the best
 * placement; if there are none, no search is made. */
static int migrate(const struct spot_trainer *c, struct spot_migration_problem *problem,
                   struct spot_migration_plan *plan, struct spot_err *err)
{
    int rc;

    problem->place = pinned_places(c);
    rc = spot_migrate(problem, plan, err);
    if (rc || problem->place || !spot_trainer_pin(c, plan->node_of_position))
        return rc;
    problem->place = plan->node_of_position;
    plan->node_of_position = NULL;
    spot_migration_plan_release(plan);
    return spot_migrate(problem, plan, err);
}

static int place(struct spot_trainer *c, struct moved *moved, struct spot_err *err)
{
    struct problem p = { 0 };
    struct spot_migration_problem problem;
    struct spot_migration_plan plan;
    struct spot_cluster cluster = { .n_node = c->machine->n_member };
    int rc;

    fill_problem(c, &p);
    cluster.node = p.node;
    spot_migration_of_bundles(
        &problem,
        &(struct spot_migration_bundles){ (int)c->machine->n_member, (int)spot_form_size(&c->form),
                                          c->n_bundle, p.byte, p.holds, p.needs },
        &cluster);
    problem.effort = PLACEMENTS_MAX;
    rc = migrate(c, &problem, &plan, err);
    if (!rc) {
        apply(c, &problem.reshard, &plan);
        *moved = (struct moved){ c->form.n_transfer, plan.total_byte, plan.lost_byte };
        spot_migration_plan_release(&plan);
        spot_trainer_choose_split(c);
        spot_trainer_choose_buddies(c);
        spot_trainer_warm(c);
        spot_trainer_list_peers(c);
    }
    spot_migration_problem_release(&problem);
    free_problem(&p);
    return rc;
}

/* --- reports ------------------------------------------------------------- */

/* Log the moves before the epoch runs, and those during it. */
static int log_epoch(struct spot_trainer *c, const struct moved *moved, struct spot_err *err)
{
    const struct spot_form *const f = &c->form;
    const bool is_on_disk = f->step == spot_store_newest(c->saver.store);
    int64_t precopy_byte = 0;
    struct spot_jw *jw = spot_journal_begin(c->journal, "migrate", c->machine->epoch, c->form.step);

    if (jw) {
        spot_jw_int(jw, "transfers", (int64_t)moved->n_transfer);
        spot_jw_int(jw, "moved_byte", moved->moved_byte);
        spot_jw_int(jw, "restored_byte", is_on_disk ? moved->restored_byte : 0);
        for (size_t i = f->n_precopied; i < f->n_precopy; i++)
            precopy_byte += spot_trainer_bundle_byte(c, (int)f->precopy[i].bundle);
        if (precopy_byte > 0)
            spot_jw_int(jw, "precopy_byte", precopy_byte);
    }
    return spot_journal_end(c->journal, err);
}

static int log_rollback(struct spot_trainer *c, int64_t from, int64_t to, struct spot_err *err)
{
    struct spot_jw *jw = spot_journal_begin(c->journal, "rolled_back", c->machine->epoch, to);

    if (!c->is_damage_reported)
        c->options->warn("the last copy of a stage was lost: rolled back from step %lld to %lld, "
                         "the steps between are computed again",
                         (long long)from, (long long)to);
    c->is_damage_reported = false;
    if (jw) {
        spot_jw_int(jw, "from", from);
        spot_jw_int(jw, "to", to);
    }
    return spot_journal_end(c->journal, err);
}

/* Log that a member returned with newer state than that from which the job had continued. */
static int log_restored(struct spot_trainer *c, int64_t from, int64_t to, struct spot_err *err)
{
    struct spot_jw *jw = spot_journal_begin(c->journal, "restored", c->machine->epoch, to);

    c->options->warn(
        "the state of step %lld was found again: continuing from there instead of step %lld",
        (long long)to, (long long)from);
    if (jw)
        spot_jw_int(jw, "from", from);
    return spot_journal_end(c->journal, err);
}

/* The only place where the step changes other than by a commit; logs the change. */
static int log_step_change(struct spot_trainer *c, int64_t from, int64_t to, struct spot_err *err)
{
    if (from == to)
        return 0;
    c->knows_loss = false;
    spot_validator_void(&c->validator, to);
    if (to < from)
        spot_meter_rolled_back(c->meter, from - to);
    return to < from ? log_rollback(c, from, to, err) : log_restored(c, from, to, err);
}

/* Send each member the addresses by which it can reach the others. */
static void report_member(struct spot_trainer *c, struct spot_peer *to)
{
    struct spot_buf out = { 0 };

    for (size_t i = 0; i < c->form.n_peer; i++)
        spot_peer_address(spot_group_find(c->group, c->form.peer[i].id), to,
                          c->form.peer[i].address);
    spot_form_put(&out, &c->form);
    spot_peer_ask(to);
    spot_peer_send(to, SPOT_MSG_FORM, 0, out.data, out.n);
    spot_buf_release(&out);
}

static void report_all(struct spot_trainer *c)
{
    spot_trainer_restore_anew(c);
    for (size_t i = 0; i < c->machine->n_member; i++)
        if (c->machine->member[i].role != SPOT_ROLE_SPARE)
            report_member(c, spot_group_find(c->group, c->machine->member[i].id));
    c->relay.since_s = spot_clock_s();
}

/* No member can take a place, or state is awaited: make the held state durable. */
void spot_trainer_idle(void *job, struct spot_view *view)
{
    struct spot_trainer *const c = job;
    const int64_t step = c->machine->round;

    (void)view;
    c->form.D = c->form.P = c->form.M = 0;
    if (spot_store_newest(c->saver.store) >= step || spot_store_has_all(c->saver.store, step) ||
        spot_trainer_awaits_savers(c, step))
        return;
    spot_store_cancel(c->saver.store); /* a member that waits for a lost one would never finish */
    if (is_whole(c, step))
        spot_trainer_save(c);
}

/* State whose only holder cannot send it to other members must be made durable first. */
static bool must_keep(struct spot_trainer *c, int64_t step)
{
    if (!spot_trainer_must_keep(c, step))
        return false;
    if (c->keep_until_s <= 0)
        c->keep_until_s = spot_clock_s() + c->options->stall_s;
    spot_view_hold(c->view);
    return true;
}

int spot_trainer_layout(void *job, struct spot_view *view, struct spot_err *err)
{
    struct spot_trainer *const c = job;
    const struct spot_grid grid = choose(c);
    const int64_t before = c->machine->round;
    int64_t step;
    struct moved moved = { 0 };
    struct spot_form old;
    int rc = -1;

    if (!grid.D || spot_trainer_awaits(c) || spot_trainer_awaits_store(c)) {
        spot_view_hold(view);
        return 0;
    }
    c->movement.layout_s = spot_clock_s();
    c->formed_want = c->want;
    c->movement.is_put_off = false;
    report_compromise(c, &grid);
    step = sound_step(c, err);
    if (step < 0)
        return -1;
    if (must_keep(c, step))
        return 0;
    spot_trainer_settle_savers(c, step);
    old = c->form;
    c->form = (struct spot_form){ 0 };
    set_grid(c, &grid, step);
    if (log_step_change(c, before, step, err))
        goto out;
    if (place(c, &moved, err))
        goto out;
    if (spot_trainer_precopy(c, &old))
        moved = (struct moved){ 0 };
    spot_trainer_pace_precopies(c);
    if (log_epoch(c, &moved, err))
        goto out;
    spot_view_form(view, step);
    spot_trainer_settle_step(c);
    report_all(c);
    rc = 0;
out:
    spot_form_release(&old);
    return rc;
}
