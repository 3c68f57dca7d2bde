/* SPDX-License-Identifier: MIT */
/* spot-run import - converts a GGUF file to a model directory that all other commands accept. */
#include <stdio.h>

#include "cli/tool.h"
#include "run.h"
#include "weights/gguf_docs.h"

static bool is_quiet;

static const struct spot_opt option[] = {
    { SPOT_OPT_GROUP, .help = "options" },
    { SPOT_OPT_FLAG, 'q', "quiet", &is_quiet, NULL, "say nothing", 0, 0 },
    { .type = SPOT_OPT_END },
};

static int run_import(char **operand, size_t n, struct spot_err *err)
{
    if (n != 2)
        return spot_err_set(err, SPOT_EUSAGE, "expected a GGUF file and a directory to make of it");
    if (spot_gguf_import(operand[0], operand[1], err))
        return -1;
    if (!is_quiet)
        fprintf(stderr, "%s: a model's directory; its weights are those of the file\n", operand[1]);
    return 0;
}

const struct spot_cli run_import_command = {
    .name = "spot-run import",
    .brief = "make a model's directory of a GGUF file",
    .n_operand_max = 2,
    .synopsis = "[options] FILE.gguf DIR",
    .summary = "Convert a GGUF file to a model directory with config, tokenizer and chat template.",
    .examples = "  spot-run import gemma-3-270m.gguf gemma && spot-run generate --model gemma\n",
    .option = option,
    .run = run_import,
};
