#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait, first
# exec --state-command: commits of a foreign trainer behind a command of the user, as the tool has it: its faults are in test_exec_durable.

# shellcheck disable=SC2016,SC2046,SC2154,SC2012,SC2034 # sh evaluates; words; background sets $pid

bats_require_minimum_version 1.5.0
load job

example=$BATS_TEST_DIRNAME/../../examples/state

# The trainer counts, and keeps 1.5 MB that change with each commit and 1.5 MB that do not.
setup() {
    job_setup
    mkdir begun
    export HERE=$PWD
    cat >trainer <<'END'
#!/bin/sh
cd "$SPOT_STATE_DIR" || exit 9
n=$(cat step 2>/dev/null || echo 0)
[ "$n" = "${SPOT_STATE_STEP:-0}" ] || echo "step $n, told ${SPOT_STATE_STEP:-0}" >>"$HERE/wrong"
[ "$n" = 0 ] || [ "$(tail -c 8 large)" = "$(printf %08d "$n")" ] || echo "step $n has the bytes of another" >>"$HERE/wrong"
[ "$n" = 0 ] || [ "$(cat who)" = "$GROUP_RANK" ] || echo "place $GROUP_RANK has those of $(cat who)" >>"$HERE/wrong"
echo "$n" >"$HERE/begins.$RANK" && mv "$HERE/begins.$RANK" "$HERE/begun/$TORCHELASTIC_RESTART_COUNT.$RANK"
[ -e same ] || head -c 1500000 /dev/zero | tr '\0' s >same
echo "$GROUP_RANK" >who
while [ ! -e "$HERE/finish" ]; do
    n=$((n + 1))
    { head -c 1500000 /dev/urandom && printf %08d "$n"; } >large
    echo "$n" >step
    spot-run commit -q --all-ranks --step "$n" 2>>"$HERE/commit.err" && [ "$RANK" = 0 ] && echo "$n" >>"$HERE/committed"
    sleep 0.2
done
exit 0
END
    # a command with faults: a file of the name of one switches it on
    cat >cmd <<END
[ ! -e fails ] || { echo "the cloud is full of rain" >&2; exit 1; }
[ ! -e hangs ] || [ "\$1" != put ] || { sleep 1234 & echo \$! >>hung; wait; }
exec sh "$example/directory.sh" "$PWD/store" "\$@"
END
    chmod +x trainer
    command="sh $PWD/cmd"
}
teardown() { job_teardown; }

coordinator() { # ARGUMENTS...: its id in $job
    SPOT_TEST_STATE_TIMEOUT_S=2 background timeout 300 spot-run exec --listen unix:j --lease 20s --events log --nnodes 2 --state disk --state-every 0.2s \
        --state-command "$command" "$@" -- ./trainer 2>>job.err
    job=$pid
}

node() { # NAME
    background spot-run exec -q --join unix:j --join-timeout 60s --name "$1" -- ./trainer >>"$1.out" 2>>"$1.err"
}

runs() { # ARGUMENTS...: a job of two nodes, ids in $a and $b
    coordinator "$@"
    node a && a=$pid
    node b && b=$pid
}

stored() { grep -c '"event":"durable".*"where":"store"' log || true; }
has_stored() { eventually "[ \"\$(stored)\" -ge $1 ]"; }
more_stored() { has_stored $(($(stored) + 2)); }
more_committed() {
    local n
    n=$(($(grep -c . committed || true) + 2))
    eventually "[ \"\$(grep -c . committed)\" -ge $n ]"
}
warned() { eventually "grep -qF '$1' job.err"; }
newest() { jq -s 'map(select(.event == "durable" and .where == "store"))[-1].step' log; }

dies() { # everything
    kill -9 $(pgrep -P "$job") "$a" "$b"
    wait "$job" "$a" "$b" || true
}

finishes() {
    : >finish
    wait "$job"
    [ ! -e wrong ] || { cat wrong && false; }
}

# all nodes and the coordinator's disk are gone: from the store alone, at its newest step or later
goes_on() {
    local step first
    step=$(newest)
    dies
    rm -rf disk j
    first=$(ls begun | cut -d . -f 1 | sort -n | tail -n 1)
    runs --resume
    eventually "[ -e begun/$((first + 1)).0 ] && [ -e begun/$((first + 1)).1 ]"
    [ "$(cat begun/$((first + 1)).0)" -ge "$step" ]
    [ "$(cat begun/$((first + 1)).0)" = "$(cat begun/$((first + 1)).1)" ]
    more_stored
    finishes
}

@test "commits go behind the command, two of them stay, and another machine goes on from the store alone" {
    runs
    has_stored 4
    [ "$(jq -s 'map(select(.event == "durable" and .where == "disk")) | length' log)" -eq 0 ]
    [ "$(ls store/gen-*/manifest.json | wc -l)" -le 3 ]
    # what both places have the same is there once: of 2 * 3 MB, 4.5; the job goes on and takes old ones away
    # shellcheck disable=SC2016 # eventually evaluates it
    eventually 'cp "$(ls -d store/gen-*/manifest.json | tail -n 1)" . && size=$(wc -c <"$(ls store/gen-*/bundle-0001 | tail -n 1)")'
    jq -e '.schema == "spot.state/1" and .commit.nodes == 2' manifest.json
    [ "$size" -lt 5000000 ]
    [ "$size" -gt 3000000 ]
    goes_on
}

@test "a command that hangs is ended, with what it started" {
    runs
    has_stored 1
    : >hangs
    warned "no byte moved for 2 s"
    more_committed
    rm hangs
    while read -r p; do eventually "! kill -0 $p"; done <hung
    finishes
}

@test "a coordinator that is killed while it stores: half a commit is none, and goes" {
    runs
    has_stored 1
    : >hangs
    eventually '[ -s hung ]'
    half=$(ls -d store/gen-* | tail -n 1)
    rm -f "$half/manifest.json"
    dies
    rm hangs
    kill $(cat hung) || true
    rm -rf disk j
    first=$(ls begun | cut -d . -f 1 | sort -n | tail -n 1)
    if ls store/gen-*/manifest.json; then
        least=1 next=$((first + 1))
    else # nothing to go on from
        least=0 next=0
        rm -f begun/*
    fi
    runs --resume
    eventually "[ -e begun/$next.1 ]"
    [ "$(cat begun/$next.1)" -ge $least ]
    [ ! -e "$half/bundle-0000" ] || [ -e "$half/manifest.json" ]
    more_stored
    finishes
}

@test "the same job twice: who comes later has the store, the first says so" {
    runs
    has_stored 1
    background timeout 100 spot-run exec -q --listen unix:k --resume --state other --state-command "$command" -- ./trainer
    warned "another coordinator has taken over the store"
}

@test "commit --durable where nobody else is: the store is enough" {
    run timeout 60 spot-run exec -q --state disk --state-every 0.1s --state-command "$command" -- \
        sh -c 'echo 1 >"$SPOT_STATE_DIR/x"; spot-run commit --durable --step 7; echo "it gave $?"'
    [ "$status" -eq 0 ]
    [[ "$output" == *"it gave 0"* ]]
    jq -e '.commit.step == 7' store/gen-*/manifest.json
}

@test "what makes no sense is refused" {
    refuses 2 "--state" exec --state-command "$command" -- true
    : >fails
    refuses 4 "the cloud is full of rain" exec --state disk --state-command "$command" -- true
}
