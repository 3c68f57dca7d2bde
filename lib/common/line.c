/* SPDX-License-Identifier: MIT */
#include "common/line.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

int spot_line_read(struct spot_line *line, FILE *in, size_t n_max, const char *source,
                   struct spot_err *err)
{
    int c;

    line->n = 0;
    while ((c = getc_unlocked(in)) != EOF && c != '\n') {
        if (line->n == n_max)
            return spot_err_kind(err, "limit",
                                 spot_err_at(err, source, line->number + 1, 0, NULL,
                                             "a line of more than %zu bytes", n_max));
        line->text = spot_xgrow(line->text, &line->cap, line->n + 2, 1);
        line->text[line->n++] = (char)c;
    }
    if (ferror(in))
        return spot_err_sys(err, "cannot read %s", source);
    if (c == EOF && !line->n)
        return 0;
    line->number++;
    line->text = spot_xgrow(line->text, &line->cap, 1, 1);
    line->text[line->n] = '\0';
    return 1;
}

void spot_line_skip(struct spot_line *line, FILE *in)
{
    int c;

    while ((c = getc_unlocked(in)) != EOF && c != '\n')
        continue;
    line->number++;
}

bool spot_line_is_blank(const char *text, size_t n)
{
    return strspn(text, " \t\r\n") == n;
}

int spot_line_trim(struct spot_line *line, const char *source, struct spot_err *err)
{
    const size_t n_text = strlen(line->text);

    if (n_text < line->n)
        return spot_err_kind(err, "syntax",
                             spot_err_at(err, source, line->number, n_text + 1, NULL, "NUL byte"));
    while (line->n && line->text[line->n - 1] == '\r')
        line->text[--line->n] = '\0';
    return 0;
}

void spot_line_release(struct spot_line *line)
{
    free(line->text);
    *line = (struct spot_line){ 0 };
}
