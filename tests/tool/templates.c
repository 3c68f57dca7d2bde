/* SPDX-License-Identifier: MIT */
/* templates - what templates give, for tests that compare them with jinja2:
 *
 *   templates <LINES     each "TEMPLATE<tab>CONTEXT<tab>OUT": files; OUT gets 'O' and the text, or
 * 'E' and the message. The present is 2025-06-15T15:06:40Z. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/line.h"
#include "text/template.h"

static char *read_all(const char *path, size_t *n)
{
    FILE *const in = fopen(path, "r");
    char *const text = malloc(1 << 24);

    if (!in || !text)
        abort();
    *n = fread(text, 1, 1 << 24, in);
    fclose(in);
    return text;
}

static void render(const char *path, const char *context, FILE *out)
{
    size_t n, m;
    char *const text = read_all(path, &n), *const json = read_all(context, &m);
    struct spot_err err = { 0 };
    struct spot_buf buf = { 0 };
    struct spot_json_doc doc = { 0 };
    struct spot_template_input input = { .now_s = 1750000000 };
    struct spot_template *const t = spot_template_parse(text, n, "t", &err);
    int rc = t && !spot_json_parse(&doc, json, m, "c", &err) ? 0 : -1;

    input.values[0] = doc.root;
    rc = rc ? rc : spot_template_render(t, &input, &buf, &err);
    fputc(rc ? 'E' : 'O', out);
    if (rc)
        fputs(err.msg, out);
    else if (buf.n)
        fwrite(buf.data, 1, buf.n, out);
    spot_buf_release(&buf);
    spot_json_release(&doc);
    spot_template_free(t);
    free(text);
    free(json);
}

int main(void)
{
    struct spot_line line = { 0 };
    struct spot_err err = { 0 };

    while (spot_line_read(&line, stdin, 1 << 16, "stdin", &err) > 0) {
        const char *const path = strtok(line.text, "\t"), *const context = strtok(NULL, "\t");
        const char *const to = strtok(NULL, "\t\n");
        FILE *const out = path && context && to ? fopen(to, "w") : NULL;

        if (!out)
            return 3;
        render(path, context, out);
        fclose(out);
    }
    spot_line_release(&line);
    return 0;
}
