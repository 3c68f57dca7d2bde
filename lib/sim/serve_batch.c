/* SPDX-License-Identifier: MIT */
#include "sim/serve_batch.h"

#include "common/rng.h"

/* The lengths of a batch. A static batch is padded to its longest request. Pass by pass each
 * request has its own context and the costs add up, so the mean is used. */
static struct spot_serve_length length_of(const struct spot_serve_batches *b, const size_t *request,
                                          size_t n)
{
    struct spot_serve_length most = { 1, 1, 0 }, sum = { 0 };
    int64_t work = 0; /* the longest part of a prompt that has to be computed */

    for (size_t i = 0; i < n; i++) {
        const size_t k = request[i];
        const int64_t told = b->served ? b->served[k].token : 0;
        const int64_t prompt = b->load->prompt_token[k] + told;
        const int64_t output = b->load->output_token[k] - told;
        const int64_t left = prompt - (b->found ? b->found[k].cached_token : 0);

        work = left > work ? left : work;
        most.prompt_token = prompt > most.prompt_token ? prompt : most.prompt_token;
        most.output_token = output > most.output_token ? output : most.output_token;
        sum.prompt_token += prompt;
        sum.output_token += output;
    }
    if (b->served)
        return (struct spot_serve_length){ sum.prompt_token / (int64_t)n,
                                           sum.output_token / (int64_t)n,
                                           n == 1 ? sum.prompt_token - work : 0 };
    most.cached_token = most.prompt_token - work;
    return most;
}

static struct spot_batch_time time_of(const struct spot_serve_batches *b,
                                      const struct spot_serve_shape *shape, int64_t B,
                                      const struct spot_serve_length *length)
{
    const int64_t output =
        spot_serve_knows_lengths(b->serve) ? length->output_token : b->serve->output_token;
    struct spot_serve_shape s = *shape;
    struct spot_serve_time t = { 0 };

    s.B = B;
    s.prefill_parts = s.prefill_parts < B ? s.prefill_parts : B;
    s.decode_parts = s.decode_parts < B ? s.decode_parts : B;
    spot_serve_time_of(b->serve, &s, length, &t);
    return (struct spot_batch_time){
        .first_s = t.prefill_s + t.decode_s,
        .each_s = t.decode_s,
        .last_s = t.request_s - t.prefill_s - t.decode_s * (double)output,
        .join = t.join,
    };
}

/* A number in (0, 1) for the request. */
static double draw(const struct spot_serve_batches *b, size_t request)
{
    return ((double)(spot_rng_mix(b->seed, request) >> 11) + 0.5) * 0x1p-53;
}

struct spot_batch_time spot_serve_batch_time(const struct spot_serve_batches *b,
                                             const struct spot_serve_shape *shape,
                                             const size_t *request, size_t n)
{
    const struct spot_serve_length length = length_of(b, request, n);
    struct spot_batch_time t;
    int64_t B = 1;

    while (B < (int64_t)n)
        B *= 2;
    t = time_of(b, shape, B, &length);
    if (b->served && B > (int64_t)n) {
        const double share = (double)((int64_t)n - B / 2) / ((double)B / 2);
        const struct spot_batch_time less = time_of(b, shape, B / 2, &length);

        t.each_s = less.each_s + share * (t.each_s - less.each_s);
        t.join = less.join + share * (t.join - less.join);
    }
    if (b->serve->n_spread) {
        const double x = spot_serve_spread_at(b->serve, draw(b, request[0]));

        t.first_s *= x, t.each_s *= x, t.last_s *= x;
    }
    return t;
}
