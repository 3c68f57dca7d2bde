/* SPDX-License-Identifier: MIT */
/* trainer.h - runs one training job: a group (cluster/group.h) with the trainer as its
 * workload. */
#ifndef SPOT_TRAIN_TRAINER_H
#define SPOT_TRAIN_TRAINER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "model/grid.h"
#include "train/config.h"
#include "train/microbatch_split.h"
#include "train/observe.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Progress of a running job. Pointers are valid during the call. */
struct spot_progress {
    int64_t step, n_step;
    size_t n_member;     /* 0: waiting for workers */
    const char *address; /* address of the coordinator */
    bool knows_loss;
    float loss;
    bool knows_val_loss;
    float val_loss;
    struct spot_grid grid;
    double step_s;
};

struct spot_trainer_options {
    struct spot_job_config config; /* kernel may be "auto"; data_xxh3 is filled in */
    const char *const *data;       /* [n_data], corpus files, "-" for stdin */
    size_t n_data;
    const char *weights_of_samples; /* a file, see text/token_weights.h; NULL: none */
    const char *const *val_data;    /* [n_val_data], validation data of the same kind */
    size_t n_val_data;
    int64_t val_every, val_batches; /* steps between validations, and global batches of each */
    int token_byte;                 /* of the data, see text/corpus.h */
    const char *load;               /* weights to start from, NULL for none */
    struct spot_bpe *bpe;           /* NULL: data are tokens; else text for this tokenizer */
    const char *tokenizer;          /* path of the tokenizer */
    const char *name;               /* prefix of the name of a private directory; NULL: "spot" */
    const char *listen;             /* NULL: a private Unix socket */
    const char *key_file;           /* TLS with this key, on every connection; NULL: none */
    /* etcd://... at which coordinators elect a leader; NULL: this is the only one */
    const char *store;
    double store_lease_s;  /* lease of the leader */
    uint64_t n_local;      /* worker processes to start and keep */
    uint64_t n_thread;     /* of each local worker */
    int recompute;         /* enum spot_recompute, of each local worker */
    const char *device;    /* CUDA's, of each local worker: NULL is "auto" */
    struct spot_grid grid; /* wanted grid; zeros: not given */
    /* division of the microbatches of a step among the pipelines */
    struct spot_split_policy shares;
    const char *old_plan_hint; /* appended to the error for an outdated plan: how to force it; may
                                  be NULL */
    const char *plan;          /* spot.plan/1 file, read again when it changes; "-": stdin; NULL */
    const char *state;         /* directory; NULL: a private one for this run */
    /* generations are stored behind it, see state_command.h; NULL: in `state` */
    const char *state_command;
    double state_timeout_s; /* maximum time of a run of it without a byte moved */
    const char *events;     /* JSON Lines; NULL: none, "-": stdout */
    const char *metrics;    /* address on this host of a page and metrics; NULL: none */
    const char *save;       /* safetensors, or a directory, see model_dir.h; NULL */
    const struct spot_observer *observer; /* NULL: none. With one the job is a measurement: nothing
                                             is made durable, and its result is the last step */
    const struct spot_tuning *change; /* declared for the steps from here on, `after` is filled in;
                                         NULL: none. Requires `resume` */
    bool resume;
    double verify;          /* share of the microbatches to compute again, see verify.h; 0: none */
    bool no_buddies;        /* do not mirror stages that one failure domain could take */
    double precopy_byte;    /* a member that lacks at least this much of a new grid gets it by
                               pre-copy; < 0: more than can be sent in a step's time */
    double grace_s;         /* grace period of a notice that does not give one; 0: not known */
    double durable_every_s; /* 0: chosen from the risk of losing the last copy */
    double lease_s;         /* a member not heard from for this long is lost */
    double stall_s;         /* a member that makes no progress for this long is lost */
    double settle_s;        /* wait this long after a join before the first epoch */
    uint64_t n_first;       /* and until this many members have joined */
    void (*warn)(const char *fmt, ...) SPOT_PRINTF(1, 2);
    void (*note)(const char *fmt, ...)
        SPOT_PRINTF(1, 2); /* called with listening addresses; may be NULL */
    void (*progress)(
        const struct spot_progress *progress); /* called a few times a second; may be NULL */
    /* Called in a new process, which becomes local worker `index` of this job, joins at `address`
     * and computes with a kernel of the CPU's or "cuda". If it returns, the process exits with
     * status 127. NULL if n_local is 0. */
    void (*become_worker)(const struct spot_trainer_options *options, uint64_t index,
                          const char *address, const char *backend);
};

struct spot_trainer_result {
    int64_t step;
    char state_hex[40]; /* hash of the final state */
    bool knows_loss; /* false if a resumed job had nothing left to do and there is no log with the
                        loss */
    float loss;
};

/* Check that the directory to resume from exists: a missing one is probably a typing error. Returns
 * 0, or -1 with *err. */
int spot_trainer_check_resume(const char *state, struct spot_err *err);

/* Run until the last step has committed, by this coordinator or an earlier leader. Returns 0, or -1
 * with *err: SPOT_EPREEMPTED after spot_group_stop with the state durable, SPOT_EINFEASIBLE
 * when the training diverged, SPOT_EUSAGE, SPOT_EDATA, SPOT_ESYS. */
int spot_trainer_run(const struct spot_trainer_options *options, struct spot_trainer_result *result,
                     struct spot_err *err);

/* The signals of a job are those of its group: spot_group_stop, _has_begun, _reload. */

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_TRAINER_H */
