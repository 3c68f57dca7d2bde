/* SPDX-License-Identifier: MIT */
#include "train/trainer.h"
#include "text/token_weights.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/out.h"
#include "common/xalloc.h"
#include "train/job_note.h"
#include "train/self_test.h"
#include "train/trainer_durable_state.h"
#include "train/trainer_evidence_state.h"
#include "train/trainer_member_state.h"
#include "train/trainer_move_state.h"
#include "train/trainer_place_state.h"
#include "train/trainer_report_state.h"
#include "train/trainer_step_state.h"

static const double test_again_s = 1; /* age of a self-test after which it is made again */

/* --- the table ------------------------------------------------------------- */

static int tick(void *job, struct spot_err *err)
{
    struct spot_trainer *const c = job;

    if (spot_trainer_restore(c, err))
        return -1;
    spot_trainer_ask_more(c);
    spot_trainer_show_progress(c);
    spot_trainer_publish(c, false);
    return 0;
}

static void ready(void *job, struct spot_peer *peer)
{
    spot_trainer_note_moved(job, spot_peer_data(peer));
}

static int store_fd(void *job)
{
    const struct spot_trainer *const c = job;

    return spot_store_fd(c->saver.store);
}

static bool is_saved(void *job)
{
    struct spot_trainer *const c = job;

    if (c->options->observer)
        return true;
    (void)spot_store_confirm(
        c->saver.store); /* a deleted generation is written again, or is no longer the newest */
    if (c->machine->phase == SPOT_PHASE_RUN && spot_trainer_must_confirm(c))
        return false; /* the durable state was not voted on */
    return spot_store_newest(c->saver.store) >= c->machine->round ||
           (c->machine->phase == SPOT_PHASE_WAIT && !spot_store_is_busy(c->saver.store));
}

static const char *const frequent_events[] = { "step", "committed", "validated", NULL };

static const struct spot_workload training = {
    .name = "train",
    .rounds = SPOT_ROUNDS_LOCKSTEP,
    .frequent_events = frequent_events,
    .accept = spot_trainer_accept,
    .welcome = spot_trainer_welcome,
    .report = spot_trainer_report,
    .forget = spot_trainer_forget,
    .may_begin = spot_trainer_may_begin,
    .layout = spot_trainer_layout,
    .ready = ready,
    .would_change = spot_trainer_would_change,
    .begin = spot_trainer_begin,
    .vote = spot_trainer_take_vote,
    .commit = spot_trainer_commit,
    .quiesced = spot_trainer_quiesced,
    .message = spot_trainer_message,
    .client = spot_trainer_client,
    .plan = spot_trainer_plan,
    .owes = spot_trainer_owes,
    .may_leave = spot_trainer_may_leave,
    .idle = spot_trainer_idle,
    .tick = tick,
    .fd = store_fd,
    .readable = spot_trainer_store_news,
    .is_saved = is_saved,
    .status = spot_trainer_status,
    .status_member = spot_trainer_status_member,
};

/* --- the group it runs in ---------------------------------------------------- */

static void become_worker(void *job, uint64_t index, const char *address)
{
    const struct spot_trainer *const c = job;

    c->options->become_worker(c->options, index, address,
                              strncmp(c->config.kernel, "cuda", 4) ? c->config.kernel : "cuda");
}

/* Local workers run on the same processors, so these are tested once for all of them, and again
 * before a later replacement starts. */
static void first_message(void *job, char *text, size_t n)
{
    struct spot_trainer *const c = job;
    const double now_s = spot_clock_s();
    int cpu;

    if (!strncmp(c->config.kernel, "cuda", 4))
        return;
    if (!c->is_tested || now_s > c->tested_s + test_again_s) {
        c->passes_test =
            spot_self_test_all(c->config.kernel, c->options->n_local * c->options->n_thread, &cpu);
        if (!c->passes_test)
            c->options->warn("processor %d fails the self-test of kernel '%s'", cpu,
                             c->config.kernel);
        c->is_tested = true;
        c->tested_s = now_s;
    }
    spot_self_test_print(c->config.kernel, c->passes_test, text, n);
}

