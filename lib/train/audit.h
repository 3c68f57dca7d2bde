/* SPDX-License-Identifier: MIT */
/* audit.h - recomputes steps of a job from one of its generations and compares them with its log;
 * see docs/design/33-evidence.md. */
#ifndef SPOT_TRAIN_AUDIT_H
#define SPOT_TRAIN_AUDIT_H

#include <stdint.h>

#include "common/err.h"
#include "text/bpe.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_audit {
    const char *state;       /* DIR of the job, or DIR/gen-STEP: from that generation only */
    const char *events;      /* its log */
    const char *const *data; /* [n_data], corpus files; n_data 0: those of the job */
    size_t n_data;
    const char *tokenizer; /* NULL: the job's, if any */
    int64_t begin, end;    /* steps, 1 <= begin <= end */
    int64_t n_sample;      /* number of steps to check, drawn at random; 0: all */
    uint64_t seed;         /* of the draw */
    int n_thread;
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2);
    void (*progress)(void *user, int64_t step, int64_t end); /* NULL: none */
    void *user;
};

struct spot_audited {
    int64_t n_step;  /* number of steps recomputed and found equal */
    int64_t from;    /* step of the first generation that was used; 0: the initial weights */
    int64_t differs; /* the first step that differs, 0: none */
    char what[256];  /* what differs there */
    double compute_s;
};

/* Returns 0, also if a step differs, or -1 with *err: SPOT_EUSAGE, SPOT_EDATA for state, log or
 * data that cannot be used, SPOT_ESYS. */
int spot_audit_run(const struct spot_audit *o, struct spot_audited *out, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_AUDIT_H */
