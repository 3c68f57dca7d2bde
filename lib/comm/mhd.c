/* SPDX-License-Identifier: MIT */
#include <pthread.h>

#include "comm/mhd_state.h"

struct spot_mhd spot_mhd;

static const struct spot_late_function functions[] = {
#define ROW(name) { "MHD_" #name, &spot_mhd.name },
    SPOT_MHD_EACH_FUNCTION(ROW)
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct spot_err why; /* why not; code SPOT_OK: it is here */

static void load(void)
{
    spot_late_library("libmicrohttpd.so.12", functions, sizeof(functions) / sizeof(functions[0]),
                      &why);
}

int spot_mhd_need(struct spot_err *err)
{
    pthread_once(&once, load);
    if (why.code)
        *err = why;
    return why.code ? -1 : 0;
}
