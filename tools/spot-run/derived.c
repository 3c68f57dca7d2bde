/* SPDX-License-Identifier: MIT */
#include "run.h"

#include <stdlib.h>

#include "common/num.h"

double derived(const char *name, double usual)
{
    const char *const text = getenv(name);
    double value;

    return text && !spot_num_parse(text, &value) ? value : usual;
}
