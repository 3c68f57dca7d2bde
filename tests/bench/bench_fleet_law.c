/* SPDX-License-Identifier: MIT */
/* bench_fleet_law - the least that N replicas on spot of four zones and on demand cost whoever
 * knows the law of the zones, and when they are probed, but not the future.
 *
 *   bench_fleet_law TRACE N AVAILABILITY PERIOD SAMPLES [--dump]
 *
 * TRACE has one machine in each of four zones, a change with a probe only, one each PERIOD ticks in
 * a region; with 1 nobody knows of probes. The law is a Markov chain by zone, independent of each
 * other: away, there for 1 probe, 2-3, 4 and more, as often as the trace itself went from one to
 * another. Under a price of a tick that is not served a dynamic program over zones, machines held
 * and machines on demand is exact; price by price what it proves is below the mean cost of every
 * policy of that mean availability. The policy it finds is played on worlds drawn from the law,
 * which must come to the program's own value, and on the trace. Cold start one tick. --dump writes
 * the first world drawn, as a trace. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rng.h"
#include "common/xalloc.h"
#include "trace/region.h"

enum { ZONES = 4, STAGES = 4, FIRST_UP = 1, CONFIGS = 256, HELD = 16, DEMAND = 4 };
enum { CHOICES = HELD * DEMAND, STATES = CONFIGS * CHOICES, TICKS_MAX = 1 << 16, SEGMENT = 128 };
static const double spot_usd = 0.918 / 3.06;

static char zone[ZONES][32];
static uint8_t seen[TICKS_MAX][ZONES];
static bool is_probe[TICKS_MAX][ZONES];
static double law[ZONES][STAGES][STAGES];
static int wanted, n_tick, place[ZONES] = { 64, 16, 4, 1 };
static double price, cost[CHOICES], miss[CHOICES][CHOICES], missed[CHOICES][CHOICES];
static uint8_t up_of[CONFIGS]; /* zones that are there */

/* --- the trace and its law --- */

static void read_trace(const char *path)
{
    FILE *in = fopen(path, "r");
    char line[256], name[32], room[16];
    int count[ZONES] = { 0 }, n = 0;

    if (!in || !fgets(line, sizeof(line), in)) /* the names of the columns */
        exit(1);
    while (fgets(line, sizeof(line), in)) {
        int z = 0;

        if (sscanf(line, "%*[^,],%31[^,],%*[^,],%15s", name, room) != 2)
            continue;
        while (z < n && strcmp(zone[z], name) != 0)
            z++;
        if (z == ZONES || count[z] == TICKS_MAX)
            exit(1);
        n += z == n;
        memcpy(zone[z], name, sizeof(name));
        seen[count[z]++][z] = strtol(room, NULL, 10) > 0;
    }
    fclose(in);
    n_tick = count[0];
    for (int z = 0; z < ZONES; z++)
        if (!n_tick || count[z] != n_tick)
            exit(1);
}

static bool changes(int t, int z)
{
    for (int y = 0; t > 0 && y < ZONES; y++)
        if (spot_region_is_same(zone[y], zone[z]) && seen[t][y] != seen[t - 1][y])
            return true;
    return false;
}

/* As many probes as fit between two changes. */
static void find_probes(int z, double period)
{
    int last = 0;

    for (int t = 1; t <= n_tick; t++) {
        if (t < n_tick && !changes(t, z))
            continue;
        const int n = (int)fmax(1, round((t - last) / period));

        for (int i = 1; i <= n; i++)
            if (last + i * (t - last) / n < n_tick)
                is_probe[last + i * (t - last) / n][z] = true;
        last = t;
    }
}

static int stage_of(bool is_up, int age)
{
    return is_up ? FIRST_UP + (age > 1) + (age > 3) : 0;
}

/* The stage of each tick, and how often one came after another. */
static void learn(int z, uint8_t (*stage)[ZONES])
{
    int age = 1;

    for (int t = 0; t < n_tick; t++) {
        if (t && is_probe[t][z])
            age = seen[t][z] == seen[t - 1][z] ? age + 1 : 1;
        stage[t][z] = (uint8_t)stage_of(seen[t][z], age);
        if (t && is_probe[t][z])
            law[z][stage[t - 1][z]][stage[t][z]] += 1;
    }
    for (int s = 0; s < STAGES; s++) {
        double sum = 0;

        for (int to = 0; to < STAGES; to++)
            sum += law[z][s][to];
        for (int to = 0; to < STAGES; to++)
            law[z][s][to] = sum > 0 ? law[z][s][to] / sum : s == to;
    }
}

