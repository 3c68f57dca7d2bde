/* SPDX-License-Identifier: MIT */
/* fleet_train_offers.h - what a job that trains can be run on: catalogue, forecast, what runs. */
#ifndef SPOT_PLAN_FLEET_TRAIN_OFFERS_H
#define SPOT_PLAN_FLEET_TRAIN_OFFERS_H

#include <stddef.h>
#include <stdint.h>

#include "common/prov.h"
#include "plan_fleet_train.h"

struct train_offer {
    char *zone, *type;
    bool is_spot;
    double usd_per_h, loss_per_h;
    int64_t quota, held;
};

struct train_offers {
    struct train_offer *offer;
    size_t n, cap;
    const struct plan_fleet_train *options;
    bool (*runs)(const char *type, void *user); /* the job's types; others are passed over */
    void *user;
};

/* Fill what `options` name. Returns 0, or -1 with *err. */
int train_offers_read(struct train_offers *offers, struct spot_prov *prov, struct spot_err *err);
void train_offers_release(struct train_offers *offers);

#endif /* SPOT_PLAN_FLEET_TRAIN_OFFERS_H */
