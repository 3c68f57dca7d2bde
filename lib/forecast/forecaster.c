/* SPDX-License-Identifier: MIT */
#include "forecast/forecaster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/edit_distance.h"
#include "forecast/models/models.h"

static const struct spot_forecaster spot_forecasters[] = {
    { .name = "pool",
      .source = "weighted mean of six of these, recalibrated as it learns",
      .is_dense = true,
      .state_byte = spot_pool_state_byte,
      .observe = spot_pool_observe,
      .predict = spot_pool_predict,
      .is_sound = spot_pool_is_sound },
    { .name = "last", .source = "the newest value, for certain", .predict = spot_last_predict },
    { .name = "ma",
      .source = "mean and spread of the newest values",
      .history_default = 11,
      .predict = spot_ma_predict },
    { .name = "ses",
      .source = "exponential smoothing; Hyndman et al. 2008",
      .history_default = 60,
      .predict = spot_ses_predict },
    { .name = "arima",
      .source = "Box and Jenkins 1970; exact maximum likelihood",
      .history_default = 60,
      .predict = spot_arima_predict },
    { .name = "empirical",
      .source = "histogram of past changes over as many steps",
      .history_default = 60,
      .predict = spot_empirical_predict },
    { .name = "markov",
      .source = "transition frequencies of the count",
      .is_dense = true,
      .state_byte = spot_chain_state_byte,
      .observe = spot_chain_observe,
      .predict = spot_markov_predict },
    { .name = "birthdeath",
      .source = "independent deaths and births of places",
      .history_default = 60,
      .is_dense = true,
      .predict = spot_birthdeath_predict },
    { .name = "renewal",
      .source = "semi-Markov: the older a count, the rarer its change; Cox 1962",
      .is_dense = true,
      .state_byte = spot_renewal_state_byte,
      .observe = spot_renewal_observe,
      .predict = spot_renewal_predict,
      .is_sound = spot_renewal_is_sound },
    { .name = "knn",
      .source = "what followed the most similar moments",
      .state_byte = spot_knn_state_byte,
      .observe = spot_knn_observe,
      .predict = spot_knn_predict },
    { .name = "context",
      .source = "back-off context tree; Witten and Bell 1991",
      .is_dense = true,
      .state_byte = spot_context_state_byte,
      .observe = spot_context_observe,
      .predict = spot_context_predict,
      .is_sound = spot_context_is_sound },
    { .name = "load",
      .source = "negative binomial arrivals around levels that told the past; Vovk 1990",
      .history_default = 120,
      .predict = spot_load_predict },
    { .name = "negbin",
      .source = "negative binomial of the mean and spread of the newest values",
      .history_default = 60,
      .predict = spot_negbin_predict },
    { 0 },
};

const struct spot_forecaster *spot_forecasters_more;

const struct spot_forecaster *spot_forecaster_at(size_t i)
{
    const size_t ours = sizeof(spot_forecasters) / sizeof(*spot_forecasters) - 1;

    if (i < ours)
        return &spot_forecasters[i];
    for (const struct spot_forecaster *f = spot_forecasters_more; f && f->name; f++)
        if (i-- == ours)
            return f;
    return NULL;
}

static const struct spot_forecaster *find(const char *name, size_t len)
{
    const struct spot_forecaster *f;

    for (size_t i = 0; (f = spot_forecaster_at(i)); i++)
        if (*f->name == *name && !strncmp(f->name, name, len) && !f->name[len])
            return f;
    return NULL;
}

const struct spot_forecaster *spot_forecaster_named(const char *name)
{
    return find(name, strlen(name));
}

static const char *nearest(const char *name)
{
    const struct spot_forecaster *f;

    for (size_t i = 0; (f = spot_forecaster_at(i)); i++)
        if (strlen(name) > 3 && spot_edit_distance(name, f->name) <= 2)
            return f->name;
    return NULL;
}

static void refuse_unknown(const char *text, struct spot_err *err)
{
    char list[256] = "";
    const struct spot_forecaster *f;
    size_t n = 0;

    for (size_t i = 0; (f = spot_forecaster_at(i)) && n < sizeof(list); i++)
        n += (size_t)snprintf(list + n, sizeof(list) - n, "%s%s", n ? ", " : "", f->name);
    spot_err_set(err, SPOT_EUSAGE, "unknown model '%.40s'; there are %s", text, list);
}

/* Read a small number at *text and advance *text past it. */
static bool take_int(const char **text, int max, int *out)
{
    char *end;
    const long value = strtol(*text, &end, 10);

    if (end == *text || value < 0 || value > max || **text == '+' || **text == ' ')
        return false;
    *text = end;
    *out = (int)value;
    return true;
}

/* Read the suffixes ":p:d:q[:c]" and "@history". */
static bool take_suffix(const char *at, struct spot_fc_spec *spec)
{
    if (*at == ':') {
        at++;
        if (!take_int(&at, SPOT_FC_ORDER_MAX, &spec->ar) || *at++ != ':' ||
            !take_int(&at, 2, &spec->diff) || *at++ != ':' ||
            !take_int(&at, SPOT_FC_ORDER_MAX, &spec->ma))
            return false;
        spec->has_constant = !strncmp(at, ":c", 2);
        at += spec->has_constant ? 2 : 0;
    }
    if (*at == '@') {
        at++;
        if (!take_int(&at, SPOT_FC_PAST - 1, &spec->history) || spec->history < 2)
            return false;
    }
    return !*at;
}

const struct spot_forecaster *spot_forecaster_find(const char *text, struct spot_fc_spec *spec,
                                                   struct spot_err *err)
{
    const size_t len = strcspn(text, ":@");
    const struct spot_forecaster *f = find(text, len);

    if (!f) {
        const char *guess = nearest(text);

        if (guess)
            spot_err_set(err, SPOT_EUSAGE, "unknown model '%s'; did you mean '%s'?", text, guess);
        else
            refuse_unknown(text, err);
        return NULL;
    }
    spec->ar = -1;
    spec->diff = spec->ma = 0;
    spec->has_constant = false;
    spec->history = f->history_default;
    if (!take_suffix(text + len, spec) || (spec->ar >= 0 && strcmp(f->name, "arima") != 0)) {
        spot_err_set(err, SPOT_EUSAGE,
                     "'%s': expected NAME[@HISTORY], or arima:p:d:q[:c][@HISTORY]", text);
        return NULL;
    }
    return f;
}
