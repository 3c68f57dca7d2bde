/* SPDX-License-Identifier: MIT */
#include "comm/http_host.h"

#include <string.h>
#include <strings.h>

enum { HOST_MAX = 256 };

static bool is_address(const char *host)
{
    const size_t n = strlen(host);
    size_t name = strcspn(host, ":");

    if (*host == '[')
        return n < HOST_MAX && strspn(host + 1, "0123456789abcdefABCDEF:.%") + 1 < n &&
               host[strspn(host + 1, "0123456789abcdefABCDEF:.%") + 1] == ']';
    if (name == strlen("localhost") && !strncasecmp(host, "localhost", name))
        return true;
    return name > 0 && strspn(host, "0123456789.") == name;
}

bool spot_http_host_is_address(const struct spot_http_call *call)
{
    const char *const host = spot_http_host(call);

    return !host || is_address(host);
}

bool spot_http_origin_is_own(const struct spot_http_call *call)
{
    const char *const host = spot_http_host(call);
    const char *const origin = spot_http_header(call, "Origin");
    const char *const at = origin ? strstr(origin, "://") : NULL;

    return !origin || (host && at && !strcasecmp(at + 3, host));
}
