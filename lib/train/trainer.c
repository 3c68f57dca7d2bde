/* SPDX-License-Identifier: MIT */
#include "train/coordinator.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/hash.h"
#include "common/out.h"
#include "common/random.h"
#include "common/xalloc.h"
#include "train/trainer_state.h"

enum { TICK_MS = 100 };

static const double insist_s = 0.5;
static _Atomic int stop_calls;
static _Atomic double first_stop_s;
static _Atomic bool reload_wanted, has_begun;
static _Atomic int wake_fd = -1;

static void wake_loop(void)
{
    const int fd = wake_fd, saved = errno;

    if (fd >= 0)
        (void)!write(fd, "", 1);
    errno = saved;
}

/* A wrapper such as timeout(1) passes a signal on that its process group gets as well: what comes
 * at once is the same wish. */
void spot_coordinator_stop(void)
{
    const double now_s = spot_clock_s();

    if (!stop_calls)
        first_stop_s = now_s;
    if (!stop_calls || now_s - first_stop_s > insist_s)
        stop_calls++;
    wake_loop();
}

bool spot_coordinator_has_begun(void)
{
    return has_begun;
}

void spot_coordinator_reload(void)
{
    reload_wanted = true;
    wake_loop();
}

/* --- the loop ------------------------------------------------------------ */

static size_t fill_set(const struct spot_coord *c, struct pollfd *set)
{
    size_t n = 0;

    set[n++] = (struct pollfd){ .fd = c->wake[0], .events = POLLIN };
    set[n++] = (struct pollfd){ .fd = spot_store_fd(c->store), .events = POLLIN };
    set[n++] =
        (struct pollfd){ .fd = c->listener, .events = c->polled_s < c->full_until_s ? 0 : POLLIN };
    for (size_t i = 0; i < c->n_peer; i++) {
        const struct spot_link *link = &c->peer[i]->link;

        set[n++] = (struct pollfd){
            .fd = link->fd, .events = (short)(POLLIN | (spot_link_wants_write(link) ? POLLOUT : 0))
        };
    }
    return n;
}

static size_t index_of(const struct spot_coord *c, int fd)
{
    size_t i = 0;

    while (i < c->n_peer && c->peer[i]->link.fd != fd)
        i++;
    return i;
}

static int serve(struct spot_coord *c, const struct pollfd *set, size_t n, struct spot_err *err)
{
    char drain[64];

    if (set[0].revents)
        (void)!read(c->wake[0], drain, sizeof(drain));
    if (set[1].revents && spot_coord_store_news(c, err))
        return -1;
    for (size_t k = 3; k < n; k++) {
        const size_t i = set[k].revents ? index_of(c, set[k].fd) : c->n_peer;
        int rc;

        if (i == c->n_peer)
            continue;
        rc = spot_coord_serve_peer(c, c->peer[i], set[k].revents, err);
        if (rc < 0)
            return -1;
        if (c->is_over)
            return 0; /* the result is here: who goes now is dismissed anyway */
        if (rc > 0 && spot_coord_lose_peer(c, index_of(c, set[k].fd), "the connection closed", err))
            return -1;
    }
    if (set[2].revents)
        spot_coord_accept(c);
    return 0;
}

static void show_progress(struct spot_coord *c)
{
    const double now_s = spot_clock_s();
    char grid[SPOT_DEGREES_TEXT];

    if (!c->options->show_progress || now_s - c->progress_shown_s < 0.25)
        return;
    c->progress_shown_s = now_s;
    if (!c->machine.n_member) {
        char address[SPOT_ADDRESS_MAX + 8];

        spot_endpoint_print(&c->endpoint, address);
        fprintf(stderr, "\r\033[Kstep %lld/%lld  waiting for workers at %s",
                (long long)c->machine.round, (long long)c->config.n_step, address);
        fflush(stderr);
        return;
    }
    fprintf(stderr, "\r\033[Kstep %lld/%lld", (long long)c->machine.round,
            (long long)c->config.n_step);
    if (c->knows_loss)
        fprintf(stderr, "  loss %.4f", (double)c->last_loss);
    fprintf(stderr, "  grid %s  members %zu  %.0f ms/step",
            spot_degrees_text(&(struct spot_degrees){ c->form.D, c->form.P, c->form.M }, grid),
            c->machine.n_member, 1e3 * c->step_s);
    fflush(stderr);
}

