/* SPDX-License-Identifier: MIT */
/* device_option.h - the value of --device: a kind of arithmetic, and which CUDA device. */
#ifndef SPOT_RUN_DEVICE_OPTION_H
#define SPOT_RUN_DEVICE_OPTION_H

#include "common/err.h"
#include "train/config.h"

struct device_option {
    char kind[SPOT_KERNEL_NAME_MAX]; /* "auto", "cpu", "cuda", or the name of a kernel */
    const char *number;              /* of the CUDA device: "auto", or digits in the text */
};

/* "auto", "cpu", "cuda", "cuda:1", "fma", "cuda-fp32:0". Whether there is such a kernel is not
 * examined. Returns 0, or -1 with *err (SPOT_EUSAGE). */
int device_option_parse(const char *text, struct device_option *device, struct spot_err *err);

#endif /* SPOT_RUN_DEVICE_OPTION_H */
