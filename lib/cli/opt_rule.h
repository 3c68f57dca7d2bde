/* SPDX-License-Identifier: MIT */
/* opt_rule.h - checks rules between options: options that have no effect without others, outputs
 * that are also inputs. The rules are in struct spot_cli. */
#ifndef SPOT_CLI_OPT_RULE_H
#define SPOT_CLI_OPT_RULE_H

#include <stdbool.h>

#include "cli/opt.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* given [options of cli]: whether each was on the command line; operand [n_operand]. Also checks
 * the suffix of --plot. Returns 0, or -1 with *err (SPOT_EUSAGE) naming the options. */
int spot_opt_check(const struct spot_cli *cli, const bool *given, char *const *operand,
                   int n_operand, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLI_OPT_RULE_H */
