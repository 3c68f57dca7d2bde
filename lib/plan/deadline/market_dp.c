/* SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "plan/deadline/market_grid.h"

enum { PARTS = 5, LEVELS_MIN = 64 };

/* Number of age stages of a run, with spot and without, for a number of places. */
static int64_t stages_for(size_t n_place)
{
    static const int64_t n[SPOT_MARKET_EXACT_MAX + 1] = { 0, SPOT_RUN_STAGES, 3, 2, 1 };

    return n[n_place];
}

/* The one of n coarse stages that contains a stage: ages 1, 2-7, 8 and more for n = 3; 1-3, 4 and
 * more for n = 2. */
static int64_t coarse(int64_t n, size_t stage)
{
    return n == SPOT_RUN_STAGES ? (int64_t)stage
           : n == 3             ? (stage > 2) + (stage > 0)
           : n == 2             ? stage > 1
                                : 0;
}

struct chain {
    double end[2][SPOT_RUN_STAGES], on[2][SPOT_RUN_STAGES];
};

/* The probabilities with which a coarse stage ends or continues: the means of those of its stages
 * over a run. */
static void chain_init(struct chain *chain, const struct spot_run_dist *dist, int64_t n)
{
    for (int up = 0; up < 2; up++) {
        double reach = 1, ticks[SPOT_RUN_STAGES] = { 0 };

        memset(chain->end[up], 0, sizeof(chain->end[up]));
        memset(chain->on[up], 0, sizeof(chain->on[up]));
        for (size_t j = 0; j < SPOT_RUN_STAGES; j++) {
            const double end = dist->end_prob[up][j];
            const double on = j + 1 < SPOT_RUN_STAGES ? (1 - end) / ldexp(1, (int)j) : 0;
            const double in = reach / fmax(end + on, 1e-12);
            const int64_t g = coarse(n, j);

            ticks[g] += in;
            chain->end[up][g] += in * end;
            reach = in * on;
            if (j + 1 < SPOT_RUN_STAGES && coarse(n, j + 1) != g)
                chain->on[up][g] += reach;
        }
        for (int64_t g = 0; g < n; g++) {
            chain->end[up][g] /= ticks[g];
            chain->on[up][g] /= ticks[g];
        }
    }
}

struct solver {
    struct market_grid grid;
    struct chain chain[SPOT_MARKET_PLACES_MAX];
    int64_t n_stage, n_state, cells;
    double *value, *mean, *spare; /* [n_state][n_mode][n_level] */
};

/* A state combines the phases of all places, in base 2 n_stage. A phase is the stage, plus n_stage
 * if spot is available. */
static int64_t phase_of(const struct solver *s, int64_t state, size_t place)
{
    for (; place; place--)
        state /= 2 * s->n_stage;
    return state % (2 * s->n_stage);
}

/* The expected values one tick later, computed place by place. */
static void expect(struct solver *s)
{
    const double *from = s->value;
    int64_t stride = 1;

    for (size_t k = 0; k < s->grid.market->n_place; k++) {
        double *to = (s->grid.market->n_place - k) % 2 ? s->mean : s->spare;

        for (int64_t state = 0; state < s->n_state; state++) {
            const int64_t f = phase_of(s, state, k), up = f >= s->n_stage, j = f % s->n_stage;
            const double end = s->chain[k].end[up][j], on = s->chain[k].on[up][j];
            const int64_t other = state + ((1 - up) * s->n_stage - f) * stride;
            const double *a = from + other * s->cells, *b = from + state * s->cells;
            const double *c = on > 0 ? b + stride * s->cells : b;
            double *x = to + state * s->cells;

            for (int64_t i = 0; i < s->cells; i++)
                x[i] = end * a[i] + (1 - end - on) * b[i] + on * c[i];
        }
        from = to;
        stride *= 2 * s->n_stage;
    }
}

static void relax_all(struct solver *s, int64_t ticks, int64_t from, uint8_t *action)
{
    for (int64_t state = 0; state < s->n_state; state++) {
        bool has_spot[SPOT_MARKET_PLACES_MAX];

        for (size_t k = 0; k < s->grid.market->n_place; k++)
            has_spot[k] = phase_of(s, state, k) >= s->n_stage;
        market_grid_relax(&s->grid, has_spot, ticks, s->mean + state * s->cells, from,
                          s->value + state * s->cells, action ? action + state * s->cells : NULL);
    }
}

