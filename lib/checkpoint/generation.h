/* SPDX-License-Identifier: MIT */
/* generation.h - one durable state on disk: DIR/gen-STEP/ with a file per bundle and a manifest.
 *
 * Written as gen-STEP.tmp, synced, and made a generation by its rename: the commit marker. Where
 * holders write bundles it is gen-STEP.NONCE.tmp, of which there is no second.
 */
#ifndef SPOT_CHECKPOINT_GENERATION_H
#define SPOT_CHECKPOINT_GENERATION_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint/bundle_file.h"
#include "checkpoint/object_store.h"
#include "common/err.h"
#include "common/json.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_GENERATION_PATH = 2 * PATH_MAX };

struct spot_generations {
    char dir[PATH_MAX];
    struct spot_objects *objects; /* NULL: they are files in dir; else `dir` is for messages */
    uint64_t job;                 /* 0: whatever job it is, to read only */
    int n_bundle;
    uint64_t manifest;        /* hash of the text of the only manifest that counts; 0: any */
    void (*tick)(void *user); /* after each bundle that is verified; may be NULL */
    void *user;
};

/* What docs/schema/state.json is made from. */
extern const struct spot_doc_part spot_state_part[];
/* Is the text a manifest, of whatever job and step? Returns 0, or -1 with *err (SPOT_EDATA). */
int spot_state_check(const char *text, size_t n_byte, struct spot_err *err);

/* DIR/gen-STEP followed by `suffix`. */
void spot_generation_path(const struct spot_generations *generations, int64_t step,
                          const char *suffix, char path[SPOT_GENERATION_PATH]);

/* Remove a file, or a directory and all that is in it; one that is not there is fine. */
void spot_generation_remove(const char *path);

/* Of a directory that is this job's: does the error say that the generation is damaged, rather
 * than that the disk could not be read? Another job named in one manifest is damage too. */
bool spot_generation_is_damage(const struct spot_err *err);

/* Is it still there? One that cannot be looked at counts as there. */
bool spot_generation_exists(const struct spot_generations *generations, int64_t step);

/* Remove it: 0, or -1 with *err where the command did not. Or what of it was put together under
 * that nonce. */
int spot_generation_drop(const struct spot_generations *generations, int64_t step,
                         struct spot_err *err);
void spot_generation_drop_tmp(const struct spot_generations *generations, int64_t step,
                              uint64_t nonce);

/* Rename it gen-STEP.bad, in the place of an earlier one of that name. */
void spot_generation_set_aside(const struct spot_generations *generations, int64_t step);

/* Where it is put together; nonce 0: by this process alone. */
void spot_generation_tmp(const struct spot_generations *generations, int64_t step, uint64_t nonce,
                         char path[SPOT_GENERATION_PATH]);

/* Make that directory, for holders to write to. Returns 0, or -1 with *err. */
int spot_generation_share(const struct spot_generations *generations, int64_t step, uint64_t nonce,
                          struct spot_err *err);

/* Make that directory in the place of what was there, to be written here alone: nonce 0. */
int spot_generation_begin(const struct spot_generations *generations, int64_t step,
                          struct spot_err *err);

/* Write and sync the bytes of a bundle there. Returns 0, or -1 with *err. */
int spot_generation_put(const struct spot_generations *generations, int64_t step, uint64_t nonce,
                        int bundle, const void *data, size_t n_byte, struct spot_written *written,
                        struct spot_err *err);

/* Where files of written[n_bundle] are there: write the manifest, and commit by the rename. A step
 * that is durable already stays as it is. Returns 0, or -1 with *err. */
int spot_generation_commit(const struct spot_generations *generations, int64_t step, uint64_t nonce,
                           const struct spot_written *written, struct spot_err *err);

/* Steps of all complete generations, newest first; *n of them, freed by the caller. */
int64_t *spot_generation_list(const struct spot_generations *generations, size_t *n);

/* Is the manifest sound and of this job? Returns 0, or -1 with *err (SPOT_EUSAGE: another job). */
int spot_generation_check(const struct spot_generations *generations, int64_t step,
                          struct spot_err *err);

/* Hash of the manifest's text, which has the hash of every bundle; 0: it is not sound. */
uint64_t spot_generation_hash(const struct spot_generations *generations, int64_t step);

/* The same for every byte of every bundle; of objects, which who needs them reads and verifies, for
 * their sizes. */
int spot_generation_verify(const struct spot_generations *generations, int64_t step,
                           struct spot_err *err);

/* Of one in files, which this process committed with that hash of its manifest: has nobody changed
 * any of it since? By the times of the files, which are not read; false where these do not tell. */
bool spot_generation_is_untouched(const struct spot_generations *generations, int64_t step,
                                  uint64_t manifest);

/* The bytes of a bundle, piece by piece: what they are is known when the last was handed out.
 * Returns 0, or -1 with *err as above, or as fn set it. */
typedef int spot_generation_bytes_fn(void *user, const void *data, size_t n_byte,
                                     struct spot_err *err);
int spot_generation_scan(const struct spot_generations *generations, int64_t step, int bundle,
                         spot_generation_bytes_fn *fn, void *user, struct spot_err *err);

/* A bundle whose size and hash are those of the manifest, freed by the caller; NULL with *err. */
uint8_t *spot_generation_read(const struct spot_generations *generations, int64_t step, int bundle,
                              size_t *n_byte, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CHECKPOINT_GENERATION_H */
