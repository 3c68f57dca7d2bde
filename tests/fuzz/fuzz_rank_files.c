/* SPDX-License-Identifier: MIT */
#define _XOPEN_SOURCE 700
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/safe_dir.h"
#include "host/rank_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: whatever a script does in its directory, between looks and within a save, no half file is
 * taken, what is laid out has the bytes that were taken, and nothing outside is touched. The first
 * byte picks the pattern, each two that follow a step. A file ends with a dot once it is whole. */

enum { NAMES = 8, RECORDS = 2 };

static const char *const name[NAMES] = {
    "out/ckpt",  "out/ckpt.1", "out/d",           "out/d/a",
    "out/d/e/b", "out/other",  "out/d/.metadata", "out/latest"
};
static const char *const target[] = { "d", "ckpt", "../elsewhere/x", "/nonexistent/x", "d/e", "." };

static double now_s;
static size_t kind; /* of the pattern */
static char root[64];
static FILE *half[NAMES];
static struct spot_rank_files *files;
static struct spot_state_store *store;
static struct spot_state_id taken[RECORDS]; /* newest last; step 0: none */
static uint64_t step;

/* Time passes when a step says so. */
double spot_clock_s(void)
{
    return now_s;
}

double spot_clock_cpu_s(void)
{
    return now_s;
}

void spot_clock_sleep(double duration_s)
{
    now_s += duration_s;
}

#define expect(holds) ((holds) ? (void)0 : (perror(#holds), abort()))

/* --- a script --------------------------------------------------------------------------------- */

/* Make the directories above a name. False where one of them is a link: the script of this test
 * stays in its directory, so that what is found outside was written by what is tested. */
static bool make_above(const char *path)
{
    char above[64];
    struct stat st;

    snprintf(above, sizeof(above), "%s", path);
    for (char *at = above; (at = strchr(at, '/')); *at++ = '/') {
        *at = '\0';
        (void)mkdir(above, 0700);
        if (lstat(above, &st) || !S_ISDIR(st.st_mode))
            return false;
    }
    return true;
}

/* Half a file that the pattern does not name is unknown to the agent: a script that gave it such a
 * name later would have saved it. */
static void drop_halves(void)
{
    static const unsigned watched[] = { 0xff, 0x03, 0x5c }; /* bit i: names[i], of each pattern */

    for (size_t i = 0; i < NAMES; i++)
        if (half[i]) {
            fclose(half[i]);
            half[i] = NULL;
            if (!(watched[kind] >> i & 1) && make_above(name[i]))
                (void)remove(name[i]);
        }
}

