/* SPDX-License-Identifier: MIT */
/* The option --hazard: a provider's table for the models that can use one. */
#include <string.h>

#include "predict.h"

struct spot_fc_spec options_spec(const struct options *options)
{
    return (struct spot_fc_spec){ .horizon = (int)options->horizon,
                                  .day = 86400 / options->interval_s,
                                  .hazard = options->hazard ? &options->table : NULL };
}

struct spot_tracked_key options_key(const struct options *options)
{
    return (struct spot_tracked_key){ .model = options->model,
                                      .interval_s = options->interval_s,
                                      .horizon = (int)options->horizon,
                                      .hazard_xxh3 = options->table.xxh3 };
}

static bool knows_hazard(const char *models)
{
    for (const char *at = models; *at; at += strcspn(at, ",") + (at[strcspn(at, ",")] == ',')) {
        const size_t len = strcspn(at, ",:@");

        if ((len == 4 && !strncmp(at, "pool", len)) || (len == 6 && !strncmp(at, "hazard", len)))
            return true;
    }
    return false;
}

/* A table is for the models that know ages, and what knows nothing but ages needs one. */
int options_load_hazard(struct options *options, struct spot_prov *prov, struct spot_err *err)
{
    const char *models = options->is_backtest ? options->models : options->model;

    if (!options->hazard)
        return strstr(models, "hazard")
                   ? spot_err_set(err, SPOT_EUSAGE, "the model hazard needs a table: --hazard")
                   : 0;
    if (!knows_hazard(models))
        return spot_err_set(err, SPOT_EUSAGE,
                            "--hazard is for the models pool and hazard, not '%.60s'", models);
    if (spot_hazard_load_path(&options->table, options->hazard, err))
        return -1;
    spot_prov_add(prov, options->hazard, options->table.xxh3);
    return 0;
}
