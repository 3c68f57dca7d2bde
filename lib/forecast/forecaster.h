/* SPDX-License-Identifier: MIT */
/* forecaster.h - the interface of all forecasting models, a table with a row for each.
 *
 * A model sees counts on an even grid, the newest last, and gives for each of the next `horizon`
 * steps a probability mass function over 0..cap. Most models look at the newest `history` changes
 * only; those that use all values seen keep a state, one block of memory without pointers that is
 * updated value by value, so that a call costs O(new values) and the state can be written to a file
 * unchanged.
 */
#ifndef SPOT_FORECAST_FORECASTER_H
#define SPOT_FORECAST_FORECASTER_H

#include <stdbool.h>
#include <stddef.h>

#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    SPOT_FC_HORIZON_MAX = 1024,
    SPOT_FC_CAP_MAX = 65535,
    SPOT_FC_CAP_FINE = 128, /* counting models work on a coarser grid above this */
    SPOT_FC_PAST = 4096,    /* newest values a model can look at */
    SPOT_FC_ORDER_MAX = 6,
};

/* Parameters of a forecast. */
struct spot_fc_spec {
    int cap, horizon;
    int history;       /* newest changes to look at; 0: all that are kept */
    int ar, diff, ma;  /* order of arima; ar < 0: not given */
    bool has_constant; /* arima */
    double day;        /* intervals in a day, for cycles and ages */
};

/* Newest values, borrowed. */
struct spot_fc_past {
    const int *y; /* [n], 0..cap, the newest last; n >= 1 */
    size_t n;
};

struct spot_forecaster {
    const char *name;
    const char *source;  /* source of the method */
    int history_default; /* newest changes, 0: all */
    bool is_dense;       /* needs cap <= SPOT_FC_CAP_FINE; larger caps are scaled down for it */
    /* Bytes of state, zeroed initially; NULL for a model without state. */
    size_t (*state_byte)(const struct spot_fc_spec *spec);
    /* Observe the newest value of `past`; called once for each value, in order. */
    void (*observe)(const struct spot_fc_spec *spec, void *state, const struct spot_fc_past *past);
    /* prob [horizon * (cap + 1)], row-major; each row sums to 1. */
    void (*predict)(const struct spot_fc_spec *spec, void *state, const struct spot_fc_past *past,
                    double *prob);
    /* True if a state that was read from a file is valid. NULL: always valid. */
    bool (*is_sound)(const struct spot_fc_spec *spec, const void *state);
};

/* All models, the most useful first; NULL after the last. */
const struct spot_forecaster *spot_forecaster_at(size_t i);

/* Further rows (lib/peers) after ours, ended by a NULL name; NULL: none. Set it before the first
 * thread is started. */
extern const struct spot_forecaster *spot_forecasters_more;

/* The row of that exact name, or NULL. */
const struct spot_forecaster *spot_forecaster_named(const char *name);

/* Split "NAME[:p:d:q[:c]][@history]" and find the model; fills order and history of *spec,
 * leaving cap and horizon. Returns NULL with *err (SPOT_EUSAGE). */
const struct spot_forecaster *spot_forecaster_find(const char *text, struct spot_fc_spec *spec,
                                                   struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_FORECAST_FORECASTER_H */
