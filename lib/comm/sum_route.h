/* SPDX-License-Identifier: MIT */
/* sum_route.h - which replicas send which parts of a sum to each other.
 *
 * Each of D replicas has a vector of n numbers, and each is to get the sum of all. The vector is
 * cut into D pieces; the replica of rank q sums piece q. The replicas are in rows; in each row each
 * piece has a collector:
 *
 *   1. every replica sends to each other one of its row the pieces that this one collects
 *   2. collectors send the sum of their row to each piece's owner
 *   3. owners send the sum of all to the collectors of their piece, one in each row
 *   4. collectors send the pieces that they collect to their row
 *
 * Up to SPOT_SUM_DIRECT_MAX replicas there is one row, whose collectors are the owners: steps 1 and
 * 4 are all, in which every pair exchanges frames. With more there are about sqrt(D) rows of
 * sqrt(D), so that a replica exchanges frames with 2 to 3 sqrt(D) others. A replica sends and
 * receives about 2 n numbers either way.
 */
#ifndef SPOT_COMM_SUM_ROUTE_H
#define SPOT_COMM_SUM_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { SPOT_SUM_DIRECT_MAX = 32 };

/* The replica of rank i is in row i % n_row. */
struct spot_sum_route {
    size_t D, n_row;
};

struct spot_sum_route spot_sum_route(size_t D);

/* Number of replicas in the row of a rank, and the k-th of them. */
size_t spot_sum_row_size(const struct spot_sum_route *route, size_t rank);
size_t spot_sum_row_rank(const struct spot_sum_route *route, size_t rank, size_t k);

/* Rank that collects a piece in a row. */
size_t spot_sum_collector(const struct spot_sum_route *route, size_t row, size_t piece);

/* Pieces [*begin, *end) that a rank collects. */
void spot_sum_collects(const struct spot_sum_route *route, size_t rank, size_t *begin, size_t *end);

/* Where piece q of n numbers begins; q = D: the end. */
size_t spot_sum_piece(const struct spot_sum_route *route, size_t n, size_t q);

/* True if two ranks exchange frames. */
bool spot_sum_is_pair(const struct spot_sum_route *route, size_t a, size_t b);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_COMM_SUM_ROUTE_H */
