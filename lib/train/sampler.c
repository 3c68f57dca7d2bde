/* SPDX-License-Identifier: MIT */
#include "train/sampler.h"

#include <assert.h>
#include <string.h>

#include "common/permute.h"
#include "common/rng.h"

int spot_sampler_init(struct spot_sampler *s, const struct spot_corpus *corpus, int64_t seq,
                      uint64_t seed, struct spot_err *err)
{
    assert(seq > 0);
    *s = (struct spot_sampler){ .corpus = corpus, .seed = seed, .seq = seq };
    s->n_sequence = corpus->n_token ? ((int64_t)corpus->n_token - 1) / seq : 0;
    if (!s->n_sequence)
        return spot_err_set(err, SPOT_EDATA,
                            "%s: %zu tokens are less than one sequence of %lld and its last target",
                            corpus->source, corpus->n_token, (long long)seq);
    return 0;
}

int64_t spot_sampler_sequence(const struct spot_sampler *s, int64_t q)
{
    const uint64_t n = (uint64_t)s->n_sequence;

    assert(q >= 0);
    return (int64_t)spot_permute(n, spot_rng_mix(s->seed, (uint64_t)q / n), (uint64_t)q % n);
}

int spot_sampler_read(const struct spot_sampler *s, int64_t sequence, uint32_t *token,
                      struct spot_err *err)
{
    const size_t begin = (size_t)(sequence * s->seq), seq = (size_t)s->seq;

    assert(sequence >= 0 && sequence < s->n_sequence);
    if (s->weight)
        memcpy(token + seq + 1, s->weight + begin + 1, seq * sizeof(*token));
    return spot_corpus_read(s->corpus, begin, seq + 1, token, err);
}
