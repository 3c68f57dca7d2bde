/* SPDX-License-Identifier: MIT */
/* The error file of torch.distributed.elastic: {"message": TEXT or {"message": TEXT, ...}}. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/json.h"
#include "common/pio.h"
#include "common/safe_dir.h"
#include "common/utf8.h"
#include "common/xalloc.h"
#include "host/exec_agent_state.h"

enum { ERROR_MAX = 1 << 18 };

static void name_of(const struct spot_exec_agent *e, uint32_t local, char name[32])
{
    const char *const slash = strrchr(e->options->errors, '/');

    snprintf(name, 32, "%.16s.%lu", slash ? slash + 1 : e->options->errors, (unsigned long)local);
}

/* Write the text as one plain line. */
static void put_plain(const char *said, char *text, size_t n)
{
    size_t at = 0;

    for (; *said && at + 1 < n; said++)
        text[at++] = (unsigned char)*said < ' ' || *said == 0x7f ? ' ' : *said;
    text[at] = '\0';
    while (at && !spot_utf8_is_plain(text)) /* cut in the middle of a character, or not UTF-8 */
        text[--at] = '\0';
}

static void find_message(const char *data, size_t n_data, char *text, size_t n)
{
    struct spot_json_doc doc;
    const struct spot_json_value *value;
    const char *said;

    if (spot_json_parse(&doc, data, n_data, "error file", NULL))
        return;
    value = spot_json_get(doc.root, "message");
    said = value ? spot_json_text(value) : NULL;
    if (value && !said && (value = spot_json_get(value, "message")))
        said = spot_json_text(value);
    if (said)
        put_plain(said, text, n);
    spot_json_release(&doc);
}

void spot_exec_read_error(const struct spot_exec_agent *e, uint32_t local, char *text, size_t n)
{
    char name[32], *data;
    struct stat st;
    int fd;

    *text = '\0';
    if (!e->options->errors)
        return;
    name_of(e, local, name);
    fd = spot_safe_open_file(e->options->state->root_fd, name, &st);
    if (fd < 0)
        return;
    data = spot_xcalloc(ERROR_MAX, 1);
    if (st.st_size < ERROR_MAX && spot_read_at(fd, 0, data, (size_t)st.st_size) == st.st_size)
        find_message(data, (size_t)st.st_size, text, n);
    free(data);
    close(fd);
}

void spot_exec_drop_errors(const struct spot_exec_agent *e)
{
    char name[32];

    for (uint32_t i = 0; e->options->errors && i < e->options->n_rank; i++) {
        name_of(e, i, name);
        (void)unlinkat(e->options->state->root_fd, name, 0);
    }
}
