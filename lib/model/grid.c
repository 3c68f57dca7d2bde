/* SPDX-License-Identifier: MIT */
#include "model/grid.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static int read_degree(const char **at, int64_t *degree)
{
    char *end;

    if (**at < '0' || **at > '9')
        return -1;
    *degree = strtol(*at, &end, 10);
    *at = end;
    return *degree > SPOT_GRID_MAX ? -1 : 0;
}

int spot_grid_parse(const char *text, struct spot_grid *grid)
{
    struct spot_grid g = { .M = 1 };

    if (read_degree(&text, &g.D) || *text++ != 'x' || read_degree(&text, &g.P))
        return -1;
    if (*text == 'x' && (text++, read_degree(&text, &g.M)))
        return -1;
    if (*text || spot_grid_size(&g) > SPOT_GRID_MAX)
        return -1;
    *grid = g;
    return 0;
}

const char *spot_grid_text(const struct spot_grid *grid, char text[SPOT_GRID_TEXT])
{
    const int n = snprintf(text, SPOT_GRID_TEXT, "%" PRId64 "x%" PRId64, grid->D, grid->P);

    if (grid->M > 1)
        snprintf(text + n, (size_t)(SPOT_GRID_TEXT - n), "x%" PRId64, grid->M);
    return text;
}
