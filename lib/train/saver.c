/* SPDX-License-Identifier: MIT */
#include "train/saver.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/xalloc.h"

void spot_saver_init(struct spot_saver *s, int n_bundle)
{
    s->n_bundle = n_bundle;
    s->asked = spot_xcalloc((size_t)n_bundle, sizeof(*s->asked));
    s->lag.asked_s = s->lag.next_s = spot_clock_s();
    s->doubted_step = -1;
}

void spot_saver_release(struct spot_saver *s)
{
    free(s->asked);
    spot_store_close(s->store);
}

void spot_saver_ask(struct spot_saver *s, int bundle, uint32_t id)
{
    s->asked[bundle] = id;
}

bool spot_saver_is_asked(const struct spot_saver *s, int bundle)
{
    return s->asked[bundle] != 0;
}

/* Requested, but has not arrived. */
static bool is_owed(const struct spot_saver *s, int bundle, int pulled)
{
    return s->asked[bundle] && (spot_store_lacks(s->store, bundle) || bundle == pulled);
}

bool spot_saver_owes(const struct spot_saver *s, uint32_t id, int pulled)
{
    for (int b = 0; b < s->n_bundle; b++)
        if (s->asked[b] == id && is_owed(s, b, pulled))
            return true;
    return false;
}

void spot_saver_give_up(struct spot_saver *s)
{
    spot_store_cancel(s->store);
    memset(s->asked, 0, (size_t)s->n_bundle * sizeof(*s->asked));
}

void spot_saver_lost(struct spot_saver *s, uint32_t id, int pulled)
{
    if (spot_saver_owes(s, id, pulled))
        spot_saver_give_up(s);
}

bool spot_saver_awaits(const struct spot_saver *s, int64_t step, int pulled,
                       bool (*is_here)(const void *user, uint32_t id), const void *user)
{
    if (!spot_store_is_shared(s->store) || spot_store_collecting(s->store) != step)
        return false;
    for (int b = 0; b < s->n_bundle; b++)
        if (is_owed(s, b, pulled) && !is_here(user, s->asked[b]))
            return false;
    return true;
}

bool spot_saver_export_is_due(const struct spot_saver *s)
{
    return s->export_step > 0 && s->export_step > spot_store_newest(s->store);
}

void spot_saver_put(const struct spot_saver *s, struct spot_jw *jw)
{
    spot_jw_str(jw, "where", spot_store_is_behind(s->store) ? "store" : "disk");
    spot_jw_real(jw, "lag_s", rint((spot_clock_s() - s->lag.next_s) * 1e6) / 1e6);
    spot_jw_real(jw, "cost_s", rint(spot_save_cost_s(&s->lag.cost) * 1e6) / 1e6);
    if (s->sent_byte)
        spot_jw_int(jw, "relayed_byte", s->sent_byte);
}

bool spot_saver_failed(struct spot_saver *s, const struct spot_err *why, char more[48])
{
    const double now_s = spot_clock_s(), every_s = 60;

    s->why = *why;
    s->n_failed++;
    *more = '\0';
    if (s->n_failed > 1 && now_s < s->reported_s + every_s)
        return false;
    if (s->n_failed > 1)
        snprintf(more, 48, "; %" PRIu32 " tries in a row have failed", s->n_failed);
    s->reported_s = now_s;
    return true;
}
