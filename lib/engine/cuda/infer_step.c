/* SPDX-License-Identifier: MIT */
/* Decode steps as graphs: one for each size of batch and each number of parts of attention, both
 * rounded up to powers of two. All else that differs from step to step (tokens, positions, pages)
 * lies in memory that the graph copies to the device when it runs. */
#include "engine/cuda/infer_cuda.h"

int64_t spot_cuda_infer_padded(const struct spot_infer *f, int64_t n)
{
    const struct spot_infer_config *const c = &f->config;
    const int most = c->token_max < c->logit_max ? c->token_max : c->logit_max;
    const int64_t room = most < c->n_sequence ? most : c->n_sequence;
    int64_t padded = 1;

    while (padded < n)
        padded *= 2;
    return padded < room ? padded : room;
}

int64_t spot_cuda_infer_most(const struct spot_infer *f, int64_t most)
{
    int64_t end = SPOT_CUDA_KEYS;

    while (end <= most)
        end *= 2;
    return (end < f->shape.seq ? end : f->shape.seq) - 1;
}

/* The step's entry; a new one takes the place of the least recently used. */
static struct spot_cuda_step *find(struct spot_cuda_infer *d, const struct spot_cuda_step *step)
{
    struct spot_cuda_step *oldest = d->step;

    for (int i = 0; i < SPOT_CUDA_STEPS_MAX; i++) {
        struct spot_cuda_step *const s = &d->step[i];

        if (s->used && s->n == step->n && s->most == step->most &&
            s->has_choices == step->has_choices)
            return s;
        oldest = s->used < oldest->used ? s : oldest;
    }
    spot_device_graph_free(oldest->graph);
    *oldest = *step;
    return oldest;
}

/* After a refusal there is no other try. */
static void record(struct spot_cuda_infer *d, struct spot_cuda_step *s,
                   int (*queue)(void *user, struct spot_err *err), void *user)
{
    struct spot_err ignored;

    d->has_graphs = spot_device_record(d->dev);
    if (!d->has_graphs)
        return;
    queue(user, &ignored);
    s->graph = spot_device_recorded(d->dev);
    d->has_graphs = s->graph != NULL;
}

int spot_cuda_infer_step(struct spot_cuda_infer *d, const struct spot_cuda_step *step,
                         int (*queue)(void *user, struct spot_err *err), void *user,
                         struct spot_err *err)
{
    struct spot_cuda_step *const s = find(d, step);

    if (!s->graph && s->used)
        record(d, s, queue, user);
    s->used = ++d->n_step;
    if (!s->graph)
        return queue(user, err);
    spot_device_replay(d->dev, s->graph);
    d->counts.n_graph++;
    d->counts.n_node = spot_device_graph_nodes(s->graph);
    return 0;
}

void spot_cuda_infer_end_steps(struct spot_cuda_infer *d)
{
    for (int i = 0; i < SPOT_CUDA_STEPS_MAX; i++)
        spot_device_graph_free(d->step[i].graph);
}
