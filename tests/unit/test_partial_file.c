/* SPDX-License-Identifier: MIT */
/* Goal: whatever breaks on the way, there is no file, or the right one; and what was safe stays. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "move_rig.h"
#include "shard/part_journal.h"
#include "suite.h"

START_TEST(a_move_cut_after_every_byte_is_resumed)
{
    enum { CHUNK = 64 };
    struct file f;
    uint64_t whole, first, second;
    bool done = false;

    set_up();
    make_file(&f, 40, 50, 2);
    ck_assert(attempt(&f, CHUNK, SIZE_MAX, SIZE_MAX, &whole));
    unlink(target);
    for (size_t n = 0; !done; n++) {
        done = attempt(&f, CHUNK, _i ? SIZE_MAX : n, _i ? n : SIZE_MAX, &first);
        if (!done) {
            ck_assert_int_eq(target_is(&f), 0);
            ck_assert_msg(attempt(&f, CHUNK, SIZE_MAX, SIZE_MAX, &second), "cut at %zu", n);
            /* every chunk is a sync window here: no more than what was under way comes twice */
            ck_assert_uint_le(second, whole);
        }
        ck_assert_int_eq(target_is(&f), 1);
        unlink(target);
    }
    spot_buf_release(&f.bytes);
    tear_down();
}
END_TEST

static size_t journal_records(void)
{
    struct stat st;

    return stat(journal, &st) || st.st_size < SPOT_PART_JOURNAL_HEAD
               ? 0
               : (size_t)(st.st_size - SPOT_PART_JOURNAL_HEAD) / SPOT_PART_JOURNAL_RECORD;
}

/* An end before the first batch of 64 MiB or so is full. */
START_TEST(what_came_before_an_orderly_end_does_not_come_again)
{
    enum { CHUNK = 4096 };
    struct file f;
    struct spot_sender *sender;
    struct spot_receiver *receiver;
    struct spot_receiver_state state;
    struct spot_port *end[2];
    struct serving serving;

    set_up();
    make_file(&f, 100000, 10, 14);
    sender = sender_of(&f, CHUNK, 0);
    receiver = receiver_of(UINT64_C(1) << 40);
    make_pair(2, end);
    start_serving(&serving, sender, end[0]);
    ck_assert_int_eq(
        spot_receiver_add(receiver, cut_after(end[1], f.bytes.n / 2, SIZE_MAX, false), NULL), 0);
    ck_assert(!wait_for(receiver, &state));
    ck_assert_uint_ge(state.have_byte, 10 * CHUNK);
    spot_receiver_free(receiver);
    pthread_join(serving.thread, NULL);
    ck_assert_uint_eq(journal_records(), state.have_byte / CHUNK);
    spot_sender_free(sender);
    spot_buf_release(&f.bytes);
    tear_down();
}
END_TEST

START_TEST(a_receiver_killed_after_every_byte_finds_what_it_had)
{
    enum { CHUNK = 64 };
    struct file f;
    uint64_t whole, again;
    int status = 9 << 8;

    if (!CAN_FORK)
        return;
    set_up();
    make_file(&f, 40, 50, 3);
    ck_assert(attempt(&f, CHUNK, SIZE_MAX, SIZE_MAX, &whole));
    unlink(target);
    for (size_t n = 0; WEXITSTATUS(status) == 9; n++) {
        struct spot_sender *sender = sender_of(&f, CHUNK, 0);
        struct spot_port *end[2];
        struct serving serving;
        size_t n_safe;
        pid_t child;

        make_pair(2, end);
        child = fork();
        ck_assert_int_ge(child, 0);
        if (!child) {
            struct spot_receiver *receiver = receiver_of(1);
            struct spot_receiver_state state;

            end[0]->close(end[0]);
            spot_receiver_add(receiver, cut_after(end[1], n, SIZE_MAX, true), NULL);
            wait_for(receiver, &state);
            spot_receiver_free(receiver);
            leave(state.is_committed ? 0 : 1);
        }
        end[1]->close(end[1]);
        start_serving(&serving, sender, end[0]);
        pthread_join(serving.thread, NULL);
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert(WIFEXITED(status) && (WEXITSTATUS(status) == 9 || !WEXITSTATUS(status)));
        spot_sender_free(sender);
        n_safe = journal_records();
        if (!target_is(&f)) {
            ck_assert_int_ne(serving.rc, 0);
            ck_assert_msg(attempt(&f, CHUNK, SIZE_MAX, SIZE_MAX, &again), "killed at %zu", n);
            /* what the journal names does not come again */
            ck_assert_uint_le(again + n_safe * CHUNK / 2, whole);
        }
        ck_assert_int_eq(target_is(&f), 1);
        unlink(target);
        unlink(journal);
    }
    spot_buf_release(&f.bytes);
    tear_down();
}
END_TEST

