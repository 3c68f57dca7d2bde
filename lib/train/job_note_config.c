/* SPDX-License-Identifier: MIT */
/* Converts a note to the shape and configuration of the job. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/job_note.h"
#include "weights/hf_config.h"
#include "weights/hf_family.h"

int spot_job_note_shape(const struct spot_job_note *note, const char *dir, struct spot_shape *shape,
                        struct spot_err *err)
{
    struct spot_err why;

    *shape = (struct spot_shape){ .n_layer = note->layers,
                                  .width = note->width,
                                  .n_head = note->heads,
                                  .seq = note->seq,
                                  .vocab = note->vocab,
                                  .n_shard = note->shards,
                                  .n_kv_head = note->kv_heads,
                                  .ffn = note->ffn,
                                  .rope_theta = note->rope_theta,
                                  .is_tied = note->tied,
                                  .norm_eps = note->norm_eps };
    if (note->config) {
        struct spot_shape s;

        if (spot_hf_config_parse(note->config, "job.json: /config", &s, err))
            return -1;
        shape->kind = s.kind;
        shape->head_dim = s.head_dim;
    } else if (spot_hf_family_kind(note->arch, &shape->kind))
        return spot_err_set(err, SPOT_EDATA, "%s/job.json: /arch: expected gpt2 or llama, got '%s'",
                            dir, note->arch);
    return spot_shape_check(shape, &why)
               ? spot_err_set(err, SPOT_EDATA, "%s/job.json: %.300s", dir, why.msg)
               : 0;
}

int spot_job_note_config(const struct spot_job_note *note, const char *dir,
                         struct spot_job_config *c, struct spot_err *err)
{
    struct spot_err why;

    *c = (struct spot_job_config){
        .micro_batch = note->micro_batch,
        .global_batch = note->global_batch,
        .n_step = note->steps,
        .seed = strtoull(note->seed, NULL, 10),
        .data_xxh3 = strtoull(note->data_xxh3, NULL, 16),
        .init_xxh3 = strtoull(note->load_xxh3, NULL, 16),
        .weight_xxh3 =
            note->weights_of_samples_xxh3 ? strtoull(note->weights_of_samples_xxh3, NULL, 16) : 0,
        .adamw = { note->lr, note->beta1, note->beta2, 1e-8, note->weight_decay },
        .schedule = { (uint32_t)spot_lr_schedule_find(note->lr_schedule), note->warmup_steps,
                      note->decay_steps, note->min_lr },
        .n_change = (uint32_t)note->n_change,
        .clip_norm = note->clip,
        .reduce = strcmp(note->reduce, "fast") ? SPOT_REDUCE_EXACT : SPOT_REDUCE_FAST,
    };
    memcpy(c->change, note->change, sizeof(note->change));
    snprintf(c->kernel, sizeof(c->kernel), "%s", note->kernel);
    if (spot_job_note_shape(note, dir, &c->shape, err))
        return -1;
    return spot_job_config_check(c, &why)
               ? spot_err_set(err, SPOT_EDATA, "%s/job.json: %.300s", dir, why.msg)
               : 0;
}