static void listening(void *job, const char *address)
{
    const struct spot_trainer *const c = job;

    if (!c->options->note)
        return;
    if (spot_store_newest(c->saver.store) < c->config.n_step)
        c->options->note("listening at %s", address);
    else
        c->options->note("listening at %s; all %lld steps are done, the job ends when a worker has "
                         "joined and shown the state",
                         address, (long long)c->config.n_step);
}

static void standing_by(void *job, const char *store)
{
    const struct spot_trainer *const c = job;

    if (c->options->note)
        c->options->note("standing by: another coordinator leads the job at %s", store);
}

static int make_group(struct spot_trainer *c, struct spot_err *err)
{
    const struct spot_trainer_options *const o = c->options;

    c->group_options = (struct spot_group_options){
        .name = o->name ? o->name : "spot",
        .old_plan_hint = o->old_plan_hint,
        .listen = o->listen,
        .key_file = o->key_file,
        .events = o->events,
        .plan = o->plan,
        .resume = o->resume,
        .store = o->store,
        .store_lease_s = o->store_lease_s,
        .n_local = o->n_local,
        .become_worker = become_worker,
        .first_message = first_message,
        .grace_s = o->grace_s,
        .lease_s = o->lease_s,
        .stall_s = o->stall_s,
        .settle_s = o->settle_s,
        .n_first = o->n_first,
        .user = c,
        .warn = o->warn,
        .listening = listening,
        .standing_by = standing_by,
    };
    c->group = spot_group_new(&c->group_options, &training, c, err);
    if (!c->group)
        return -1;
    c->journal = spot_group_journal(c->group);
    return 0;
}

/* --- start and end ------------------------------------------------------- */

/* The full name of the kind. A coordinator does not compute and need not have the device, if the
 * kind is named in full. */
static int settle_kernel(struct spot_trainer *c, struct spot_err *err)
{
    const bool is_whole = spot_kernel_is_whole_cuda(c->config.kernel);
    const struct spot_kernel *kernel;

    if (is_whole && !c->options->n_local)
        return 0;
    kernel = spot_kernel_find(c->config.kernel, err);
    if (!kernel && err->code == SPOT_EGPU && !is_whole && !c->options->n_local) {
        const struct spot_err why = *err;

        return spot_err_set(err, SPOT_EGPU,
                            "%.300s; or name the workers' kernel in full, such as "
                            "cuda-bf16-sm90x132-lt130100-cc1300",
                            why.msg);
    }
    if (!kernel)
        return -1;
    snprintf(c->config.kernel, sizeof(c->config.kernel), "%s", spot_kernel_name(kernel));
    return 0;
}

static int open_job(struct spot_trainer *c, struct spot_err *err)
{
    const struct spot_trainer_options *o = c->options;

    if (make_group(c, err))
        return -1;
    if (settle_kernel(c, err) || spot_job_config_check(&c->config, err))
        return -1;
    if (spot_corpus_open_all(&c->corpus, o->data, o->n_data, o->bpe, o->token_byte,
                             c->config.shape.vocab, err) ||
        spot_sampler_init(&c->sampler, &c->corpus, c->config.shape.seq, c->config.seed, err))
        return -1;
    c->config.data_xxh3 = c->corpus.xxh3;
    if (o->weights_of_samples &&
        (spot_token_weights_read(o->weights_of_samples, c->corpus.n_token, &c->token_weight,
                                 &c->config.weight_xxh3, err) ||
         spot_job_config_check(&c->config, err))) /* weights make the messages of a step longer */
        return -1;
    c->sampler.weight = c->token_weight;
    if (spot_trainer_open_val(c, err))
        return -1;
    if (o->load) {
        c->weights = spot_weights_open(o->load, &c->config.shape, err);
        if (!c->weights)
            return -1;
        c->config.init_xxh3 = spot_weights_xxh3(c->weights);
    }
    c->job = spot_job_id(&c->config);
    c->n_microbatch = spot_job_microbatches(&c->config);
    c->n_bundle = spot_shape_bundles(&c->config.shape);
    c->loss = spot_xcalloc((size_t)c->n_microbatch, sizeof(*c->loss));
    spot_saver_init(&c->saver, c->n_bundle);
    c->vote = spot_xcalloc((size_t)c->n_bundle, sizeof(*c->vote));
    return 0;
}