START_TEST(a_journal_cut_or_changed_at_every_byte_does_no_harm)
{
    enum { CHUNK = 64 };
    unsigned char saved[512];
    struct file f;
    uint64_t n;
    size_t n_journal;
    char kept[2][256];
    FILE *file;

    set_up();
    make_file(&f, 40, 50, 4);
    ck_assert(!attempt(&f, CHUNK, 1100, SIZE_MAX, &n));
    file = fopen(journal, "rb");
    ck_assert_ptr_nonnull(file);
    n_journal = fread(saved, 1, sizeof(saved), file);
    fclose(file);
    ck_assert_uint_ge(n_journal, SPOT_PART_JOURNAL_HEAD + 2 * SPOT_PART_JOURNAL_RECORD);
    snprintf(kept[0], sizeof(kept[0]), "cp %s %s.kept", part, part);
    snprintf(kept[1], sizeof(kept[1]), "cp %s.kept %s", part, part);
    ck_assert_int_eq(system(kept[0]), 0);
    for (size_t i = 0; i < 2 * n_journal; i++) {
        const bool is_cut = i < n_journal;

        ck_assert_int_eq(system(kept[1]), 0);
        file = fopen(journal, "wb");
        if (!is_cut)
            saved[i - n_journal] ^= 0x10;
        fwrite(saved, 1, is_cut ? i : n_journal, file);
        fclose(file);
        if (!is_cut)
            saved[i - n_journal] ^= 0x10;
        ck_assert_msg(attempt(&f, CHUNK, SIZE_MAX, SIZE_MAX, &n), "journal byte %zu", i);
        ck_assert_int_eq(target_is(&f), 1);
        unlink(target);
    }
    snprintf(kept[0], sizeof(kept[0]), "%s.kept", part);
    unlink(kept[0]);
    spot_buf_release(&f.bytes);
    tear_down();
}
END_TEST

START_TEST(a_part_that_was_changed_meanwhile_is_not_believed)
{
    enum { CHUNK = 64 };
    struct file f;
    uint64_t n;
    int fd;

    set_up();
    make_file(&f, 40, 50, 5);
    ck_assert(!attempt(&f, CHUNK, 1100, SIZE_MAX, &n));
    ck_assert_uint_ge(journal_records(), 2);
    fd = open(part, O_WRONLY);
    ck_assert_int_eq(pwrite(fd, "spoilt", 6, (off_t)f.n_header + 3), 6);
    close(fd);
    ck_assert(attempt(&f, CHUNK, SIZE_MAX, SIZE_MAX, &n));
    ck_assert_int_eq(target_is(&f), 1);
    spot_buf_release(&f.bytes);
    tear_down();
}
END_TEST

/* All of a file into a partial file, but for the commit. */
static struct spot_partial *write_all(const struct file *f)
{
    const struct spot_stream_info info = { .chunk_byte = 4096, .stream_id = 1 };
    const struct spot_partial_options options = { 0 };
    struct spot_partial *p =
        spot_partial_open(target, &info, f->bytes.data, f->n_header, &options, NULL);
    uint64_t n;

    ck_assert_ptr_nonnull(p);
    n = spot_partial_missing(p);
    for (uint64_t i = 0; i < n; i++) {
        struct spot_chunk chunk;
        const unsigned char *raw;

        spot_chunk_map_get(spot_partial_map(p), i, &chunk);
        raw = f->bytes.data + f->n_header + chunk.raw_off;
        chunk.hash = spot_hash64(raw, chunk.raw_byte);
        ck_assert_int_eq(spot_partial_put(p, &chunk, raw, NULL), 0);
    }
    return p;
}

/* _i: nobody interferes; another file is put there; it is removed; the directory is another one;
 * the journal is removed; another journal is put there. */