/* Sockets of workers that were killed before they said where they listen, or while no coordinator
 * was there to see it. */
static void sweep(struct spot_coord *c)
{
    static const double every_s = 5;
    static const time_t age_s = 10;

    if (c->swept_s > 0 && c->polled_s - c->swept_s < every_s)
        return;
    c->swept_s = c->polled_s;
    spot_endpoint_sweep(&c->endpoint, age_s);
}

/* Nothing runs: are those here who an epoch should begin with? */
static bool may_start(const struct spot_coord *c)
{
    const size_t n = spot_coord_placeable(c);

    return n && n >= (c->last_commit_s > 0 ? 1 : c->options->n_local) && !c->is_suspended &&
           !c->stop_wanted && spot_clock_s() >= c->settle_until_s && !spot_coord_awaits(c) &&
           !spot_coord_is_asking(c) && !spot_coord_must_keep(c, c->machine.round);
}

/* What is due by time rather than by message. */
static int tick(struct spot_coord *c, struct spot_err *err)
{
    const bool force = atomic_exchange(&reload_wanted, false);
    bool changed;

    if (spot_coord_drop_dead(c, err) || spot_coord_local_keep(c, err) || spot_coord_restore(c, err))
        return -1;
    spot_coord_plan_check(c, force, &changed);
    spot_coord_retry_aside(c);
    if (changed && c->machine.phase != SPOT_PHASE_WAIT && spot_coord_would_change(c) &&
        spot_coord_act(c, spot_machine_want_change(&c->machine), err))
        return -1;
    if (c->machine.phase == SPOT_PHASE_WAIT && may_start(c) &&
        spot_coord_act(c, spot_machine_start(&c->machine), err))
        return -1;
    if (c->machine.phase == SPOT_PHASE_WAIT)
        spot_coord_release_leavers(c); /* who starts with the others may have something to give */
    sweep(c);
    spot_coord_bill(c);
    show_progress(c);
    return 0;
}

/* Asked to stop: true once nothing more can be saved. */
static bool has_stopped(struct spot_coord *c)
{
    if (!stop_calls && !c->is_drained && !spot_coord_is_broke(c))
        return false;
    c->stop_wanted = true;
    if (c->options->observer)
        return true;
    (void)spot_store_confirm(c->store); /* what was deleted is written again, or not named */
    if (stop_calls > 1 || spot_store_newest(c->store) >= c->machine.round)
        return true;
    return c->machine.phase == SPOT_PHASE_WAIT && !spot_store_is_busy(c->store);
}

static int loop(struct spot_coord *c, struct spot_err *err)
{
    struct pollfd *set = NULL;
    size_t cap = 0;
    int rc = 0;

    while (!rc && !c->is_over && !has_stopped(c)) {
        size_t n;

        set = spot_xgrow(set, &cap, c->n_peer + 3, sizeof(*set));
        n = fill_set(c, set);
        if (poll(set, n, TICK_MS) < 0)
            memset(set, 0, n * sizeof(*set)); /* a signal */
        c->polled_s = spot_clock_s();
        rc = serve(c, set, n, err);
        if (!rc && !c->is_over)
            rc = tick(c, err);
    }
    free(set);
    if (c->options->show_progress && c->progress_shown_s > 0)
        fprintf(stderr, "\r\033[K");
    return rc;
}

/* --- start and end ------------------------------------------------------- */

static int open_wake(struct spot_coord *c, struct spot_err *err)
{
    if (spot_endpoint_pipe(c->wake))
        return spot_err_sys(err, "cannot make a pipe");
    wake_fd = c->wake[1];
    return 0;
}

/* Peers prove with it that they are of this job. 0 stands for no key. */
static int draw_key(uint64_t *key, struct spot_err *err)
{
    do
        if (spot_random_bytes(key, sizeof(*key), err))
            return -1;
    while (!*key);
    return 0;
}

