/* SPDX-License-Identifier: MIT */
#include "plan/migration/flat_cut.h"

#include <stdlib.h>

#include "common/xalloc.h"

static size_t index_of(const struct spot_layout *layout, int64_t p, int64_t m, int64_t bundle,
                       int group)
{
    return (size_t)(((p * layout->m + m) * (layout->model.n_layer + 2) + bundle) * SPOT_GROUPS +
                    group);
}

static bool owns(const struct spot_layout *layout, int64_t p, int64_t bundle, int group)
{
    int64_t first, last;

    spot_layout_stage(layout, p, &first, &last);
    return (bundle >= first && bundle <= last) || (bundle == 0 && group == SPOT_GROUP_VOCAB &&
                                                   layout->model.is_tied && p == layout->p - 1);
}

/* floor(d * n / D) without overflow: d, D <= 2^14 and n <= 2^47 */
static int64_t cut_of(int64_t d, int64_t n, int64_t n_replica)
{
    return d * n / n_replica;
}

static void lay_out_slice(struct spot_flat *flat, int64_t p, int64_t m)
{
    const struct spot_layout *layout = flat->layout;
    int64_t sum = 0;

    for (int64_t bundle = 0; bundle < layout->model.n_layer + 2; bundle++)
        for (int group = 0; group < SPOT_GROUPS; group++) {
            int64_t lo, hi;

            flat->begin[index_of(layout, p, m, bundle, group)] = sum;
            if (!owns(layout, p, bundle, group))
                continue;
            spot_layout_range(&layout->model, bundle, group, m, layout->m, &lo, &hi);
            sum += hi - lo;
        }
    flat->n_elem[p * layout->m + m] = sum;
}

static void cut_slice(struct spot_flat *flat, int64_t p, int64_t m, size_t *cap)
{
    const struct spot_layout *layout = flat->layout;
    const int64_t n = flat->n_elem[p * layout->m + m];
    int64_t d = 1;

    for (int64_t bundle = 0; bundle < layout->model.n_layer + 2; bundle++)
        for (int group = 0; group < SPOT_GROUPS; group++) {
            const int64_t begin = flat->begin[index_of(layout, p, m, bundle, group)];
            int64_t lo, hi;

            if (!owns(layout, p, bundle, group))
                continue;
            spot_layout_range(&layout->model, bundle, group, m, layout->m, &lo, &hi);
            for (; d < layout->d && cut_of(d, n, layout->d) < begin + hi - lo; d++) {
                flat->cut = spot_xgrow(flat->cut, cap, flat->n_cut + 1, sizeof *flat->cut);
                flat->cut[flat->n_cut++] =
                    (struct spot_flat_cut){ bundle, lo + cut_of(d, n, layout->d) - begin, group };
            }
        }
}

void spot_flat_init(struct spot_flat *flat, const struct spot_layout *layout)
{
    const size_t n_slice = (size_t)(layout->p * layout->m);
    bool is_zero = false;
    size_t cap = 0;

    *flat = (struct spot_flat){ .layout = layout };
    for (size_t k = 0; k < layout->n_component; k++)
        is_zero = is_zero || layout->component[k].is_zero;
    if (!is_zero)
        return;
    flat->begin = spot_xcalloc(n_slice * (size_t)(layout->model.n_layer + 2) * SPOT_GROUPS,
                               sizeof *flat->begin);
    flat->n_elem = spot_xcalloc(n_slice, sizeof *flat->n_elem);
    for (int64_t p = 0; p < layout->p; p++)
        for (int64_t m = 0; m < layout->m; m++) {
            lay_out_slice(flat, p, m);
            cut_slice(flat, p, m, &cap);
        }
}

void spot_flat_release(struct spot_flat *flat)
{
    free(flat->cut), free(flat->begin), free(flat->n_elem);
    *flat = (struct spot_flat){ 0 };
}

int64_t spot_flat_owner(const struct spot_flat *flat, int64_t p, int64_t m, int64_t bundle,
                        int group, int64_t at)
{
    const struct spot_layout *layout = flat->layout;
    const int64_t n = flat->n_elem[p * layout->m + m];
    const int64_t flat_at = flat->begin[index_of(layout, p, m, bundle, group)] + at;
    int64_t d = n ? flat_at * layout->d / n : 0;

    while (d + 1 < layout->d && cut_of(d + 1, n, layout->d) <= flat_at)
        d++;
    while (d > 0 && cut_of(d, n, layout->d) > flat_at)
        d--;
    return d;
}
