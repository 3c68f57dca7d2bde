/* SPDX-License-Identifier: MIT */
#include "common/metric.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const type_name[] = {
    [SPOT_GAUGE] = "gauge", [SPOT_COUNTER] = "counter", [SPOT_HISTOGRAM] = "histogram"
};

static void put_text(struct spot_buf *out, const char *text)
{
    spot_buf_add(out, text, strlen(text));
}

static void put_head(const struct spot_metric *m, struct spot_buf *out)
{
    put_text(out, "# HELP ");
    put_text(out, m->name);
    put_text(out, " ");
    put_text(out, m->help);
    put_text(out, "\n# TYPE ");
    put_text(out, m->name);
    put_text(out, " ");
    put_text(out, type_name[m->type]);
    put_text(out, "\n");
}

/* NAME{LABEL} or NAME */
static void put_name(const struct spot_metric *m, struct spot_buf *out)
{
    put_text(out, m->name);
    if (!m->label)
        return;
    put_text(out, "{");
    put_text(out, m->label);
    put_text(out, "}");
}

static void put_value(double value, struct spot_buf *out)
{
    char text[40];

    if (isinf(value))
        snprintf(text, sizeof(text), " %s\n", value > 0 ? "+Inf" : "-Inf");
    else
        snprintf(text, sizeof(text), " %.17g\n", value);
    put_text(out, text);
}

void spot_metric_put(const struct spot_metric *metric, size_t n, struct spot_buf *out)
{
    const char *last = "";

    for (size_t i = 0; i < n; i++) {
        const struct spot_metric *const m = &metric[i];

        if (m->type != SPOT_HISTOGRAM && isnan(m->value))
            continue;
        if (strcmp(last, m->name) != 0)
            put_head(m, out);
        last = m->name;
        if (m->type == SPOT_HISTOGRAM) {
            spot_histogram_put(m->histogram, m->name, m->label, out);
        } else {
            put_name(m, out);
            put_value(m->value, out);
        }
    }
}

void spot_metric_escape(const char *text, char *to)
{
    for (; *text; text++) {
        if (*text == '\\' || *text == '"')
            *to++ = '\\';
        *to++ = *text;
    }
    *to = '\0';
}