/* The kind in full. Who computes nothing need not have the device, if it is named in full. */
static int settle_kernel(struct spot_coord *c, struct spot_err *err)
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
                            "cuda-bf16-sm90-lt130100",
                            why.msg);
    }
    if (!kernel)
        return -1;
    snprintf(c->config.kernel, sizeof(c->config.kernel), "%s", spot_kernel_name(kernel));
    return 0;
}

static int open_job(struct spot_coord *c, struct spot_err *err)
{
    const struct spot_coordinator_options *o = c->options;

    if (o->key_file && !(c->tls = spot_tls_context_load(o->key_file, err)))
        return -1;
    if (settle_kernel(c, err) || spot_job_config_check(&c->config, err))
        return -1;
    if ((o->bpe
             ? spot_corpus_of_text(&c->corpus, o->data, o->bpe, err)
             : spot_corpus_open(&c->corpus, o->data, o->token_byte, c->config.shape.vocab, err)) ||
        spot_sampler_init(&c->sampler, &c->corpus, c->config.shape.seq, c->config.seed, err))
        return -1;
    c->config.data_xxh3 = c->corpus.xxh3;
    if (o->load) {
        c->weights = spot_weights_open(o->load, &c->config.shape, err);
        if (!c->weights)
            return -1;
        c->config.init_xxh3 = spot_weights_xxh3(c->weights);
    }
    c->job = spot_job_id(&c->config);
    if (draw_key(&c->key, err))
        return -1;
    c->durable_s = spot_clock_s();
    c->n_microbatch = spot_job_microbatches(&c->config);
    c->n_bundle = spot_shape_bundles(&c->config.shape);
    c->loss = spot_xcalloc((size_t)c->n_microbatch, sizeof(*c->loss));
    c->vote = spot_xcalloc((size_t)c->n_bundle, sizeof(*c->vote));
    c->result = spot_xcalloc((size_t)c->n_bundle, sizeof(struct spot_frame *));
    return 0;
}

/* Members must not take a coordinator for dead that reads a large state. */
void spot_coord_breathe(void *coord)
{
    struct spot_coord *c = coord;
    const double now_s = spot_clock_s();

    if (now_s - c->breath_s < 0.25)
        return;
    c->breath_s = now_s;
    for (size_t i = 0; i < c->n_peer; i++)
        if (c->peer[i]->id)
            spot_coord_send(c, c->peer[i], SPOT_MSG_HEARTBEAT, 0, NULL, 0);
}

/* Durable state from before: with --resume it is verified and used, without it is refused. A
 * directory that is not there is a mistyped one; one without a generation is that of a job that
 * was killed before its first, which a loop of restarts must get over. */
static int open_state(struct spot_coord *c, struct spot_err *err)
{
    const struct spot_coordinator_options *o = c->options;
    struct spot_err why = { 0 };
    int n_bad;

    if (o->resume && access(o->state, F_OK) && errno == ENOENT)
        return spot_err_set(err, SPOT_EUSAGE,
                            "there is no '%s' to resume from; a job begins without --resume, or in "
                            "an empty directory",
                            o->state);
    c->store = spot_store_open(o->state, c->job, c->n_bundle, err);
    if (!c->store)
        return -1;
    spot_store_on_tick(c->store, spot_coord_breathe, c);
    if (spot_store_newest(c->store) >= 0 && !o->resume)
        return spot_err_set(err, SPOT_EUSAGE,
                            "'%s' holds the state of step %lld; --resume continues it", o->state,
                            (long long)spot_store_newest(c->store));
    n_bad = spot_store_verify(c->store, &why);
    if (n_bad < 0)
        return spot_err_set(err, why.code, "%s", why.msg);
    if (n_bad > 0 && spot_store_newest(c->store) < 0)
        return spot_err_set(err, SPOT_EDATA,
                            "%.300s; no sound generation is left in '%s': the damaged ones are "
                            "kept there as gen-STEP.bad, a second try begins anew",
                            why.msg, o->state);
    if (n_bad)
        o->warn("%s; %d generation%s set aside, going on from step %lld", why.msg, n_bad,
                n_bad > 1 ? "s" : "", (long long)spot_store_newest(c->store));
    if (o->resume && spot_store_newest(c->store) < 0)
        o->warn("'%s' holds no state: the job begins anew at step 0, unless a worker that joins "
                "has one",
                o->state);
    return 0;
}

