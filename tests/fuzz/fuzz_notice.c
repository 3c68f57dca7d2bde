/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/notice/notice_claim.h"
#include "common/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte picks who said it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static spot_notice_read *const read[] = {
        spot_notice_read_action,      spot_notice_read_rebalance, spot_notice_read_preempted,
        spot_notice_read_maintenance, spot_notice_read_events,    spot_notice_read_line
    };
    static struct spot_notice_claim claim[SPOT_NOTICE_CLAIMS_MAX];
    struct spot_err err;
    char *text;
    int n;

    if (!size)
        return 0;
    text = malloc(size);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    n = read[data[0] % 6](text, size - 1, data[0] & 128 ? "vm" : NULL, claim, &err);
    if (n < -1 || n > SPOT_NOTICE_CLAIMS_MAX)
        abort();
    for (int i = 0; i < n; i++)
        if (!spot_utf8_is_plain(claim[i].action) || !spot_utf8_is_plain(claim[i].id) ||
            !claim[i].action[0] || !claim[i].id[0])
            abort();
    (void)spot_notice_is_token(text, size - 1);
    free(text);
    return 0;
}
