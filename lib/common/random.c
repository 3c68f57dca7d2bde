/* SPDX-License-Identifier: MIT */
#include "common/random.h"

#include <openssl/rand.h>

int spot_random_bytes(void *data, size_t n_byte, struct spot_err *err)
{
    if (RAND_bytes(data, (int)n_byte) != 1)
        return spot_err_set(err, SPOT_ESYS, "the system has no random numbers for a key");
    return 0;
}
