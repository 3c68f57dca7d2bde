/* SPDX-License-Identifier: MIT */
/* lane: compute, first */
#define _XOPEN_SOURCE 700
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "comm/endpoint.h"
#include "comm/link.h"
#include "common/clock.h"
#include "model/report.h"
#include "suite.h"
#include "train/train_protocol.h"
#include "train/trainer.h"
#include "train/worker.h"

/* Goal: a worker may die, be told to leave, or talk half sense at any message of the protocol, and
 * the job ends with the bits of the undisturbed one. Real processes; one of them talks through a
 * relay that sees every frame, so that the moment of the kill is exact, not a matter of luck. */

enum { STEPS = 60, VAL_EVERY = 5, PAIRS_MAX = 32, WORKERS_MAX = 8 };
/* what happens, if it is no signal */
enum { GARBLE = 0, RESET = -1, FORGE = -2 };

static char dir[] = "/tmp/spot-kill-XXXXXX";
static char undisturbed[40];
static struct spot_run calm; /* its log */

/* --- processes ------------------------------------------------------------- */

static void quiet(const char *fmt, ...) SPOT_PRINTF(1, 2);
static void quiet(const char *fmt, ...)
{
    (void)fmt;
}

static char *in_dir(const char *prefix, const char *name)
{
    static char text[8][SPOT_ADDRESS_MAX];
    static int at;
    char *const here = text[at++ % 8];

    snprintf(here, SPOT_ADDRESS_MAX, "%s%s/%s", prefix, dir, name);
    return here;
}

static pid_t start_coordinator(const char *result_path, bool is_alone)
{
    const char *const data[] = { in_dir("", "corpus") };
    struct spot_trainer_options o = {
        .config = { .shape = { 2, 16, 2, 8, 256, 2 },
                    .micro_batch = 1,
                    .global_batch = 4,
                    .n_step = STEPS,
                    .seed = 1,
                    .adamw = { 1e-3, 0.9, 0.95, 1e-8, 0.1 },
                    .schedule = { SPOT_LR_COSINE, 20, 200, 1e-4 },
                    .clip_norm = 1,
                    .kernel = "portable" },
        .data = data,
        .n_data = 1,
        .val_data = data,
        .n_val_data = 1,
        .val_every = VAL_EVERY,
        .val_batches = 2,
        .token_byte = 1,
        .listen = in_dir("unix:", "j"),
        .n_thread = 1,
        .grid = { is_alone ? 1 : 2, is_alone ? 1 : 2, 1 },
        .events = in_dir("", "events"),
        .durable_every_s = 0.02,
        .precopy_byte = -1,
        .lease_s = 2,
        .stall_s = 30,
        .settle_s = 0.2,
        .warn = quiet,
    };
    struct spot_trainer_result result;
    struct spot_err err = { 0 };
    const pid_t pid = fork();
    FILE *out;

    if (pid)
        return pid;
    unlink(o.events); /* of the job before */
    if (spot_trainer_run(&o, &result, &err)) {
        fprintf(stderr, "# coordinator: %s\n", err.msg);
        leave(1);
    }
    out = fopen(result_path, "w");
    fputs(result.state_hex, out);
    fclose(out);
    leave(0);
}

static void on_notice(int number)
{
    (void)number;
    spot_worker_notice();
}

static pid_t start_named(const char *join, const char *name, const char *domain)
{
    const struct spot_worker_options o = { .join = join,
                                           .name = name,
                                           .domain = domain,
                                           .backend = "cpu",
                                           .n_thread = 1,
                                           .join_timeout_s = 60 };
    struct sigaction action = { .sa_handler = on_notice, .sa_flags = SA_RESTART };
    struct spot_err err = { 0 };
    const pid_t pid = fork();

    if (pid)
        return pid;
    for (int fd = STDERR_FILENO + 1; fd < 256; fd++)
        close(fd); /* the relay's: a connection that it closes must be gone */
    sigaction(SIGTERM, &action, NULL);
    leave(spot_worker_run(&o, &err) ? spot_err_exit_status(&err) : 0);
}

