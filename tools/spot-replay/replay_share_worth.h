/* SPDX-License-Identifier: MIT */
/* replay_share_worth.h - spot-replay share --report: who gains by sharing, as rows and drawn. */
#ifndef SPOT_REPLAY_REPLAY_SHARE_WORTH_H
#define SPOT_REPLAY_REPLAY_SHARE_WORTH_H

#include "cli/table.h"
#include "sim/share_worth.h"

struct replay_share_worth {
    enum spot_share_policy policy;
    struct spot_share_worth tariff[SPOT_SHARE_TARIFFS];
};

/* Rows of `report`: incentives, users or turns. table is made here, its owner releases it. */
void replay_share_worth_rows(const struct replay_share_worth *w, size_t n, const char *report,
                             enum spot_format format, struct spot_table *table);

/* The first policy. Returns 0, or -1 with *err. */
int replay_share_worth_plot(const struct replay_share_worth *w, const char *path,
                            struct spot_err *err);

#endif /* SPOT_REPLAY_REPLAY_SHARE_WORTH_H */
