#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# Samples of any trainer, each once an epoch: worked out alone, and asked of the agents of a job that loses nodes and coordinators.

# shellcheck disable=SC2016,SC2154,SC2030,SC2031,SC2046,SC2086 # eventually evaluates; background sets $pid; words

bats_require_minimum_version 1.5.0
load job

setup() { job_setup; }
teardown() { job_teardown; }

alone() { # STEP RANK WORLD ARGUMENTS...
    RANK=$2 WORLD_SIZE=$3 spot-run ledger --step "$1" --dataset-size 50 "${@:4}"
}

# a trainer: its state is the step that it has reached, of each rank its own, since a rank that starts late must not
# read what another of its node has written by then
trainer() {
    cat >trainer <<'END'
#!/bin/sh
# used.ROUND.RANK: time, step, samples
used=used.$TORCHELASTIC_RESTART_COUNT.$RANK
step=0 state=$SPOT_STATE_DIR/step.$LOCAL_RANK
[ ! -e "$state" ] || step=$(cat "$state")
while [ "$step" -lt 60 ]; do
    samples=$(spot-run ledger --step "$step" --dataset-size 50 --global-batch 7 --seed 3 --format csv) || exit 1
    echo "$(date +%s.%N) $step $(echo "$samples" | sed 1d | cut -d , -f 4 | tr '\n' ' ')" >>"$used"
    step=$((step + 1))
    [ $((step % 3)) = 0 ] || continue
    echo "$step" >"$state"
    spot-run commit -q --all-ranks --step "$step" || exit 1
    [ ! -e pace ] || sleep 0.1
done
END
    chmod +x trainer
}

coordinator() { # LOG: its id in $job
    background timeout 300 spot-run exec -q --listen unix:j --lease 10s --max-restarts 0 --nproc-per-node 2 --nnodes 2:3 \
        --events "$1" -- ./trainer 2>>job.err
    job=$pid
}

node() { # NAME: its id in $pid
    background spot-run exec --join unix:j --join-timeout 60s --nproc-per-node 2 --name "$1" -- ./trainer >>"$1.out" 2>>"$1.err"
}

refuses() { # STATUS TEXT COMMAND...
    run -"$1" --separate-stderr "${@:3}"
    [[ "$stderr" == *"$2"* ]] || { echo "$stderr" >&2 && false; }
}

@test "shares of all ranks are each sample once an epoch, in an order of its own, whatever the world" {
    for world in 1 3; do
        for step in 0 1 2 3 4 5 6 7 8 9; do
            for rank in $(seq 0 $((world - 1))); do
                alone $step "$rank" $world --global-batch 10 --seed 5 | jq -r '.samples[]'
            done
        done >"order.$world"
    done
    cmp order.1 order.3
    seq 0 49 >all
    head -n 50 order.1 | sort -n | cmp - all
    tail -n 50 order.1 | sort -n | cmp - all
    run -1 cmp -s <(head -n 50 order.1) <(tail -n 50 order.1)
    [ "$(alone 0 0 1 --global-batch 10 --seed 6 | jq -c .samples)" != "$(alone 0 0 1 --global-batch 10 --seed 5 | jq -c .samples)" ]
}

@test "a last batch is filled up, left out or smaller; rows of CSV have what JSON has" {
    [ "$(alone 1 0 1 --global-batch 40 --order sequential | jq -c '[.epoch, .total, .ranges[1]]')" = '[0,40,{"epoch":1,"from":0,"to":30}]' ]
    [ "$(alone 1 0 1 --global-batch 40 --order sequential --rest drop | jq -c '[.epoch, .total, .ranges[0].from]')" = '[1,40,0]' ]
    [ "$(alone 1 0 1 --global-batch 40 --order sequential --rest short | jq -c '[.epoch, .total, .ranges[0].from]')" = '[0,10,40]' ]
    alone 4 1 2 --global-batch 11 --format csv >rows
    [ "$(head -n 1 rows)" = step,epoch,position,sample ]
    [ "$(sed 1d rows | cut -d , -f 4 | jq -cs .)" = "$(alone 4 1 2 --global-batch 11 | jq -c .samples)" ]
    [ "$(alone 4 1 2 --global-batch 11 --ranges --format csv | head -n 1)" = step,epoch,position ]
}

