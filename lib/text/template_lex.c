/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
#include "text/template_lex.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/num.h"
#include "common/utf8.h"
#include "text/unicode_class.h"

void spot_tlex_fail(struct spot_tlex *l, uint32_t line, uint32_t column, const char *fmt, ...)
{
    char text[256];
    va_list args;

    if (!l->has_failed) {
        va_start(args, fmt);
        vsnprintf(text, sizeof(text), fmt, args);
        va_end(args);
        spot_err_set(l->err, SPOT_EDATA, "%s:%u:%u: %s", l->source, (unsigned)line,
                     (unsigned)column, text);
    }
    l->has_failed = true;
    l->token.type = SPOT_TTOKEN_CLOSE;
    l->at = l->end;
}

static void advance(struct spot_tlex *l, size_t n)
{
    for (; n; n--)
        if (*l->at++ == '\n') {
            l->line++;
            l->line_begin = l->at;
        }
}

/* Length of the blanks (Python's \s) from p on, or with `back` before p. */
static size_t blanks(const char *begin, const char *p, const char *end, bool back)
{
    const char *at = p;

    for (;;) {
        const char *to = at;
        uint32_t code;

        if (back && at > begin)
            do
                to--;
            while (to > begin && ((unsigned char)*to & 0xC0) == 0x80);
        if (back ? at == begin : at == end)
            break;
        const size_t n = spot_utf8_char(to, (size_t)(end - to), &code);

        if (spot_char_class(code) != SPOT_CHAR_SPACE && !(code >= 0x1C && code <= 0x1F))
            break;
        at = back ? to : at + n;
    }
    return (size_t)(back ? p - at : at - p);
}

/* lstrip_blocks: length of the blanks before a tag that is first in its line. */
static size_t indent_before(const struct spot_tlex *l, const char *begin, const char *tag)
{
    const char *line = tag;

    while (line > begin && line[-1] != '\n')
        line--;
    if (line == begin && begin > l->begin && begin[-1] != '\n')
        return 0;
    return blanks(line, tag, tag, true) == (size_t)(tag - line) ? (size_t)(tag - line) : 0;
}

/* At the end of a tag: strips the following text as the tag's sign and trim_blocks say. */
static void leave(struct spot_tlex *l, char sign)
{
    if (sign == '-')
        advance(l, blanks(l->at, l->at, l->end, false));
    else if (sign != '+' && l->tag != '{' && l->at < l->end && *l->at == '\n')
        advance(l, 1);
}

static void skip_comment(struct spot_tlex *l)
{
    const uint32_t line = l->line, column = (uint32_t)(l->at - l->line_begin) + 1;
    const char *const close = memmem(l->at, (size_t)(l->end - l->at), "#}", 2);

    if (!close) {
        spot_tlex_fail(l, line, column, "a comment without an end");
        return;
    }
    advance(l, (size_t)(close - l->at) + 2);
    leave(l, close[-1]);
}

struct spot_tv spot_tlex_data(struct spot_tlex *l)
{
    const char *const begin = l->at;
    const char *tag = begin;
    size_t n;

    while (tag < l->end && !(tag[0] == '{' && tag + 1 < l->end && strchr("{%#", tag[1])))
        tag = memchr(tag + 1, '{', (size_t)(l->end - tag) - 1)
                  ? memchr(tag + 1, '{', (size_t)(l->end - tag) - 1)
                  : l->end;
    n = (size_t)(tag - begin);
    l->tag = '\0';
    if (tag < l->end) {
        const char sign = tag + 2 < l->end ? tag[2] : '\0';

        l->tag = tag[1];
        if (sign == '-')
            n -= blanks(begin, tag, tag, true);
        else if (sign != '+' && l->tag != '{')
            n -= indent_before(l, begin, tag);
        advance(l, (size_t)(tag - begin) + (sign == '-' || sign == '+' ? 3 : 2));
        if (l->tag == '#')
            skip_comment(l);
    } else {
        advance(l, n);
    }
    return spot_tv_text(begin, n);
}

/* --- inside a tag ----------------------------------------------------------------------- */

/* \xhh, \uhhhh, \Uhhhhhhhh: returns the number of digits, 0 if invalid. */
static size_t hexadecimal(const char *p, const char *end, uint32_t *code)
{
    const size_t n = *p == 'x' ? 2 : *p == 'u' ? 4 : *p == 'U' ? 8 : 0;
    char digit[9] = "";

    if (!n || (size_t)(end - p) <= n)
        return 0;
    memcpy(digit, p + 1, n);
    if (strspn(digit, "0123456789abcdefABCDEF") != n)
        return 0;
    *code = (uint32_t)strtoul(digit, NULL, 16);
    return *code < 0x110000 && (*code < 0xD800 || *code > 0xDFFF) ? n : 0;
}

