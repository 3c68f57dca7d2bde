#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# Somebody else's trainer on nodes that come and go. Here it is a shell script: a rank says that it is
# there, and goes on until the file `finish` is.

# shellcheck disable=SC2016,SC2046,SC2086,SC2154,SC2012,SC2030,SC2031 # sh evaluates; words; background sets $pid

bats_require_minimum_version 1.5.0
load job
set -o pipefail # what feeds jq -e must succeed, too

setup() {
    job_setup
    mkdir ranks
    cat >trainer <<'END'
#!/bin/sh
# ranks/RESTART.RANK: WORLD GROUP-RANK PORT PID
here=ranks/$TORCHELASTIC_RESTART_COUNT.$RANK
echo "$WORLD_SIZE $GROUP_RANK $MASTER_PORT $$" >"$here.tmp" && mv "$here.tmp" "$here"
while [ ! -e finish ]; do sleep 0.02; done
END
    chmod +x trainer
}
teardown() { job_teardown; }

# coordinator ARGUMENTS... -- COMMAND: at unix:j, its id in $job
coordinator() {
    background timeout 300 spot-run exec -q --listen unix:j --lease 20s --events log "$@" 2>>job.err
    job=$pid
}

# node NAME ARGUMENTS...: its id in $pid
node() {
    local name=$1
    shift
    background spot-run exec --join unix:j --join-timeout 60s --name "$name" "$@" >>"$name.out" 2>>"$name.err"
}

# round RESTART WORLD: all of its ranks have begun
round() {
    local rank
    for rank in $(seq 0 $(($2 - 1))); do
        eventually "[ -e ranks/$1.$rank ]"
        [ "$(cut -d ' ' -f 1 ranks/$1.$rank)" -eq "$2" ]
    done
    [ ! -e ranks/$1.$2 ]
}

of_rank() { # RESTART RANK FIELD: 1 world, 2 group rank, 3 port, 4 process
    cut -d ' ' -f "$3" "ranks/$1.$2"
}

gone() { # RESTART RANK: its process
    eventually "! kill -0 $(of_rank "$1" "$2" 4)"
}

ends() { # STATUS PID
    wait "$2" && status=0 || status=$?
    [ "$status" -eq "$1" ] || { echo "$2 ended with $status, not $1" >&2 && false; }
}

places() { # of the last epoch
    jq -rs 'map(select(.event == "formed"))[-1].place | join(" ")' log
}

@test "ranks have the environment of torchrun, value by value" {
    timeout 60 env -u OMP_NUM_THREADS spot-run exec -q --workers 2 --nproc-per-node 2 \
        --max-restarts 5 --log-dir logs -- env >/dev/null
    port=$(sed -n 's/^MASTER_PORT=//p' logs/0/0.out)
    run=$(sed -n 's/^TORCHELASTIC_RUN_ID=//p' logs/0/0.out)
    [ "$port" -gt 0 ]
    [ -n "$run" ]
    for rank in 0 1 2 3; do
        cat >want <<END
GROUP_RANK=$((rank / 2))
GROUP_WORLD_SIZE=2
LOCAL_RANK=$((rank % 2))
LOCAL_WORLD_SIZE=2
MASTER_ADDR=127.0.0.1
MASTER_PORT=$port
OMP_NUM_THREADS=1
RANK=$rank
ROLE_NAME=default
ROLE_RANK=$rank
ROLE_WORLD_SIZE=4
TORCHELASTIC_ERROR_FILE=error.$((rank % 2))
TORCHELASTIC_MAX_RESTARTS=5
TORCHELASTIC_RESTART_COUNT=0
TORCHELASTIC_RUN_ID=$run
TORCHELASTIC_USE_AGENT_STORE=False
TORCH_NCCL_ASYNC_ERROR_HANDLING=1
WORLD_SIZE=4
END
        grep -E '^(.*RANK|.*WORLD_SIZE|MASTER_.*|OMP_NUM_THREADS|ROLE_NAME|TORCH.*)=' logs/0/$rank.out | sed 's|\(ERROR_FILE=\).*/|\1|' | sort >got
        diff want got
        run grep SPOT_RUN_DIR logs/0/$rank.out
        [ "$status" -eq 1 ]
    done
}

