/* SPDX-License-Identifier: MIT */
/* audit_log.h - reads the commits of some steps from a log, to be compared with a recomputation. Of
 * a step that was committed several times the last commit counts. */
#ifndef SPOT_TRAIN_AUDIT_LOG_H
#define SPOT_TRAIN_AUDIT_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/hash.h"
#include "train/evidence.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_audit_commit {
    bool is_there, is_anew; /* the log has this commit; the chain starts anew with it */
    struct spot_hash128 chain;
    uint64_t samples, parameters;
    uint32_t loss_bits;
    double loss;     /* in decimals */
    bool is_in_turn; /* it read samples in the regular order */
    double lr;       /* 0: not in the log */
    char (*state)[SPOT_EVIDENCE_TAGS], (*sums)[SPOT_EVIDENCE_TAGS]; /* [n_bundle] */
};

struct spot_audit_log {
    int64_t begin, end; /* steps [begin, end] */
    int n_bundle;
    int64_t global_batch;
    struct spot_audit_commit *commit; /* [end - begin + 1] */
};

/* `path`: "-" for stdin. Returns 0, or -1 with *err: SPOT_EDATA if the file is not a log,
 * SPOT_ESYS. Release it in both cases. */
int spot_audit_log_read(struct spot_audit_log *log, const char *path, int64_t begin, int64_t end,
                        int n_bundle, int64_t global_batch, struct spot_err *err);
void spot_audit_log_release(struct spot_audit_log *log);
/* Returns NULL if the log has no commit of that step with a chain. */
const struct spot_audit_commit *spot_audit_log_find(const struct spot_audit_log *log, int64_t step);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_AUDIT_LOG_H */
