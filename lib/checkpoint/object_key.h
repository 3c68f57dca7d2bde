/* SPDX-License-Identifier: MIT */
/* object_key.h - names of the objects of a generation, "gen-STEP.NONCE/NAME", and lists of them. */
#ifndef SPOT_CHECKPOINT_OBJECT_KEY_H
#define SPOT_CHECKPOINT_OBJECT_KEY_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_OBJECT_KEY_SIZE = 96 };

void spot_object_key(char key[SPOT_OBJECT_KEY_SIZE], int64_t step, uint64_t nonce,
                     const char *name);
void spot_object_bundle_key(char key[SPOT_OBJECT_KEY_SIZE], int64_t step, uint64_t nonce,
                            int bundle);

/* Parse "bundle-B" with B below n_bundle; -1: not such a name. */
int spot_object_bundle_named(const char *name, int n_bundle);

/* A line "BYTES KEY". */
struct spot_object_line {
    uint64_t n_byte;
    int64_t step; /* -1: not a key of ours */
    uint64_t nonce;
    const char *name; /* after the last '/' */
    const char *key;
};

/* Parse the next line of a list, which is modified; false at the end. Text in it is borrowed. */
bool spot_object_next_line(char **at, struct spot_object_line *line);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CHECKPOINT_OBJECT_KEY_H */