static pid_t start_worker(const char *join)
{
    return start_named(join, NULL, NULL);
}

/* --- the relay ------------------------------------------------------------- */

struct pair {
    struct spot_link side[2]; /* 0: the victim's, 1: the world's */
};

struct relay {
    int control, peers; /* listeners: the victim joins here; its peers come there */
    struct pair pair[PAIRS_MAX];
    int n_pair;
    pid_t victim, worker[WORKERS_MAX];
    int n_worker, n_commit;
    uint32_t type; /* of the frame at which it happens; 0: any one after the last commit */
    int countdown; /* frames of that type until then */
    int signal;    /* or GARBLE, RESET, FORGE */
    bool is_in;    /* the victim is a member */
    bool is_last;  /* all steps are committed */
    bool is_done;  /* it has happened */
};

static int listen_at(const char *name)
{
    struct spot_endpoint e;

    ck_assert_int_eq(spot_endpoint_parse(in_dir("unix:", name), &e, NULL), 0);
    return spot_endpoint_listen(&e, NULL);
}

static void accept_pair(struct relay *r, int listener, const char *towards)
{
    const int here = spot_endpoint_accept(listener);
    const bool is_control = listener == r->control;
    struct spot_endpoint e;
    int there;

    if (here < 0)
        return;
    ck_assert_int_eq(spot_endpoint_parse(towards, &e, NULL), 0);
    there = spot_endpoint_connect(&e, NULL);
    if (there < 0 || r->n_pair == PAIRS_MAX) {
        close(here);
        return;
    }
    spot_link_init(&r->pair[r->n_pair].side[0], is_control ? here : there, SPOT_PAYLOAD_MAX);
    spot_link_init(&r->pair[r->n_pair].side[1], is_control ? there : here, SPOT_PAYLOAD_MAX);
    r->n_pair++;
}

static void drop_pair(struct relay *r, int i)
{
    spot_link_release(&r->pair[i].side[0]);
    spot_link_release(&r->pair[i].side[1]);
    r->pair[i] = r->pair[--r->n_pair];
}

/* The hello with the relay's address for peers instead of the victim's. */
static struct spot_frame *rewrite_hello(struct spot_frame *hello_take)
{
    struct spot_wire_in in = spot_wire_in(hello_take->data, hello_take->n_byte);
    char version[SPOT_VERSION_MAX], name[SPOT_NAME_MAX], address[SPOT_ADDRESS_MAX + 8];
    struct spot_buf out = { 0 };
    struct spot_frame *hello;

    spot_put_u32(&out, spot_get_u32(&in));
    spot_get_text(&in, version, sizeof(version));
    spot_get_text(&in, name, sizeof(name));
    spot_get_text(&in, address, sizeof(address));
    spot_put_text(&out, version);
    spot_put_text(&out, name);
    spot_put_text(&out, in_dir("unix:", "q"));
    spot_buf_add(&out, in.at, (size_t)(in.end - in.at));
    hello = spot_frame_new(hello_take->type, hello_take->epoch, hello_take->tag, out.n);
    memcpy(hello->data, out.data, out.n);
    spot_buf_release(&out);
    free(hello_take);
    return hello;
}

/* The order to save with another nonce at its end: its directory is one that the victim does not
 * see, so it sends its bundles. */
static void hide_directory(struct spot_frame *save)
{
    save->data[save->n_byte - 1] ^= 1;
}

/* The first half of a frame, as a whole one. */
static struct spot_frame *halve(struct spot_frame *frame_take)
{
    struct spot_frame *half = spot_frame_new(frame_take->type, frame_take->epoch, frame_take->tag,
                                             frame_take->n_byte / 2);

    memcpy(half->data, frame_take->data, half->n_byte);
    free(frame_take);
    return half;
}