static int64_t state_of(int64_t n_stage, const struct spot_market *m,
                        const struct spot_market_now *now)
{
    int64_t state = 0;

    for (size_t k = m->n_place; k-- > 0;)
        state = state * 2 * n_stage + coarse(n_stage, spot_run_stage(now->age[k])) +
                (now->has_spot[k] ? n_stage : 0);
    return state;
}

/* The grid of a table, without its buffer. */
static struct market_grid grid_of(const struct spot_market_table *t, const struct spot_market *m)
{
    return (struct market_grid){
        .market = m,
        .n_level = t->n_level,
        .n_mode = t->n_mode,
        .n_age = ((t->n_mode - 1) / (int64_t)m->n_place - 1) / 2,
    };
}

static double at_level(const struct spot_market_table *t, const double *value, double left_s)
{
    const double level = fmin(left_s / t->unit_s, (double)(t->n_level - 1));
    const int64_t below = (int64_t)floor(level + 1e-9);
    const double part = level - (double)below;

    return part > 1e-9 ? (1 - part) * value[below] + part * value[below + 1] : value[below];
}

/* The total expected cost if this step is taken now. */
static double weigh(const struct spot_market_table *t, const struct spot_market *m,
                    const struct spot_market_now *now, struct spot_market_step step)
{
    const struct market_grid grid = grid_of(t, m);
    const double *mean = t->mean + state_of(t->n_stage, m, now) * t->n_mode * t->n_level;
    const bool waits = step.mode == now->mode && step.place == now->place && now->pending;
    double usd = 0, all = 0;

    for (size_t i = 0; i < m->n_restart; i++) {
        struct spot_market_now then = *now;
        double x;

        if (waits && m->restart_s[i] <= (double)now->pending * m->tick_s * (1 + 1e-9))
            continue;
        x = spot_market_take(
            m, &then, step, m->restart_s[i] + (waits ? 0 : spot_market_move_s(m, now, step.place)));
        x += at_level(t, mean + market_grid_mode(&grid, &then) * t->n_level, then.left_s);
        usd += m->restart_prob[i] * x;
        all += m->restart_prob[i];
    }
    return usd / all;
}

double spot_market_weigh(const struct spot_market_table *table, const struct spot_market *market,
                         const struct spot_market_now *now, double (*step_usd)[3])
{
    double least = INFINITY;

    for (size_t k = 0; k < market->n_place; k++)
        for (enum spot_deadline_mode mode = SPOT_DEADLINE_IDLE; mode <= SPOT_DEADLINE_ON_DEMAND;
             mode++) {
            const struct spot_market_step step = { mode, k };
            const bool is_there = mode != SPOT_DEADLINE_SPOT || now->has_spot[k];
            struct spot_market_now granted = *now;

            step_usd[k][mode] = INFINITY;
            if (!spot_market_is_safe(market, now, step))
                continue;
            granted.has_spot[k] = granted.has_spot[k] || !is_there;
            granted.age[k] = is_there ? now->age[k] : 1;
            step_usd[k][mode] = weigh(table, market, &granted, step);
            if (is_there)
                least = fmin(least, step_usd[k][mode]);
        }
    return least;
}

/* Choose levels coarse enough that a table of the whole job fits. */
static int set_levels(struct solver *s, const struct spot_market_now *now, double cells,
                      struct spot_err *err)
{
    const struct spot_market *m = s->grid.market;
    const double n_tick = m->deadline_s / m->tick_s;

    for (;;) {
        const double n_level = m->work_s / s->grid.unit_s,
                     all = n_tick * (double)s->n_state * (double)s->grid.n_mode * n_level;

        if (all <= cells ||
            (2 * s->grid.unit_s > m->tick_s && all <= 4.0 * SPOT_DEADLINE_CELLS_MAX))
            return 0;
        if (n_level < LEVELS_MIN)
            return spot_err_set(err, SPOT_EUSAGE,
                                "%.0f ticks of %g s with %zu places are too many: use longer ticks",
                                n_tick, m->tick_s, m->n_place);
        market_grid_set_unit(&s->grid, now->left_s, 2 * s->grid.unit_s);
    }
}

