/* SPDX-License-Identifier: MIT */
/* fair_queue.h - the order in which waiting items of several payers begin: start-time fair queueing
 * (Goyal, Vin, Cheng 1996). Each item gets a tag when it arrives: the time of the queue, or the end
 * of its payer's previous item, if later. The item with the least tag is next, and the time of the
 * queue is the tag of the item that began last. So while two payers both wait, the service they
 * receive, relative to their shares, differs by at most one item of each; an idle payer accumulates
 * no credit.
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
    struct spot_fair_payer *payer; /* [n], unordered */
    size_t n, cap;
};

void spot_fair_queue_release(struct spot_fair_queue *q);
/* The tag of an item of this cost for the payer `name`. */
double spot_fair_queue_add(struct spot_fair_queue *q, uint32_t name, double share, double cost);
/* An item begins, or is removed. */
void spot_fair_queue_begin(struct spot_fair_queue *q, uint32_t name, double tag);
void spot_fair_queue_leave(struct spot_fair_queue *q, uint32_t name);
size_t spot_fair_queue_n(const struct spot_fair_queue *q, uint32_t name);
/* The payer's share of the service, 0..1, among those waiting and itself. */
double spot_fair_queue_part(const struct spot_fair_queue *q, uint32_t name, double share);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_SERVE_FAIR_QUEUE_H */
