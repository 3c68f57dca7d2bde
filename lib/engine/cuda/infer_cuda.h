/* SPDX-License-Identifier: MIT */
/* infer_cuda.h - the serving engine on a device: shared by its files. Symbols as in
 * infer_kernels.h; R rows of logits. */
#ifndef SPOT_ENGINE_CUDA_INFER_CUDA_H
#define SPOT_ENGINE_CUDA_INFER_CUDA_H

#include "engine/cuda/device.h"
#include "engine/cuda/infer_kernels.h"
#include "engine/infer_state.h"
#include "engine/memory_plan.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_CUDA_STEPS_MAX = 32 }; /* graphs at once; the least recently used makes room */

/* A decode step of n sequences, padded, whose tokens see at most `most` + 1 keys. */
struct spot_cuda_step {
    int64_t n, most;
    bool has_choices;
    uint64_t used;                   /* number of the last step that needed it; 0: free */
    struct spot_device_graph *graph; /* NULL: not recorded yet */
};

struct spot_cuda_infer {
    struct spot_infer *f;
    struct spot_device *dev;
    spot_stream stream;
    enum spot_real real;
    const void **tensor; /* as f->tensor, on the device; NULL: not needed here */
    /* on the device */
    const void **embed; /* [shards of the model] the table of tokens */
    float *pool, *turn;
    float *x, *norm, *stat; /* [N][C], [N][C], [N][2] */
    float *qkv, *att;       /* [N][S][Q], [N][S][H d] */
    float *pre, *act;       /* [N][S][..] before and after the activation */
    float *sum;             /* [S][N][C] sums per shard */
    float *other;           /* [N][C] of another member; NULL if none is directly reachable */
    float *logit;           /* [R][S][rows of a shard] */
    float *partial, *paged; /* scratch of products and of attention */
    int32_t *meta;          /* description of a run, see infer_pass_cuda.c */
    /* on the host, page-locked */
    int32_t *meta_host;
    float *host; /* hidden states, or logits */
    /* tokens chosen here; NULL: by the host alone */
    struct spot_cuda_choice *choice, *choice_host; /* [R] */
    struct spot_cuda_chosen *chosen, *chosen_host; /* [R] */
    bool *is_needed;                               /* [R] rows of logits that go to the host */
    /* decode steps as graphs */
    bool has_graphs, has_choices;
    struct spot_cuda_step step[SPOT_CUDA_STEPS_MAX];
    uint64_t n_step;
    struct spot_infer_counts counts;
};

/* A run; f->n_token > 0. Returns 0, or -1 with *err. */
int spot_cuda_infer_pass(struct spot_infer *f, struct spot_err *err);

/* --- infer_step.c: a decode step as a graph --- */

/* Sequences that a step of n is padded to: a power of two, as far as the engine has room. */
int64_t spot_cuda_infer_padded(const struct spot_infer *f, int64_t n);
/* Likewise for the largest position: whole parts of attention, a power of two of them. */
int64_t spot_cuda_infer_most(const struct spot_infer *f, int64_t most);
/* Runs `queue(user)`, which queues a step on the device, or its graph. A step is recorded when it
 * comes for the second time: the first loads its kernels. Returns what `queue` returned, or 0. */
int spot_cuda_infer_step(struct spot_cuda_infer *d, const struct spot_cuda_step *step,
                         int (*queue)(void *user, struct spot_err *err), void *user,
                         struct spot_err *err);
void spot_cuda_infer_end_steps(struct spot_cuda_infer *d);

/* --- infer_choose.c: rows of logits of a run whose tokens are chosen here --- */

/* Writes what is wanted of each row into the host's memory; false: nothing. Rows of padding want
 * nothing. */
bool spot_cuda_infer_tell_choices(struct spot_cuda_infer *d, int64_t n_row);
/* Queued, behind the logits. */
void spot_cuda_infer_queue_choices(struct spot_cuda_infer *d, int64_t n_row);
/* Waits; marks in is_needed[n_row], all true before, the rows whose tokens were chosen as not
 * needed by the host. */
void spot_cuda_infer_take_choices(struct spot_cuda_infer *d, bool *is_needed);

/* Tokens per product: bounds its scratch, does not affect the bits. */
int64_t spot_cuda_infer_chunk(int64_t n_in, int64_t n_out);
/* Maximum number of pages of a sequence; int32 in `meta`. */
int64_t spot_cuda_infer_page_stride(const struct spot_infer *f);
size_t spot_cuda_infer_meta_elem(const struct spot_infer *f);
/* Floats of `host`. */
size_t spot_cuda_infer_host_elem(const struct spot_infer *f);

extern const struct spot_infer_backend spot_infer_cuda;

#ifdef __cplusplus
}
#endif

#endif /* SPOT_ENGINE_CUDA_INFER_CUDA_H */