# tier: check
@test "a node that is killed: only the ranks of survivors start again, in their order" {
    coordinator -- ./trainer
    for name in a b c; do
        node $name -- ./trainer
        eval "$name=\$pid"
        seen log joined $(grep -c . pids | awk '{ print $1 - 1 }')
    done
    eventually '[ -e ranks/0.2 ] || [ -e ranks/1.2 ] || [ -e ranks/2.2 ]'
    last=$(ls ranks | sort -n | tail -n 1 | cut -d . -f 1)
    round "$last" 3
    [ "$(places)" = "a b c" ]
    kill -9 "$b"
    round $((last + 1)) 2
    [ "$(places)" = "a c" ]
    for rank in 0 1 2; do gone "$last" $rank; done
    # another rendezvous, so that nobody of the round before can come there
    [ "$(of_rank $((last + 1)) 0 3)" -ne "$(of_rank "$last" 0 3)" ]
    spot-run status --join unix:j --format table >printed
    grep "^phase .* run [0-9a-f]\{16\}: 2 nodes, 2 ranks, started $((last + 2)) times, 0 failures" printed
    : >finish
    ends 0 "$job"
    ends 0 "$a"
    ends 0 "$c"
    [ "$(events log failed)" -eq 0 ]
}

@test "a rank that fails again and again ends the job with what it said" {
    coordinator --max-restarts 2 --lease 3s -- sh -c 'exit $((40 + RANK))'
    node a -- sh -c 'exit $((40 + RANK))' && a=$pid
    ends 1 "$job"
    ends 1 "$a"
    grep -q 'rank 0 on a exited with status 40' job.err
    grep -q 'rank 0 on a exited with status 40' a.err
    [ "$(events log failed)" -eq 3 ]
    [ "$(events log formed)" -eq 3 ]
}

@test "a rank that stands still is told of by name and where it waits, killed and replaced" {
    printf '#!/bin/sh\necho "stack of $*"\n' >py-spy
    cat >still <<'END'
#!/bin/sh
echo $$ >ranks/$TORCHELASTIC_RESTART_COUNT.$RANK
[ "$TORCHELASTIC_RESTART_COUNT" = 0 ] || exit 0
[ "$RANK" = 1 ] && exec sleep 600
while :; do sleep 0.05; done
END
    chmod +x py-spy still
    PATH=$PWD:$PATH timeout 120 spot-run exec -q --workers 2 --rank-stall 1s --max-restarts 1 --events log -- ./still >out 2>err
    rank=$(cat ranks/0.1)
    grep -q "rank 1 has stood still .* process $rank, state S" out err
    grep -q "stack of dump --pid $rank" out err
    [ "$(events log failed)" -eq 1 ]
    jq -es '[.[] | select(.event == "failed")][0] | .rank == 1 and .signal == 9' log
    [ -e ranks/1.0 ] && [ -e ranks/1.1 ]
}

@test "logs of ranks are there, or a job does not begin, or it is told what is missing" {
    timeout 60 spot-run exec -q --workers 2 --log-dir logs/of/job-7 -- sh -c 'echo $RANK' >/dev/null
    [ "$(cat logs/of/job-7/0/0.out logs/of/job-7/0/1.out | xargs)" = "0 1" ]
    : >file
    for where in file file/logs /proc/nowhere; do
        for more in "" "--join unix:none"; do
            run --separate-stderr timeout 60 spot-run exec $more --log-dir $where -- true
            [ "$status" -eq 4 ]
            [[ "$stderr" == *"cannot write the logs of ranks to '$where': "* ]]
        done
    done
    mkdir later && : >later/0
    timeout 60 spot-run exec --log-dir later -- echo hello >out 2>said
    [ "$(cat out)" = "[0] hello" ]
    [ "$(grep -c "cannot write the logs of ranks to 'later/0/0.out'" said)" -eq 1 ]
    timeout 60 spot-run exec -q --log-dir later -- echo hello 2>said
    [ ! -s said ]
    mkdir -p laid/0 && echo kept >mine && ln -s ../../mine laid/0/0.out && mkfifo laid/0/0.err
    timeout 60 spot-run exec --log-dir laid -- sh -c 'echo hello; echo hello >&2' >out 2>said
    grep -qF "'laid/0/0.out'" said
    [ "$(cat mine)" = kept ]
    background timeout 60 spot-run exec --listen unix:j --log-dir logs -- true 2>said
    eventually 'grep -q "log-dir is for nodes that are started here" said && spot-run status --join unix:j'
    spot-run stop --join unix:j
    wait $pid || true
}

@test "messages and output for somebody who reads nothing hold up no job" {
    mkfifo full
    exec 9<>full
    dd if=/dev/zero of=full bs=4096 count=16 oflag=nonblock status=none # all that a pipe holds
    timeout 60 spot-run exec --workers 2 --max-restarts 2 --lease 0.5s --events log -- \
        sh -c 'seq 30000; exit 3' >full 2>full 9<&- && status=0 || status=$?
    exec 9<&-
    [ "$status" -eq 1 ]
    jq -es 'map(select(.event == "failed")) | length == 3' log
}

