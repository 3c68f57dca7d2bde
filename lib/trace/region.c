/* SPDX-License-Identifier: MIT */
#include "trace/region.h"

#include <string.h>

/* The number of digits from `at` on. */
static size_t digits(const char *at)
{
    return strspn(at, "0123456789");
}

size_t spot_region_length(const char *zone)
{
    const size_t n = strlen(zone), own = zone[0] == 'r' ? digits(zone + 1) : 0;
    const char *id = strstr(zone, "-az");

    if (own && zone[1 + own] == 'z' && digits(zone + own + 2) &&
        own + 2 + digits(zone + own + 2) == n)
        return own + 1;
    if (id && id[3] && digits(id + 3) == strlen(id + 3)) /* AWS: use1-az4 */
        return (size_t)(id - zone);
    if (n < 3 || zone[n - 1] < 'a' || zone[n - 1] > 'z')
        return n;
    if (zone[n - 2] >= '0' && zone[n - 2] <= '9')
        return n - 1;
    return zone[n - 2] == '-' ? n - 2 : n;
}

bool spot_region_is_same(const char *zone, const char *other)
{
    const size_t n = spot_region_length(zone);

    return spot_region_length(other) == n && !strncmp(zone, other, n);
}
