/* SPDX-License-Identifier: MIT */
/* lifetimes.h - lifetimes of nodes from a log that names them, and their hazard by age.
 *
 * A life is known from the age at which it was first observed (0, or more if observation begins in
 * the middle of it) to the age at which it was lost or observation ended. Losses divided by time
 * lived in a class of ages is the maximum likelihood estimate of a hazard that is constant in the
 * class, with truncation and censoring on either side.
 */
#ifndef SPOT_TRACE_LIFETIMES_H
#define SPOT_TRACE_LIFETIMES_H

#include <stdbool.h>
#include <stddef.h>

#include "trace/trace.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spot_life {
    double enter_s, leave_s; /* ages, 0 <= enter_s <= leave_s */
    bool is_lost;            /* at leave_s; else observation ended there */
};

/* The lives of all nodes of all series between from_s and to_s, the caller's to free; *n of them. A
 * node that comes back has a new life. If the last rows of a trace remove all remaining nodes, the
 * log ended there: no node was lost. Returns NULL with *err, SPOT_EDATA, if the trace names no
 * nodes. */
struct spot_life *spot_lives(const struct spot_trace *trace, const char *source, double from_s,
                             double to_s, size_t *n, struct spot_err *err);

/* A class of ages, from age_s to the next class's age_s, the last one unbounded. */
struct spot_age_class {
    double age_s;
    double lived_s; /* time spent in it, over all lives */
    size_t lost;    /* at ages above age_s and up to its end */
    double alive;   /* Kaplan-Meier: P(a node lives beyond age_s) */
    double per_s;   /* lost / lived_s */
    double low_s,
        high_s; /* 95 % interval of per_s: Byar's approximation to the exact Poisson one */
};

enum { SPOT_AGE_CLASSES_MAX = 64 };

/* Two classes per doubling of age from a minute on, neighbours merged from the youngest until each
 * has `least` >= 1 losses, the remainder merged into the last. Returns how many; 0 if there were no
 * losses or no lives. */
size_t spot_age_classes(const struct spot_life *life, size_t n, size_t least,
                        struct spot_age_class *out);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_TRACE_LIFETIMES_H */
