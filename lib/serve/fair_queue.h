/* SPDX-License-Identifier: MIT */
/* fair_queue.h - in which order those who wait begin, where several pay: start-time fair queueing
 * (Goyal, Vin, Cheng 1996).
 *
 * Each item gets a tag when it comes: the time of the queue, or the end of its payer's item before,
 * if that is later. The least tag is next, and the time of the queue is the tag of what began last.
 * So between two payers that both wait what they got, by their shares, differs by no more than one
 * item of each; who waits for nothing saves nothing up.
 */
#ifndef SPOT_SERVE_FAIR_QUEUE_H
#define SPOT_SERVE_FAIR_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spot_fair_payer {
    uint32_t name;
    double share; /* above 0 */
    double end;   /* of its newest item */
    size_t n;     /* items that wait */
};

struct spot_fair_queue {
    double time;
    struct spot_fair_payer *payer; /* [n], by no order */
    size_t n, cap;
};

void spot_fair_queue_release(struct spot_fair_queue *q);
/* The tag of an item of this cost; `name` is its payer. */
double spot_fair_queue_add(struct spot_fair_queue *q, uint32_t name, double share, double cost);
/* An item begins, or is gone without. */
void spot_fair_queue_begin(struct spot_fair_queue *q, uint32_t name, double tag);
void spot_fair_queue_leave(struct spot_fair_queue *q, uint32_t name);
size_t spot_fair_queue_n(const struct spot_fair_queue *q, uint32_t name);
/* Of the whole, 0..1, among those who wait, with this one. */
double spot_fair_queue_part(const struct spot_fair_queue *q, uint32_t name, double share);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_FAIR_QUEUE_H */
