#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# How far durable state is behind: generations are as frequent as what they cost steps allows, not as their disk is fast.

bats_require_minimum_version 1.5.0
load job
set -o pipefail # what feeds jq -e must succeed, too

disk=$BATS_TEST_DIRNAME/../../build/release/tests/disk.so

setup() { job_setup; }
teardown() { job_teardown; }

@test "a slow disk that costs steps nothing does not keep generations apart" {
    train log --steps 1000000 --grid 2x1 --state state
    for name in a b; do SPOT_DISK_MS=60 LD_PRELOAD=$disk worker $name; done # who writes
    seen log durable 3
    # each took over half a second; twenty times that would be ten and more
    jq -es '[.[] | select(.event == "durable")] as $d
        | ($d | all(.lag_s > 0.5 and .cost_s >= 0)) and
          ($d[2].time_s - $d[1].time_s) < 12 * ($d | map(.lag_s) | min)' log
    spot-run status --join unix:j --format json | jq -e '.durable_lag_s > 0'
    stops_right log
}

@test "--max-loss says once when the disk is further behind, and what is durable" {
    cat >cmd <<EOF
case "\$1 \$2" in "put gen-"*) [ -e works ] || { cat >/dev/null; exit 1; } ;; esac
exec sh "$BATS_TEST_DIRNAME/../../examples/state/directory.sh" "$PWD/store" "\$@"
EOF
    background timeout 100 spot-run train --data corpus $MODEL --global-batch 5 --steps 1000000 --grid 1x1 --state state \
        --state-command "sh $PWD/cmd" --durable-every 0.3s --max-loss 0.5s --listen unix:j --lease 20s --events log 2>log.err
    train=$pid
    worker a
    eventually 'grep -q "behind, more than --max-loss 0.5 s" log.err'
    grep -qE "durable state is [0-9.]*[0-9] s behind, more than --max-loss 0.5 s: of [1-9][0-9]* steps none is durable yet" log.err
    ! grep -q "durable state is [01] s\|step -1" log.err
    more_steps log
    [ "$(grep -c 'more than --max-loss' log.err)" = 1 ]
    : >works
    seen log durable 1
    stops_right log
}

@test "what is behind is work: no wait for the first worker counts" {
    train log --steps 1000000 --grid 1x1 --state state --durable-every 1h
    eventually '[ -S j ]'
    passes 2
    before=$(date +%s%3N)
    worker a
    seen log committed 1
    spot-run status --join unix:j --format json >status.json
    # whatever the machine is busy with, the step began after its worker was started
    jq -e --argjson ms "$(($(date +%s%3N) - before))" '.durable_lag_s > 0 and .durable_lag_s <= $ms / 1000 + 0.01' status.json
    stops_right log
}

@test "--max-loss that cannot hold is refused, by a dry run too" {
    for dry in "" --dry-run; do
        refuses 2 "--max-loss 0.5 s cannot hold: by --durable-every a generation is begun every 3 s" train $dry --data corpus $MODEL \
            --steps 1 --max-loss 0.5s --durable-every 3s
        refuses 2 "--max-loss 0.5 s cannot hold: a generation is begun every 1 s at most, unless --durable-every" train $dry \
            --data corpus $MODEL --steps 1 --max-loss 0.5s
    done
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 1 --max-loss 3s --durable-every 3s >log
}

@test "storage that is slower than the steps for ever: the job goes on, and says so" {
    VERBOSE="" train log --steps 1000000 --grid 2x1 --state state --durable-every 0.05s --max-loss 0.5s
    for name in a b; do SPOT_DISK_MS=100 LD_PRELOAD=$disk worker $name; done # a generation takes over a second
    seen log durable 3
    eventually '[ "$(grep -c "more than --max-loss" log.err)" -ge 2 ]' # again, once it had caught up
    # one generation at a time, and many steps beside each
    jq -es '[.[] | select(.event == "durable").step] as $d | ($d | length) >= 3 and ([range(1; $d | length) | $d[.] - $d[. - 1]] | min) > 3' log
    more_steps log
    stops_right log
}