START_TEST(what_is_committed_is_what_was_written)
{
    struct spot_err err = { 0 };
    struct spot_partial *p;
    struct file f;
    char away[128];

    set_up();
    make_file(&f, 5000, 10, 15);
    p = write_all(&f);
    snprintf(away, sizeof(away), "%s.away", _i == 3 ? dir : part);
    if (_i == 1) {
        ck_assert_int_eq(rename(part, away), 0);
        close(open(part, O_CREAT | O_WRONLY, 0600));
        unlink(away);
    } else if (_i == 2) {
        unlink(part);
    } else if (_i == 3) {
        ck_assert_int_eq(rename(dir, away), 0);
        ck_assert_int_eq(mkdir(dir, 0700), 0);
    } else if (_i >= 4) {
        unlink(journal);
        if (_i == 5)
            close(open(journal, O_CREAT | O_WRONLY, 0600));
    }
    ck_assert_int_eq(spot_partial_commit(p, &err), _i ? -1 : 0);
    ck_assert_int_eq(target_is(&f), !_i);
    if (_i)
        ck_assert_ptr_nonnull(strstr(err.msg, "was removed or replaced while it was written"));
    spot_partial_free(p);
    spot_buf_release(&f.bytes);
    if (_i == 3) {
        rmdir(dir);
        ck_assert_int_eq(rename(away, dir), 0);
    }
    tear_down();
}
END_TEST

/* The second receiver brings another file of the same shape, and has a journal of its own because
 * somebody removed the first one's. A lock of one process holds back others only: fork. */
START_TEST(two_receivers_never_share_a_part)
{
    const struct spot_stream_info info = { .chunk_byte = 4096, .stream_id = 2 };
    const struct spot_partial_options options = { 0 };
    struct spot_partial *p;
    struct file f, other;
    int status;
    pid_t child;

    if (!CAN_FORK)
        return;
    set_up();
    make_file(&f, 5000, 10, 15);
    make_file(&other, 5000, 10, 16);
    p = write_all(&f);
    unlink(journal);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        struct spot_err err = { 0 };

        if (spot_partial_open(target, &info, other.bytes.data, other.n_header, &options, &err))
            leave(1);
        leave(strstr(err.msg, ".part' is in use by another process") ? 0 : 2);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(spot_partial_commit(p, NULL), -1); /* the journal there is the other's */
    ck_assert_int_eq(access(target, F_OK), -1);
    spot_partial_free(p);
    spot_buf_release(&f.bytes);
    spot_buf_release(&other.bytes);
    tear_down();
}
END_TEST

static void ck_refused(const struct file *f, const char *path, const char *why)
{
    const struct spot_stream_info info = { .chunk_byte = 4096, .stream_id = 1 };
    const struct spot_partial_options options = { 0 };
    struct spot_err err = { 0 };
    char want[256];

    ck_assert_ptr_null(
        spot_partial_open(target, &info, f->bytes.data, f->n_header, &options, &err));
    snprintf(want, sizeof(want), "'%s' %s: remove it", path, why);
    ck_assert_str_eq(err.msg, want);
}

/* Another name of a file elsewhere, or a file of another user, where `path` is to be. */
static void ck_not_adopted(const struct file *f, const char *path)
{
    char decoy[200], text[16] = "";
    FILE *io;

    snprintf(decoy, sizeof(decoy), "%s.decoy", target);
    io = fopen(decoy, "w");
    fputs("precious", io);
    fclose(io);
    ck_assert_int_eq(link(decoy, path), 0);
    ck_refused(f, path, "is another file too (a hard link)");
    io = fopen(decoy, "r");
    ck_assert_ptr_nonnull(fgets(text, sizeof(text), io));
    ck_assert_str_eq(text, "precious");
    fclose(io);
    unlink(path);
    if (!chown(decoy, 65534, 65534)) {
        ck_assert_int_eq(rename(decoy, path), 0);
        ck_refused(f, path, "belongs to another user");
        ck_assert_int_eq(access(path, F_OK), 0);
    }
    unlink(path);
    unlink(decoy);
    unlink(part);
    unlink(journal);
}

