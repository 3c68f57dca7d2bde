/* SPDX-License-Identifier: MIT */
#include "shard/transfer_protocol.h"

#include <stdbool.h>
#include <string.h>

#include "common/hash.h"
#include "common/le.h"
#include "common/utf8.h"

#define MAGIC UINT64_C(0x314d5053) /* "SPM1" */

enum { GREETING_MAX = 1024 }; /* maximum bytes of the first message of an unidentified peer */

/* Hash of the header without its check, and of the payload, in two steps to avoid a copy. */
static uint32_t check_of(const unsigned char *head, const void *payload, size_t n_byte)
{
    unsigned char covered[28];

    memcpy(covered, head, 12);
    memcpy(covered + 12, head + 16, 8);
    spot_le_put(covered + 20, spot_hash64(payload, n_byte), 8);
    return (uint32_t)spot_hash64(covered, sizeof(covered));
}

static size_t covered_byte(enum spot_transfer_type type, size_t n_byte)
{
    return type == SPOT_TRANSFER_MSG_CHUNK ? 0 : n_byte;
}

int spot_transfer_send(struct spot_port *port, enum spot_transfer_type type, uint64_t argument,
                       const void *payload, size_t n_byte, struct spot_err *err)
{
    unsigned char head[SPOT_TRANSFER_HEAD];

    spot_le_put(head, MAGIC, 4);
    spot_le_put(head + 4, (uint64_t)type, 4);
    spot_le_put(head + 8, n_byte, 4);
    spot_le_put(head + 16, argument, 8);
    spot_le_put(head + 12, check_of(head, payload, covered_byte(type, n_byte)), 4);
    if (port->write(port, head, sizeof(head), err))
        return -1;
    return n_byte ? port->write(port, payload, n_byte, err) : 0;
}

/* The payload is read in pieces, so that a false length takes no memory. */
static int read_payload(struct spot_port *port, size_t n_byte, struct spot_buf *payload,
                        struct spot_err *err)
{
    enum { PIECE = 4 << 20 };

    payload->n = 0;
    while (n_byte) {
        const size_t n = n_byte < PIECE ? n_byte : PIECE;

        if (spot_port_read_all(port, spot_buf_more(payload, n), n, err))
            return -1;
        payload->n += n;
        n_byte -= n;
    }
    return 0;
}

static int receive_any(struct spot_port *port, size_t most, struct spot_transfer_message *m,
                       struct spot_err *err)
{
    unsigned char head[SPOT_TRANSFER_HEAD];
    uint64_t type, n_byte;

    if (spot_port_read_all(port, head, sizeof(head), err))
        return -1;
    type = spot_le_get(head + 4, 4);
    n_byte = spot_le_get(head + 8, 4);
    if (spot_le_get(head, 4) != MAGIC || type < SPOT_TRANSFER_MSG_HELLO ||
        type >= SPOT_TRANSFER_MSG_TYPES || n_byte > most)
        return spot_err_set(err, SPOT_EDATA, "the peer does not use this protocol");
    m->type = (enum spot_transfer_type)type;
    m->argument = spot_le_get(head + 16, 8);
    if (read_payload(port, n_byte, &m->payload, err))
        return -1;
    if (spot_le_get(head + 12, 4) !=
        check_of(head, m->payload.data, covered_byte(m->type, m->payload.n)))
        return spot_err_set(err, SPOT_EDATA, "a message of the peer is damaged");
    return 0;
}

/* Makes the peer's text safe for terminals and logs. */
static int report(const struct spot_transfer_message *m, struct spot_err *err)
{
    char why[400];
    const size_t n = m->payload.n < sizeof(why) ? m->payload.n : sizeof(why) - 1;

    if (n)
        memcpy(why, m->payload.data, n);
    why[n] = '\0';
    spot_utf8_make_plain(why);
    return spot_err_set(err, m->argument == SPOT_EDATA ? SPOT_EDATA : SPOT_ESYS,
                        "the peer reports: %s", why);
}

static int receive_most(struct spot_port *port, size_t most, struct spot_transfer_message *m,
                        struct spot_err *err)
{
    if (receive_any(port, most, m, err))
        return -1;
    return m->type == SPOT_TRANSFER_MSG_FAIL ? report(m, err) : 0;
}

int spot_transfer_receive(struct spot_port *port, struct spot_transfer_message *m,
                          struct spot_err *err)
{
    return receive_most(port, SPOT_TRANSFER_PAYLOAD_MAX, m, err);
}

double spot_transfer_beat_s(double silence_s)
{
    return silence_s < 10 ? silence_s / 10 : 1;
}

static bool is_text(const struct spot_buf *payload, const char *text)
{
    return payload->n == strlen(text) && !memcmp(payload->data, text, payload->n);
}

int spot_transfer_meet(struct spot_port *port, const char *role, struct spot_err *err)
{
    const char *other = !strcmp(role, "send") ? "recv" : "send";
    struct spot_transfer_message m = { 0 };
    int rc = -1;

    if (spot_transfer_send(port, SPOT_TRANSFER_MSG_HELLO, SPOT_TRANSFER_VERSION, role, strlen(role),
                           err) ||
        receive_most(port, GREETING_MAX, &m, err))
        goto out;
    if (m.type != SPOT_TRANSFER_MSG_HELLO)
        spot_err_set(err, SPOT_EDATA, "the peer does not send HELLO");
    else if (m.argument != SPOT_TRANSFER_VERSION)
        spot_err_set(err, SPOT_EDATA, "the peer has protocol version %llu, this program %d",
                     (unsigned long long)m.argument, SPOT_TRANSFER_VERSION);
    else if (!is_text(&m.payload, other))
        spot_err_set(err, SPOT_EDATA, "the peer does not %s", other);
    else
        rc = 0;
out:
    spot_buf_release(&m.payload);
    return rc;
}

void spot_transfer_fail(struct spot_port *port, const struct spot_err *why)
{
    spot_transfer_send(port, SPOT_TRANSFER_MSG_FAIL, (uint64_t)why->code, why->msg,
                       strlen(why->msg), NULL);
}
