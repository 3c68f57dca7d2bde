/* SPDX-License-Identifier: MIT */
/* Exports the weights of a durable or running job as a directory for from_pretrained. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/state_command.h"
#include "cli/rows.h"
#include "cli/tool.h"
#include "common/safe_dir.h"
#include "common/xalloc.h"
#include "run.h"
#include "train/model_dir.h"
#include "train/saved_model.h"

struct options {
    struct spot_saved_place state;
    const char *join, *key_file, *output, *dtype, *tokenizer;
    double timeout_s;
    uint64_t step;
    bool force, quiet, has_step;
};

static const double patience_s = 600; /* wait for a step to become durable */

/* --- the target directory --- */

/* True if something exists that would be replaced. */
static bool is_taken(const char *path)
{
    const struct dirent *entry;
    bool is_empty = true;
    struct stat st;
    DIR *dir;

    if (lstat(path, &st))
        return false;
    if (!S_ISDIR(st.st_mode) || !(dir = opendir(path)))
        return true;
    while (is_empty && (entry = readdir(dir)))
        is_empty = !strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..");
    closedir(dir);
    return !is_empty;
}

/* A path next to the target, to be renamed; or the target itself if it exists and may be written
 * to. */
static char *place_of(const char *output, bool into)
{
    const size_t n = strlen(output) + 32;
    char *const path = spot_xcalloc(n, 1);
    size_t end = strlen(output);

    while (end > 1 && output[end - 1] == '/')
        end--;
    if (into)
        snprintf(path, n, "%.*s", (int)end, output);
    else
        snprintf(path, n, "%.*s.%ld.tmp", (int)end, output, (long)getpid());
    return path;
}

/* --- the command --- */

static int write_model(const struct options *o, const struct spot_saved_model *m, const char *place,
                       const char *tokenizer, struct spot_err *err)
{
    const enum spot_dtype dtype = !strcmp(o->dtype, "bf16") ? SPOT_DT_BF16 : SPOT_DT_F32;
    struct spot_bpe *const bpe = tokenizer ? spot_bpe_open(tokenizer, err) : NULL;
    struct spot_model_dir *dir = NULL;
    int rc = -1;

    if (!tokenizer || bpe)
        dir = spot_model_dir_open(place, tokenizer, err);
    if (dir)
        rc = spot_model_dir_write(dir, &m->shape, bpe, !strcmp(m->tokens, "bytes") && !bpe,
                                  m->bundle, dtype, err);
    spot_model_dir_close(dir);
    spot_bpe_free(bpe);
    return rc;
}

static int fill_place(const struct options *o, const struct spot_saved_model *m, const char *place,
                      const char *tokenizer, bool into, struct spot_err *err)
{
    int rc = write_model(o, m, place, tokenizer, err);

    if (!rc && !into && rename(place, o->output))
        rc = spot_err_sys(err, "cannot rename '%s' to '%s'", place, o->output);
    if (rc && !into)
        (void)spot_safe_remove_path(place, NULL);
    return rc;
}

static int put_model(const struct options *o, const struct spot_saved_model *m,
                     struct spot_err *err)
{
    const bool into = is_taken(o->output);
    char *const place = place_of(o->output, into);
    const char *tokenizer = o->tokenizer ? o->tokenizer : *m->tokenizer ? m->tokenizer : NULL;
    int rc;

    if (tokenizer && !o->tokenizer && access(tokenizer, F_OK))
        rc = spot_err_sys(err, "the job's tokenizer '%s' (--tokenizer names another place)",
                          tokenizer);
    else if (!into && mkdir(place, 0777)) /* an existing one belongs to another process */
        rc = spot_err_sys(err, "cannot make '%s'", place);
    else
        rc = fill_place(o, m, place, tokenizer, into, err);
    free(place);
    return rc;
}

static bool has_state(const struct options *o)
{
    return o->state.dir || o->state.command;
}