/* Where log and state stand. */
static int open_journal(struct spot_coord *c, struct spot_err *err)
{
    const struct spot_coordinator_options *o = c->options;
    int64_t step;
    uint32_t epoch;

    if (spot_journal_open(&c->journal, o->events, o->resume, &step, &epoch, err))
        return -1;
    c->spent_usd = c->journal.spent_usd;
    c->knows_loss = step > 0 && step >= spot_store_newest(c->store) && isfinite(c->journal.loss);
    if (c->knows_loss)
        c->last_loss = (float)c->journal.loss;
    if (step < spot_store_newest(c->store))
        step = spot_store_newest(c->store);
    if (step > c->config.n_step)
        return spot_err_set(err, SPOT_EUSAGE, "--steps %lld is less than the %lld that are done",
                            (long long)c->config.n_step, (long long)step);
    c->last_epoch = epoch;
    spot_machine_init(&c->machine, SPOT_ROUNDS_LOCKSTEP, &c->last_epoch, step > 0 ? step : 0);
    return 0;
}

/* The job goes on from what another coordinator left. */
static int log_resumed(struct spot_coord *c, struct spot_err *err)
{
    if (!c->options->resume || (!c->journal.is_continued && spot_store_newest(c->store) < 0))
        return 0;
    (void)spot_journal_begin(&c->journal, "resumed", c->machine.epoch, c->machine.round);
    return spot_journal_end(&c->journal, err);
}

/* A file that cannot be written is told before the training, not after. */
static int check_save(const struct spot_coord *c, struct spot_err *err)
{
    struct spot_out probe;
    struct stat st;

    if (!c->options->save || (!stat(c->options->save, &st) && S_ISFIFO(st.st_mode)))
        return 0; /* whoever reads a pipe waits for one file */
    if (spot_out_open(&probe, c->options->save, err))
        return -1;
    spot_out_discard(&probe);
    return 0;
}

static int open_plan(struct spot_coord *c, struct spot_err *err)
{
    char text[SPOT_DEGREES_TEXT], what[SPOT_DEGREES_TEXT + 16];

    c->want = c->options->grid;
    snprintf(what, sizeof(what), "--grid %s", spot_degrees_text(&c->want, text));
    if (c->want.D && spot_coord_check_grid(c, &c->want, what, SPOT_EUSAGE, err))
        return -1;
    return spot_coord_plan_first(c, err);
}

/* Each frame that waits, for a moment at most. */
static void flush_peers(struct spot_coord *c)
{
    const double until_s = spot_clock_s() + 1;

    for (size_t i = 0; i < c->n_peer; i++)
        while (spot_link_wants_write(&c->peer[i]->link) && spot_clock_s() < until_s) {
            if (spot_link_flush(&c->peer[i]->link, NULL))
                break;
            spot_clock_sleep(1e-3);
        }
}

/* Goodbye to the members. */
static void dismiss(struct spot_coord *c)
{
    for (size_t i = 0; c->is_over && i < c->n_peer; i++)
        if (c->peer[i]->id)
            spot_coord_send(c, c->peer[i], SPOT_MSG_FINISH, 0, NULL, 0);
    flush_peers(c);
}

static void release(struct spot_coord *c)
{
    wake_fd = -1;
    spot_coord_unlisten(c);
    while (c->n_peer)
        spot_coord_free_peer(c, c->n_peer - 1);
    spot_coord_local_stop(c);
    spot_coord_drop_private(c);
    for (int i = 0; i < 2; i++)
        if (c->wake[i] >= 0)
            close(c->wake[i]);
    for (int b = 0; c->result && b < c->n_bundle; b++)
        free(c->result[b]);
    free(c->result);
    free(c->peer);
    free(c->loss);
    free(c->vote);
    spot_buf_release(&c->still);
    spot_form_release(&c->form);
    spot_store_close(c->store);
    spot_machine_release(&c->machine);
    spot_suspects_release(&c->suspects);
    spot_corpus_release(&c->corpus);
    spot_weights_close(c->weights);
    spot_tls_context_free(c->tls);
}

