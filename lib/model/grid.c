/* SPDX-License-Identifier: MIT */
#include "model/grid.h"

#include <stdio.h>
#include <stdlib.h>

static int read_degree(const char **at, int *degree)
{
    char *end;
    long value;

    if (**at < '0' || **at > '9')
        return -1;
    value = strtol(*at, &end, 10);
    if (value > SPOT_GRID_MAX)
        return -1;
    *degree = (int)value;
    *at = end;
    return 0;
}

int spot_grid_parse(const char *text, int *d, int *p)
{
    int dd, pp;

    if (read_degree(&text, &dd) || *text++ != 'x' || read_degree(&text, &pp) || *text ||
        dd * pp > SPOT_GRID_MAX)
        return -1;
    *d = dd;
    *p = pp;
    return 0;
}

int spot_degrees_parse(const char *text, struct spot_degrees *degrees)
{
    int d, p, m = 1;

    if (read_degree(&text, &d) || *text++ != 'x' || read_degree(&text, &p))
        return -1;
    if (*text == 'x' && (text++, read_degree(&text, &m)))
        return -1;
    if (*text || (int64_t)d * p * m > SPOT_GRID_MAX)
        return -1;
    *degrees = (struct spot_degrees){ (uint32_t)d, (uint32_t)p, (uint32_t)m };
    return 0;
}

const char *spot_degrees_text(const struct spot_degrees *degrees, char text[SPOT_DEGREES_TEXT])
{
    if (degrees->M > 1)
        snprintf(text, SPOT_DEGREES_TEXT, "%ux%ux%u", (unsigned)degrees->D, (unsigned)degrees->P,
                 (unsigned)degrees->M);
    else
        snprintf(text, SPOT_DEGREES_TEXT, "%ux%u", (unsigned)degrees->D, (unsigned)degrees->P);
    return text;
}
