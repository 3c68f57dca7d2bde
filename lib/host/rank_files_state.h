/* SPDX-License-Identifier: MIT */
/* rank_files_state.h - shared by rank_files*.c; private to lib/host. */
#ifndef SPOT_HOST_RANK_FILES_STATE_H
#define SPOT_HOST_RANK_FILES_STATE_H

#include <string.h>
#include <sys/stat.h>

#include "host/rank_files.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SPOT_FILES_ASIDE   ".spot-aside"
#define SPOT_FILES_RUNNING ".spot-running"
#define SPOT_FILES_NEW     ".spot-new-" /* what is being laid out, before it gets its name */

struct spot_rank_file {
    char *path; /* below the directory */
    struct stat st;
    double since_s;  /* seen like that first, by spot_clock_s */
    bool is_closed;  /* nobody had it open to write, when it had rested */
    bool is_base;    /* it was there when the round began */
    bool is_broken;  /* a rank was killed while it was being written */
    bool is_laid;    /* by us, and not changed since */
    bool has_digest; /* content is known: */
    struct spot_hash128 digest;
};

/* Under which name something goes aside, all of one directory together. */
struct spot_rank_aside {
    char *unit;
    unsigned number; /* 0: its own name, else that and a number */
};

struct spot_rank_files {
    char *base, *glob;
    int fd;        /* of base; -1: it is not there yet */
    bool is_first; /* the node of the first rank */
    bool has_first;
    struct stat first; /* what base was when it was first there */
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2);
    struct spot_rank_file *file; /* [n], by path */
    size_t n;
    double looked_s, pause_s; /* and until the next look */
    enum spot_rank_files_state state;
    double changed_s; /* one of them, last */
    double frozen_s;  /* what has changed since then is not whole */
    double busy_s;    /* when it was first found being written; 0: it is not */
    bool is_frozen, has_warned, has_warned_link, has_warned_busy;
    uint64_t taken; /* a hash of what was taken last, or laid out */
    char busy[SPOT_STATE_PATH_MAX];
    struct timespec newest_at;     /* of what was taken last, or laid out, by the clock of files */
    struct timespec mark;          /* what is later was saved for a notice */
    struct timespec whole;         /* what is not later is known to be whole, in */
    bool is_running;               /* this round */
    struct timespec begun;         /* what is later is of ranks of this node */
    struct spot_rank_aside *aside; /* [n_aside], of this laying out */
    size_t n_aside, cap_aside;
};

/* Of an entry of the directory: does it match the pattern, and is not our own? */
bool spot_rank_files_match(const struct spot_rank_files *f, const char *name);
/* A file by itself, or all of a directory: how long its name is in the path of a file. */
static inline size_t spot_rank_files_unit(const char *path)
{
    return strcspn(path, "/");
}
/* Of times of files. */
bool spot_rank_files_is_later(const struct timespec *a, const struct timespec *b);
bool spot_rank_files_is_as_before(const struct stat *a, const struct stat *b);
void spot_rank_files_release(struct spot_rank_file *file, size_t n);
struct spot_rank_file *spot_rank_files_find(const struct spot_rank_files *f, const char *path);
/* Look at once. Returns 0, or -1 with *err where there is too much. */
int spot_rank_files_scan(struct spot_rank_files *f, struct spot_err *err);
bool spot_rank_files_is_as_before(const struct stat *a, const struct stat *b);
/* Open the directory if it is there by now. */
bool spot_rank_files_open(struct spot_rank_files *f);
/* rank_files_running.c: a round begins with what is there. */
void spot_rank_files_begin_running(struct spot_rank_files *f);
/* What was written up to then is whole. */
void spot_rank_files_are_whole(struct spot_rank_files *f, const struct timespec *at);
/* Was a node killed here? Then what was written after *whole need not be. */
bool spot_rank_files_were_running(struct spot_rank_files *f, struct timespec *whole);
/* rank_files_lay.c: the i-th file of a record gets this name in a directory, in one step. `room` is
 * of SPOT_STATE_CHUNK_BYTE. Returns 0, or -1 with *err as spot_state_lay_out. */
int spot_rank_files_lay(struct spot_state_store *store, const struct spot_state_record *record,
                        size_t i, int dir_fd, const char *name, void *room, struct spot_err *err);
/* Of the chunks and the mode of a file in a record. */
struct spot_hash128 spot_rank_files_digest(const struct spot_state_record *record, size_t i);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_RANK_FILES_STATE_H */
