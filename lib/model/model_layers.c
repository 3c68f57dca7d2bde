/* SPDX-License-Identifier: MIT */
#include "model/model_layers.h"

#include <string.h>

int spot_model_recompute_find(const char *name)
{
    static const char *const known[] = { "none", "attention", "layer" };

    if (!name)
        return SPOT_MODEL_RECOMPUTE_ATTENTION;
    for (int i = 0; i < (int)(sizeof(known) / sizeof(known[0])); i++)
        if (!strcmp(name, known[i]))
            return i;
    return -1;
}

/* Of one layer and token. */
static double kept_byte(const struct spot_job_model *m, double seq, double kv)
{
    const double c = (double)m->width, scores = (double)m->heads * seq;
    const int recompute = spot_model_recompute_find(m->recompute);

    if (recompute == SPOT_MODEL_RECOMPUTE_LAYER)
        return 2 * c;
    return (m->ffn ? 12 * c + 4 * kv + 8 * (double)m->ffn : 34 * c) +
           (recompute == SPOT_MODEL_RECOMPUTE_NONE ? (m->ffn ? 2 : 5) * scores : 0);
}

void spot_model_layers(const struct spot_job_model *m, int64_t seq, int64_t micro_batch,
                       struct spot_job_layer *layer)
{
    const double c = (double)m->width, v = (double)(m->vocab ? m->vocab : 256);
    const double kv = m->heads ? c / (double)m->heads * (double)m->kv_heads : 0;
    const double f = (double)m->ffn, s = (double)seq, tokens = s * (double)micro_batch;
    const struct spot_job_layer inner = {
        .params = m->ffn ? 2 * c * (c + kv) + 3 * c * f + 2 * c : 12 * c * c + 13 * c,
        .activation_byte = tokens * kept_byte(m, s, kv),
    };

    layer[0] = (struct spot_job_layer){ .params = (m->ffn ? v : v + s) * c,
                                        .activation_byte = m->ffn ? 0 : tokens * c };
    for (int64_t i = 1; i <= m->layers; i++)
        layer[i] = inner;
    layer[m->layers + 1] = (struct spot_job_layer){ .params = v * c + (m->ffn ? c : 2 * c),
                                                    .activation_byte = 4 * tokens * (c + v) };
}
