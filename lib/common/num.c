/* SPDX-License-Identifier: MIT */
#include "common/num.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *spot_num_format(double value, char text[SPOT_NUM_TEXT])
{
    if (value == rint(value) && fabs(value) < 1e15) {
        snprintf(text, SPOT_NUM_TEXT, "%.0f", value + 0.0); /* -0 is written as 0 */
        return text;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, SPOT_NUM_TEXT, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    return text;
}

int spot_num_compare_whole(int64_t n, double x)
{
    const double near = (double)n;

    if (near != x)
        return near < x ? -1 : 1;
    if (x >= 0x1p63) /* more than any int64_t */
        return -1;
    return (n > (int64_t)x) - (n < (int64_t)x);
}

/* The number at the start of text; the rest goes to *unit. Only digits, sign,
 * point and exponent start a number: strtod would take "nan" and "0x1p3". */
static int parse_head(const char *text, double *value, const char **unit)
{
    const size_t n = strspn(text, "+-.0123456789");
    const char *const digit = text + strspn(text, "+-");
    char *end;

    if (!n || (digit[0] == '0' && (digit[1] == 'x' || digit[1] == 'X')))
        return -1;
    errno = 0;
    *value = strtod(text, &end);
    *unit = end;
    return end == text || !isfinite(*value) || (errno == ERANGE && *value != 0) ? -1 : 0;
}

struct unit {
    const char *name;
    double scale;
};

static int parse_with(const char *text, const struct unit *units, double *value)
{
    const char *unit;

    if (parse_head(text, value, &unit))
        return -1;
    for (; units->name; units++)
        if (!strcmp(unit, units->name)) {
            *value *= units->scale;
            return isfinite(*value) ? 0 : -1;
        }
    return -1;
}

int spot_num_parse(const char *text, double *value)
{
    static const struct unit none[] = { { "", 1 }, { NULL, 0 } };

    return parse_with(text, none, value);
}

int spot_num_parse_secs(const char *text, double *value_s)
{
    static const struct unit units[] = { { "", 1 },     { "ms", 1e-3 }, { "s", 1 }, { "m", 60 },
                                         { "h", 3600 }, { "d", 86400 }, { NULL, 0 } };

    return parse_with(text, units, value_s);
}

int spot_num_parse_size(const char *text, double *value_byte)
{
    static const struct unit units[] = {
        { "", 1 },         { "B", 1 },        { "kB", 1e3 },     { "KB", 1e3 },
        { "MB", 1e6 },     { "GB", 1e9 },     { "TB", 1e12 },    { "KiB", 1024. },
        { "MiB", 0x1p20 }, { "GiB", 0x1p30 }, { "TiB", 0x1p40 }, { NULL, 0 },
    };

    return parse_with(text, units, value_byte);
}

int spot_num_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

int spot_num_compare_int64(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

int spot_compare_texts(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

double spot_num_quantile(double *x, size_t n, double q)
{
    const double at = q * (double)(n - 1);
    const size_t i = (size_t)at;

    qsort(x, n, sizeof(*x), spot_num_compare);
    return i + 1 < n ? x[i] + (at - (double)i) * (x[i + 1] - x[i]) : x[i];
}
