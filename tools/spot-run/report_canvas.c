/* SPDX-License-Identifier: MIT */
#include "report_parts.h"

#include <math.h>
#include <stdlib.h>

#include "common/xalloc.h"

static double *points(struct report_canvas *c, size_t n)
{
    return c->block[c->n_block++] = spot_xcalloc(n + 1, sizeof(double));
}

struct spot_series report_curve(struct report_canvas *c, const char *label,
                                enum spot_series_style style, size_t n_most)
{
    return (struct spot_series){
        .label = label, .style = style, .x = points(c, n_most), .y = points(c, n_most), .width = 2
    };
}

void report_point(struct report_canvas *c, struct spot_series *s, double x, double y)
{
    double *const own_x = c->block[c->n_block - 2], *const own_y = c->block[c->n_block - 1];

    own_x[s->n] = x;
    own_y[s->n++] = y;
}

struct spot_series report_members(struct report_canvas *c, const struct spot_run *run)
{
    struct spot_series s = report_curve(c, "members", SPOT_SERIES_STEP, run->n_member + 1);

    for (size_t i = 0; i < run->n_member; i++)
        report_point(c, &s, run->member[i].time_s, (double)run->member[i].n);
    if (s.n)
        report_point(c, &s, run->end_s, s.y[s.n - 1]);
    s.width = 6;
    s.colour = "#dddddd";
    return s;
}

struct spot_series report_marks(struct report_canvas *c, const char *label, const char *colour,
                                const double *at_s, size_t n, double top)
{
    struct spot_series s = report_curve(c, label, SPOT_SERIES_MARK, n);

    s.colour = colour;
    for (size_t i = 0; i < n; i++)
        report_point(c, &s, at_s[i], top);
    return s;
}

double report_top(const struct spot_series *s, size_t n)
{
    double top = 0;

    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; s[i].style != SPOT_SERIES_MARK && k < s[i].n; k++)
            top = fmax(top, s[i].y[k]);
    return top > 0 ? top : 1;
}

void report_canvas_release(struct report_canvas *c)
{
    for (size_t i = 0; i < c->n_block; i++)
        free(c->block[i]);
    c->n_block = 0;
}
