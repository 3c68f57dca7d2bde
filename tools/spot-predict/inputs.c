/* SPDX-License-Identifier: MIT */
#include "predict.h"

#include <stdlib.h>
#include <string.h>

#include "common/xalloc.h"
#include "trace/family.h"

static int read_family(struct inputs *inputs, enum spot_family family, FILE *in, const char *source,
                       struct spot_prov *prov, struct spot_err *err)
{
    uint64_t xxh3 = 0;
    int rc = 0;

    switch (family) {
    case SPOT_FAMILY_COUNTS:
        rc = spot_trace_load(&inputs->counts, in, source, err);
        xxh3 = inputs->counts.xxh3;
        break;
    case SPOT_FAMILY_PROBES:
        rc = spot_probe_trace_read(&inputs->probes, in, source, err);
        xxh3 = inputs->probes.xxh3;
        break;
    case SPOT_FAMILY_ADVICE:
        rc = spot_advice_read(&inputs->advice, in, source, err);
        xxh3 = inputs->advice.xxh3;
        break;
    }
    if (!rc)
        spot_prov_add(prov, source, xxh3);
    return rc;
}

static int load(struct inputs *inputs, const char *path, struct spot_prov *prov,
                struct spot_err *err)
{
    static const char *const what[] = { "counts", "probes", "a provider's advice" };
    const char *source;
    FILE *in = spot_tool_open(path, &source, err);
    enum spot_family family;
    int rc;

    if (!in)
        return -1;
    in = spot_family_seekable(in, source, err);
    if (!in)
        return -1;
    family = spot_family_of(in);
    if (inputs->has[family])
        rc = spot_err_set(err, SPOT_EUSAGE, "%s: a second file of %s", source, what[family]);
    else
        rc = read_family(inputs, family, in, source, prov, err);
    inputs->has[family] = true;
    if (!inputs->source || family == SPOT_FAMILY_COUNTS) {
        free(inputs->source);
        inputs->source = spot_xstrdup(source);
    }
    if (in != stdin)
        fclose(in);
    return rc;
}

int inputs_load(struct inputs *inputs, char *const *path, size_t n_path, struct spot_prov *prov,
                struct spot_err *err)
{
    memset(inputs, 0, sizeof(*inputs));
    for (size_t i = 0; i < n_path; i++)
        if (load(inputs, path[i], prov, err))
            return -1;
    if (inputs->has[SPOT_FAMILY_ADVICE] && !inputs->has[SPOT_FAMILY_PROBES])
        return spot_err_set(err, SPOT_EUSAGE, "a provider's advice is used with probes alone");
    if (!inputs->has[SPOT_FAMILY_PROBES])
        return 0;
    spot_probes_learn(&inputs->learned, &inputs->probes, &inputs->counts,
                      inputs->has[SPOT_FAMILY_ADVICE] ? &inputs->advice : NULL);
    return inputs->has[SPOT_FAMILY_COUNTS]
               ? 0
               : spot_probes_count(&inputs->counts, &inputs->probes, err);
}

void inputs_release(struct inputs *inputs)
{
    free(inputs->source);
    spot_probes_release(&inputs->learned);
    spot_trace_release(&inputs->counts);
    spot_probe_trace_release(&inputs->probes);
    spot_advice_release(&inputs->advice);
}
