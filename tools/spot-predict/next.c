/* SPDX-License-Identifier: MIT */
/* --next-probes: which places to probe next. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"
#include "forecast/next_probes.h"
#include "predict.h"

static const double HOUR_OVER_SPOT = 3; /* approximate ratio of the prices of on demand and spot */

/* The median of the given prices; NaN: there are none. */
static double median_usd(const struct spot_probes *p)
{
    double *usd = spot_xcalloc(p->n + 1, sizeof(*usd)), median;
    size_t n = 0;

    for (size_t i = 0; i < p->n; i++)
        if (!isnan(p->probed[i].usd_per_h))
            usd[n++] = p->probed[i].usd_per_h;
    qsort(usd, n, sizeof(*usd), spot_num_compare);
    median = n ? usd[n / 2] : NAN;
    free(usd);
    return median;
}

static void put_row(struct spot_table *table, size_t rank, const struct spot_probes *p,
                    const struct spot_next_probe *next, double now_usd, double probe_usd)
{
    const struct spot_probed *x = &p->probed[next->place];

    spot_table_add(table, "%zu %s %s %.4f %.4f %g %.4g %.4g %.4g", rank, x->zone, x->instance_type,
                   spot_capacity_granted(&p->market, x->p),
                   spot_capacity_stays(&p->market, &x->place, x->p, 3600), x->age_s, now_usd,
                   next->worth_usd, next->worth_usd - probe_usd);
}

/* Print what is best without probing, and what is expected with the answers of the chosen probes.
 */
static void say(const struct spot_probes *p, const struct spot_next_place *place,
                const struct spot_next_probe *next, size_t n_next)
{
    double best_usd = 0, sum_usd = 0;
    size_t best = SIZE_MAX;

    for (size_t i = 0; i < p->n; i++)
        if (place[i].now_usd > best_usd) {
            best_usd = place[i].now_usd;
            best = i;
        }
    for (size_t i = 0; i < n_next; i++)
        sum_usd += next[i].worth_usd;
    if (best == SIZE_MAX)
        spot_tool_note("without probes, start nowhere; with these probes an hour is worth %.4g USD",
                       sum_usd);
    else
        spot_tool_note("without probes, start in %s%s%s: worth %.4g USD; with these probes %.4g",
                       p->probed[best].zone, *p->probed[best].instance_type ? ", " : "",
                       p->probed[best].instance_type, best_usd, best_usd + sum_usd);
}

static int choose(const struct options *options, const struct spot_probes *p, struct spot_err *err)
{
    const double median = median_usd(p), spot_usd = isnan(median) ? 0 : median;
    const double hour_usd = options->hour_usd >= 0 ? options->hour_usd
                            : isnan(median)        ? 1
                                                   : HOUR_OVER_SPOT * median;
    struct spot_next_place *place = spot_xcalloc(p->n + 1, sizeof(*place));
    struct spot_next_probe *next = spot_xcalloc(options->next_probes + 1, sizeof(*next));
    struct spot_table table;
    size_t n;
    int rc;

    for (size_t i = 0; i < p->n; i++)
        place[i] =
            spot_next_place_of(p, &p->probed[i], hour_usd,
                               isnan(p->probed[i].usd_per_h) ? spot_usd : p->probed[i].usd_per_h);
    n = spot_next_probes(place, p->n, options->probe_usd, options->next_probes, next);
    rc = spot_tool_table(
        &options->common, &table,
        "rank#,zone,instance_type,granted#,stays_1h#,probe_age_s#,now_usd#,worth_usd#,"
        "net_usd#",
        err);
    if (!rc) {
        say(p, place, next, n);
        for (size_t i = 0; i < n; i++)
            put_row(&table, i + 1, p, &next[i], place[next[i].place].now_usd, options->probe_usd);
        rc = spot_tool_table_write(&options->common, &table, 0, err);
    }
    free(place);
    free(next);
    return rc;
}

int next_probes_run(const struct options *options, char *const *path, size_t n_path,
                    struct spot_prov *prov, struct spot_err *err)
{
    struct inputs inputs;
    int rc = inputs_load(&inputs, path, n_path, prov, err);

    if (!rc && !inputs.learned.n)
        rc = spot_err_set(err, SPOT_EUSAGE, "--next-probes needs a file of probes");
    if (!rc)
        rc = choose(options, &inputs.learned, err);
    inputs_release(&inputs);
    return rc;
}
