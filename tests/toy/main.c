/* SPDX-License-Identifier: MIT */
/* toy-run: a group that counts, for tests.
 *
 *   toy-run coordinate WAY LISTEN COMMITS EVENTS ROUNDS LEASE-S PAUSE-MS
 *   toy-run member JOIN NAME
 *
 * WAY is lockstep, replicas (two views) or announced. A member that has a place tells its counter
 * at the end.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/agent.h"
#include "toy.h"

static void on_notice(int number)
{
    (void)number;
    spot_agent_notice();
}

static int coordinate(char **argv, struct spot_err *err)
{
    const enum toy_way way = !strcmp(argv[2], "replicas")    ? TOY_REPLICAS
                             : !strcmp(argv[2], "announced") ? TOY_ANNOUNCED
                                                             : TOY_LOCKSTEP;
    const struct toy_options o = { .way = way,
                                   .address = argv[3],
                                   .commits = argv[4],
                                   .events = argv[5],
                                   .n_round = strtoll(argv[6], NULL, 10),
                                   .n_view = way == TOY_REPLICAS ? 2 : 1,
                                   .lease_s = strtod(argv[7], NULL),
                                   .pause_ms = (uint32_t)strtoul(argv[8], NULL, 10) };

    return toy_coordinate(&o, err);
}

static int member(char **argv, struct spot_err *err)
{
    const struct toy_options o = { .address = argv[2], .name = argv[3], .join_timeout_s = 60 };
    struct sigaction action = { .sa_handler = on_notice, .sa_flags = SA_RESTART };
    uint64_t value;
    int64_t round;

    sigaction(SIGTERM, &action, NULL);
    if (toy_count(&o, &round, &value, err))
        return -1;
    if (round >= 0)
        printf("%s %" PRId64 " %016" PRIx64 "\n", o.name, round, value);
    return 0;
}

int main(int argc, char **argv)
{
    struct spot_err err = { 0 };
    int rc = -1;

    if (argc == 9 && !strcmp(argv[1], "coordinate"))
        rc = coordinate(argv, &err);
    else if (argc == 4 && !strcmp(argv[1], "member"))
        rc = member(argv, &err);
    else
        spot_err_set(&err, SPOT_EUSAGE, "see the top of tests/toy/main.c");
    if (rc)
        fprintf(stderr, "toy-run: %s\n", err.msg);
    return rc ? spot_err_exit_status(&err) : 0;
}