/* A vote that calls tensors diverged which the model does not have. */
static void forge(struct spot_frame *vote)
{
    enum { SEEN_BYTE = 40, LOSS_BYTE = 12, MARKS_AT = 16, MARKS_BYTE = 4 };
    struct spot_wire_in in = spot_wire_in(vote->data, vote->n_byte);
    const uint8_t *mark;

    spot_get_bytes(&in, SEEN_BYTE);
    spot_get_bytes(&in, LOSS_BYTE * (size_t)spot_get_u32(&in));
    ck_assert_uint_gt(spot_get_u32(&in), 0);
    spot_get_bytes(&in, MARKS_AT);
    mark = spot_get_bytes(&in, MARKS_BYTE);
    ck_assert_ptr_nonnull(mark);
    memset(vote->data + (mark - vote->data), 0xff, MARKS_BYTE);
}

/* The moment: the frame has been seen; it goes no further (NULL) if the victim dies, or the
 * connection does. */
static struct spot_frame *strike(struct relay *r, struct spot_frame *frame_take)
{
    if (r->is_done || (r->type ? frame_take->type != r->type : !r->is_last) || --r->countdown > 0)
        return frame_take;
    r->is_done = true;
    r->worker[r->n_worker++] = start_worker(in_dir("unix:", "j"));
    if (r->signal == GARBLE)
        return halve(frame_take);
    if (r->signal == FORGE)
        forge(frame_take);
    if (r->signal > 0)
        kill(r->victim, r->signal);
    if (r->signal != SIGKILL && r->signal != RESET)
        return frame_take;
    free(frame_take);
    return NULL;
}

/* Returns -1 when the connection is to be closed. */
static int pass(struct relay *r, struct pair *p, int from)
{
    struct spot_frame_list in = { NULL, NULL };
    struct spot_frame *frame;
    int rc = spot_link_read(&p->side[from], &in, NULL);

    while ((frame = spot_frame_pop(&in))) {
        if (frame->type == SPOT_MSG_HELLO)
            frame = rewrite_hello(frame);
        if (frame->type == SPOT_MSG_SAVE && r->type == SPOT_MSG_SNAPSHOT)
            hide_directory(frame);
        r->is_in |= frame->type == SPOT_MSG_WELCOME;
        r->n_commit += frame->type == SPOT_MSG_COMMIT;
        r->is_last |= frame->type == SPOT_MSG_COMMIT && frame->tag == STEPS - 1;
        frame = strike(r, frame);
        if (!frame) {
            spot_frame_list_release(&in);
            return -1;
        }
        spot_frame_push(&p->side[!from].sending, frame);
        if (spot_link_flush(&p->side[!from], NULL))
            rc = -1;
    }
    return rc;
}

static void serve_pair(struct relay *r, int i, const struct pollfd *set)
{
    struct pair *p = &r->pair[i];

    for (int k = 0; k < 2; k++) {
        if (set[k].revents & POLLOUT && spot_link_flush(&p->side[k], NULL)) {
            drop_pair(r, i);
            return;
        }
        if (set[k].revents & (POLLIN | POLLHUP | POLLERR) && pass(r, p, k)) {
            for (int s = 0; s < 2; s++)
                (void)spot_link_flush(&p->side[s], NULL);
            drop_pair(r, i);
            return;
        }
    }
}

static void turn(struct relay *r)
{
    struct pollfd set[2 + 2 * PAIRS_MAX];
    const int n_pair = r->n_pair;
    char victim[32];

    set[0] = (struct pollfd){ .fd = r->control, .events = POLLIN };
    set[1] = (struct pollfd){ .fd = r->peers, .events = POLLIN };
    for (int i = 0; i < n_pair; i++)
        for (int k = 0; k < 2; k++) {
            const struct spot_link *l = &r->pair[i].side[k];

            set[2 + 2 * i + k] = (struct pollfd){
                .fd = l->fd, .events = (short)(POLLIN | (spot_link_wants_write(l) ? POLLOUT : 0))
            };
        }
    poll(set, (nfds_t)(2 + 2 * n_pair), 10);
    for (int i = n_pair; i-- > 0;)
        serve_pair(r, i, &set[2 + 2 * i]);
    snprintf(victim, sizeof(victim), "p.%ld", (long)r->victim);
    accept_pair(r, r->control, in_dir("unix:", "j"));
    accept_pair(r, r->peers, in_dir("unix:", victim));
}

