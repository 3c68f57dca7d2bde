/* SPDX-License-Identifier: MIT */
/* bench_fleet - fleets of 24 offers (3 zones, 4 types, spot and on demand) under joint scenarios:
 * cost, bound and processor time.
 *
 *   bench_fleet INSTANCE SCENARIOS RATE TAIL UNSERVED SEED [--dump]
 *
 * INSTANCE is a table of speeds, `T B S R`, prices, then a weight and T speeds for each of B
 * buckets; RATE 0 takes its own. Zones are shocked together with probability .08, a type in a zone
 * with .05.
 * --dump prints the program for another solver, tests/world/fleet_extensive.py. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "plan/fleet_risk.h"

enum { ZONES = 3, TYPES_MAX = 8, OFFERS_MAX = ZONES * TYPES_MAX * 2, QUOTA = 20 };

static struct spot_fleet_risk risk;
static double rate_per_s[4096], per_s[4096 * TYPES_MAX], usd_per_h[OFFERS_MAX];
static size_t type[OFFERS_MAX];
static int64_t quota[OFFERS_MAX];
static const char *name[OFFERS_MAX];

static double number(FILE *in)
{
    char word[64];

    if (fscanf(in, "%63s", word) != 1)
        exit(1);
    return strtod(word, NULL);
}

static void read_table(const char *path, double rate)
{
    FILE *in = fopen(path, "r");
    double price[TYPES_MAX], own;

    if (!in || (risk.n_type = (size_t)number(in)) > TYPES_MAX ||
        (risk.n_bucket = (size_t)number(in)) > 4096)
        exit(1);
    (void)number(in); /* slices */
    own = number(in);
    for (size_t g = 0; g < risk.n_type; g++)
        price[g] = number(in);
    for (size_t b = 0; b < risk.n_bucket; b++) {
        rate_per_s[b] = number(in) * (rate > 0 ? rate : own);
        for (size_t g = 0; g < risk.n_type; g++)
            per_s[b * risk.n_type + g] = number(in);
    }
    fclose(in);
    risk.n_offer = ZONES * risk.n_type * 2;
    for (size_t k = 0; k < risk.n_offer; k++) {
        type[k] = k / 2 % risk.n_type;
        usd_per_h[k] = price[type[k]] * (1 + 0.02 * (double)(k / 2 / risk.n_type));
        quota[k] = QUOTA;
        name[k] = k % 2 ? "on demand" : "spot";
    }
}

static void draw(size_t n, uint64_t seed, int32_t *there, double *prob)
{
    struct spot_rng rng;

    spot_rng_init(&rng, seed, 1);
    for (size_t k = 0; k < risk.n_offer; k += 2)
        usd_per_h[k] *= 0.35 * (0.95 + 0.1 * spot_rng_unit(&rng));
    for (size_t w = 0; w < n; w++) {
        bool is_hit = false;

        prob[w] = 1 / (double)n;
        for (size_t k = 0; k < risk.n_offer; k += 2) {
            const double u = spot_rng_unit(&rng), hit = spot_rng_unit(&rng);

            if (type[k] == 0)
                is_hit = spot_rng_unit(&rng) < 0.08;
            there[w * risk.n_offer + k] =
                is_hit || hit < 0.05 ? 0 : (int32_t)(QUOTA / 2 * (1 - 0.3 * u * u));
            there[w * risk.n_offer + k + 1] = SPOT_FLEET_ALWAYS;
        }
    }
}

static void dump_reals(const char *key, const double *x, size_t n)
{
    printf("\"%s\": [", key);
    for (size_t i = 0; i < n; i++)
        printf("%s%.17g", i ? ", " : "", x[i]);
    printf("],\n");
}

static void dump(const int32_t *there)
{
    printf("{\"n_bucket\": %zu, \"n_type\": %zu, \"n_offer\": %zu, \"n_scenario\": %zu,\n",
           risk.n_bucket, risk.n_type, risk.n_offer, risk.n_scenario);
    printf("\"rho\": %.17g, \"tail\": %.17g, \"unserved\": %.17g, \"quota\": %d,\n", risk.rho,
           risk.tail, risk.unserved, QUOTA);
    dump_reals("rate_per_s", rate_per_s, risk.n_bucket);
    dump_reals("per_s", per_s, risk.n_bucket * risk.n_type);
    dump_reals("usd_per_h", usd_per_h, risk.n_offer);
    printf("\"there\": [");
    for (size_t i = 0; i < risk.n_scenario * risk.n_offer; i++)
        printf("%s%d", i ? ", " : "", (int)(there[i] < QUOTA ? there[i] : QUOTA));
    printf("],\n");
}

int main(int argc, char **argv)
{
    const size_t n = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;
    struct spot_fleet_risk_answer a;
    struct spot_err err;
    int32_t *there;
    double *prob;
    clock_t start;

    if (argc < 7 || !n)
        return 2;
    read_table(argv[1], strtod(argv[3], NULL));
    there = spot_xcalloc(n * risk.n_offer, sizeof(*there));
    prob = spot_xcalloc(n, sizeof(double));
    draw(n, strtoul(argv[6], NULL, 10), there, prob);
    risk.n_scenario = n;
    risk.name = name;
    risk.rate_per_s = rate_per_s;
    risk.per_s = per_s;
    risk.type = type;
    risk.usd_per_h = usd_per_h;
    risk.quota = quota;
    risk.there = there;
    risk.prob = prob;
    risk.rho = 0.9;
    risk.tail = strtod(argv[4], NULL);
    risk.unserved = strtod(argv[5], NULL);
    risk.gap = 0.005;
    risk.limit_s = 60;
    start = clock();
    if (spot_fleet_risk_solve(&risk, &a, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    if (argc > 7)
        dump(there);
    printf("%s\"ours\": %.9g, \"bound\": %.9g, \"gap\": %.3g, \"cpu_s\": %.3f, \"nodes\": %zu, "
           "\"cuts\": %zu, \"splits\": %zu}\n",
           argc > 7 ? "" : "{", a.usd_per_h, a.bound, a.usd_per_h / a.bound - 1,
           (double)(clock() - start) / CLOCKS_PER_SEC, a.n_node, a.n_cut, a.n_recourse);
    spot_fleet_risk_release(&a);
    free(there);
    free(prob);
    return 0;
}
