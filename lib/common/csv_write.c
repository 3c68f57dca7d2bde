/* SPDX-License-Identifier: MIT */
#include "common/csv_write.h"

#include <string.h>

void spot_csv_put(FILE *out, const char *text, char separator)
{
    const char special[] = { separator, '"', '\n', '\r', '\0' };

    if (!strpbrk(text, special)) {
        fputs(text, out);
        return;
    }
    putc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            putc('"', out);
        putc(*text, out);
    }
    putc('"', out);
}