/* Told to stop before the last step was done. What a private directory has of step 0 is drawn or
 * read again as fast. */
static int tell_stopped(struct spot_coord *c, struct spot_err *err)
{
    int64_t newest = -1;

    if (c->store) {
        (void)spot_store_confirm(c->store);
        newest = spot_store_newest(c->store);
    }
    if (newest < 0 || (!newest && !c->options->state))
        return spot_err_set(err, SPOT_EPREEMPTED, "stopped; no state is durable");
    spot_store_keep(c->store);
    return spot_err_set(err, SPOT_EPREEMPTED,
                        "stopped; the state of step %lld is in '%s', --state and --resume "
                        "continue it",
                        (long long)newest, spot_store_dir(c->store));
}

/* The training failed, or its result could not be written: what is durable stays, and is named. */
static void tell_kept(struct spot_coord *c, struct spot_err *err)
{
    const size_t n = strlen(err->msg);
    struct spot_err why;
    int64_t step;

    while (spot_store_writing(c->store) >= 0) {
        (void)spot_store_result(c->store, &step, &why);
        spot_clock_sleep(1e-3);
    }
    (void)spot_store_confirm(c->store);
    if (spot_store_newest(c->store) <= 0 || err->code == SPOT_EPREEMPTED || spot_coord_is_broke(c))
        return;
    spot_store_keep(c->store);
    snprintf(err->msg + n, sizeof(err->msg) - n,
             "; the state of step %lld is in '%s', --state and --resume continue it",
             (long long)spot_store_newest(c->store), spot_store_dir(c->store));
}

/* The end of the loop: the result, or what stopped it. */
static int conclude(struct spot_coord *c, struct spot_coordinator_result *result,
                    struct spot_err *err)
{
    if (c->options->observer) {
        dismiss(c);
        result->step = c->machine.round;
        return c->is_over ? 0 : spot_err_set(err, SPOT_EPREEMPTED, "stopped; nothing is kept");
    }
    if (!c->is_over) {
        tell_stopped(c, err);
        return spot_coord_is_broke(c) && !stop_calls ? spot_coord_tell_broke(c, err) : -1;
    }
    dismiss(c);
    while (spot_store_is_busy(c->store)) { /* the last generation is worth waiting for */
        if (spot_coord_store_news(c, err))
            return -1;
        spot_clock_sleep(1e-3);
    }
    if (spot_coord_finish(c, result, err))
        return -1;
    return c->state_err.code ? spot_err_set(err, c->state_err.code, "%s", c->state_err.msg) : 0;
}

int spot_coordinator_run(const struct spot_coordinator_options *options,
                         struct spot_coordinator_result *result, struct spot_err *err)
{
    struct spot_coord c = {
        .options = options, .config = options->config, .listener = -1, .private_fd = -1
    };
    int rc = -1;

    memset(result, 0, sizeof(*result));
    c.wake[0] = c.wake[1] = -1;
    c.stall_s = options->stall_s;
    if (open_job(&c, err))
        goto out;
    has_begun = true;
    /* the state is locked first: who may not have it must not touch another job's socket or log */
    if (check_save(&c, err) || open_state(&c, err) || spot_coord_listen(&c, err) ||
        open_wake(&c, err) || open_journal(&c, err) || open_plan(&c, err) || log_resumed(&c, err) ||
        spot_coord_local_start(&c, err))
        goto out;
    spot_coord_await(&c);
    rc = loop(&c, err);
    if (!rc)
        rc = conclude(&c, result, err);
    if (rc)
        tell_kept(&c, err);
    spot_coord_drained(&c, rc, err);
    flush_peers(&c);
out:
    if (rc && stop_calls && err->sys_errno == EINTR)
        tell_stopped(&c, err); /* the wish cut a call short that waited for somebody else */
    if (spot_journal_close(&c.journal, rc ? NULL : err) && !rc)
        rc = -1;
    release(&c);
    return rc;
}
