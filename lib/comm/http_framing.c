/* SPDX-License-Identifier: MIT */
#include "comm/http_framing.h"

#include <stdint.h>
#include <stdlib.h>
#include <strings.h>

#include "comm/mhd_state.h"

struct said {
    size_t n_length, n_coding;
    const char *length, *coding; /* the last */
};

static enum MHD_Result look(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
    struct said *const said = cls;

    (void)kind;
    if (!strcasecmp(key, "Content-Length")) {
        said->n_length++;
        said->length = value;
    } else if (!strcasecmp(key, "Transfer-Encoding")) {
        said->n_coding++;
        said->coding = value;
    }
    return MHD_YES;
}

bool spot_http_framing(struct MHD_Connection *connection, size_t *n_byte)
{
    struct said said = { 0 };

    spot_mhd.get_connection_values(connection, MHD_HEADER_KIND, look, &said);
    *n_byte = said.n_coding ? SIZE_MAX : said.length ? strtoull(said.length, NULL, 10) : 0;
    return said.n_length + said.n_coding <= 1 &&
           (!said.coding || !strcasecmp(said.coding, "chunked"));
}
