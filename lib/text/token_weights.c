/* SPDX-License-Identifier: MIT */
#include "text/token_weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash.h"
#include "common/line.h"
#include "common/num.h"
#include "common/xalloc.h"

enum { LINE_MAX_BYTE = 1 << 24 };

struct reading {
    const char *path;
    float *weight; /* [n] */
    size_t n, n_token;
};

static int take_line(struct reading *r, struct spot_line *line, struct spot_err *err)
{
    char *rest;

    for (char *word = strtok_r(line->text, " \t\r", &rest); word;
         word = strtok_r(NULL, " \t\r", &rest)) {
        double x;

        if (spot_num_parse(word, &x) || !isfinite((float)x))
            return spot_err_at(err, r->path, line->number, 0, NULL,
                               "expected a number, got '%.40s'", word);
        if (r->n == r->n_token)
            return spot_err_at(err, r->path, line->number, 0, NULL,
                               "more weights than the data's %zu tokens", r->n_token);
        r->weight[r->n++] = (float)x;
    }
    return 0;
}

static int read_lines(struct reading *r, FILE *in, struct spot_err *err)
{
    struct spot_line line = { 0 };
    int rc;

    while ((rc = spot_line_read(&line, in, LINE_MAX_BYTE, r->path, err)) > 0 &&
           !(rc = spot_line_trim(&line, r->path, err)))
        if (take_line(r, &line, err)) {
            rc = -1;
            break;
        }
    spot_line_release(&line);
    if (rc || r->n == r->n_token)
        return rc;
    return spot_err_set(err, SPOT_EDATA, "%s: %zu weights for %zu tokens of the data", r->path,
                        r->n, r->n_token);
}

int spot_token_weights_read(const char *path, size_t n_token, float **weight, uint64_t *xxh3,
                            struct spot_err *err)
{
    struct reading r = { .path = path, .n_token = n_token };
    FILE *const in = fopen(path, "re");

    *weight = NULL;
    if (!in)
        return spot_err_sys(err, "cannot open '%s'", path);
    r.weight = spot_xcalloc(n_token, sizeof(*r.weight));
    if (read_lines(&r, in, err)) {
        free(r.weight);
        fclose(in);
        return -1;
    }
    fclose(in);
    *weight = r.weight;
    *xxh3 = spot_hash64(r.weight, n_token * sizeof(*r.weight));
    *xxh3 += !*xxh3;
    return 0;
}