@test "a node that joins gets ranks, one beyond --nnodes waits" {
    coordinator --nnodes 1:2 -- ./trainer
    node a -- ./trainer
    round 0 1
    node b -- ./trainer
    round 1 2
    [ "$(places)" = "a b" ]
    pid_before=$(of_rank 1 0 4)
    node c -- ./trainer
    seen log joined 3
    eventually 'spot-run status --join unix:j --format json | grep -q "\"role\": \"spare\""'
    kill -0 "$pid_before"
    : >finish
    ends 0 "$job"
}

@test "local nodes come back when they are killed" {
    background timeout 300 spot-run exec -q --workers 2 --nnodes 2 --events log -- ./trainer
    job=$pid
    round 0 2
    coordinator=$(pgrep -P "$job")
    kill -9 $(pgrep -P "$coordinator" | head -n 1)
    eventually '[ -e ranks/1.0 ] && [ -e ranks/1.1 ]'
    gone 0 0
    gone 0 1
    kill -TERM "$job"
    ends 75 "$job"
    gone 1 0
    gone 1 1
}

@test "stop ends all of it" {
    coordinator -- ./trainer
    node a -- ./trainer && a=$pid
    round 0 1
    spot-run stop --join unix:j
    ends 75 "$job"
    ends 75 "$a"
    gone 0 0
}

@test "who runs another COMMAND, or another number of ranks, is refused" {
    coordinator -- ./trainer
    eventually '[ -S j ]'
    refuses 1 "its COMMAND is not the one of the job" exec --join unix:j -- ./trainer --fast
    refuses 1 "it has 2 ranks on a node, the job 1" exec --join unix:j --nproc-per-node 2 -- ./trainer
    refuses 1 "the job at unix:j is to exec" worker --join unix:j
}

@test "state: the directory of a node that was killed is removed by the next one" {
    coordinator -- sh -c 'echo "$SPOT_STATE_DIR" >where.tmp; mv where.tmp where; exec sleep 1000'
    node a -- sh -c 'echo "$SPOT_STATE_DIR" >where.tmp; mv where.tmp where; exec sleep 1000' && a=$pid
    eventually '[ -e where ]'
    first=$(cat where)
    [ -d "$first" ]
    kill -9 "$a"
    wait "$a" || true
    # its guard has the lock until it has ended the ranks
    eventually 'timeout 60 spot-run exec -q -- true && [ ! -e "$first" ]'
}

@test "state: a directory with a name stays, and is found again" {
    timeout 60 spot-run exec -q --state-dir kept -- sh -c 'echo one >"$SPOT_STATE_DIR/what"; spot-run commit -q --step 4'
    [ "$(cat kept/0/live/what)" = one ]
    # another job does not take it for its own
    timeout 60 spot-run exec -q --state-dir kept -- sh -c '! cat "$SPOT_STATE_DIR/what" >found'
    [ ! -s found ]
    timeout 60 spot-run exec -q --resume --state-dir kept -- sh -c 'echo $SPOT_STATE_STEP && cat "$SPOT_STATE_DIR/what" >found' >out
    [ "$(cat found)" = one ]
    grep -q '] 4$' out
    # two at once have two
    timeout 60 spot-run exec -q --workers 2 --nnodes 2 --state-dir kept -- sh -c 'pwd >"$SPOT_STATE_DIR/here.$RANK"'
    [ "$(find kept/[01]/live -name '*here*' | wc -l)" -eq 2 ]
    : >file
    refuses 4 "cannot make the directory" exec --join unix:j --state-dir file/x -- true
}

@test "what makes no sense is refused" {
    refuses 2 "COMMAND is missing" exec --workers 2
    refuses 2 "--nnodes must be MIN:MAX or N" exec --nnodes 3:2 -- true
    refuses 2 "--nnodes must be MIN:MAX or N" exec --nnodes 0 -- true
    refuses 2 "--nnodes must be MIN:MAX or N" exec --nnodes 1:9999 -- true
    refuses 2 "--nnodes 3, but there are 2 --workers" exec --workers 2 --nnodes 3 -- true
    refuses 2 "--join" exec --join unix:j --listen unix:k -- true
    refuses 2 "--name" exec --name x -- true
    refuses 2 "--name must be" exec --join unix:j --name '' -- true
    refuses 2 "--events" exec --resume -- true
}