static void begin_file(size_t i, int c)
{
    int fd;

    if (half[i] || !make_above(name[i]))
        return;
    fd = open(name[i], O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    half[i] = fd < 0 ? NULL : fdopen(fd, "w");
    if (half[i]) {
        fprintf(half[i], "%c%c", 'a' + c % 3, 'a' + c % 3);
        fflush(half[i]);
    }
}

static void end_file(size_t i)
{
    if (!half[i])
        return;
    fputc('.', half[i]);
    fclose(half[i]);
    half[i] = NULL;
}

static void move(size_t from, size_t to)
{
    if (!half[from] && !half[to] && make_above(name[from]) && make_above(name[to]))
        (void)rename(name[from], name[to]);
}

static void make_link(size_t i, int c)
{
    if (make_above(name[i]))
        (void)symlink(target[(size_t)c % (sizeof(target) / sizeof(*target))], name[i]);
}

/* --- an agent --------------------------------------------------------------------------------- */

static void check_file(const struct spot_state_record *r, size_t i, bool is_laid)
{
    const struct spot_state_file *const file = &r->file[i];
    const struct spot_state_piece piece = { r->chunk[file->first_chunk], file->n_byte };
    char want[SPOT_STATE_PATH_MAX], is[SPOT_STATE_PATH_MAX], path[SPOT_STATE_PATH_MAX + 8];
    ssize_t n = 0;
    int fd;

    expect(file->n_byte && file->n_byte < sizeof(want));
    expect(!spot_state_store_get(store, &piece, want, NULL));
    expect(file->mode == SPOT_STATE_LINK || want[file->n_byte - 1] == '.');
    if (!is_laid)
        return;
    snprintf(path, sizeof(path), "out/%s", file->path);
    if (file->mode == SPOT_STATE_LINK) {
        n = readlink(path, is, sizeof(is));
    } else {
        fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        expect(fd >= 0);
        n = read(fd, is, sizeof(is));
        close(fd);
    }
    expect(n == (ssize_t)file->n_byte && !memcmp(is, want, file->n_byte));
}

static void take(int c)
{
    struct spot_state_record r = {
        .id = { 1, 1, ++step }, .place = (uint32_t)c & 1, .world = 2, .run_id = "r"
    };
    struct spot_buf dirs = { 0 };
    struct spot_err err = { 0 };

    spot_rank_files_list(files, &dirs);
    if (spot_rank_files_take(files, store, dirs.data, dirs.n, !r.place, &r, &err)) {
        spot_state_record_release(&r);
    } else {
        for (size_t i = 0; i < r.n_file; i++)
            check_file(&r, i, false);
        taken[0] = taken[1];
        taken[1] = r.id;
        expect(!spot_state_store_add(store, &r, &err));
    }
    spot_buf_release(&dirs);
}

static const struct spot_state_record *find(const struct spot_state_id *id)
{
    const struct spot_state_record *r = spot_state_store_find(store, id, 0);

    return r ? r : spot_state_store_find(store, id, 1);
}

/* Ranks are killed, and begin anew with what was taken last, or the two together as of two places.
 * False: the node would be given up. */
static bool restart(int c)
{
    const struct spot_state_record *record[RECORDS];
    struct spot_err err;
    size_t n = 0;

    for (size_t i = c & 1 ? 0 : 1; i < RECORDS; i++)
        if (taken[i].step)
            record[n++] = find(&taken[i]);
    spot_rank_files_freeze(files);
    drop_halves();
    if (spot_rank_files_put(files, store, record, n, &err))
        return false;
    for (size_t i = 0; n && i < record[0]->n_file; i++)
        check_file(record[0], i, true);
    spot_rank_files_begin(files, n > 0, !(c & 2));
    return true;
}

static bool play(int op, int c)
{
    const size_t i = (size_t)c % NAMES;

    switch (op % 11) {
    case 0:
    case 1:
        begin_file(i, c / NAMES);
        if (op % 11)
            end_file(i);
        break;
    case 2:
        end_file(i);
        break;
    case 3:
        if (!half[i] && make_above(name[i]))
            (void)remove(name[i]);
        break;
    case 4:
        move(i, (size_t)(c / NAMES) % NAMES);
        break;
    case 5:
        make_link(i, c / NAMES);
        break;
    case 6:
        if (make_above(name[i]))
            (void)mkdir(name[i], 0700);
        break;
    case 7:
        now_s += 0.02 * c;
        break;
    case 8:
        (void)spot_rank_files_look(files);
        break;
    case 9:
        take(c);
        break;
    default:
        return restart(c);
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const pattern[] = { "out/", "out/ckpt*", "out/d" };
    static int top_fd = -1, old_fd;
    struct spot_err err;
    int fd;

    if (size < 3 || size > 400)
        return 0;
    if (top_fd < 0) {
        snprintf(root, sizeof(root), "%s/spot-fuzz-files-XXXXXX",
                 access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
        expect(mkdtemp(root) != NULL);
        old_fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        top_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    expect(old_fd >= 0 && top_fd >= 0 && !fchdir(top_fd));
    expect(!mkdir("store", 0700) && !mkdir("elsewhere", 0700) && !mkdir("elsewhere/x", 0700));
    fd = open("store", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    memset(taken, 0, sizeof(taken));
    now_s = 1;
    store = spot_state_store_open(fd, "store", 1 << 20, false, &err);
    kind = data[0] % 3;
    files = spot_rank_files_new(pattern[kind], NULL, &err);
    expect(store && files);
    spot_rank_files_begin(files, false, data[0] < 128);
    for (size_t i = 1; i + 1 < size && play(data[i], data[i + 1]); i += 2)
        ;
    drop_halves();
    spot_rank_files_free(files);
    spot_state_store_free(store);
    close(fd);
    expect(!rmdir("elsewhere/x") && !rmdir("elsewhere"));
    expect(!spot_safe_empty(top_fd, &err) && !fchdir(old_fd));
    return 0;
}