@test "what cannot be is refused by name" {
    refuses 2 "global_batch: expected 1 to 50" alone 0 0 1 --global-batch 51
    refuses 2 "rank: expected 0 to 1, got 2" alone 0 2 2 --global-batch 5
    refuses 2 "have not been declared" spot-run ledger --step 1
    refuses 2 "--step is missing" spot-run ledger --dataset-size 5 --global-batch 1
    refuses 2 "RANK: expected a whole number" env RANK=x spot-run ledger --step 1
    refuses 2 "16384 samples of a list" spot-run ledger --step 1 --dataset-size 100000 --global-batch 50000
    refuses 2 "only --check reads a file" spot-run ledger file
    refuses 4 "cannot connect" env SPOT_SOCKET="$PWD/nobody" spot-run ledger
    refuses 4 "No space left" sh -c 'spot-run ledger --step 1 --dataset-size 9 --global-batch 1 >/dev/full'
}

@test "a trainer of a shell loses and repeats no sample through kills of nodes and of the coordinator" {
    command -v python3 >/dev/null || skip "no python3 to count with"
    trainer
    : >pace
    coordinator log.1
    node a && a=$pid
    node b && b=$pid
    seen log.1 committed 2
    kill -9 "$b"
    node c
    seen log.1 restored 1
    seen log.1 committed 6
    vanish=$(pgrep -P "$job")
    kill -9 "$job" "$vanish"
    coordinator log.2
    seen log.2 committed 2
    kill -9 "$a"
    node d
    seen log.2 restored 1
    rm pace
    wait "$job"
    python3 "$BATS_TEST_DIRNAME/../world/used.py" used.* --size 50 --batch 7 --steps 60
    [ "$(events log.1 failed)" -eq 0 ]
    [ "$(jq -c 'select(.event == "ledger") | [.dataset_size, .global_batch, .seed, .rest]' log.1)" = '[50,7,3,"wrap"]' ]
    for log in log.1 log.2; do spot-run ledger --check $log; done
    [ "$(spot-run ledger --check log.1 | tail -n 1 | cut -d , -f 5,6)" = 0,0 ]
}

# one rank of a job that asks what the file `ask` has, JSON or a command, a line each
ask_in_a_job() { # ASK...
    printf '%s\n' "$@" >ask
    timeout 60 spot-run exec -q --workers 1 --max-restarts 0 --events log -- sh -c 'while IFS= read -r line; do eval "$line" 2>&1 || :; done <ask' >said
}

@test "an agent refuses another plan, a step that is committed, and a commit that leaves samples out" {
    ask_in_a_job 'spot-run ledger --dataset-size 20 --global-batch 5' 'spot-run ledger --step 1 --seed 9' \
        'spot-run commit' 'spot-run commit --step 3' 'spot-run ledger --ranges' 'spot-run ledger --ranges' 'spot-run ledger --ranges' 'spot-run commit --step 4' 'spot-run ledger --step 3' \
        'spot-run ledger --step 2000' 'TORCHELASTIC_RESTART_COUNT=7 spot-run ledger' 'RANK=1 WORLD_SIZE=2 spot-run ledger --step 3'
    cp said answers # each as it came
    grep -q '"step":0,.*"samples":\[' answers
    grep -q 'seed: it was declared as 0 before, and is 9 now' answers
    grep -q 'step: a state whose samples come from the ledger must say how many steps' answers
    grep -q 'rank 0 has not taken the samples of step 1: a state of step 3 would leave them out' answers
    grep -q '"step":1,.*"ranges":\[{"epoch":0,"from":5,"to":10}\]}' answers
    grep -q 'step: 3 was committed with all before 4: its samples are used' answers
    grep -q 'step: 2000 is too far ahead of 4' answers
    grep -q 'round 7 is over' answers
    grep -q 'world: 2, but this round has 1 ranks' answers
    [ "$(jq -s 'map(select(.event == "committed"))[-1].step' log)" -eq 4 ]
}

