/* SPDX-License-Identifier: MIT */
#include "shard/adapt.h"

static const enum spot_codec candidate[SPOT_ADAPT_CODECS] = { SPOT_CODEC_RAW, SPOT_CODEC_NIBBLE,
                                                              SPOT_CODEC_PLANES };
static const double weight = 0.2, gain_to_change = 0.9;

static int index_of(enum spot_codec codec)
{
    return codec == SPOT_CODEC_RAW ? 0 : codec == SPOT_CODEC_NIBBLE ? 1 : 2;
}

/* The nibble window fits bf16 only. */
static int fits(int i, enum spot_dtype dtype)
{
    return candidate[i] != SPOT_CODEC_NIBBLE || dtype == SPOT_DT_BF16;
}

static double cost(const struct spot_adapt *a, enum spot_dtype dtype, int i)
{
    const double coding = a->of[dtype].codec[i].s_per_byte,
                 sending = a->link_s_per_byte / a->of[dtype].codec[i].ratio;

    return coding > sending ? coding : sending;
}

static enum spot_codec next_probe(const struct spot_adapt *a, enum spot_dtype dtype)
{
    int i = (int)(a->of[dtype].n / SPOT_ADAPT_PROBE % SPOT_ADAPT_CODECS);

    while (!fits(i, dtype))
        i = (i + 1) % SPOT_ADAPT_CODECS;
    return candidate[i];
}

enum spot_codec spot_adapt_choose(struct spot_adapt *a, enum spot_dtype dtype)
{
    int best = index_of(a->of[dtype].chosen);

    for (int i = 0; i < SPOT_ADAPT_CODECS; i++)
        if (fits(i, dtype) && a->of[dtype].codec[i].ratio == 0)
            return candidate[i];
    if (++a->of[dtype].n % SPOT_ADAPT_PROBE == 0)
        return next_probe(a, dtype);
    for (int i = 0; i < SPOT_ADAPT_CODECS; i++)
        if (fits(i, dtype) && cost(a, dtype, i) < gain_to_change * cost(a, dtype, best))
            best = i;
    a->of[dtype].chosen = candidate[best];
    return candidate[best];
}

static void average(double *mean, double value)
{
    *mean = *mean > 0 ? (1 - weight) * *mean + weight * value : value;
}

void spot_adapt_coded(struct spot_adapt *a, enum spot_dtype dtype, enum spot_codec codec,
                      size_t raw_byte, size_t stored_byte, double coding_s)
{
    const int i = index_of(codec);

    if (!raw_byte || !stored_byte)
        return;
    average(&a->of[dtype].codec[i].s_per_byte, coding_s / (double)raw_byte);
    average(&a->of[dtype].codec[i].ratio, (double)raw_byte / (double)stored_byte);
}

void spot_adapt_sent(struct spot_adapt *a, size_t n_byte, double busy_s)
{
    if (n_byte)
        average(&a->link_s_per_byte, busy_s / (double)n_byte);
}
