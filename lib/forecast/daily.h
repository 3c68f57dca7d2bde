/* SPDX-License-Identifier: MIT */
/* daily.h - a daily cycle of the odds of an event, learned online.
 *
 * The day has twelve cells of two hours, twice, the second time an hour later, so that what is
 * learned at one hour also informs its neighbours. High and low counts have separate cells, because
 * few instances are gained at the hours when many are lost. An offset of log odds is the sum of its
 * two cells; each follows the forecast errors by logistic regression with a normal prior around 0.
 * Without a cycle the offsets stay near 0. Our own method; alternatives tried:
 * docs/design/05-forecast.md.
 */
#ifndef SPOT_FORECAST_DAILY_H
#define SPOT_FORECAST_DAILY_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_DAILY_CELLS = 12, SPOT_DAILY_TILINGS = 2 };

/* One kind of event; zeroed initially. */
struct spot_daily {
    struct spot_daily_cell {
        double shift, sure; /* offset of the log odds; precision gained from data */
    } cell[SPOT_DAILY_TILINGS][2 * SPOT_DAILY_CELLS];
};

/* A time of the day, and whether the count is high; zeroed: no time known. */
struct spot_daily_time {
    uint8_t is_known;                 /* 0 or 1; not a bool, since it is read from files */
    uint8_t cell[SPOT_DAILY_TILINGS]; /* < 2 SPOT_DAILY_CELLS */
};

/* The time after n intervals, if a day has `day` intervals; zeroed if `day` is 0 (unknown). */
struct spot_daily_time spot_daily_time_at(uint64_t n, double day, bool is_high);

/* The offset of the log odds at that time. */
double spot_daily_by(const struct spot_daily *daily, const struct spot_daily_time *time);

/* Learn from whether the event happened; p: the probability that was given to it, including the
 * offset. */
void spot_daily_learn(struct spot_daily *daily, const struct spot_daily_time *time, double p,
                      bool came, double weight);

/* True if a state that was read from a file is valid. */
bool spot_daily_time_is_sound(const struct spot_daily_time *time);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_DAILY_H */
