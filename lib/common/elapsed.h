/* SPDX-License-Identifier: MIT */
/* elapsed.h - elapsed times in words, and when to report a long wait again. */
#ifndef SPOT_COMMON_ELAPSED_H
#define SPOT_COMMON_ELAPSED_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_ELAPSED_TEXT = 32 };

/* "45 s", "3:05 min", "2:05 h". Returns text. */
const char *spot_elapsed_text(double s, char text[SPOT_ELAPSED_TEXT]);

/* Schedule of reports of a wait: after first_s, and then each time that the wait has doubled, at
 * intervals of five seconds to ten minutes. Zeroed before use. */
struct spot_wait {
    double since_s, next_s; /* by spot_clock_s; 0: it has not begun */
};
/* True if the wait should be reported now. */
bool spot_wait_is_due(struct spot_wait *wait, double first_s);
double spot_wait_s(const struct spot_wait *wait);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_ELAPSED_H */
