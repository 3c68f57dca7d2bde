/* SPDX-License-Identifier: MIT */
#include "model/grid.h"

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
