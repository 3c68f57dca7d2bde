/* SPDX-License-Identifier: MIT */
#include "trace/region.h"

#include <string.h>

size_t spot_region_length(const char *zone)
{
    const size_t n = strlen(zone);

    if (n < 3 || zone[n - 1] < 'a' || zone[n - 1] > 'z')
        return n;
    if (zone[n - 2] >= '0' && zone[n - 2] <= '9')
        return n - 1;
    return zone[n - 2] == '-' ? n - 2 : n;
}
