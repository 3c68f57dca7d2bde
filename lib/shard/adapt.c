/* SPDX-License-Identifier: MIT */
#include "shard/adapt.h"

static const double weight = 0.2, gain_to_change = 0.9;

static double cost(const struct spot_adapt *a, enum spot_dtype dtype, int i)
{
    const double coding = a->of[dtype].codec[i].s_per_byte,
                 sending = a->link_s_per_byte / a->of[dtype].codec[i].ratio;

    return coding > sending ? coding : sending;
}

enum spot_codec spot_adapt_choose(struct spot_adapt *a, enum spot_dtype dtype)
{
    const enum spot_codec chosen = a->of[dtype].chosen;
    const enum spot_codec other = chosen == SPOT_CODEC_RAW ? SPOT_CODEC_PLANES : SPOT_CODEC_RAW;

    for (int i = SPOT_CODEC_RAW; i <= SPOT_CODEC_PLANES; i++)
        if (a->of[dtype].codec[i].ratio == 0)
            return (enum spot_codec)i;
    if (++a->of[dtype].n % SPOT_ADAPT_PROBE == 0)
        return other;
    if (cost(a, dtype, (int)other) < gain_to_change * cost(a, dtype, (int)chosen))
        a->of[dtype].chosen = other;
    return a->of[dtype].chosen;
}

static void average(double *mean, double value)
{
    *mean = *mean > 0 ? (1 - weight) * *mean + weight * value : value;
}

void spot_adapt_coded(struct spot_adapt *a, enum spot_dtype dtype, enum spot_codec codec,
                      size_t raw_byte, size_t stored_byte, double coding_s)
{
    if (!raw_byte || !stored_byte)
        return;
    average(&a->of[dtype].codec[codec].s_per_byte, coding_s / (double)raw_byte);
    average(&a->of[dtype].codec[codec].ratio, (double)raw_byte / (double)stored_byte);
}

void spot_adapt_sent(struct spot_adapt *a, size_t n_byte, double busy_s)
{
    if (n_byte)
        average(&a->link_s_per_byte, busy_s / (double)n_byte);
}
