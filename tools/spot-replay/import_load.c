/* SPDX-License-Identifier: MIT */
#include "replay.h"

#include <stdlib.h>
#include <string.h>

#include "common/out.h"
#include "common/xalloc.h"

/* Parses, for instance, --columns time=Timestamp,prompt_tokens=in; the names point into *text. */
static int read_columns(const char *columns, struct spot_load_import *imp, char **text,
                        struct spot_err *err)
{
    static const char *const key[SPOT_LOAD_COLUMNS] = { "time", "prompt_tokens", "output_tokens",
                                                        "id" };
    char *rest = *text = spot_xstrdup(columns), *entry;

    while ((entry = strtok_r(rest, ",", &rest))) {
        char *name = strchr(entry, '=');
        size_t k = 0;

        if (name)
            *name++ = '\0';
        while (k < SPOT_LOAD_COLUMNS && strcmp(entry, key[k]) != 0)
            k++;
        if (k == SPOT_LOAD_COLUMNS || !name || !*name || *name == '?' || imp->column[k])
            return spot_err_set(err, SPOT_EUSAGE,
                                "--columns must be key=name once for time, prompt_tokens, "
                                "output_tokens or id, got '%s%s%s'",
                                entry, name ? "=" : "", name ? name : "");
        imp->column[k] = name;
    }
    return 0;
}

static int read_files(const struct replay_import_load *ask, struct spot_load_import *imp,
                      char **path, struct spot_err *err)
{
    for (size_t i = 0; i == 0 || path[i]; i++) { /* without operands stdin is read once */
        const char *source;
        FILE *in = spot_tool_open(path[i], &source, err);
        int rc;

        if (!in)
            return -1;
        rc = spot_load_import_read(imp, ask->format, in, source, err);
        if (in != stdin)
            fclose(in);
        if (rc)
            return -1;
        import_warn_bad(&imp->bad);
        if (!path[i])
            break;
    }
    if (imp->n_empty)
        spot_tool_warn("%zu request%s without tokens in or out: they failed, and are left out",
                       imp->n_empty, imp->n_empty == 1 ? "" : "s");
    return 0;
}

static int place(const struct replay_import_load *ask, struct spot_load *load, struct spot_err *err)
{
    const bool is_first = ask->origin ? !strcmp(ask->origin, "first") : ask->format->is_wall_clock;
    const double origin_s = is_first && load->n ? load->time_s[0] : ask->origin_s;

    if (!load->n)
        return spot_err_set(err, SPOT_EDATA, "no request in the input");
    if (load->time_s[0] < origin_s)
        return spot_err_set(err, SPOT_EUSAGE, "--origin is after the first request, at %.15g s",
                            load->time_s[0]);
    spot_load_shift(load, origin_s);
    return 0;
}

static int put(const struct replay_import_load *ask, const struct spot_load *load,
               struct spot_err *err)
{
    struct spot_out out;

    if (spot_out_open(&out, ask->common->output, err))
        return -1;
    spot_load_write(load, out.file);
    return spot_out_finish(&out, 0, err);
}

int import_load(const struct replay_import_load *ask, char **path, struct spot_err *err)
{
    struct spot_load_import imp = { .bad = { .is_strict = ask->is_strict } };
    struct spot_load_dist dist = { 0 };
    struct spot_load sample = { 0 };
    char *text = NULL;
    int rc = ask->columns ? read_columns(ask->columns, &imp, &text, err) : 0;

    if (!rc)
        rc = replay_load_lengths(&ask->length, &dist, &sample, err);
    imp.length = spot_load_source_new(&dist, ask->common->seed);
    spot_rng_init(&imp.rng, ask->common->seed, UINT64_MAX);
    if (!rc)
        rc = read_files(ask, &imp, path, err);
    if (!rc) {
        spot_load_sort(&imp.load);
        rc = place(ask, &imp.load, err);
    }
    if (!rc)
        rc = put(ask, &imp.load, err);
    spot_load_source_free(imp.length);
    spot_load_release(&imp.load);
    spot_load_release(&sample);
    free(text);
    return rc;
}
