/* SPDX-License-Identifier: MIT */
#include "checkpoint/object_key.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void spot_object_key(char key[SPOT_OBJECT_KEY_SIZE], int64_t step, uint64_t nonce, const char *name)
{
    snprintf(key, SPOT_OBJECT_KEY_SIZE, "gen-%012" PRId64 ".%016" PRIx64 "/%s", step, nonce, name);
}

enum { BUNDLE_NAME_SIZE = 24 };

static void bundle_name(char name[BUNDLE_NAME_SIZE], int bundle)
{
    snprintf(name, BUNDLE_NAME_SIZE, "bundle-%04d", bundle);
}

void spot_object_bundle_key(char key[SPOT_OBJECT_KEY_SIZE], int64_t step, uint64_t nonce,
                            int bundle)
{
    char name[BUNDLE_NAME_SIZE];

    bundle_name(name, bundle);
    spot_object_key(key, step, nonce, name);
}

/* Parse "gen-STEP.NONCE/NAME" exactly as spot_object_key() writes it; else the step stays -1. */
static void read_key(struct spot_object_line *line)
{
    char again[SPOT_OBJECT_KEY_SIZE], *end;
    int64_t step;
    uint64_t nonce;

    if (strncmp(line->key, "gen-", 4) != 0)
        return;
    step = strtoll(line->key + 4, &end, 10);
    if (step < 0 || *end != '.')
        return;
    nonce = strtoull(end + 1, &end, 16);
    if (*end != '/')
        return;
    spot_object_key(again, step, nonce, end + 1);
    if (strcmp(again, line->key) != 0)
        return;
    line->step = step;
    line->nonce = nonce;
    line->name = end + 1;
}

bool spot_object_next_line(char **at, struct spot_object_line *line)
{
    char *text = *at, *const end = strchr(text, '\n');

    if (!*text)
        return false;
    *at = end ? end + 1 : text + strlen(text);
    if (end)
        *end = '\0';
    *line = (struct spot_object_line){ .step = -1, .name = "", .key = "" };
    line->n_byte = strtoull(text, &text, 10);
    while (*text == ' ' || *text == '\t')
        text++;
    line->key = text;
    read_key(line);
    return true;
}

/* The B of "bundle-B" as spot_object_bundle_key() writes it; -1: not such a name. */
int spot_object_bundle_named(const char *name, int n_bundle)
{
    char again[BUNDLE_NAME_SIZE];
    int64_t b;

    if (strncmp(name, "bundle-", 7) != 0)
        return -1;
    b = strtoll(name + 7, NULL, 10);
    if (b < 0 || b >= n_bundle)
        return -1;
    bundle_name(again, (int)b);
    return strcmp(again, name) ? -1 : (int)b;
}
