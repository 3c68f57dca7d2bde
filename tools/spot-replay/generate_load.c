/* SPDX-License-Identifier: MIT */
#include "generate_load.h"

#include <math.h>
#include <string.h>

#include "common/out.h"

int replay_load_lengths(const struct replay_load *opt, struct spot_load_dist *dist,
                        struct spot_load *sample, struct spot_err *err)
{
    dist->context = (int64_t)opt->context;
    if (spot_length_parse(&dist->prompt, "prompt-tokens", opt->prompt, err) ||
        spot_length_parse(&dist->output, "output-tokens", opt->output, err))
        return -1;
    if (!opt->lengths)
        return 0;
    if (spot_load_read_path(sample, opt->lengths, 0, err))
        return -1;
    dist->is_paired = true;
    dist->prompt.sample = sample->prompt_token;
    dist->output.sample = sample->output_token;
    dist->prompt.n_sample = dist->output.n_sample = sample->n;
    return 0;
}

static void fill_arrivals(const struct replay_load *opt, struct spot_arrival_dist *dist)
{
    *dist = (struct spot_arrival_dist){ .rate_per_s = opt->rate_per_s,
                                        .cv = opt->cv,
                                        .on_mean_s = opt->on_s,
                                        .off_mean_s = opt->off_s,
                                        .swing = opt->swing,
                                        .period_s = opt->period_s,
                                        .peak_s = opt->peak_s };
    while (strcmp(opt->arrivals, spot_arrival_name[dist->kind]) != 0)
        dist->kind++; /* the table of options lets be no other */
    if (dist->kind == SPOT_ARRIVAL_SPOTSERVE)
        spot_tool_note(
            "arrivals as SpotServe's artifact generates them and calls CV %.4g: the gaps "
            "have a coefficient of variation of %.3g; --arrivals gamma has one of %.4g",
            opt->cv, spot_arrival_cv(dist), opt->cv);
}

int replay_generate_load(const struct replay_load *opt, double hours,
                         const struct spot_tool_common *common, struct spot_err *err)
{
    struct spot_load_dist dist = { 0 };
    struct spot_load sample = { 0 }, load = { 0 };
    struct spot_out out;
    int rc = replay_load_lengths(opt, &dist, &sample, err);

    if (rc)
        return rc;
    fill_arrivals(opt, &dist.arrival);
    rc = spot_load_generate(&load, &dist, opt->n_request && !hours ? INFINITY : hours * 3600,
                            opt->n_request, common->seed, err);
    spot_load_release(&sample);
    if (rc)
        return rc;
    rc = spot_out_open(&out, common->output, err);
    if (!rc) {
        spot_load_write(&load, out.file);
        rc = spot_out_finish(&out, 0, err);
    }
    spot_load_release(&load);
    return rc;
}
