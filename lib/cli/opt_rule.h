/* SPDX-License-Identifier: MIT */
/* opt_rule.h - what no single option can tell: options that mean nothing without others, outputs
 * that are inputs. The rules stand in struct spot_cli. */
#ifndef SPOT_CLI_OPT_RULE_H
#define SPOT_CLI_OPT_RULE_H

#include <stdbool.h>

#include "cli/opt.h"
#include "common/err.h"

#ifdef __cplusplus
extern "C" {
#endif

/* given [options of cli]: was it on the command line? operand [n_operand]. The file of --plot must
 * be of a form that can be drawn, in whatever tool.
 * Returns 0, or -1 with *err (SPOT_EUSAGE) naming the options. */
int spot_opt_check(const struct spot_cli *cli, const bool *given, char *const *operand,
                   int n_operand, struct spot_err *err);

#ifdef __cplusplus
}
#endif

#endif /* SPOT_CLI_OPT_RULE_H */
