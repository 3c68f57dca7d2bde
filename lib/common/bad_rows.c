/* SPDX-License-Identifier: MIT */
#include "common/bad_rows.h"

int spot_bad_rows_take(struct spot_bad_rows *bad, int rc, struct spot_err *err)
{
    if (!rc) {
        bad->n_good++;
        return 0;
    }
    if (bad->is_strict || bad->is_full || !err || err->code != SPOT_EDATA)
        return -1;
    if (!bad->n++)
        bad->first = *err;
    return 0;
}

int spot_bad_rows_line(struct spot_bad_rows *bad, struct spot_line *line, FILE *in, size_t n_max,
                       const char *source, struct spot_err *err)
{
    int rc;

    for (;;) {
        rc = spot_line_read(line, in, n_max, source, err);
        if (rc < 0) {
            if (spot_bad_rows_take(bad, -1, err))
                return -1;
            spot_line_skip(line, in);
            continue;
        }
        if (!rc || !spot_line_is_blank(line->text, line->n)) {
            if (!rc || !spot_line_trim(line, source, err))
                return rc;
            if (spot_bad_rows_take(bad, -1, err))
                return -1;
        }
    }
}

int spot_bad_rows_end(const struct spot_bad_rows *bad, unsigned long n_line, const char *source,
                      struct spot_err *err)
{
    if (!n_line)
        return spot_err_kind(err, "missing", spot_err_at(err, source, 0, 0, NULL, "empty input"));
    if (bad->n_good || !bad->n)
        return 0;
    if (err)
        *err = bad->first;
    return -1;
}
