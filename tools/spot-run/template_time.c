/* SPDX-License-Identifier: MIT */
#include "run.h"

#include <stdint.h>

#include "common/timestamp.h"
#include "text/chat.h"

int template_time_parse(const char *text, struct spot_err *err)
{
    double unix_s;

    if (!text)
        return 0;
    if (spot_timestamp_parse(text, &unix_s) || unix_s < 0)
        return spot_err_set(err, SPOT_EUSAGE,
                            "--template-time must be a time such as 2026-03-01T06:12:09Z, got '%s'",
                            text);
    spot_chat_fix_time((int64_t)unix_s);
    return 0;
}
