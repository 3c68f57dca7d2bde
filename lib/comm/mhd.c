/* SPDX-License-Identifier: MIT */
#include <pthread.h>

#include "comm/mhd_state.h"

struct spot_mhd spot_mhd;

#define NAME(name) "MHD_" #name,
static const char *const name[] = { SPOT_MHD_EACH_FUNCTION(NAME) };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct spot_err why; /* why not; code SPOT_OK: it is here */

static void load(void)
{
    spot_late_library("libmicrohttpd.so.12", name, sizeof(name) / sizeof(*name), &spot_mhd, &why);
}

int spot_mhd_need(struct spot_err *err)
{
    pthread_once(&once, load);
    if (why.code)
        *err = why;
    return why.code ? -1 : 0;
}