@test "ranks get their samples while no coordinator is there" {
    cat >trainer <<'END'
#!/bin/sh
while [ ! -e finish ]; do
    spot-run ledger --dataset-size 20 --global-batch 4 | jq .step >>steps.$RANK
    sleep 0.02
done
END
    chmod +x trainer
    background timeout 300 spot-run exec -q --listen unix:j --lease 10s --nnodes 1 --events log.1 -- ./trainer
    job=$pid
    background spot-run exec -q --join unix:j --join-timeout 60s --name a -- ./trainer
    node=$pid
    eventually '[ "$(wc -l <steps.0)" -gt 3 ]'
    vanish=$(pgrep -P "$job")
    kill -9 "$job" "$vanish"
    eventually "! kill -0 $vanish"
    begun=$(wc -l <steps.0)
    eventually '[ "$(wc -l <steps.0)" -gt '$((begun + 10))' ]'
    background timeout 300 spot-run exec -q --listen unix:j --lease 10s --nnodes 1 --events log.2 -- ./trainer
    job=$pid
    seen log.2 ledger 1
    : >finish
    wait "$job"
    wait "$node"
    cmp steps.0 <(seq 0 $(($(wc -l <steps.0) - 1))) # the round was kept, each step handed out once
}

@test "two nodes that declare other sets do not both read" {
    cat >trainer <<'END'
#!/bin/sh
spot-run ledger --step 0 --dataset-size $((20 + RANK)) --global-batch 5 >said.$RANK 2>&1
END
    chmod +x trainer
    run -1 timeout 60 spot-run exec -q --workers 2 --max-restarts 0 -- ./trainer
    [ "$(cat said.* | grep -c '"ok":true')" -eq 1 ]
    grep -q 'dataset_size: it was declared as 2[01] before, and is 2[01] now' said.*
}

@test "--check finds what a log has lost or repeated, and reads no other" {
    line() { echo '{"schema":"spot.event/1","event":"'"$1"'","time_s":1,"epoch":1,"step":'"$2"'}'; }
    plan='{"schema":"spot.event/1","event":"ledger","time_s":1,"epoch":1,"step":0,"dataset_size":10,"global_batch":4,"seed":0,"rest":"drop","order":"shuffled"}'
    { echo "$plan" && line committed 4 && line restored 4 && line committed 7; } >good
    [ "$(spot-run ledger --check good | tail -n 1)" = 7,2,28,2.8,0,0,0 ]
    { cat good && line restored 9 && line committed 12; } >lost
    refuses 1 "lost: 8 samples are lost, 0 repeated" spot-run ledger --check lost
    { cat good && line committed 5 && line committed 12; } >twice
    refuses 1 "twice: 0 samples are lost, 8 repeated" spot-run ledger --check twice
    line committed 4 >none
    refuses 3 "no rank asked for samples" spot-run ledger --check none
    echo '{' >bad
    refuses 3 "bad:1:" spot-run ledger --check bad
    refuses 4 "cannot open" spot-run ledger --check missing
}

@test "the plan is part of a state: a job that goes on from disk with another set is refused" {
    cat >trainer <<'END'
#!/bin/sh
spot-run ledger --dataset-size "$(cat size)" --global-batch 5 >"said.$(cat run)" 2>&1 || exit 1
echo 1 >"$SPOT_STATE_DIR/step"
[ "$(cat run)" = 1 ] || exit 0
spot-run commit -q --all-ranks --step 1
END
    chmod +x trainer
    echo 20 >size && echo 1 >run
    timeout 60 spot-run exec -q --workers 1 --state kept --state-every 0 --events log.first -- ./trainer
    grep -q '"step":0,' said.1
    echo 21 >size && echo 2 >run
    run -1 timeout 60 spot-run exec -q --workers 1 --max-restarts 0 --state kept --resume --events log -- ./trainer
    grep -q 'dataset_size: it was declared as 20 before, and is 21 now' said.2
    echo 20 >size && echo 3 >run
    timeout 60 spot-run exec -q --workers 1 --max-restarts 0 --state kept --resume --events log -- ./trainer
    grep -q '"step":1,' said.3 # where the state stands
}
