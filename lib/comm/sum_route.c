/* SPDX-License-Identifier: MIT */
#include "comm/sum_route.h"

struct spot_sum_route spot_sum_route(size_t D)
{
    struct spot_sum_route route = { D, 1 };

    while (D > SPOT_SUM_DIRECT_MAX && (route.n_row + 1) * (route.n_row + 1) <= D)
        route.n_row++;
    return route;
}

/* Rows differ by one at most. */
static size_t size_of(const struct spot_sum_route *route, size_t row)
{
    return (route->D - row + route->n_row - 1) / route->n_row;
}

size_t spot_sum_row_size(const struct spot_sum_route *route, size_t rank)
{
    return size_of(route, rank % route->n_row);
}

size_t spot_sum_row_rank(const struct spot_sum_route *route, size_t rank, size_t k)
{
    return rank % route->n_row + k * route->n_row;
}

size_t spot_sum_collector(const struct spot_sum_route *route, size_t row, size_t piece)
{
    return spot_sum_row_rank(route, row, piece * size_of(route, row) / route->D);
}

void spot_sum_collects(const struct spot_sum_route *route, size_t rank, size_t *begin, size_t *end)
{
    const size_t n = spot_sum_row_size(route, rank), k = rank / route->n_row;

    *begin = (k * route->D + n - 1) / n;
    *end = ((k + 1) * route->D + n - 1) / n;
}

size_t spot_sum_piece(const struct spot_sum_route *route, size_t n, size_t q)
{
    return n / route->D * q + n % route->D * q / route->D;
}

bool spot_sum_is_pair(const struct spot_sum_route *route, size_t a, size_t b)
{
    return a % route->n_row == b % route->n_row ||
           spot_sum_collector(route, a % route->n_row, b) == a ||
           spot_sum_collector(route, b % route->n_row, a) == b;
}