/* A declared change takes effect at the step of log and state. State of later steps, held by a
 * worker from before the change, does not belong to this job. */
static int settle_change(struct spot_trainer *c, struct spot_err *err)
{
    struct spot_tuning change;

    if (!c->options->change)
        return 0;
    change = *c->options->change;
    change.after = c->machine->round;
    return spot_job_change(&c->config, &change, err) < 0 ? -1 : 0;
}

static int log_change(struct spot_trainer *c, const struct spot_tuning *t, struct spot_err *err)
{
    struct spot_jw *jw =
        spot_journal_begin(c->journal, "lr_changed", c->machine->epoch, c->machine->round);

    if (jw) {
        spot_jw_int(jw, "after", t->after);
        spot_jw_real(jw, "lr", t->lr);
        spot_jw_str(jw, "lr_schedule", spot_lr_schedule_name(t->schedule.kind));
        spot_jw_int(jw, "warmup_steps", t->schedule.warmup_steps);
        spot_jw_int(jw, "decay_steps", t->schedule.decay_steps);
        spot_jw_real(jw, "min_lr", t->schedule.min_lr);
        spot_jw_real(jw, "weight_decay", t->weight_decay);
    }
    return spot_journal_end(c->journal, err);
}

/* Log changes that are declared now or missing in the log: an earlier coordinator was killed
 * between writing the note and the log, or the log is a new one. */
static int log_changes(struct spot_trainer *c, struct spot_err *err)
{
    const int64_t here = c->options->change ? c->machine->round : INT64_MAX;
    struct spot_tuning now = spot_job_tuning(&c->config, INT64_MAX);

    for (uint32_t i = 0; i < c->config.n_change; i++)
        if (c->config.change[i].after > c->journal->tuned_after &&
            c->config.change[i].after < here && log_change(c, &c->config.change[i], err))
            return -1;
    now.after = here;
    return c->options->change ? log_change(c, &now, err) : 0;
}

/* The description of the job, for resuming it. */
static int note_job(const struct spot_trainer *c, struct spot_err *err)
{
    char *text;
    int rc;

    if (!c->options->state || c->options->observer)
        return 0;
    if (spot_job_note_write(c->options->state, &c->config, c->options, err) ||
        spot_job_note_mark_behind(c->options->state, spot_store_is_behind(c->saver.store), err))
        return -1;
    if (!spot_store_is_behind(c->saver.store))
        return 0;
    text = spot_job_note_text(&c->config, c->options, err);
    rc = text ? spot_store_put_note(c->saver.store, text, err) : -1;
    free(text);
    return rc;
}

/* --steps must not be less than the steps completed in log and state. */
static int check_steps(const struct spot_trainer *c, int64_t step, struct spot_err *err)
{
    const int64_t newest = spot_store_newest(c->saver.store), done = step > newest ? step : newest;

    return done <= c->config.n_step
               ? 0
               : spot_err_set(err, SPOT_EUSAGE, "--steps %lld is less than the %lld that are done",
                              (long long)c->config.n_step, (long long)done);
}

/* Open log and group at the step of the state. Up to here a rejected coordinator has taken nothing
 * from another one. */
static int open_group(struct spot_trainer *c, struct spot_err *err)
{
    int64_t step;

    if (spot_group_open(c->group, &step, err) || check_steps(c, step, err) ||
        spot_trainer_take_state(c, err) || check_steps(c, step, err))
        return -1;
    c->knows_loss =
        step > 0 && step >= spot_store_newest(c->saver.store) && isfinite(c->journal->loss);
    if (c->knows_loss)
        c->last_loss = (float)c->journal->loss;
    if (step < spot_store_newest(c->saver.store))
        step = spot_store_newest(c->saver.store);
    c->view = spot_group_add_view(c->group, step > 0 ? step : 0);
    c->machine = spot_view_machine(c->view);
    spot_trainer_recall_val(c);
    spot_trainer_open_chain(c);
    spot_trainer_recall_convicted(c);
    return 0;
}

