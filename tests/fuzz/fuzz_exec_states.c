/* SPDX-License-Identifier: MIT */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"
#include "host/exec_protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Goal: what an exec job says of states from the wire crashes nobody, and what is taken over can be
 * said again in the same bytes, and shown. The first byte says which. */

static void same(const struct spot_buf *out, const uint8_t *data, size_t size)
{
    if (out->n != size || (size && memcmp(out->data, data, size)))
        abort();
}

/* The same, but for bytes that must not reach a terminal: each has become a '?'. */
static void same_if_plain(const struct spot_buf *out, const uint8_t *data, size_t size)
{
    if (out->n != size)
        abort();
    for (size_t i = 0; i < size; i++)
        if (out->data[i] != data[i] && out->data[i] != '?')
            abort();
}

static void holdings(const uint8_t *data, size_t size)
{
    struct spot_wire_in in = spot_wire_in(data, size);
    struct spot_exec_holdings all;
    struct spot_buf out = { 0 };

    spot_exec_get_holdings(&in, &all);
    for (size_t i = 0; i < all.n; i++)
        if (all.of[i].place >= all.of[i].world || !spot_utf8_is_plain(all.of[i].saved.what))
            abort();
    if (spot_wire_in_done(&in)) {
        spot_exec_put_holdings(&out, &all);
        same_if_plain(&out, data, size);
    }
    spot_exec_holdings_release(&all);
    spot_buf_release(&out);
}

static void record(const uint8_t *data, size_t size)
{
    struct spot_wire_in in = spot_wire_in(data, size);
    struct spot_state_record r;
    struct spot_buf out = { 0 };
    size_t n;

    if (spot_state_record_get(&in, &r, NULL))
        return;
    for (size_t f = 0; f < r.n_file; f++)
        if (!spot_state_path_is_below(r.file[f].path))
            abort();
    free(spot_state_record_pieces(&r, 1, &n));
    spot_state_record_put(&out, &r);
    same(&out, data, size);
    spot_state_record_release(&r);
    spot_buf_release(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spot_exec_form form;
    struct spot_wire_in in;

    if (!size)
        return 0;
    if (data[0] % 3 == 0) {
        holdings(data + 1, size - 1);
    } else if (data[0] % 3 == 1) {
        record(data + 1, size - 1);
    } else {
        in = spot_wire_in(data + 1, size - 1);
        spot_exec_get_form(&in, &form);
        for (size_t i = 0; spot_wire_in_done(&in) && i < form.n_move; i++)
            if (form.move[i].from == form.move[i].to)
                abort();
        spot_exec_form_release(&form);
    }
    return 0;
}
