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
#define SPOT_FILES_LOCK    ".spot-lock"
#define SPOT_FILES_NEW     ".spot-new-" /* prefix of files before they get their final names */

struct spot_rank_file {
    char *path; /* below the directory */
    struct stat st;
    double since_s;  /* when this state was first seen, by spot_clock_s */
    bool is_closed;  /* no process had it open for writing when it had been stable for a moment */
    bool is_base;    /* existed when the round began */
    bool is_broken;  /* a rank was killed while it was being written */
    bool is_laid;    /* laid out by us, and not changed since */
    bool has_digest; /* digest is valid */
    struct spot_hash128 digest;
};

/* The name under which an entry is moved aside; all files of one directory move together. */
struct spot_rank_aside {
    char *unit;
    unsigned number; /* 0: its own name; else the suffix of the name */
};

struct spot_rank_files {
    char *base, *glob;
    int fd;        /* descriptor of base; -1: it does not exist yet */
    bool is_first; /* the first rank runs on this node */
    bool has_first;
    struct stat first; /* status of base when it was first seen */
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2);
    struct spot_rank_file *file; /* [n], by path */
    size_t n;
    double looked_s, pause_s; /* time of the last scan, and the pause until the next */
    enum spot_rank_files_state state;
    double changed_s; /* when a file last changed */
    double frozen_s;  /* files changed after this time are incomplete */
    double busy_s;    /* since when files have been found being written; 0: none is */
    bool is_frozen, has_warned, has_warned_link, has_warned_busy;
    uint64_t taken; /* hash of the files taken last, or laid out */
    char busy[SPOT_STATE_PATH_MAX];
    struct timespec newest_at; /* newest modification time of the files taken last, or laid out */
    struct timespec mark;      /* files modified later were saved because of a notice */
    struct timespec whole;     /* files modified up to this time are known to be complete */
    bool is_running;           /* a round is running */
    struct timespec begun;     /* files modified later were written by ranks of this node */
    struct spot_rank_aside *aside; /* [n_aside], of this laying out */
    size_t n_aside, cap_aside;
    uint64_t aside_byte;
    char run[SPOT_RUN_ID_MAX]; /* of the commit laid out now */
    char job[320];             /* for which the directory is locked */
    int lock_fd;               /* -1: not locked */
    bool is_unlockable;
};

/* True if an entry of the directory matches the pattern and is not one of our own files. */
bool spot_rank_files_match(const struct spot_rank_files *f, const char *name);
/* Length of the first part of a file's path: the file's own name, or that of the directory with
 * which it is handled as a unit. */
static inline size_t spot_rank_files_unit(const char *path)
{
    return strcspn(path, "/");
}
/* True if a is later than b; file times. */
bool spot_rank_files_is_later(const struct timespec *a, const struct timespec *b);
bool spot_rank_files_is_as_before(const struct stat *a, const struct stat *b);
void spot_rank_files_release(struct spot_rank_file *file, size_t n);
struct spot_rank_file *spot_rank_files_find(const struct spot_rank_files *f, const char *path);
/* Scan the directory now. Returns 0, or -1 with *err if there are too many files. */
int spot_rank_files_scan(struct spot_rank_files *f, struct spot_err *err);
bool spot_rank_files_is_as_before(const struct stat *a, const struct stat *b);
/* Open the directory if it exists by now. */
bool spot_rank_files_open(struct spot_rank_files *f);
/* rank_files_running.c: a round begins; record the existing files. */
void spot_rank_files_begin_running(struct spot_rank_files *f);
/* Files written up to that time are complete. */
void spot_rank_files_are_whole(struct spot_rank_files *f, const struct timespec *at);
/* True if an earlier agent was killed here; then files written after *whole may be incomplete. */
bool spot_rank_files_were_running(struct spot_rank_files *f, struct timespec *whole);
/* rank_files_lock.c: unlock the directory, and remove the lock file unless another process of the
 * job holds it. */
void spot_rank_files_let_go(struct spot_rank_files *f);
/* rank_files_lay.c: write the i-th file of a record and rename it to this name in a directory, in
 * one step. `room` is of SPOT_STATE_CHUNK_BYTE. Returns 0, or -1 with *err as
 * spot_state_lay_out. */
int spot_rank_files_lay(struct spot_state_store *store, const struct spot_state_record *record,
                        size_t i, int dir_fd, const char *name, void *room, struct spot_err *err);
/* True if the file is as an agent of this run laid it out at this path, before it ended. Not if it
 * was copied, renamed or written since, or if the file system keeps no attributes. */
bool spot_rank_files_was_laid(const struct spot_rank_files *f, const struct spot_rank_file *file);
/* Hash of the chunks and the mode of a file in a record. */
struct spot_hash128 spot_rank_files_digest(const struct spot_state_record *record, size_t i);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_HOST_RANK_FILES_STATE_H */
