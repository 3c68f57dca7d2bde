#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# examples/rl: rewards of a loop of serving and training rise, with a ratio of exactly 1, and kills change no bit of it.

bats_require_minimum_version 1.5.0
load eventually

setup() { cd "$BATS_TEST_TMPDIR" || return 1; }

grpo() { # FOLDER: its table without who was killed in FOLDER.table, and how many were in FOLDER.killed
    SPOT_RL_STEPS=500 SPOT_RL_ROUNDS=$(size 20 8) "$BATS_TEST_DIRNAME/../../examples/rl/grpo.sh" "$1" >"$1.out"
    awk -v killed="$1.killed" '$1 ~ /^[0-9]/ { n += $6; $6 = "" } { print } END { print n + 0 >killed }' "$1.out" >"$1.table"
}

@test "the reward rises, each ratio is 1, and a loop whose workers are killed has the same bits" {
    [ -n "${SPOT_PACE-}" ] || skip "needs tests/preload/pace.c"
    grpo calm
    # round, reward, how far the ratio is from 1, of how many tokens
    awk '$1 ~ /^[0-9]/ { n++; bad += $3 != 0 || $4 < 500; r[n] = $2 }
        END { exit !(n >= 8 && !bad && r[n - 2] + r[n - 1] + r[n] > r[1] + r[2] + r[3]) }' calm.table
    tail -n 1 calm.table | grep -qE '^weights [0-9a-f]{32}$'
    [ "$(cat calm.killed)" -eq 0 ]
    # messages take their time, so that a server has begun answers when a worker dies
    SPOT_RL_KILLS=1 LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}$SPOT_PACE" SPOT_PACE_MS=1 SPOT_PACE_SEND_MS=1 grpo struck
    [ "$(cat struck.killed)" -ge 8 ]
    cmp calm.table struck.table
}