static void draw(uint64_t seed, const uint8_t *first, uint8_t (*stage)[ZONES])
{
    struct spot_rng rng;

    spot_rng_init(&rng, seed, 7);
    memcpy(stage[0], first, ZONES);
    for (int t = 1; t < n_tick; t++)
        for (int z = 0; z < ZONES; z++) {
            const double *p = law[z][stage[t - 1][z]];
            double u = spot_rng_unit(&rng);
            int to = 0;

            stage[t][z] = stage[t - 1][z];
            if (!is_probe[t][z])
                continue;
            while (to + 1 < STAGES && u >= p[to])
                u -= p[to++];
            stage[t][z] = (uint8_t)to;
        }
}

/* --- the program: value [config][held][on demand] --- */

static void prepare(void)
{
    for (int c = 0; c < CONFIGS; c++)
        for (int z = 0; z < ZONES; z++)
            up_of[c] |= (uint8_t)((c / place[z] % STAGES >= FIRST_UP) << z);
    for (int now = 0; now < CHOICES; now++) {
        const int held = now / DEMAND, demand = now % DEMAND;

        cost[now] = __builtin_popcount((unsigned)held) * spot_usd + demand;
        if (demand > wanted)
            cost[now] = HUGE_VAL;
        for (int before = 0; before < CHOICES; before++) {
            const int also = before % DEMAND < demand ? before % DEMAND : demand;

            miss[before][now] =
                __builtin_popcount((unsigned)(held & (before / DEMAND))) + also < wanted;
        }
    }
}

/* What a tick's choice is worth from the next tick on, where zone z is probed. */
static void expect(int z, const double *next, double *value)
{
    for (int c = 0; c < CONFIGS; c++) {
        const int s = c / place[z] % STAGES;

        for (int i = 0; i < CHOICES; i++)
            value[c * CHOICES + i] = 0;
        for (int to = 0; to < STAGES; to++) {
            const int there = c + (to - s) * place[z];
            const int kept = to >= FIRST_UP ? HELD - 1 : HELD - 1 - (1 << z);

            if (!(law[z][s][to] > 0))
                continue;
            for (int i = 0; i < CHOICES; i++)
                value[c * CHOICES + i] +=
                    law[z][s][to] *
                    next[there * CHOICES + (i / DEMAND & kept) * DEMAND + i % DEMAND];
        }
    }
}

/* What each choice of a tick comes to but for what it misses, from the value of the next tick. */
static void look(int t, const double *next, double *choice, double *scratch)
{
    memcpy(choice, next, STATES * sizeof(double));
    for (int z = 0; z < ZONES; z++)
        if (t + 1 < n_tick && is_probe[t + 1][z]) {
            expect(z, choice, scratch);
            memcpy(choice, scratch, STATES * sizeof(double));
        }
    for (int c = 0; c < CONFIGS; c++)
        for (int i = 0; i < CHOICES; i++)
            choice[c * CHOICES + i] =
                i / DEMAND & ~up_of[c] ? HUGE_VAL : choice[c * CHOICES + i] + cost[i];
}

static void step(const double *choice, double *value)
{
    for (int c = 0; c < CONFIGS; c++) {
        double least[CHOICES];

        for (int before = 0; before < CHOICES; before++)
            least[before] = HUGE_VAL;
        for (int i = 0; i < CHOICES; i++) {
            const double now = choice[c * CHOICES + i];

            for (int before = 0; now < HUGE_VAL && before < CHOICES; before++) {
                const double usd = now + missed[i][before];

                least[before] = usd < least[before] ? usd : least[before];
            }
        }
        memcpy(value + (size_t)c * CHOICES, least, sizeof(least));
    }
}

static int config_of(const uint8_t *stage)
{
    int c = 0;

    for (int z = 0; z < ZONES; z++)
        c += stage[z] * place[z];
    return c;
}

static double *kept, *choice, *scratch; /* values at the end of each segment */

static double solve(double at, const uint8_t *first)
{
    double *value = kept;

    price = at;
    for (int i = 0; i < CHOICES; i++)
        for (int before = 0; before < CHOICES; before++)
            missed[i][before] = price * miss[before][i];
    memset(kept, 0, STATES * sizeof(double));
    for (int t = n_tick - 1, n = 1; t >= 0; t--) {
        look(t, value, choice, scratch);
        if (value == kept || t % SEGMENT == SEGMENT - 1)
            value = kept + (size_t)n++ * STATES; /* that of t + 1 is kept */
        step(choice, value);
    }
    return value[config_of(first) * CHOICES];
}

