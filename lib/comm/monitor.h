/* SPDX-License-Identifier: MIT */
/* monitor.h - serves a job's metrics and status over HTTP, on this host.
 *
 * A separate thread answers, from copies that the job publishes from time to time. So the job never
 * waits for a slow client, a disk, or the lock (spot_monitor_publish). Everything is bounded:
 * connections, headers, silence, memory; request bodies are rejected.
 *
 *   /  a page    /metrics  Prometheus's text    /status.json, /history.json  documents
 */
#ifndef SPOT_COMM_MONITOR_H
#define SPOT_COMM_MONITOR_H

#include <stdbool.h>
#include <stddef.h>

#include "common/buf.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spot_monitor_doc {
    SPOT_MONITOR_METRICS,
    SPOT_MONITOR_STATUS,
    SPOT_MONITOR_HISTORY,
    SPOT_MONITOR_DOCS
};

struct spot_monitor_options {
    const char *address;       /* unix:PATH, 127.0.0.1:PORT, [::1]:PORT; others are refused */
    const unsigned char *page; /* at `/`, see http_page.h */
    size_t page_byte;
};

struct spot_monitor;

/* Starts listening. NULL with *err: SPOT_EUSAGE, SPOT_ESYS. */
struct spot_monitor *spot_monitor_new(const struct spot_monitor_options *options,
                                      struct spot_err *err);
/* Closes all connections. May be NULL. */
void spot_monitor_free(struct spot_monitor *monitor);
/* URL for a browser, http://HOST:PORT/, or unix:PATH. */
const char *spot_monitor_url(const struct spot_monitor *monitor);

/* For the job's thread: true when it is time to make new documents. This is a few times a second,
 * less often if they take long: at most a hundredth of the time. */
bool spot_monitor_is_due(const struct spot_monitor *monitor);
/* True if /history.json was requested recently; otherwise it need not be up to date. */
bool spot_monitor_is_watched(const struct spot_monitor *monitor);
/* Publish these documents; an empty one leaves its predecessor in place. doc[SPOT_MONITOR_DOCS],
 * empty at first, receives the previous ones, so that their memory is reused. `made_s` is the clock
 * value when making them began. False: the thread is copying at this moment and nothing was
 * changed; try again later. */
bool spot_monitor_publish(struct spot_monitor *monitor, struct spot_buf *doc, double made_s);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_MONITOR_H */
