/* SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "comm/sum_route.h"
#include "suite.h"

/* Goal: for any number of replicas, the four steps of a sum bring each replica's contribution to
 * each piece exactly once to every replica. Played with sets in place of numbers: a number is how
 * often each replica's contribution is in it. */

enum { D_MAX = 140 };

static unsigned char held[D_MAX][D_MAX][D_MAX]; /* [replica][piece][whose contribution] */
static unsigned char next[D_MAX][D_MAX][D_MAX];
static size_t D;
static struct spot_sum_route route;

static void add(size_t to, size_t from, size_t piece)
{
    ck_assert_msg(spot_sum_is_pair(&route, from, to) && spot_sum_is_pair(&route, to, from),
                  "%zu replicas: %zu and %zu are no pair", D, from, to);
    for (size_t i = 0; i < D; i++)
        next[to][piece][i] = (unsigned char)(next[to][piece][i] + held[from][piece][i]);
}

static void begin_step(void)
{
    memcpy(next, held, sizeof(held));
}

static void end_step(void)
{
    memcpy(held, next, sizeof(held));
}

static void scatter_in_rows(void)
{
    begin_step();
    for (size_t a = 0; a < D; a++)
        for (size_t k = 0; k < spot_sum_row_size(&route, a); k++) {
            const size_t to = spot_sum_row_rank(&route, a, k);
            size_t q, end;

            spot_sum_collects(&route, to, &q, &end);
            for (; to != a && q < end; q++)
                add(to, a, q);
        }
    end_step();
}

/* The own number is in that of the own row's collector. */
static void send_to_owners(void)
{
    begin_step();
    for (size_t q = 0; q < D; q++) {
        if (spot_sum_collector(&route, q % route.n_row, q) != q)
            memset(next[q][q], 0, D);
        for (size_t row = 0; row < route.n_row; row++) {
            const size_t from = spot_sum_collector(&route, row, q);

            if (from != q)
                add(q, from, q);
        }
    }
    end_step();
}

static void send_back(void)
{
    begin_step();
    for (size_t q = 0; q < D; q++)
        for (size_t row = 0; row < route.n_row; row++) {
            const size_t to = spot_sum_collector(&route, row, q);

            if (to == q)
                continue;
            memset(next[to][q], 0, D);
            add(to, q, q);
        }
    end_step();
}

static void spread_in_rows(void)
{
    begin_step();
    for (size_t a = 0; a < D; a++)
        for (size_t k = 0; k < spot_sum_row_size(&route, a); k++) {
            const size_t from = spot_sum_row_rank(&route, a, k);
            size_t q, end;

            spot_sum_collects(&route, from, &q, &end);
            for (; from != a && q < end; q++) {
                memset(next[a][q], 0, D);
                add(a, from, q);
            }
        }
    end_step();
}

static size_t largest(void)
{
    return in_tier("long") ? D_MAX : 70;
}

START_TEST(every_contribution_is_in_every_sum_once)
{
    for (D = 1; D <= largest(); D++) {
        memset(held, 0, sizeof(held));
        for (size_t a = 0; a < D; a++)
            for (size_t q = 0; q < D; q++)
                held[a][q][a] = 1;
        route = spot_sum_route(D);
        scatter_in_rows();
        send_to_owners();
        send_back();
        spread_in_rows();
        for (size_t a = 0; a < D; a++)
            for (size_t q = 0; q < D; q++)
                for (size_t i = 0; i < D; i++)
                    ck_assert_msg(held[a][q][i] == 1, "%zu replicas: %zu has %zu of %zu %d times",
                                  D, a, q, i, held[a][q][i]);
    }
}
END_TEST

START_TEST(the_collectors_of_a_row_have_all_pieces_and_nearly_equal_parts)
{
    for (D = 1; D <= 600; D++) {
        route = spot_sum_route(D);
        for (size_t row = 0; row < route.n_row; row++) {
            const size_t n = spot_sum_row_size(&route, row);
            size_t next_piece = 0;

            for (size_t k = 0; k < n; k++) {
                const size_t rank = spot_sum_row_rank(&route, row, k);
                size_t begin, end;

                spot_sum_collects(&route, rank, &begin, &end);
                ck_assert_uint_eq(begin, next_piece);
                ck_assert_uint_le(end - begin, D / n + 1);
                ck_assert_uint_ge(end - begin, D / n);
                for (; next_piece < end; next_piece++)
                    ck_assert_uint_eq(spot_sum_collector(&route, row, next_piece), rank);
            }
            ck_assert_uint_eq(next_piece, D);
        }
    }
}
END_TEST

START_TEST(pieces_are_nearly_equal_and_cover_the_vector)
{
    static const size_t n[] = { 0, 1, 31, 128, 1000003 };

    for (size_t k = 0; k < sizeof(n) / sizeof(n[0]); k++) {
        route = spot_sum_route(48);
        ck_assert_uint_eq(spot_sum_piece(&route, n[k], 0), 0);
        ck_assert_uint_eq(spot_sum_piece(&route, n[k], 48), n[k]);
        for (size_t q = 0; q < 48; q++) {
            const size_t size =
                spot_sum_piece(&route, n[k], q + 1) - spot_sum_piece(&route, n[k], q);

            ck_assert(size == n[k] / 48 || size == n[k] / 48 + 1);
        }
    }
}
END_TEST

/* All pairs up to the limit; above it the number of pairs grows as the power 1.5, not 2. */
START_TEST(pairs_of_many_replicas_are_few)
{
    static const size_t size[] = { 32, 33, 128, 200, 300, 512 };

    for (size_t k = 0; k < sizeof(size) / sizeof(size[0]); k++) {
        size_t n_pair = 0, root = 1;

        D = size[k];
        route = spot_sum_route(D);
        while ((root + 1) * (root + 1) <= D)
            root++;
        for (size_t a = 0; a < D; a++)
            for (size_t b = 0; b < a; b++)
                n_pair += spot_sum_is_pair(&route, a, b);
        if (D <= SPOT_SUM_DIRECT_MAX)
            ck_assert_uint_eq(n_pair, D * (D - 1) / 2);
        else
            ck_assert_uint_le(n_pair, D * root * 11 / 10);
    }
}
END_TEST

int main(void)
{
    return run_suite("sum_route", add_tests(tcase_create("core")));
}