/* --- play --- */

struct world {
    uint8_t (*stage)[ZONES];
    int before;
    double usd, missed;
};

static void play_tick(struct world *w, int t, const double *of)
{
    const int c = config_of(w->stage[t]);
    const int before = (w->before / DEMAND & up_of[c]) * DEMAND + w->before % DEMAND;
    int best = 0;

    for (int i = 1; i < CHOICES; i++)
        if (of[c * CHOICES + i] + price * miss[before][i] <
            of[c * CHOICES + best] + price * miss[before][best])
            best = i;
    w->usd += cost[best];
    w->missed += miss[before][best];
    w->before = best;
}

/* Segment by segment, each of its ticks' choices made again from the value that was kept. */
static void play(struct world *w, int n)
{
    const int n_segment = (n_tick + SEGMENT - 1) / SEGMENT;
    double *all = spot_xcalloc((size_t)SEGMENT * STATES, sizeof(double));
    double *value = spot_xcalloc(STATES, sizeof(double));

    for (int s = 0; s < n_segment; s++) {
        const int from = s * SEGMENT, until = from + SEGMENT < n_tick ? from + SEGMENT : n_tick;

        memcpy(value, kept + (size_t)(n_segment - 1 - s) * STATES, STATES * sizeof(double));
        for (int t = until - 1; t >= from; t--) {
            look(t, value, all + (size_t)(t - from) * STATES, scratch);
            step(all + (size_t)(t - from) * STATES, value);
        }
        for (int t = from; t < until; t++)
            for (int i = 0; i < n; i++)
                play_tick(&w[i], t, all + (size_t)(t - from) * STATES);
    }
    free(all);
    free(value);
}

static void dump(uint8_t (*stage)[ZONES])
{
    printf("time_s,zone,instance_type,available\n");
    for (int z = 0; z < ZONES; z++)
        for (int t = 0; t < n_tick; t++)
            printf("%d,%s,p3.2xlarge,%d\n", t * 195, zone[z], stage[t][z] >= FIRST_UP);
}

int main(int argc, char **argv)
{
    const double aim = argc > 5 ? strtod(argv[3], NULL) : 0;
    const int n = argc > 5 ? (int)strtol(argv[5], NULL, 10) + 1 : 0; /* the trace, then worlds */
    struct world *w;
    double best = 0, at = 0, mean_usd = 0, mean_missed = 0, value;

    if (argc < 6 || n < 2 || (wanted = (int)strtol(argv[2], NULL, 10)) < 1 || wanted >= DEMAND)
        return 2;
    read_trace(argv[1]);
    w = spot_xcalloc((size_t)n, sizeof(*w));
    for (int i = 0; i < n; i++)
        w[i].stage = spot_xcalloc((size_t)n_tick, sizeof(*w[i].stage));
    for (int z = 0; z < ZONES; z++) {
        find_probes(z, strtod(argv[4], NULL));
        learn(z, w[0].stage);
    }
    for (int i = 1; i < n; i++)
        draw((uint64_t)i, w[0].stage[0], w[i].stage);
    if (argc > 6) {
        dump(w[1].stage);
        return 0;
    }
    prepare();
    kept = spot_xcalloc((size_t)(n_tick / SEGMENT + 2) * STATES, sizeof(double));
    choice = spot_xcalloc(2 * (size_t)STATES, sizeof(double));
    scratch = choice + STATES;
    for (double by = 2, p = 64; by > 1.05; by = sqrt(by), p = at / by)
        for (;; p *= by) {
            const double bound = solve(p, w[0].stage[0]) - p * (1 - aim) * n_tick;

            if (bound < best && p > at)
                break;
            at = bound > best ? p : at;
            best = fmax(best, bound);
        }
    value = solve(at, w[0].stage[0]);
    play(w, n);
    for (int i = 1; i < n; i++) {
        mean_usd += w[i].usd / (n - 1);
        mean_missed += w[i].missed / (n - 1);
    }
    printf("n %d aim %g bound %.4f price %.0f; worlds %.4f / %.4f value %.1f played %.1f; "
           "trace %.4f / %.4f\n",
           wanted, aim, best / wanted / n_tick, at, 1 - mean_missed / n_tick,
           mean_usd / wanted / n_tick, value, mean_usd + at * mean_missed, 1 - w[0].missed / n_tick,
           w[0].usd / wanted / n_tick);
    return 0;
}