static int check(const struct options *o, struct spot_err *err)
{
    if (has_state(o) == (o->join != NULL))
        return spot_err_set(err, SPOT_EUSAGE,
                            !o->join ? "--state or --join is missing, the source of the weights"
                            : o->state.command ? "give only one of --state-command and --join"
                                               : "give only one of --state and --join");
    if (o->has_step && !has_state(o))
        return spot_err_set(err, SPOT_EUSAGE, "--step is for --state or --state-command");
    if (!o->output)
        return spot_err_set(err, SPOT_EUSAGE, "-o is missing: the directory to write");
    if (strcmp(o->dtype, "f32") != 0 && strcmp(o->dtype, "bf16") != 0)
        return spot_err_set(err, SPOT_EUSAGE, "--dtype must be f32 or bf16, got '%s'", o->dtype);
    if (!o->force && is_taken(o->output))
        return spot_err_set(err, SPOT_EUSAGE,
                            "'%s' already exists; --force replaces the files of a model in it",
                            o->output);
    return 0;
}

static int export(const struct options *o, struct spot_saved_model *m, struct spot_err *err)
{
    int rc;

    if (check(o, err))
        return -1;
    rc =
        has_state(o)
            ? spot_saved_model_read(m, &o->state, o->has_step ? (int64_t)o->step : SPOT_NEWEST_STEP,
                                    spot_tool_warn, err)
            : spot_saved_model_fetch(m, o->join, o->key_file, o->timeout_s, patience_s, err);
    if (rc || put_model(o, m, err))
        return -1;
    if (!o->quiet)
        fprintf(stderr, "step %lld  %s  %s\n", (long long)m->step, o->dtype, o->output);
    return 0;
}

static struct options o = { .dtype = "f32" };
enum { STEP = 2 }; /* index of its row */

static const struct spot_opt option[] = {
    { SPOT_OPT_GROUP, .help = "options" },
    SPOT_ROW_STATE(&o.state.dir),
    SPOT_ROW_STEP(&o.step),
    SPOT_ROW_STATE_COMMAND(&o.state.command),
    SPOT_ROW_JOIN(&o.join),
    SPOT_ROW_KEY_FILE(&o.key_file),
    SPOT_ROW_REACH(&o.timeout_s),
    { SPOT_OPT_STRING, 'o', "output", &o.output, "dir",
      "the model: config.json, model.safetensors, tokenizer", 0, 0 },
    SPOT_TEXT("dtype", &o.dtype, "x", "type of weights: f32 or bf16 (default: f32)"),
    SPOT_TEXT("tokenizer", &o.tokenizer, "dir|file",
              "tokenizer to put beside the model (default: the job's)"),
    SPOT_FLAG("force", &o.force, "write into an existing directory"),
    { SPOT_OPT_FLAG, 'q', "quiet", &o.quiet, NULL, "no warnings, nothing on success", 0, 0 },
    { .type = SPOT_OPT_END },
};
static bool said[sizeof(option) / sizeof(option[0])];

static int run_export(struct spot_err *err)
{
    struct spot_saved_model model = { .bundle = NULL };
    int rc;

    spot_tool_set_verbosity(&(struct spot_tool_common){ .quiet = o.quiet });
    o.has_step = said[STEP];
    o.state.timeout_s = derived("SPOT_TEST_STATE_TIMEOUT_S", SPOT_STATE_COMMAND_LIMIT_S);
    rc = export(&o, &model, err);
    spot_saved_model_release(&model);
    return rc;
}

const struct spot_cli run_export_command = {
    .name = "spot-run export",
    .brief = "write the weights of a job as a model",
    .need = (const struct spot_opt_need[]){ { "key-file|join-timeout", "join" }, { NULL, NULL } },
    .reads = (const char *const[]){ "key-file", "tokenizer", NULL },
    .given = said,
    .synopsis = "(--state DIR | --state-command CMD | --join ADDR) -o DIR [options]",
    .summary = "Write the weights of a job as a model for Hugging Face's from_pretrained.",
    .examples = "  spot-run export --state state --dtype bf16 -o model\n",
    .option = option,
    .run_alone = run_export,
};
