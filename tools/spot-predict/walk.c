/* SPDX-License-Identifier: MIT */
/* The models, series and origins that every kind of backtest visits. */
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "forecast/backtest.h"
#include "predict.h"

static int entries_parse(struct entries *entries, const struct options *options,
                         struct spot_err *err)
{
    const char *at = options->models;

    entries->n = 0;
    while (*at) {
        const size_t len = strcspn(at, ",");
        struct entry *e = &entries->entry[entries->n];

        if (entries->n == MODELS_MAX)
            return spot_err_set(err, SPOT_EUSAGE, "more than %d models", MODELS_MAX);
        e->text = spot_xcalloc(len + 1, 1);
        memcpy(e->text, at, len);
        entries->n++;
        e->spec = options_spec(options);
        e->model = spot_forecaster_find(e->text, &e->spec, err);
        if (!e->model)
            return -1;
        at += len + (at[len] == ',');
    }
    if (!entries->n)
        return spot_err_set(err, SPOT_EUSAGE, "--models names no model");
    return 0;
}

static void entries_release(struct entries *entries)
{
    for (size_t i = 0; i < entries->n; i++)
        free(entries->entry[i].text);
    entries->n = 0;
}

int walk_open(struct walk *walk, const struct options *options, char *const *path, size_t n_path,
              struct spot_prov *prov, struct spot_err *err)
{
    memset(walk, 0, sizeof(*walk));
    walk->options = options;
    walk->path = path;
    walk->n_path = n_path;
    walk->prov = prov;
    walk->origin = spot_xcalloc((size_t)options->origins, sizeof(*walk->origin));
    return entries_parse(&walk->entries, options, err);
}

void walk_close(struct walk *walk)
{
    spot_count_grids_release(&walk->grids);
    entries_release(&walk->entries);
    free(walk->origin);
}

/* Open the next file that has series left. */
static int next_file(struct walk *walk, struct spot_err *err)
{
    while (walk->next_series == walk->grids.n) {
        if (walk->next_path == walk->n_path)
            return 0;
        spot_count_grids_release(&walk->grids);
        walk->next_series = 0;
        if (grids_load(&walk->grids, walk->options, walk->path[walk->next_path++], true, NULL,
                       walk->prov, err))
            return -1;
    }
    return 1;
}

int walk_next(struct walk *walk, struct spot_err *err)
{
    const int rc = next_file(walk, err);

    if (rc <= 0)
        return rc;
    walk->grid = &walk->grids.grid[walk->next_series++];
    if (walk->n_path > 1)
        snprintf(walk->series, sizeof(walk->series), "%s:%s", walk->path[walk->next_path - 1],
                 walk->grid->label);
    else
        snprintf(walk->series, sizeof(walk->series), "%s", walk->grid->label);
    walk->n_origin =
        spot_backtest_origins(walk->grid, (size_t)walk->options->horizon, walk->options->from_s,
                              (size_t)walk->options->origins, walk->origin);
    if (walk->n_origin)
        return 1;
    return spot_err_set(err, SPOT_EINFEASIBLE,
                        "series %s: %zu intervals leave no origin after the %dth (or --from) with "
                        "%d steps to come",
                        walk->series, walk->grid->n, SPOT_BACKTEST_ORIGIN_MIN,
                        (int)walk->options->horizon);
}
