/* SPDX-License-Identifier: MIT */
/* While ranks run, a file beside the checkpoints records the time up to which they are known to be
 * complete. If a node is killed with its ranks, this file stays. It is needed since the kernel
 * closes the files that the ranks were writing, so that they would look complete to the next node.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/pio.h"
#include "common/safe_dir.h"
#include "host/rank_files_state.h"

/* Written in one write over the previous text, and never shorter than it. */
#define FORMAT "%020lld.%09ld\n"
enum { LENGTH = 31 };

static void write_running(struct spot_rank_files *f)
{
    char text[64];
    int fd;

    if (!f->is_running || !spot_rank_files_open(f))
        return;
    fd = spot_safe_open(f->fd, SPOT_FILES_RUNNING, O_WRONLY | O_CREAT, 0666);
    if (fd < 0)
        return;
    snprintf(text, sizeof(text), FORMAT, (long long)f->whole.tv_sec, f->whole.tv_nsec);
    (void)spot_write_at(fd, 0, text, LENGTH);
    close(fd);
}

void spot_rank_files_begin_running(struct spot_rank_files *f)
{
    f->is_running = true;
    f->whole = (struct timespec){ 0 };
    for (size_t i = 0; i < f->n; i++)
        if (!f->file[i].is_broken && spot_rank_files_is_later(&f->file[i].st.st_mtim, &f->whole))
            f->whole = f->file[i].st.st_mtim;
    write_running(f);
}

void spot_rank_files_are_whole(struct spot_rank_files *f, const struct timespec *at)
{
    struct stat st;
    const bool is_later = spot_rank_files_is_later(at, &f->whole);

    if (is_later)
        f->whole = *at;
    if (is_later || fstatat(f->fd, SPOT_FILES_RUNNING, &st, AT_SYMLINK_NOFOLLOW))
        write_running(f);
}

bool spot_rank_files_were_running(struct spot_rank_files *f, struct timespec *whole)
{
    char text[64] = "", *at = text, *end = NULL;
    long long s, ns;
    int fd;
    bool is_it;

    if (!spot_rank_files_open(f))
        return false;
    fd = spot_safe_open_file(f->fd, SPOT_FILES_RUNNING, NULL);
    if (fd < 0)
        return false;
    is_it = spot_read_at(fd, 0, text, LENGTH) == LENGTH;
    close(fd);
    s = strtoll(at, &end, 10);
    is_it = is_it && end > at && *end == '.';
    at = end + is_it;
    ns = strtoll(at, &end, 10);
    is_it = is_it && end > at && ns >= 0 && ns < 1000000000;
    if (is_it)
        *whole = (struct timespec){ .tv_sec = (time_t)s, .tv_nsec = (long)ns };
    return is_it;
}

void spot_rank_files_end(struct spot_rank_files *f)
{
    struct timespec whole;

    /* anything else that is there stays */
    if (f->is_running && spot_rank_files_were_running(f, &whole))
        (void)unlinkat(f->fd, SPOT_FILES_RUNNING, 0);
    f->is_running = false;
}
