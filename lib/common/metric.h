/* SPDX-License-Identifier: MIT */
/* metric.h - writes a table of metrics in Prometheus's text format (version 0.0.4).
 *
 * Names follow Prometheus's conventions: base units (_seconds, _bytes), counters end in _total.
 */
#ifndef SPOT_COMMON_METRIC_H
#define SPOT_COMMON_METRIC_H

#include <stddef.h>

#include "common/buf.h"
#include "common/histogram.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Value of the Content-Type header. */
#define SPOT_METRIC_TYPE "text/plain; version=0.0.4; charset=utf-8"

enum spot_metric_type { SPOT_GAUGE, SPOT_COUNTER, SPOT_HISTOGRAM };

struct spot_metric {
    const char *name;
    enum spot_metric_type type;
    const char *help;                       /* one line, without a backslash */
    const char *label;                      /* kind="notice", escaped by the caller; NULL: none */
    double value;                           /* NAN: not known, not written */
    const struct spot_histogram *histogram; /* of a SPOT_HISTOGRAM, instead of value */
};

/* Metrics of one name must be adjacent: HELP and TYPE are written before the first known one. */
void spot_metric_put(const struct spot_metric *metric, size_t n, struct spot_buf *out);

/* Text of one line as the value of a label; `to` has room for twice its bytes and a NUL. */
void spot_metric_escape(const char *text, char *to);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMMON_METRIC_H */