/* --- a run ----------------------------------------------------------------- */

static void read_hash(const char *path, char hex[40])
{
    FILE *in = fopen(path, "r");

    ck_assert_ptr_nonnull(in);
    ck_assert_int_eq(fscanf(in, "%39s", hex), 1);
    fclose(in);
}

static void stop(pid_t pid)
{
    if (pid <= 0)
        return;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* Workers end with their job; one that came too late for it still looks for somebody. */
static void end(struct relay *r)
{
    for (int i = 0; i < r->n_worker; i++) {
        for (int k = 0; r->worker[i] > 0 && k < 100; k++) {
            if (waitpid(r->worker[i], NULL, WNOHANG) == r->worker[i])
                r->worker[i] = 0;
            else
                spot_clock_sleep(0.002);
        }
        stop(r->worker[i]);
    }
    while (r->n_pair)
        drop_pair(r, r->n_pair - 1);
}

/* Every one was made, and has the bits of the undisturbed job. */
static void check_validations(const char *what, int n, int signal)
{
    struct spot_err err = { 0 };
    struct spot_run run;
    int64_t n_both;

    ck_assert_msg(!spot_run_load(&run, in_dir("", "events"), &err), "%s", err.msg);
    ck_assert_msg(spot_run_equal_validations(&run, &calm, &n_both) == STEPS / VAL_EVERY + 1 &&
                      n_both == STEPS / VAL_EVERY + 1,
                  "%s %d, signal %d: another loss of the validation data", what, n, signal);
    spot_run_release(&run);
}

/* Kill or notify the first worker at the n-th frame of a type; the job must not care. False if the
 * frame never came: the job was over before, on a machine that is busy. */
static bool play(const char *what, uint32_t type, int n, int signal)
{
    struct relay r = { .type = type, .countdown = n, .signal = signal };
    const double until_s = spot_clock_s() + 60;
    const pid_t coordinator = start_coordinator(in_dir("", "result"), false);
    int status = -1, left = -1, rc = 0;
    char hex[40];

    r.control = listen_at("p");
    r.peers = listen_at("q");
    r.victim = start_worker(in_dir("unix:", "p"));
    while (!rc && spot_clock_s() < until_s) {
        turn(&r);
        if (r.n_worker < 2 && r.is_in) /* the victim is the eldest: its peers come to it */
            r.worker[r.n_worker++] = start_worker(in_dir("unix:", "j"));
        if (r.n_worker == 2 && r.n_commit >= 5)
            r.worker[r.n_worker++] = start_worker(in_dir("unix:", "j"));
        rc = waitpid(coordinator, &status, WNOHANG);
    }
    if (!rc)
        stop(coordinator);
    end(&r);
    for (int k = 0; k < 1200 && waitpid(r.victim, &left, WNOHANG) == 0; k++) {
        if (k == 1190)
            kill(r.victim, SIGKILL); /* our child, not yet waited for */
        spot_clock_sleep(0.05);
    }
    close(r.control);
    close(r.peers);
    ck_assert_msg(rc != 0, "%s %d, signal %d: the job hangs", what, n, signal);
    ck_assert_msg(WIFEXITED(status) && !WEXITSTATUS(status), "%s %d, signal %d: the job failed",
                  what, n, signal);
    read_hash(in_dir("", "result"), hex);
    ck_assert_msg(!strcmp(hex, undisturbed), "%s %d, signal %d: %s, not %s", what, n, signal, hex,
                  undisturbed);
    check_validations(what, n, signal);
    if (signal == SIGTERM)
        ck_assert_msg(WIFEXITED(left) && (WEXITSTATUS(left) == 75 || WEXITSTATUS(left) == 0),
                      "%s %d: the noticed worker ended with %x", what, n, (unsigned)left);
    return r.is_done;
}

static const struct {
    const char *what;
    uint32_t type;
    int n;
} moment[] = {
    { "join: hello", SPOT_MSG_HELLO, 1 },
    { "join: welcome", SPOT_MSG_WELCOME, 1 },
    { "quiesce: the first", SPOT_MSG_QUIESCE, 1 },
    { "quiesce: a later one", SPOT_MSG_QUIESCE, 2 },
    { "quiesce: inventory", SPOT_MSG_REPORT, 2 },
    { "migrate: form", SPOT_MSG_FORM, 1 },
    { "migrate: a later form", SPOT_MSG_FORM, 2 },
    { "migrate: bundle", SPOT_MSG_BUNDLE, 1 },
    { "migrate: ready", SPOT_MSG_READY, 1 },
    { "migrate: later ready", SPOT_MSG_READY, 2 },
    { "step: order", SPOT_MSG_ROUND, 4 },
    { "step: later order", SPOT_MSG_ROUND, 40 },
    { "validate: order", SPOT_MSG_VALIDATE, 1 },
    { "validate: second batch", SPOT_MSG_VALIDATE, 4 },
    { "validate: later order", SPOT_MSG_VALIDATE, 15 },
    { "forward", SPOT_MSG_FORWARD, 6 },
    { "forward in two pipelines", SPOT_MSG_FORWARD, 90 },
    { "backward", SPOT_MSG_BACKWARD, 7 },
    { "backward in two pipelines", SPOT_MSG_BACKWARD, 91 },
    { "reduce: scatter", SPOT_MSG_SCATTER, 5 },
    { "reduce: gather", SPOT_MSG_GATHER, 6 },
    { "vote", SPOT_MSG_VOTE, 3 },
    { "vote in two pipelines", SPOT_MSG_VOTE, 30 },
    { "update: commit", SPOT_MSG_COMMIT, 3 },
    { "update: commit in two pipelines", SPOT_MSG_COMMIT, 30 },
    { "save: order", SPOT_MSG_SAVE, 1 },
    { "save: written", SPOT_MSG_WRITTEN, 1 },
    { "save: snapshot", SPOT_MSG_SNAPSHOT, 1 },
};

/* Orders without a payload have no half. */
static bool has_half(uint32_t type)
{
    return type != SPOT_MSG_QUIESCE && type != SPOT_MSG_READY;
}

static void strike_once(int i, int signal)
{
    for (int k = 0; k < 6; k++)
        if (play(moment[i].what, moment[i].type, moment[i].n, signal))
            return;
    ck_abort_msg("%s %d never came", moment[i].what, moment[i].n);
}

START_TEST(a_kill_at_any_message_leaves_the_final_bits)
{
    strike_once(_i, SIGKILL);
}
END_TEST

/* A notice, half a message and a reset come in turns over the moments. */
START_TEST(a_notice_at_any_message_leaves_the_final_bits)
{
    if (_i % 4 == 1 || is_long())
        strike_once(_i, SIGTERM);
}
END_TEST

START_TEST(half_a_message_at_any_moment_leaves_the_final_bits)
{
    if (has_half(moment[_i].type) && (_i % 4 == 0 || is_long()))
        strike_once(_i, GARBLE);
}
END_TEST

/* The victim lives, and comes back. */
START_TEST(a_connection_that_is_reset_at_any_message_leaves_the_final_bits)
{
    if (_i % 4 == 3 || is_long())
        strike_once(_i, RESET);
}
END_TEST

enum { LAST = 12 };

/* Whatever is said when all steps are committed, and however few frames that are. */
START_TEST(a_connection_that_is_reset_or_a_worker_that_is_killed_at_the_end_does_not_keep_it)
{
    (void)play("at the end", 0, _i / 2 + 1, _i % 2 ? RESET : SIGKILL);
}
END_TEST

START_TEST(a_vote_about_what_the_model_does_not_have_is_no_vote)
{
    ck_assert(play("forged vote", SPOT_MSG_VOTE, 20, FORGE));
}
END_TEST

START_TEST(a_name_that_is_no_text_is_refused_and_the_job_goes_on)
{
    static const char *const bad[][2] = {
        { "\xff", "a" }, { "a\n", "a" }, { "", "a" }, { "a", "\xc3" }, { "a", "\x1b[2J" }
    };
    const pid_t coordinator = start_coordinator(in_dir("", "result"), true);
    char hex[40];
    pid_t good;
    int status;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        waitpid(start_named(in_dir("unix:", "j"), bad[i][0], bad[i][1]), &status, 0);
        ck_assert(WIFEXITED(status));
        ck_assert_int_eq(WEXITSTATUS(status), 1); /* refused */
    }
    good = start_named(in_dir("unix:", "j"),
                       "gr\xc3\xb6\xc3\x9f"
                       "e",
                       "z");
    waitpid(coordinator, &status, 0);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    waitpid(good, NULL, 0);
    read_hash(in_dir("", "result"), hex);
    ck_assert_str_eq(hex, undisturbed);
}
END_TEST