/* Log that the job continues from the state of an earlier coordinator. */
static int log_resumed(struct spot_trainer *c, struct spot_err *err)
{
    if (!spot_group_resumes(c->group) ||
        (!c->journal->is_continued && spot_store_newest(c->saver.store) < 0))
        return 0;
    (void)spot_journal_begin(c->journal, "resumed", c->machine->epoch, c->machine->round);
    return spot_journal_end(c->journal, err);
}

/* Report a file that cannot be written before the training, not after it. */
static int check_save(struct spot_trainer *c, struct spot_err *err)
{
    struct spot_out probe;
    struct stat st;

    if (c->options->save && spot_model_dir_is_meant(c->options->save)) {
        c->model_dir = spot_model_dir_open(c->options->save, c->options->tokenizer, err);
        return c->model_dir ? 0 : -1;
    }
    if (!c->options->save || (!stat(c->options->save, &st) && S_ISFIFO(st.st_mode)))
        return 0; /* a pipe must be opened only once, for the result */
    if (spot_out_open(&probe, c->options->save, err))
        return -1;
    spot_out_discard(&probe);
    return 0;
}

static int take_grid(struct spot_trainer *c, struct spot_err *err)
{
    char text[SPOT_GRID_TEXT], what[SPOT_GRID_TEXT + 16];

    c->want = c->options->grid;
    snprintf(what, sizeof(what), "--grid %s", spot_grid_text(&c->want, text));
    return c->want.D && spot_trainer_check_grid(c, &c->want, what, SPOT_EUSAGE, err) ? -1 : 0;
}

/* The next leader may need the same state: members are not admitted before it is closed. */
static void release(struct spot_trainer *c)
{
    struct spot_lead *const lead = spot_group_take_lead(c->group);

    spot_meter_free(c->meter);
    spot_group_free(c->group);
    spot_trainer_drop_result(c);
    spot_trainer_verify_release(c);
    free(c->loss);
    free(c->vote);
    spot_pins_release(&c->pins);
    spot_buf_release(&c->still);
    spot_relay_release(&c->relay);
    spot_state_sources_release(&c->sources);
    spot_form_release(&c->form);
    spot_saver_release(&c->saver);
    spot_trainer_end_show(c);
    spot_corpus_release(&c->corpus);
    free(c->token_weight);
    spot_corpus_release(&c->validator.corpus);
    spot_weights_close(c->weights);
    spot_model_dir_close(c->model_dir);
    spot_lead_free(lead);
}

static const char *how_to_go_on(const struct spot_trainer *c)
{
    return spot_store_is_behind(c->saver.store) ? "--state, --state-command and --resume"
                                                : "--state and --resume";
}

/* The job was stopped before the last step. A private directory with only step 0 is not kept:
 * drawing or reading that state again is as fast. */
static int report_stopped(struct spot_trainer *c, struct spot_err *err)
{
    int64_t newest = -1;

    if (c->saver.store) {
        if (!spot_group_gives_up())
            (void)spot_store_confirm(c->saver.store);
        newest = spot_store_newest(c->saver.store);
    }
    if (newest < 0 || (!newest && !c->options->state))
        return spot_err_set(err, SPOT_EPREEMPTED, "stopped; no state is durable");
    spot_store_keep(c->saver.store);
    return spot_err_set(err, SPOT_EPREEMPTED,
                        "stopped; the state of step %lld is in %s, %s continue it",
                        (long long)newest, spot_store_place(c->saver.store), how_to_go_on(c));
}

/* The training failed, or its result could not be written: keep the durable state and report its
 * place. */