/* What lies where the part or the journal would be is not followed and not waited for. */
START_TEST(what_is_no_file_of_ours_is_not_written_to)
{
    struct spot_err err = { 0 };
    struct file f;

    set_up();
    make_file(&f, 5000, 10, 15);
    ck_assert_int_eq(symlink("/etc/hostname", part), 0);
    ck_refused(&f, part, "is a symbolic link");
    unlink(part);
    ck_assert_int_eq(mkfifo(part, 0600), 0);
    ck_refused(&f, part, "is not a regular file");
    unlink(part);
    ck_not_adopted(&f, part);
    ck_not_adopted(&f, journal);
    ck_assert_int_eq(spot_partial_check("", &err), -1);
    ck_assert_str_eq(err.msg, "the name of an output file is empty");
    ck_assert_int_eq(spot_partial_check("/dev/null", &err), -1);
    ck_assert_str_eq(err.msg, "cannot replace '/dev/null': not a regular file");
    ck_assert_int_eq(spot_partial_check("/nowhere/model", &err), -1);
    ck_assert_str_eq(err.msg, "cannot write '/nowhere/model': No such file or directory");
    spot_buf_release(&f.bytes);
    tear_down();
}
END_TEST

/* A chunk that is there comes again with other numbers: one of the two is wrong. */
START_TEST(a_chunk_that_differs_from_the_one_before_ends_the_attempt)
{
    struct spot_err err = { 0 };
    struct spot_chunk chunk;
    struct spot_partial *p;
    struct file f;
    char want[320];

    set_up();
    make_file(&f, 5000, 10, 15);
    p = write_all(&f);
    spot_chunk_map_get(spot_partial_map(p), 1, &chunk);
    chunk.hash = spot_hash64(f.bytes.data + f.n_header + chunk.raw_off, chunk.raw_byte) + 1;
    ck_assert_int_eq(spot_partial_put(p, &chunk, f.bytes.data, &err), -1);
    snprintf(want, sizeof(want),
             "chunk 1 differs from the one received before: the source has changed; remove '%s' to "
             "start over",
             part);
    ck_assert_str_eq(err.msg, want);
    ck_assert_int_eq(err.code, SPOT_EDATA);
    spot_partial_free(p);
    spot_buf_release(&f.bytes);
    tear_down();
}
END_TEST

START_TEST(a_source_that_changed_between_attempts_gives_no_mixture)
{
    enum { CHUNK = 64 };
    struct file old, new;
    uint64_t n;

    set_up();
    make_file(&old, 40, 50, 6);
    make_file(&new, 40, 50, 7);
    ck_assert(!attempt(&old, CHUNK, 1100, SIZE_MAX, &n));
    ck_assert_uint_ge(journal_records(), 2);
    ck_assert(!attempt(&new, CHUNK, SIZE_MAX, SIZE_MAX, &n));
    ck_assert_int_eq(access(target, F_OK), -1);
    ck_assert(attempt(&new, CHUNK, SIZE_MAX, SIZE_MAX, &n));
    ck_assert_int_eq(target_is(&new), 1);
    spot_buf_release(&old.bytes);
    spot_buf_release(&new.bytes);
    tear_down();
}
END_TEST

START_TEST(a_disk_that_fills_up_is_told_to_both_ends)
{
    struct file f;
    struct spot_sender *sender;
    struct spot_port *end[2];
    struct serving serving;
    pid_t child;
    int status;

    if (!CAN_FORK)
        return;
    set_up();
    make_file(&f, 100000, 10, 11);
    sender = sender_of(&f, 4096, 0);
    make_pair(5, end);
    child = fork();
    ck_assert_int_ge(child, 0);
    if (!child) {
        const struct rlimit limit = { 1 << 18, 1 << 18 };
        struct spot_receiver *receiver = receiver_of(1);
        struct spot_receiver_state state;

        signal(SIGXFSZ, SIG_IGN);
        end[0]->close(end[0]);
        if (spot_receiver_add(receiver, end[1], NULL) || setrlimit(RLIMIT_FSIZE, &limit))
            leave(2);
        wait_for(receiver, &state);
        spot_receiver_free(receiver);
        leave(state.is_committed ? 0 : state.is_fatal && state.err.code == SPOT_ESYS ? 4 : 3);
    }
    end[1]->close(end[1]);
    start_serving(&serving, sender, end[0]);
    pthread_join(serving.thread, NULL);
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(WEXITSTATUS(status), 4);
    ck_assert_int_eq(serving.rc, -1);
    ck_assert_int_eq(target_is(&f), 0);
    spot_sender_free(sender);
    spot_buf_release(&f.bytes);
    tear_down();
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    signal(SIGPIPE, SIG_IGN);
    tcase_add_loop_test(tc, a_move_cut_after_every_byte_is_resumed, 0, 2);
    tcase_add_loop_test(tc, what_is_committed_is_what_was_written, 0, 6);
    add_tests(tc);
    return run_suite("partial_file", tc);
}