/* Decodes one escape after a backslash like Python; returns its length. */
static size_t unescape(const char *p, const char *end, char **to)
{
    static const char name[] = "\\'\"abfnrtv", is[] = "\\'\"\a\b\f\n\r\t\v";
    uint32_t code = 0;
    size_t n = 0;

    if (*p == '\n')
        return 1;
    if (*p && strchr(name, *p)) {
        *(*to)++ = is[strchr(name, *p) - name];
        return 1;
    }
    while (n < 3 && p + n < end && p[n] >= '0' && p[n] <= '7')
        code = 8 * code + (uint32_t)(p[n++] - '0');
    if (!n)
        n = hexadecimal(p, end, &code) ? hexadecimal(p, end, &code) + 1 : 0;
    if (n)
        *to += spot_utf8_put(code, *to);
    else
        *(*to)++ = '\\'; /* an unknown escape is kept */
    return n;
}

static void quoted(struct spot_tlex *l)
{
    const char quote = *l->at;
    char *const begin = l->at + 1, *to = begin;
    const char *end = begin;

    while (end < l->end && *end != quote)
        end += *end == '\\' && end + 1 < l->end ? 2 : 1;
    if (end >= l->end) {
        spot_tlex_fail(l, l->token.line, l->token.column, "a text without a closing %c", quote);
        return;
    }
    advance(l, (size_t)(end - l->at) + 1);
    for (const char *p = begin; p < end;) {
        if (*p == '\\' && p + 1 < end)
            p += 1 + unescape(p + 1, end, &to);
        else
            *to++ = *p++;
    }
    l->token.type = SPOT_TTOKEN_TEXT;
    l->token.value = spot_tv_text(begin, (size_t)(to - begin));
}

static void number(struct spot_tlex *l)
{
    char text[64];
    size_t n = 0, used = 0;
    bool is_real = false;

    for (; l->at + used < l->end && n < sizeof(text) - 1; used++) {
        const char c = l->at[used], next = l->at + used + 1 < l->end ? l->at[used + 1] : '\0';

        if ((c == '.' && next >= '0' && next <= '9' && !is_real) ||
            ((c == 'e' || c == 'E') &&
             ((next >= '0' && next <= '9') || next == '-' || next == '+')))
            is_real = true;
        else if ((c == '-' || c == '+') && used &&
                 (l->at[used - 1] == 'e' || l->at[used - 1] == 'E'))
            ;
        else if (c != '_' && (c < '0' || c > '9'))
            break;
        if (c != '_')
            text[n++] = c;
    }
    text[n] = '\0';
    advance(l, used);
    l->token.type = SPOT_TTOKEN_NUMBER;
    errno = 0;
    l->token.value = spot_tv_int(strtoll(text, NULL, 10));
    if (is_real) {
        l->token.value = spot_tv_real(0);
        errno = spot_num_parse(text, &l->token.value.u.d);
    }
    if (errno)
        spot_tlex_fail(l, l->token.line, l->token.column, "'%s' is no number of 64 bits", text);
}

static bool is_word(char c)
{
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
           (unsigned char)c >= 0x80;
}

/* True, and leaves the tag, if this is its end. */
static bool closes(struct spot_tlex *l)
{
    const bool has_sign = *l->at == '-' || (*l->at == '+' && l->tag == '%');
    const char sign = *l->at;

    if (l->n_open || l->end - l->at < 2 + has_sign ||
        l->at[has_sign] != (l->tag == '%' ? '%' : '}') || l->at[has_sign + 1] != '}')
        return false;
    advance(l, 2 + (size_t)has_sign);
    leave(l, has_sign ? sign : '\0');
    l->token.type = SPOT_TTOKEN_CLOSE;
    return true;
}

static void operator(struct spot_tlex *l)
{
    static const char two[][3] = { "**^", "//F", "==E", "!=N", "<=L", ">=G" };
    const char c = *l->at;

    l->token.type = (unsigned char)c;
    if (!c || !strchr("+-*/%~()[]{}.,:|=<>!", c)) {
        spot_tlex_fail(l, l->token.line, l->token.column, "unexpected character '%c'",
                       c > ' ' && c < 0x7F ? c : '?');
        return;
    }
    l->n_open += strchr("([{", c) != NULL;
    l->n_open -= l->n_open && strchr(")]}", c);
    for (size_t i = 0; i < sizeof(two) / sizeof(two[0]); i++)
        if (l->end - l->at > 1 && c == two[i][0] && l->at[1] == two[i][1]) {
            l->token.type = (unsigned char)two[i][2];
            advance(l, 1);
            break;
        }
    advance(l, 1);
}

void spot_tlex_next(struct spot_tlex *l)
{
    if (l->has_failed)
        return;
    advance(l, blanks(l->at, l->at, l->end, false));
    l->token =
        (struct spot_ttoken){ .line = l->line, .column = (uint32_t)(l->at - l->line_begin) + 1 };
    if (l->at == l->end) {
        spot_tlex_fail(l, l->token.line, l->token.column, "the template ends inside of a tag");
    } else if (closes(l)) {
        return;
    } else if (*l->at == '\'' || *l->at == '"') {
        quoted(l);
    } else if (*l->at >= '0' && *l->at <= '9') {
        number(l);
    } else if (is_word(*l->at)) {
        const char *const begin = l->at;

        while (l->at < l->end && is_word(*l->at))
            l->at++;
        l->token.type = SPOT_TTOKEN_NAME;
        l->token.value = spot_tv_text(begin, (size_t)(l->at - begin));
    } else {
        operator(l);
    }
}
