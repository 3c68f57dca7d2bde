/* SPDX-License-Identifier: MIT */
/* GCP: queries the present value, then waits for the next one. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cluster/notice/notice_state.h"
#include "common/clock.h"

enum { PREEMPTED, MAINTENANCE };

static const double limit_s = 3;
static const int hold_s = 30; /* the service answers after this time, with or without news */

/* True if the etag has only characters that are valid in a query. */
static bool is_etag(const char *text)
{
    return *text && !text[strspn(text, "0123456789abcdefghijklmnopqrstuvwxyz"
                                       "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_.~")];
}

static void ask(struct spot_notice_watch *w, size_t i)
{
    static const char *const header[] = { "Metadata-Flavor: Google", NULL };
    const struct spot_notice_query *const q = &w->query[i];
    char path[192], wait[128] = "";

    if (q->etag[0])
        snprintf(wait, sizeof(wait), "?wait_for_change=true&timeout_sec=%d&last_etag=%s", hold_s,
                 q->etag);
    snprintf(path, sizeof(path), "/computeMetadata/v1/instance/%s%s",
             i == PREEMPTED ? "preempted" : "maintenance-event", wait);
    spot_notice_ask(w, i, "GET", path, header, NULL, q->etag[0] ? hold_s + limit_s : limit_s);
}

/* The next request starts at once and waits for changes, but not sooner than the interval, in case
 * the service does not wait. */
static double pause_s(const struct spot_notice_watch *w, const struct spot_notice_query *q,
                      const char *etag)
{
    if (!*etag)
        return w->options.interval_s;
    return q->etag[0] ? fmax(0, q->asked_s + w->options.interval_s - spot_clock_s()) : 0;
}

static void answered(struct spot_notice_watch *w, size_t i, const struct spot_http_reply *reply)
{
    struct spot_notice_query *const q = &w->query[i];
    char text[64], etag[sizeof(q->etag)];
    double after_s;

    if (reply->status != 200) {
        q->etag[0] = '\0';
        spot_notice_failed(w, i, "%s", spot_notice_reason(reply, text));
        return;
    }
    spot_http_reply_header(reply, "ETag", etag, sizeof(etag));
    if (!is_etag(etag))
        etag[0] = '\0';
    after_s = pause_s(w, q, etag);
    memcpy(q->etag, etag, sizeof(q->etag));
    spot_notice_take(w, i, reply,
                     i == PREEMPTED ? spot_notice_read_preempted : spot_notice_read_maintenance);
    if (q->n_fail)
        q->etag[0] = '\0';
    else
        spot_notice_again(w, i, after_s);
}

const struct spot_notice_cloud spot_notice_gcp = { "gcp", 2, 1U << PREEMPTED | 1U << MAINTENANCE,
                                                   ask, answered };
