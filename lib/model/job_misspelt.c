/* SPDX-License-Identifier: MIT */
/* Warnings about likely misspelt keys: unknown keys are legal, so no other check would find
 * them. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/edit_distance.h"
#include "model/job_doc.h"

/* Keys that no field table has, by the object they are in. */
static const struct {
    const char *at, *key;
} beside[] = { { "", "schema" },     { "", "made_by" },  { "", "kind" },
               { "", "objective" },  { "", "measured" }, { "memory", "P_skip" },
               { "serve", "spread" } };

/* True for a key of `part` that is the first level under `at`: "cost.p2p[]" has "p2p" in "cost". */
static bool is_child(const char *at, const char *part, char key[64])
{
    const size_t n = strlen(at);

    if (strncmp(part, at, n) != 0 || !part[n] || (n && part[n] != '.'))
        return false;
    snprintf(key, 64, "%s", part + n + (n > 0));
    key[strcspn(key, ".[")] = '\0';
    return *key != '\0';
}

/* Call see() for every known key of the object `at`. */
static void each_known(const char *at, void (*see)(const char *key, void *user), void *user)
{
    char key[64];

    for (const struct spot_doc_part *part = spot_job_part; part->at; part++) {
        for (const struct spot_field *f = part->field; f->key && !strcmp(part->at, at); f++)
            see(f->key, user);
        if (is_child(at, part->at, key))
            see(key, user);
    }
    for (size_t i = 0; i < sizeof(beside) / sizeof(*beside); i++)
        if (!strcmp(beside[i].at, at))
            see(beside[i].key, user);
}

struct search {
    const struct spot_json_value *object;
    const char *key; /* as written */
    bool is_known;
    size_t distance; /* distance to the nearest known key */
    char nearest[64];
};

/* The edit distance if it is 1 or 2; 3 if one key begins with the other; otherwise FAR. Keys below
 * SHORT letters are always FAR, since any two of them look alike. */
static size_t distance_of(const char *a, const char *b)
{
    enum { SHORT = 4, FAR = 99 };
    const size_t n_a = strlen(a), n_b = strlen(b), least = n_a < n_b ? n_a : n_b;
    const size_t d = spot_edit_distance(a, b);

    if (least < SHORT)
        return FAR;
    return d < 3 ? d : !strncmp(a, b, least) ? 3 : FAR;
}

static void compare(const char *known, void *user)
{
    struct search *s = user;
    const size_t d = distance_of(s->key, known);

    s->is_known = s->is_known || !strcmp(s->key, known);
    if (d < s->distance && !spot_json_get(s->object, known)) {
        s->distance = d;
        snprintf(s->nearest, sizeof(s->nearest), "%s", known);
    }
}

static void check_object(const struct spot_json_value *object, const char *at, const char *pointer,
                         void (*tell)(const char *sentence))
{
    const char *key;
    const struct spot_json_value *value;

    spot_json_object_foreach(object, key, value)
    {
        struct search s = { .object = object, .key = key, .distance = 4 };
        char sentence[256];

        each_known(at, compare, &s);
        if (s.is_known || !*s.nearest)
            continue;
        snprintf(sentence, sizeof(sentence), "%.64s/%.64s: unknown key; did you mean '%s'?",
                 pointer, key, s.nearest);
        tell(sentence);
    }
}

/* Check the object, or the list of objects, at the path of a part. */
static void check_part(const struct spot_job_doc *job, const char *at,
                       void (*tell)(const char *sentence))
{
    const struct spot_json_value *value = job->json.root;
    char path[64], pointer[64] = "", *rest = path, *key;

    snprintf(path, sizeof(path), "%.*s", (int)strcspn(at, "["), at);
    while (*path && value && (key = strtok_r(rest, ".", &rest))) {
        snprintf(pointer + strlen(pointer), sizeof(pointer) - strlen(pointer), "/%s", key);
        value = spot_json_get(value, key);
    }
    if (spot_json_is_object(value))
        check_object(value, at, pointer, tell);
    for (size_t i = 0; i < spot_json_array_size(value); i++) {
        char item[96];

        snprintf(item, sizeof(item), "%s/%zu", pointer, i);
        check_object(spot_json_entry(value, i), at, item, tell);
    }
}

void spot_job_doc_warn_misspelt(const struct spot_job_doc *job, void (*tell)(const char *sentence))
{
    for (const struct spot_doc_part *part = spot_job_part; part->at; part++)
        if (part == spot_job_part || strcmp(part->at, part[-1].at) != 0) /* layers[] has two */
            check_part(job, part->at, tell);
}
