/* SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "common/num.h"
#include "common/xalloc.h"
#include "plan/serve_solver.h"

/* "e2e-p99", "ttft:p95" or "e2e". Returns the limit named, with its percentile set, or NULL. */
static struct spot_serve_limit *name_limit(struct spot_serve_slo *slo, char *name,
                                           double *percentile)
{
    char *at = strpbrk(name, "-:"), *end = NULL;

    *percentile = 0.99;
    if (at) {
        *at++ = '\0';
        if (*at != 'p' || at[1] < '0' || at[1] > '9')
            return NULL;
        *percentile = strtod(at + 1, &end) / 100;
        if (*end || !(*percentile > 0) || !(*percentile < 1))
            return NULL;
    }
    return !strcmp(name, "e2e") ? &slo->e2e : !strcmp(name, "ttft") ? &slo->ttft : NULL;
}

static int parse_item(struct spot_serve_slo *slo, char *item, const char *text,
                      struct spot_err *err)
{
    char *value = strchr(item, '=');
    struct spot_serve_limit *limit = NULL;
    double percentile = 0, limit_s;

    if (value) {
        *value++ = '\0';
        limit = name_limit(slo, item, &percentile);
    }
    if (!limit || spot_num_parse_secs(value, &limit_s) || !(limit_s > 0))
        return spot_err_set(err, SPOT_EUSAGE,
                            "--slo must be like e2e-p99=30s,ttft-p95=2s, got '%.60s'", text);
    if (limit->limit_s > 0)
        return spot_err_set(err, SPOT_EUSAGE, "--slo has %s twice: '%.60s'", item, text);
    *limit = (struct spot_serve_limit){ percentile, limit_s };
    return 0;
}

int spot_serve_slo_parse(struct spot_serve_slo *slo, const char *text, struct spot_err *err)
{
    char *copy = spot_xstrdup(text), *rest = copy, *item;
    int rc = 0;

    *slo = (struct spot_serve_slo){ 0 };
    if (!*text || text[strlen(text) - 1] == ',')
        rc = spot_err_set(err, SPOT_EUSAGE, "--slo must be like e2e-p99=30s,ttft-p95=2s, got '%s'",
                          text);
    while (!rc && (item = strtok_r(rest, ",", &rest)))
        rc = parse_item(slo, item, text, err);
    if (!rc && slo->e2e.limit_s > 0 && slo->ttft.limit_s > slo->e2e.limit_s &&
        slo->ttft.percentile <= slo->e2e.percentile)
        rc = spot_err_set(err, SPOT_EUSAGE,
                          "--slo lets the first token come after %g s and the last after %g s",
                          slo->ttft.limit_s, slo->e2e.limit_s);
    free(copy);
    return rc;
}
