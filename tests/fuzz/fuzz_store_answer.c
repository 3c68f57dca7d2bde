/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/store_answer.h"
#include "cluster/store_etcd.h"
#include "common/base64.h"
#include "common/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was decoded is written as it came. */
static void check_base64(const char *text, size_t n)
{
    char data[256], again[SPOT_BASE64_SIZE(256)];
    size_t n_byte;

    if (!spot_base64_decode(text, n, data, sizeof(data), &n_byte))
        return;
    spot_base64_encode(data, n_byte, again);
    if (strlen(again) != n || memcmp(again, text, n) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct spot_etcd_answer a;
    struct spot_etcd_where where;
    struct spot_err err;
    char *const text = malloc(size + 1);

    memcpy(text, data, size);
    text[size] = '\0';
    if (!spot_etcd_answer_read(text, size, &a, &err)) {
        if (a.n_entry > SPOT_ETCD_ENTRIES_MAX || a.revision < 0 || a.lease < 0 || a.ttl_s < 0)
            abort();
        for (size_t i = 0; i < a.n_entry; i++)
            if (a.entry[i].n_byte > SPOT_ETCD_VALUE_MAX || a.entry[i].changed < a.entry[i].created)
                abort();
    } else if (err.code != SPOT_EDATA) {
        abort();
    }
    check_base64(text, size);
    if (!spot_etcd_where_parse(text, &where, &err) && (!where.n_url || !where.prefix[0]))
        abort();
    free(text);
    return 0;
}
