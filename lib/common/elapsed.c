/* SPDX-License-Identifier: MIT */
#include "common/elapsed.h"

#include <math.h>
#include <stdio.h>

#include "common/clock.h"

static const double often_s = 600, seldom_s = 5;

const char *spot_elapsed_text(double s, char text[SPOT_ELAPSED_TEXT])
{
    const long long whole = s > 0 && s < 1e15 ? llround(s) : 0;

    if (s < 10)
        snprintf(text, SPOT_ELAPSED_TEXT, "%.2g s", fmax(s, 0));
    else if (whole < 100)
        snprintf(text, SPOT_ELAPSED_TEXT, "%lld s", whole);
    else if (whole < 2 * 3600)
        snprintf(text, SPOT_ELAPSED_TEXT, "%lld:%02lld min", whole / 60, whole % 60);
    else
        snprintf(text, SPOT_ELAPSED_TEXT, "%lld:%02lld h", whole / 3600, whole / 60 % 60);
    return text;
}

bool spot_wait_is_due(struct spot_wait *wait, double first_s)
{
    const double now_s = spot_clock_s();

    if (wait->next_s <= 0)
        *wait = (struct spot_wait){ now_s, now_s + first_s };
    if (now_s < wait->next_s)
        return false;
    wait->next_s = now_s + fmin(often_s, fmax(seldom_s, now_s - wait->since_s));
    return true;
}

double spot_wait_s(const struct spot_wait *wait)
{
    return wait->next_s > 0 ? spot_clock_s() - wait->since_s : 0;
}
