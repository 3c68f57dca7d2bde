/* SPDX-License-Identifier: MIT */
#include "replay.h"

#include <math.h>
#include <string.h>

#include "common/num.h"
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

/* Value `i` after the name in "name:value:value"; `usual` if the text ends before it. Returns 0, or
 * -1 if it is not a time or out of range. */
static int value_at(const char *text, int i, double usual, double min, double max, double *value)
{
    char word[32];

    *value = usual;
    for (; i >= 0; i--) {
        text = strchr(text, ':');
        if (!text)
            return 0;
        text++;
    }
    snprintf(word, sizeof(word), "%.*s", (int)strcspn(text, ":"), text);
    return spot_num_parse_secs(word, value) || !(*value >= min && *value <= max) ? -1 : 0;
}

/* The number of values after the name. */
static int count_values(const char *text)
{
    int n = 0;

    for (; (text = strchr(text, ':')); text++)
        n++;
    return n;
}

static int parse_arrivals(const char *text, struct spot_arrival_dist *dist, struct spot_err *err)
{
    static const int most[] = { [SPOT_ARRIVAL_POISSON] = 0,
                                [SPOT_ARRIVAL_GAMMA] = 1,
                                [SPOT_ARRIVAL_ON_OFF] = 2,
                                [SPOT_ARRIVAL_SPOTSERVE] = 1 };
    const size_t n = strcspn(text, ":");
    const int n_kind = (int)(sizeof(most) / sizeof(most[0]));
    int k = 0;

    while (k < n_kind &&
           (strlen(spot_arrival_name[k]) != n || strncmp(text, spot_arrival_name[k], n)))
        k++;
    if (k == n_kind || count_values(text) > most[k] ||
        (k != SPOT_ARRIVAL_ON_OFF && value_at(text, 0, 6, 0.01, 100, &dist->cv)) ||
        (k == SPOT_ARRIVAL_ON_OFF && (value_at(text, 0, 30, 1e-3, 1e7, &dist->on_mean_s) ||
                                      value_at(text, 1, 90, 1e-3, 1e7, &dist->off_mean_s))))
        return spot_err_set(err, SPOT_EUSAGE,
                            "--arrivals must be poisson, gamma:CV, on-off:ON:OFF or spotserve:CV, "
                            "got '%.64s'",
                            text);
    dist->kind = k;
    return 0;
}

static int parse_swing(const char *text, struct spot_arrival_dist *dist, struct spot_err *err)
{
    char named[64]; /* ":share:day:peak" */

    snprintf(named, sizeof(named), ":%.60s", text ? text : "0");
    if ((text && strlen(text) > 60) || count_values(named) > 3 ||
        value_at(named, 0, 0, 0, 1, &dist->swing) ||
        value_at(named, 1, 86400, 1, 1e7, &dist->period_s) ||
        value_at(named, 2, 50400, 0, 1e7, &dist->peak_s))
        return spot_err_set(
            err, SPOT_EUSAGE,
            "--swing must be SHARE[:DAY[:PEAK]] such as .5 or .5:6h:2h, got '%.64s'", text);
    return 0;
}

static int fill_arrivals(const struct replay_load *opt, struct spot_arrival_dist *dist,
                         struct spot_err *err)
{
    *dist = (struct spot_arrival_dist){ .rate_per_s = opt->rate_per_s };
    if (parse_arrivals(opt->arrivals, dist, err) || parse_swing(opt->swing, dist, err))
        return -1;
    if (dist->kind == SPOT_ARRIVAL_SPOTSERVE)
        spot_tool_note(
            "arrivals as SpotServe's artifact generates them and calls CV %.4g: the gaps "
            "have a coefficient of variation of %.3g; --arrivals gamma has one of %.4g",
            dist->cv, spot_arrival_cv(dist), dist->cv);
    return 0;
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
    if (fill_arrivals(opt, &dist.arrival, err)) {
        spot_load_release(&sample);
        return -1;
    }
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
