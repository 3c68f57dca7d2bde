/* SPDX-License-Identifier: MIT */
#include "forecast/daily.h"

#include <math.h>

/* Precision of the prior of a cell; chosen on the tuning series of docs/results/forecast.md. */
static const double FIRM = 8;

struct spot_daily_time spot_daily_time_at(uint64_t n, double day, bool is_high)
{
    struct spot_daily_time time = { .is_known = day > 0 };
    const double at = time.is_known ? fmod((double)n / day, 1) * SPOT_DAILY_CELLS : 0;

    for (int t = 0; t < SPOT_DAILY_TILINGS; t++) {
        const int cell = (int)(at + (double)t / SPOT_DAILY_TILINGS) % SPOT_DAILY_CELLS;

        time.cell[t] = (uint8_t)(2 * cell + is_high);
    }
    return time;
}

double spot_daily_by(const struct spot_daily *daily, const struct spot_daily_time *time)
{
    double by = 0;

    for (int t = 0; time->is_known && t < SPOT_DAILY_TILINGS; t++)
        by += daily->cell[t][time->cell[t]].shift;
    return by;
}

/* One Newton step for each cell separately. The cells share the error, so the information of a cell
 * counts as often as there are tilings. */
void spot_daily_learn(struct spot_daily *daily, const struct spot_daily_time *time, double p,
                      bool came, double weight)
{
    for (int t = 0; time->is_known && t < SPOT_DAILY_TILINGS; t++) {
        struct spot_daily_cell *cell = &daily->cell[t][time->cell[t]];

        cell->sure += weight * p * (1 - p);
        cell->shift += weight * (came - p) / (FIRM + SPOT_DAILY_TILINGS * cell->sure);
    }
}

bool spot_daily_time_is_sound(const struct spot_daily_time *time)
{
    for (int t = 0; t < SPOT_DAILY_TILINGS; t++)
        if (time->cell[t] >= 2 * SPOT_DAILY_CELLS)
            return false;
    return true;
}
