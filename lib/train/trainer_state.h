/* SPDX-License-Identifier: MIT */
/* trainer_state.h - shared by the parts of the trainer; private to lib/train/trainer*.c.
 *
 * The trainer is the workload of a group of one view: a round is an optimizer step.
 */
#ifndef SPOT_TRAIN_TRAINER_STATE_H
#define SPOT_TRAIN_TRAINER_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/store.h"
#include "cluster/group.h"
#include "common/err.h"
#include "train/evidence.h"
#include "train/form.h"
#include "train/meter.h"
#include "train/model_dir.h"
#include "train/movement.h"
#include "train/pins.h"
#include "train/sampler.h"
#include "train/saver.h"
#include "train/state_sources.h"
#include "train/train_protocol.h"
#include "train/trainer.h"
#include "train/validator.h"
#include "train/verify.h"
#include "weights/load.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_NEVER_VOUCHED = -2 };

/* The trainer's object of a worker. */
struct spot_trainer_member {
    struct spot_peer *peer;
    bool keeps;      /* the state it held when it joined is valid */
    char device[32]; /* PCI address of its CUDA device, "" if it has none */
    bool cannot_mirror;
    bool cannot_check; /* its memory does not suffice to compute beside what it mirrors */
    bool sends;        /* it sends bundles instead of writing them */
    double warm_byte;  /* bytes of sums that fit as a warm spare; 0: no limit known */
    int64_t *held;     /* [n_bundle], step of its copy, -1 */
    int64_t *vouched;  /* [n_bundle], step of the state on which it last agreed with all */
    struct spot_trainer_reported *reported; /* [n_bundle] hashes in its last vote */
    struct spot_member_seen seen;           /* of its last vote; filled if there is an observer */
    double moved_byte_per_s;                /* measured rate of receiving; 0: not known */
    double paced_work,
        paced_s; /* recent work, in units of spot_grid_cost, and its duration; 0: not known */
};

/* A member's report on a bundle that it keeps. */
struct spot_trainer_reported {
    struct spot_evidence evidence;
    double norm2;
};

/* Microbatches that are computed again, see trainer_verify.c. */
struct spot_trainer_verify {
    struct spot_verify_rate rate; /* how many microbatches are checked, for the form */
    /* in this step, by pipeline; the last is of an idle member that checks */
    struct spot_verify_order *order;          /* [n_pipeline + 1] */
    struct spot_verify_report *first, *again; /* [(n_pipeline + 1) * n_stage] */
    uint32_t spare;                           /* the idle member, 0: none */
    bool has_declined;                        /* the idle member has too little memory */
    uint32_t n_pipeline, n_stage; /* sizes for the current form; 0: nothing is allocated */
    bool is_checked, is_judged;   /* in the current step: two members compare; all compute again */
    uint32_t turn;                /* pipeline d is checked by d + turn */
    struct {                      /* the check that is being decided */
        struct spot_verify_set set;
        uint32_t owner, checker, stage;
        struct spot_verify_report reported[2]; /* first reports of owner and checker */
        int n_try;
    } dispute;
    bool is_confirming;     /* the current round is a vote on the state, not a step */
    int64_t confirmed_step; /* step on whose state the epoch's members have agreed; 0: none */
    bool must_break;        /* a member was convicted: the epoch ends */
    int n_redo;             /* repetitions of the step because sums differed without a majority */
    uint64_t n_checked, n_difference, n_convicted;
};

struct spot_trainer_vote {
    double norm2;
    struct spot_evidence evidence;
    struct spot_stage_times times; /* seconds per microbatch of the slowest member */
    uint32_t overflow, nonfinite;
    bool is_in;
};

/* Transfers of a form that members cannot read themselves, see trainer_restore.c. */
struct spot_frame_relay {
    uint32_t *transfer; /* [n], of which the first n_sent were sent */
    size_t n, n_sent;
    int64_t sent_byte;
    double since_s; /* when the moves of the form began */
};

struct spot_trainer {
    const struct spot_trainer_options *options;
    struct spot_group_options group_options;
    struct spot_group *group;
    struct spot_view *view;             /* the only view */
    const struct spot_machine *machine; /* of it */
    struct spot_journal *journal;       /* the group's */

    struct spot_job_config config;
    uint64_t job;
    int64_t n_microbatch; /* G */
    int n_bundle;
    struct spot_weights *weights;     /* initial weights; NULL: drawn from the seed */
    struct spot_model_dir *model_dir; /* destination of the result; NULL: a file, or none */
    struct spot_corpus corpus;
    float *token_weight; /* [tokens of the corpus]; NULL: there are none */
    struct spot_sampler sampler;
    struct spot_validator validator;
    struct spot_saver saver;
    struct spot_movement movement;

    struct spot_grid want; /* by --grid or the newest plan; 0: by the number of members */
    struct spot_pins pins; /* places given by the newest plan */
    /* number of members at the last report that they are too few for `want` */
    size_t compromise_n;

    struct spot_form form; /* of machine->epoch */
    struct spot_state_sources sources;
    struct spot_frame_relay relay; /* transfers of the form */
    double await_until_s; /* after a restart: no step is chosen before this time, when the holders'
                             leases end */
    double *loss;         /* [G] losses of the step */
    struct spot_trainer_vote *vote; /* [n_bundle] */
    uint64_t samples_xxh3;          /* hash of the tokens of the step */
    struct spot_chain chain;
    struct spot_trainer_verify verify;
    double compute_s; /* time of the slowest member in the step */
    float last_loss;  /* loss of the newest step, if known */
    bool knows_loss;
    double last_commit_s, step_s; /* step_s: smoothed time between commits */
    bool is_damage_reported;      /* the reason for the next epoch's rollback was reported */
    double keep_until_s; /* until then state that only members set aside hold is made durable */
    struct spot_grid formed_want; /* `want` when the form was made */
    bool is_redoing;              /* the step is repeated with smaller exponents */
    double read_s;                /* time to read the tokens of the step */
    struct spot_buf still;        /* tokens of step 0, for an observer of synthetic data */
    struct spot_split_drift drift;
    bool is_final;                     /* all steps have committed: collecting the result */
    struct spot_result_writer *result; /* partial result, if it cannot go to disk */
    double progress_shown_s;
    bool is_tested, passes_test; /* this machine, by the self-test for local workers */
    double tested_s;             /* when */
    struct spot_meter *meter;    /* NULL: no metrics */
    struct spot_show *show;      /* NULL: nobody follows; trainer_show.c */
    size_t n_precopied;          /* number of the form's pre-copies already counted */
};

/* trainer_open.c: open earlier state, which requires --resume. State behind a command is first only
 * read, then claimed from its previous writer. Return 0, or -1 with *err. */
int spot_trainer_open_state(struct spot_trainer *c, struct spot_err *err);
int spot_trainer_take_state(struct spot_trainer *c, struct spot_err *err);

/* trainer_lead.c: wait until this coordinator leads, if there are several. Returns 0, 1 if the job
 * is done: *result is that of the earlier leader, or -1 with *err. */
int spot_trainer_lead(struct spot_trainer *c, struct spot_trainer_result *result,
                      struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRAIN_TRAINER_STATE_H */
