/* SPDX-License-Identifier: MIT */
/* Goal: the codec is the one that the formula names for links and coders of known speed. */
#include <stdlib.h>

#include "shard/adapt.h"
#include "suite.h"

/* Links and coders of known speed: the chosen codec is the one that the formula names. */
static const struct link_case {
    double link_byte_per_s;
    enum spot_codec best;
} link_case[] = {
    { 1e8, SPOT_CODEC_PLANES },   /* 0.8 Gb/s: ratio rules */
    { 1.2e9, SPOT_CODEC_PLANES }, /* 1.8e9 of raw bytes, and coding at 1.4e9 gains a tenth */
    { 2e9, SPOT_CODEC_RAW },      /* coding at 1.4e9 is slower than this link */
    { 5e10, SPOT_CODEC_RAW },
};

START_TEST(the_codec_follows_the_speed_of_the_link)
{
    static const double rate[] = { 2e10, 1.4e9 }, ratio[] = { 1, 1.5 };
    const struct link_case *c = &link_case[_i];
    struct spot_adapt adapt = { 0 };
    int n_best = 0;

    for (int i = 0; i < 1000; i++) {
        const enum spot_codec codec = spot_adapt_choose(&adapt, SPOT_DT_BF16);
        const double stored = 1e6 / ratio[codec];

        spot_adapt_coded(&adapt, SPOT_DT_BF16, codec, 1000000, (size_t)stored, 1e6 / rate[codec]);
        spot_adapt_sent(&adapt, (size_t)stored, stored / c->link_byte_per_s);
        n_best += codec == c->best;
    }
    ck_assert_int_ge(n_best, 970);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("core");

    tcase_add_loop_test(tc, the_codec_follows_the_speed_of_the_link, 0,
                        sizeof(link_case) / sizeof(link_case[0]));
    return run_suite("adapt", tc);
}