int spot_market_solve(struct spot_market_table *table, const struct spot_market *market,
                      const struct spot_market_now *now, const struct spot_deadline_effort *effort,
                      struct spot_err *err)
{
    const double cells = effort && effort->cells > 0 ? effort->cells : SPOT_DEADLINE_CELLS_MAX;
    struct solver s = { .n_stage = stages_for(market->n_place), .n_state = 1 };
    double fastest = 0, step_usd[SPOT_MARKET_PLACES_MAX][3];
    int rc;

    memset(table, 0, sizeof(*table));
    market_grid_init(&s.grid, market, now->left_s, PARTS);
    for (size_t k = 0; k < market->n_place; k++) {
        chain_init(&s.chain[k], &market->place[k].dist, s.n_stage);
        s.n_state *= 2 * s.n_stage;
        fastest = fmax(fastest, market->place[k].speed);
    }
    table->n_tick = spot_market_ticks(market, now);
    if ((rc = set_levels(&s, now, cells, err)))
        goto out;
    s.cells = s.grid.n_mode * s.grid.n_level;
    table->n_keep = effort && effort->keep_ticks > 0 && effort->keep_ticks < table->n_tick
                        ? effort->keep_ticks
                        : table->n_tick;
    table->n_level = s.grid.n_level;
    table->n_mode = s.grid.n_mode;
    table->n_state = s.n_state;
    table->n_stage = s.n_stage;
    table->unit_s = s.grid.unit_s;
    table->action = spot_xcalloc((size_t)(table->n_keep * s.n_state), (size_t)s.cells);
    s.value = spot_xcalloc((size_t)(s.n_state * s.cells), sizeof(double));
    s.mean = spot_xcalloc((size_t)(s.n_state * s.cells), sizeof(double));
    s.spare = spot_xcalloc((size_t)(s.n_state * s.cells), sizeof(double));
    for (int64_t i = 0; i < s.n_state * s.cells; i++)
        s.value[i] = market_grid_late(&s.grid, i % s.grid.n_level);
    for (int64_t ticks = 1; ticks <= table->n_tick; ticks++) {
        const int64_t possible =
            (int64_t)ceil((double)(table->n_tick - ticks + 1) * s.grid.tick * fastest) + 1;
        const int64_t row = ticks - 1 - (table->n_tick - table->n_keep);

        expect(&s);
        relax_all(&s, ticks, possible < s.grid.n_level ? s.grid.n_level - 1 - possible : 0,
                  row >= 0 ? table->action + row * s.n_state * s.cells : NULL);
    }
    table->mean = s.mean;
    table->usd = spot_market_weigh(table, market, now, step_usd);
out:
    market_grid_release(&s.grid);
    free(s.value);
    free(s.spare);
    return rc;
}

void spot_market_release(struct spot_market_table *table)
{
    free(table->action);
    free(table->mean);
    memset(table, 0, sizeof(*table));
}

struct spot_market_step spot_market_ask(const struct spot_market_table *table,
                                        const struct spot_market *market,
                                        const struct spot_market_now *now)
{
    const struct market_grid grid = grid_of(table, market);
    int64_t level = llround(now->left_s / table->unit_s);
    int64_t row = spot_market_ticks(market, now) - 1 - (table->n_tick - table->n_keep);
    struct spot_market_step want;
    uint8_t code;

    if (now->left_s <= 0)
        return (struct spot_market_step){ SPOT_DEADLINE_IDLE, now->place };
    level = level < 1 ? 1 : level < table->n_level ? level : table->n_level - 1;
    row = row < 0 ? 0 : row < table->n_keep ? row : table->n_keep - 1;
    code = table->action[((row * table->n_state + state_of(table->n_stage, market, now)) *
                              table->n_mode +
                          market_grid_mode(&grid, now)) *
                             table->n_level +
                         level];
    want = (struct spot_market_step){ code % 3, code / 3 };
    return spot_market_settle(market, now, want);
}
