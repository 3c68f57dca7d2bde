/* SPDX-License-Identifier: MIT */
/* Recomputes steps of a job and compares them with its log. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/rows.h"
#include "cli/tool.h"
#include "common/random.h"
#include "run.h"
#include "train/audit.h"

struct options {
    struct spot_audit audit;
    struct spot_opt_list data;
    const char *steps;
    uint64_t n_sample, n_thread;
    struct spot_tool_common common;
};

/* Parses "a:b" or "a". */
static int parse_steps(const char *text, struct spot_audit *audit, struct spot_err *err)
{
    char *end = NULL;

    audit->begin = audit->end = strtoll(text, &end, 10);
    if (*end == ':' && end[1] >= '0' && end[1] <= '9')
        audit->end = strtoll(end + 1, &end, 10);
    if (end == text || *end || audit->begin < 1 || audit->end < audit->begin ||
        audit->end > (int64_t)1e12)
        return spot_err_set(err, SPOT_EUSAGE, "--steps must be A:B such as 101:200, got '%s'",
                            text);
    return 0;
}

static void draw_progress(void *user, int64_t step, int64_t end)
{
    char line[64] = "";

    (void)user;
    if (step < end)
        snprintf(line, sizeof(line), "step %lld/%lld", (long long)step, (long long)end);
    spot_tool_draw(line);
}

static struct options o = { .common = SPOT_TOOL_COMMON_DEFAULT };

static const struct spot_opt option_table[] = {
    { SPOT_OPT_GROUP, .help = "options" },
    SPOT_ROW_STATE(&o.audit.state),
    SPOT_ROW_EVENTS(&o.audit.events),
    SPOT_TEXT("steps", &o.steps, "a:b", "steps to compute anew"),
    SPOT_U64("sample", &o.n_sample, "n", "only so many of them, drawn (default: all)", 1, 1e12),
    SPOT_ROW_DATA(&o.data),
    SPOT_ROW_TOKENIZER(&o.audit.tokenizer),
    SPOT_ROW_THREADS(&o.n_thread),
    { SPOT_OPT_GROUP, .help = "common" },
    SPOT_U64("seed", &o.common.seed, "n", "seed of the draw (default: a random one)", 0, 0),
    { SPOT_OPT_FLAG, 'q', "quiet", &o.common.quiet, NULL, "no warnings, no progress", 0, 0 },
    { .type = SPOT_OPT_END },
};
static bool said[sizeof(option_table) / sizeof(option_table[0])];

static bool was_said(const char *name)
{
    for (size_t i = 0; option_table[i].type != SPOT_OPT_END; i++)
        if (option_table[i].long_name && !strcmp(option_table[i].long_name, name))
            return said[i];
    return false;
}

static int settle(struct spot_err *err)
{
    if (!o.audit.state || !o.audit.events || !o.steps)
        return spot_err_set(err, SPOT_EUSAGE,
                            !o.audit.state    ? "--state is missing: the state of the job, or one "
                                                "of its generations"
                            : !o.audit.events ? "--events is missing: the log of the job"
                                              : "--steps is missing: the steps to compute anew, "
                                                "A:B such as 101:200");
    if (parse_steps(o.steps, &o.audit, err) ||
        (!was_said("seed") && spot_random_bytes(&o.common.seed, sizeof(o.common.seed), err)))
        return -1;
    o.audit.data = o.data.item;
    o.audit.n_data = o.data.n;
    o.audit.n_sample = (int64_t)o.n_sample;
    o.audit.seed = o.common.seed;
    o.audit.n_thread = (int)(o.n_thread ? o.n_thread : (uint64_t)sysconf(_SC_NPROCESSORS_ONLN));
    o.audit.warn = spot_tool_warn;
    o.audit.progress = isatty(STDERR_FILENO) && !o.common.quiet ? draw_progress : NULL;
    return 0;
}

static int audit(struct spot_err *err)
{
    struct spot_audited r;

    if (settle(err) || spot_audit_run(&o.audit, &r, err))
        return -1;
    if (r.differs)
        return spot_err_set(err, SPOT_EINFEASIBLE, "step %lld differs: %s", (long long)r.differs,
                            r.what);
    printf("equal: %lld steps up to %lld, from step %lld, in %.3f s", (long long)r.n_step,
           (long long)o.audit.end, (long long)r.from, r.compute_s);
    if (o.n_sample)
        printf("; drawn with --seed %llu", (unsigned long long)o.common.seed);
    putchar('\n');
    return 0;
}

static int run_audit(struct spot_err *err)
{
    int rc;

    spot_tool_set_verbosity(&o.common);
    rc = audit(err);
    free(o.data.item);
    return rc;
}

const struct spot_cli run_audit_command = {
    .name = "spot-run audit",
    .brief = "compute steps of a job anew and compare them with its log",
    .reads = (const char *const[]){ "data", "tokenizer", "events", NULL },
    .given = said,
    .synopsis = "--state DIR --events FILE --steps A:B [options]",
    .summary = "Compute steps of a job again and compare them with its log.",
    .examples =
        "  spot-run audit --state state --events log --steps 101:200\n"
        "  spot-run audit --state state --events log --data corpus --steps 1:5000 --sample 20\n",
    .option = option_table,
    .common = &o.common,
    .run_alone = run_audit,
};
