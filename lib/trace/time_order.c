/* SPDX-License-Identifier: MIT */
#include "trace/time_order.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"

struct place {
    double time_s;
    size_t index;
};

static int earlier(const void *a, const void *b)
{
    const struct place *x = a, *y = b;

    if (x->time_s < y->time_s || x->time_s > y->time_s)
        return x->time_s < y->time_s ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

void spot_time_order(const double *time_s, size_t stride, size_t n, size_t *order)
{
    struct place *const place = spot_xcalloc(n + 1, sizeof(*place));

    for (size_t i = 0; i < n; i++) {
        memcpy(&place[i].time_s, (const char *)time_s + i * stride, sizeof(*time_s));
        place[i].index = i;
    }
    qsort(place, n, sizeof(*place), earlier);
    for (size_t i = 0; i < n; i++)
        order[i] = place[i].index;
    free(place);
}
