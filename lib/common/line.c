/* SPDX-License-Identifier: MIT */
#include "common/line.h"

#include <stdlib.h>

#include "common/xalloc.h"

int spot_line_read(struct spot_line *line, FILE *in, size_t n_max, const char *source,
                   struct spot_err *err)
{
    int c;

    line->n = 0;
    line->number++;
    while ((c = getc_unlocked(in)) != EOF && c != '\n') {
        if (line->n == n_max)
            return spot_err_set(err, SPOT_EDATA, "%s:%lu: a line of more than %zu bytes", source,
                                line->number, n_max);
        line->text = spot_xgrow(line->text, &line->cap, line->n + 2, 1);
        line->text[line->n++] = (char)c;
    }
    if (ferror(in))
        return spot_err_sys(err, "cannot read %s", source);
    if (c == EOF && !line->n)
        return 0;
    line->text = spot_xgrow(line->text, &line->cap, 1, 1);
    line->text[line->n] = '\0';
    return 1;
}

void spot_line_release(struct spot_line *line)
{
    free(line->text);
    *line = (struct spot_line){ 0 };
}
