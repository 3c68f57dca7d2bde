/* SPDX-License-Identifier: MIT */
#include "common/json_writer.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/num.h"
#include "common/utf8.h"

void spot_jw_init(struct spot_jw *jw, FILE *out, bool pretty)
{
    memset(jw, 0, sizeof(*jw));
    jw->out = out;
    jw->pretty = pretty;
}

static void put_text(FILE *out, const char *s, size_t n)
{
    putc('"', out);
    for (size_t length; n; s += length, n -= length) {
        uint32_t c;

        length = spot_utf8_char(s, n, &c);
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", (int)c);
        else if (c < 0x20)
            fprintf(out, "\\u%04x", (unsigned)c);
        else if (c == UINT32_MAX)
            fputs("\xEF\xBF\xBD", out); /* U+FFFD */
        else
            fwrite(s, 1, length, out);
    }
    putc('"', out);
}

static void put_string(FILE *out, const char *s)
{
    put_text(out, s, strlen(s));
}

static void newline(const struct spot_jw *jw)
{
    if (jw->pretty)
        fprintf(jw->out, "\n%*s", 2 * jw->depth, "");
}

static void begin_value(struct spot_jw *jw, const char *key)
{
    if (jw->depth) {
        const int top = jw->depth - 1;

        assert((jw->open[top] == '{') == (key != NULL));
        if (jw->need_comma[top])
            putc(',', jw->out);
        jw->need_comma[top] = true;
        newline(jw);
    }
    if (key) {
        put_string(jw->out, key);
        fputs(jw->pretty ? ": " : ":", jw->out);
    }
}

static void begin_nest(struct spot_jw *jw, const char *key, char open)
{
    begin_value(jw, key);
    assert(jw->depth < SPOT_JW_DEPTH_MAX);
    putc(open, jw->out);
    jw->open[jw->depth] = open;
    jw->need_comma[jw->depth++] = false;
}

void spot_jw_object(struct spot_jw *jw, const char *key)
{
    begin_nest(jw, key, '{');
}
void spot_jw_array(struct spot_jw *jw, const char *key)
{
    begin_nest(jw, key, '[');
}

void spot_jw_end(struct spot_jw *jw)
{
    bool empty;

    assert(jw->depth > 0);
    jw->depth--;
    empty = !jw->need_comma[jw->depth];
    if (!empty)
        newline(jw);
    putc(jw->open[jw->depth] == '{' ? '}' : ']', jw->out);
}

void spot_jw_str(struct spot_jw *jw, const char *key, const char *value)
{
    begin_value(jw, key);
    put_string(jw->out, value);
}

void spot_jw_text(struct spot_jw *jw, const char *key, const void *text, size_t n)
{
    begin_value(jw, key);
    put_text(jw->out, text, n);
}

void spot_jw_real(struct spot_jw *jw, const char *key, double value)
{
    char text[SPOT_NUM_TEXT];

    begin_value(jw, key);
    if (!isfinite(value)) {
        jw->bad = true;
        fputs("null", jw->out);
        return;
    }
    fputs(spot_num_format(value, text), jw->out);
}

void spot_jw_known(struct spot_jw *jw, const char *key, double x)
{
    if (!isnan(x))
        spot_jw_real(jw, key, x);
}

void spot_jw_int(struct spot_jw *jw, const char *key, int64_t value)
{
    begin_value(jw, key);
    fprintf(jw->out, "%" PRId64, value);
}

void spot_jw_bool(struct spot_jw *jw, const char *key, bool value)
{
    begin_value(jw, key);
    fputs(value ? "true" : "false", jw->out);
}

void spot_jw_null(struct spot_jw *jw, const char *key)
{
    spot_jw_raw(jw, key, "null");
}

void spot_jw_raw(struct spot_jw *jw, const char *key, const char *text)
{
    begin_value(jw, key);
    fputs(text, jw->out);
}

void spot_jw_reals(struct spot_jw *jw, const char *key, const double *value, size_t n)
{
    const bool pretty = jw->pretty;

    spot_jw_array(jw, key);
    jw->pretty = false;
    for (size_t i = 0; i < n; i++)
        spot_jw_real(jw, NULL, value[i]);
    spot_jw_end(jw);
    jw->pretty = pretty;
}

void spot_jw_ints(struct spot_jw *jw, const char *key, const int64_t *value, size_t n)
{
    const bool pretty = jw->pretty;

    spot_jw_array(jw, key);
    jw->pretty = false;
    for (size_t i = 0; i < n; i++)
        spot_jw_int(jw, NULL, value[i]);
    spot_jw_end(jw);
    jw->pretty = pretty;
}

int spot_jw_close(struct spot_jw *jw, struct spot_err *err)
{
    assert(jw->depth == 0);
    putc('\n', jw->out);
    if (jw->bad)
        return spot_err_set(err, SPOT_EDATA, "a result is not a finite number");
    if (fflush(jw->out) || ferror(jw->out))
        return spot_err_sys(err, "cannot write output");
    return 0;
}