static void run_undisturbed(void)
{
    struct spot_err err = { 0 };
    const pid_t c = start_coordinator(in_dir("", "result"), true);
    pid_t w;

    w = start_worker(in_dir("unix:", "j"));
    waitpid(w, NULL, 0);
    for (int k = 0; k < 1200 && waitpid(c, NULL, WNOHANG) == 0; k++) {
        if (k == 1190)
            kill(c, SIGKILL); /* our child, not yet waited for */
        spot_clock_sleep(0.05);
    }
    read_hash(in_dir("", "result"), undisturbed);
    ck_assert_msg(!spot_run_load(&calm, in_dir("", "events"), &err), "%s", err.msg);
}

int main(void)
{
    TCase *tc = tcase_create("core");
    char command[64];
    FILE *corpus;
    int status;

    if (!mkdtemp(dir))
        return 77;
    corpus = fopen(in_dir("", "corpus"), "w");
    for (int i = 0; i < 1000; i++)
        fprintf(corpus, "%d ", i * i);
    fclose(corpus);
    tcase_add_unchecked_fixture(tc, run_undisturbed, NULL);
    tcase_add_loop_test(tc, a_kill_at_any_message_leaves_the_final_bits, 0,
                        sizeof(moment) / sizeof(moment[0]));
    tcase_add_loop_test(tc, a_notice_at_any_message_leaves_the_final_bits, 0,
                        sizeof(moment) / sizeof(moment[0]));
    tcase_add_loop_test(tc, half_a_message_at_any_moment_leaves_the_final_bits, 0,
                        sizeof(moment) / sizeof(moment[0]));
    tcase_add_loop_test(tc, a_connection_that_is_reset_at_any_message_leaves_the_final_bits, 0,
                        sizeof(moment) / sizeof(moment[0]));
    tcase_add_loop_test(
        tc, a_connection_that_is_reset_or_a_worker_that_is_killed_at_the_end_does_not_keep_it, 0,
        is_long() ? 2 * LAST : LAST);
    tcase_add_test(tc, a_vote_about_what_the_model_does_not_have_is_no_vote);
    tcase_add_test(tc, a_name_that_is_no_text_is_refused_and_the_job_goes_on);
    status = run_suite("coordinator", tc);
    spot_run_release(&calm);
    snprintf(command, sizeof(command), "rm -r '%s'", dir);
    return system(command) ? EXIT_FAILURE : status;
}
