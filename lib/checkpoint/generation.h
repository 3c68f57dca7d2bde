/* SPDX-License-Identifier: MIT */
/* generation.h - one durable state on disk: DIR/gen-STEP/ with a file per bundle and a manifest.
 *
 * Written as gen-STEP.tmp, synced, and committed by its rename. If holders write bundles it is
 * gen-STEP.NONCE.tmp, which is unique. Alternatively it is stored as objects behind a command
 * (object_store.h). A commit of a foreign trainer is also a generation, numbered in the order of
 * writing; its manifest identifies the commit (host/state_bucket.h).
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
#include "common/hash.h"
#include "common/json.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_GENERATION_PATH = 2 * PATH_MAX,
    SPOT_GENERATION_BUNDLES = 1 << 14, /* maximum number of bundles */
};

/* The commit of a foreign trainer that a generation contains. */
struct spot_foreign_commit {
    uint64_t job, key;
    int64_t round, step, nodes;
    int n_bundle;
};

struct spot_generations {
    char dir[PATH_MAX];
    const int *dir_fd; /* descriptor of dir, for functions that write or remove; else NULL */
    struct spot_objects *objects; /* NULL: files in dir; else `dir` is for messages only */
    uint64_t job;                 /* 0: any job, for reading only */
    int n_bundle;                 /* 0: as many as the manifest has, for a foreign trainer */
    const struct spot_foreign_commit *commit; /* for the manifest to be written; NULL: none */
    char chain[SPOT_HASH_HEX]; /* for the manifest to be written: the chain of commits; "": none */
    uint64_t manifest;         /* hash of the text of the only valid manifest; 0: any */
    void (*tick)(void *user);  /* called after each bundle verified; may be NULL */
    void *user;
};

/* docs/schema/state.json is made from this. */
extern const struct spot_doc_part spot_state_part[];
/* Check that the text is a manifest, of any job and step. Returns 0, or -1 with *err
 * (SPOT_EDATA). */
int spot_state_check(const char *text, size_t n_byte, struct spot_err *err);

/* DIR/gen-STEP followed by `suffix`. */
void spot_generation_path(const struct spot_generations *generations, int64_t step,
                          const char *suffix, char path[SPOT_GENERATION_PATH]);

/* The part of such a path that is a name in DIR. */
const char *spot_generation_name(const char *path);

/* In a directory of this job: true if the error means that the generation is damaged, false if the
 * disk could not be read. A manifest that names another job is damage too. */
bool spot_generation_is_damage(const struct spot_err *err);

/* True if the generation exists, or cannot be examined. */
bool spot_generation_exists(const struct spot_generations *generations, int64_t step);

/* Remove a generation: 0, or -1 with *err if the command failed. Remove one that is being assembled
 * under a nonce. */
int spot_generation_drop(const struct spot_generations *generations, int64_t step,
                         struct spot_err *err);
void spot_generation_drop_tmp(const struct spot_generations *generations, int64_t step,
                              uint64_t nonce);

/* Rename it gen-STEP.bad, replacing an earlier one of that name. */
void spot_generation_set_aside(const struct spot_generations *generations, int64_t step);

/* True if this is the name of a generation being assembled. */
bool spot_generation_is_tmp(const char *name);
/* The path at which a generation is assembled; nonce 0: by this process alone. */
void spot_generation_tmp(const struct spot_generations *generations, int64_t step, uint64_t nonce,
                         char path[SPOT_GENERATION_PATH]);

/* Create that directory, for holders to write to. Returns 0, or -1 with *err. */
int spot_generation_share(const struct spot_generations *generations, int64_t step, uint64_t nonce,
                          struct spot_err *err);

/* Create that directory anew, to be written by this process alone: nonce 0. */
int spot_generation_begin(const struct spot_generations *generations, int64_t step,
                          struct spot_err *err);

/* Write and sync the bytes of a bundle there. Returns 0, or -1 with *err. */
int spot_generation_put(const struct spot_generations *generations, int64_t step, uint64_t nonce,
                        int bundle, const void *data, size_t n_byte, struct spot_written *written,
                        struct spot_err *err);

/* All files of written[n_bundle] exist: write the manifest, and commit by the rename. A step that
 * is already durable stays unchanged. Returns 0, or -1 with *err. */
int spot_generation_commit(const struct spot_generations *generations, int64_t step, uint64_t nonce,
                           const struct spot_written *written, struct spot_err *err);

/* Steps of all complete generations, newest first; *n of them, freed by the caller. */
int64_t *spot_generation_list(const struct spot_generations *generations, size_t *n);

/* Check that the manifest is valid and of this job. Returns 0, or -1 with *err (SPOT_EUSAGE:
 * another job). */
int spot_generation_check(const struct spot_generations *generations, int64_t step,
                          struct spot_err *err);

/* Read the chain of commits up to this step from the manifest: 32 hex digits, "" if it has none.
 * Returns 0, or -1 with *err as above. */
int spot_generation_chain(const struct spot_generations *generations, int64_t step,
                          char chain[SPOT_HASH_HEX], struct spot_err *err);

/* Read the foreign commit that the generation contains. Returns 0, or -1 with *err: SPOT_EDATA if
 * it is a state of our trainer. */
int spot_generation_foreign(const struct spot_generations *generations, int64_t step,
                            struct spot_foreign_commit *commit, struct spot_err *err);

/* Hash of the manifest's text, which contains the hash of every bundle; 0 if the manifest is not
 * valid. */
uint64_t spot_generation_hash(const struct spot_generations *generations, int64_t step);

/* The same for every byte of every bundle; of objects, which are verified when they are read, only
 * the sizes. */
int spot_generation_verify(const struct spot_generations *generations, int64_t step,
                           struct spot_err *err);

/* True if the files of a generation, which this process committed with that hash of its manifest,
 * have been left unchanged since. Judged by the times of the files, without reading their contents;
 * false if the times are inconclusive. */
bool spot_generation_is_untouched(const struct spot_generations *generations, int64_t step,
                                  uint64_t manifest);

/* Read the bytes of a bundle piece by piece; they are verified only when the last piece has been
 * passed on. Returns 0, or -1 with *err as above, or as fn set it. */
typedef int spot_generation_bytes_fn(void *user, const void *data, size_t n_byte,
                                     struct spot_err *err);
int spot_generation_scan(const struct spot_generations *generations, int64_t step, int bundle,
                         spot_generation_bytes_fn *fn, void *user, struct spot_err *err);

/* A bundle whose size and hash match the manifest, freed by the caller; NULL with *err. */
uint8_t *spot_generation_read(const struct spot_generations *generations, int64_t step, int bundle,
                              size_t *n_byte, struct spot_err *err);

/* Read a bundle as above, decoding it while it is read. If a read by the command breaks off, it
 * starts again. */
struct spot_bundle *spot_generation_bundle(const struct spot_generations *generations,
                                           const struct spot_shape *shape, int64_t step, int bundle,
                                           struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CHECKPOINT_GENERATION_H */