static void report_kept(struct spot_trainer *c, struct spot_err *err)
{
    const size_t n = strlen(err->msg);
    struct spot_err why;
    int64_t step;

    while (spot_store_writing(c->saver.store) >= 0) {
        if (spot_group_gives_up())
            return;
        if (spot_store_result(c->saver.store, &step, &why) > 0 && step == c->saver.doubted_step)
            spot_store_set_aside_newest(c->saver.store);
        spot_clock_sleep(1e-3);
    }
    (void)spot_store_confirm(c->saver.store);
    if (spot_store_newest(c->saver.store) <= 0 || err->code == SPOT_EPREEMPTED)
        return;
    spot_store_keep(c->saver.store);
    snprintf(err->msg + n, sizeof(err->msg) - n,
             "; the state of step %lld is in %s, %s continue it",
             (long long)spot_store_newest(c->saver.store), spot_store_place(c->saver.store),
             how_to_go_on(c));
}

/* After the loop: produce the result, or the error. */
static int conclude(struct spot_trainer *c, struct spot_trainer_result *result,
                    struct spot_err *err)
{
    const bool is_over = spot_group_is_over(c->group);

    if (c->options->observer) {
        spot_group_dismiss(c->group);
        result->step = c->machine->round;
        return is_over ? 0 : spot_err_set(err, SPOT_EPREEMPTED, "stopped; nothing is kept");
    }
    if (!is_over)
        return report_stopped(c, err);
    spot_group_dismiss(c->group);
    spot_store_cancel(c->saver.store); /* members will not send the missing bundles any more */
    while (spot_store_is_busy(c->saver.store)) { /* wait for the generation that is being written */
        if (spot_group_gives_up())
            return report_stopped(c, err);
        if (spot_trainer_store_news(c, err))
            return -1;
        spot_clock_sleep(1e-3);
    }
    if (spot_trainer_finish(c, result, err))
        return -1;
    return c->saver.last.code ? spot_err_set(err, c->saver.last.code, "%s", c->saver.last.msg) : 0;
}

/* Answer the client that asked the job to stop. If state could not be kept the answer is
 * negative. */
static void report_end(struct spot_trainer *c, int rc, const struct spot_err *err)
{
    int status = 0;

    if (rc && err->code != SPOT_EPREEMPTED)
        status = spot_err_exit_status(err);
    else if (rc)
        status = c->machine->round > 0 && spot_store_newest(c->saver.store) < c->machine->round;
    spot_group_report_end(c->group, !rc, status, rc ? err->msg : "the job is done");
}

static int serve(struct spot_trainer *c, struct spot_trainer_result *result, struct spot_err *err)
{
    int rc;

    spot_trainer_await(c);
    rc = spot_group_run(c->group, err);
    if (c->options->progress && c->progress_shown_s > 0)
        c->options->progress(NULL);
    if (!rc)
        rc = conclude(c, result, err);
    if (rc)
        report_kept(c, err);
    spot_trainer_publish(c, true);
    report_end(c, rc, err);
    return rc;
}

/* The state is locked first: without it a job must not touch another's socket or log. */
static int coordinate(struct spot_trainer *c, struct spot_trainer_result *result,
                      struct spot_err *err)
{
    if (take_grid(c, err) || check_save(c, err) || spot_trainer_open_state(c, err) ||
        open_group(c, err) || settle_change(c, err) || note_job(c, err) ||
        spot_group_read_plan(c->group, err) || log_resumed(c, err) || log_changes(c, err) ||
        spot_trainer_open_meter(c, err))
        return -1;
    return serve(c, result, err);
}

/* True if the request to stop interrupted a wait. */
static bool was_interrupted(const struct spot_err *err)
{
    return (spot_group_stops() && err->sys_errno == EINTR) ||
           (spot_group_gives_up() && err->code == SPOT_EPREEMPTED);
}

int spot_trainer_run(const struct spot_trainer_options *options, struct spot_trainer_result *result,
                     struct spot_err *err)
{
    struct spot_trainer c = { .options = options, .config = options->config };
    int rc = -1;

    memset(result, 0, sizeof(*result));
    if (!open_job(&c, err)) {
        spot_group_begin();
        rc = spot_trainer_lead(&c, result, err);
        rc = rc ? rc : coordinate(&c, result, err);
        if (rc < 0 && was_interrupted(err))
            report_stopped(&c, err);
        if (spot_group_close_journal(c.group, rc < 0 ? NULL : err))
            rc = -1;
    }
    release(&c);
    return rc < 0 ? -1 : 0;
}
