/* SPDX-License-Identifier: MIT */
/* monitor.h - what a job tells of itself to who looks on: over HTTP, and as a file for
 * node_exporter.
 *
 * A thread of its own answers, from copies that the job hands over now and then. So the job never
 * waits: not for a client that is slow, nor for a disk, nor for the lock (spot_monitor_publish).
 * Everything is bounded: connections, headers, silence, memory; bodies are refused.
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
    const char *address; /* unix:PATH, 127.0.0.1:PORT, [::1]:PORT; others want TLS and a key; NULL:
                            no HTTP */
    const char *tls_cert, *tls_key; /* PEM files, both or neither */
    const char *key_file;           /* a key a line, see http_key.h; NULL: none is asked for */
    const char *needs;              /* the names of those three, for who lacks them */
    const char *file;               /* gets the metrics, beside and renamed; NULL: none */
    const unsigned char *page;      /* at `/`, see http_page.h */
    size_t page_byte;
};

struct spot_monitor;

/* Listens; *file is tried. NULL with *err: SPOT_EUSAGE, SPOT_ESYS. */
struct spot_monitor *spot_monitor_new(const struct spot_monitor_options *options,
                                      struct spot_err *err);
/* The file is written once more; connections are closed. May be NULL. */
void spot_monitor_free(struct spot_monitor *monitor);
/* Where a browser finds it, http://HOST:PORT/, or unix:PATH; "" without HTTP. */
const char *spot_monitor_url(const struct spot_monitor *monitor);

/* From the thread of the job: is it time for the next documents? A few times a second, less often
 * where they take long to make: never more than a hundredth of the time. */
bool spot_monitor_is_due(const struct spot_monitor *monitor);
/* Was /history.json asked for lately? While it was not, it need not be the newest. */
bool spot_monitor_is_watched(const struct spot_monitor *monitor);
/* From now on these are told, but for an empty one: the one before stays. What was told before is
 * left in doc[SPOT_MONITOR_DOCS], empty at first, for its memory. `made_s` is the clock value when
 * their making began. False: the thread is copying just now, nothing changed, ask again later. */
bool spot_monitor_publish(struct spot_monitor *monitor, struct spot_buf *doc, double made_s);
/* Could the file not be written? *err says why, once for each failure after a success. */
bool spot_monitor_has_failed(struct spot_monitor *monitor, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_MONITOR_H */
