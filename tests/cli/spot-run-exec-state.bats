#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait, first
# The state of somebody else's trainer, which no storage that all nodes see keeps: what is committed in
# SPOT_STATE_DIR comes back whole, whoever is killed and when.

# shellcheck disable=SC2016,SC2046,SC2086,SC2154,SC2012,SC2030,SC2031 # sh evaluates; words; background sets $pid

bats_require_minimum_version 1.5.0
load job

# The trainer counts. Its state is the count, and a line for each step with the round that made it: two
# nodes that begin a round with other lines have restored a mixture. Steps of which another node holds
# a copy, as the commit said, are in `durable`: no round may begin before them.
setup() {
    job_setup
    mkdir begun
    export STEPS=1000000 EVERY=5 PAUSE=0.02 HERE=$PWD
    cat >trainer <<'END'
#!/bin/sh
cd "$SPOT_STATE_DIR" || exit 9
n=0
[ ! -e step ] || n=$(cat step)
[ "$n" = "${SPOT_STATE_STEP:-0}" ] || { echo "step $n, told ${SPOT_STATE_STEP:-0}" >>"$HERE/wrong"; exit 8; }
[ "$n" = 0 ] || [ "$(wc -l <lines)" -eq "$n" ] || { echo "$n, not its lines" >>"$HERE/wrong"; exit 8; }
least=$(tail -n 1 "$HERE/durable" 2>/dev/null || echo 0)
[ "$n" -ge "$least" ] || echo "round $TORCHELASTIC_RESTART_COUNT begins at $n, durable is $least" >>"$HERE/lost"
: >>lines
here=$HERE/begun/$TORCHELASTIC_RESTART_COUNT.$RANK
echo "$n $(cksum <lines | tr ' ' -)" >"$here.tmp" && mv "$here.tmp" "$here"
while [ "$n" -lt "$STEPS" ] && [ ! -e "$HERE/finish" ]; do
    n=$((n + 1))
    echo "$n $TORCHELASTIC_RESTART_COUNT" >>lines
    echo "$n" >step
    echo "$GROUP_RANK $n" >own
    sleep "$PAUSE"
    [ $((n % EVERY)) = 0 ] || continue
    if spot-run commit -q --all-ranks --durable --step "$n" 2>>"$HERE/commit.err"; then
        [ "$RANK" != 0 ] || echo "$n" >>"$HERE/durable"
    fi
done
exit 0
END
    chmod +x trainer
}
teardown() { job_teardown; }

coordinator() { # ARGUMENTS...: its id in $job
    background timeout 300 spot-run exec -q --listen unix:j --lease 20s --events log "$@" -- ${command:-./trainer} 2>>job.err
    job=$pid
}

node() { # NAME ARGUMENTS...: its id in $pid
    local name=$1
    shift
    background spot-run exec --join unix:j --join-timeout 60s --name "$name" "$@" -- ${command:-./trainer} >>"$name.out" 2>>"$name.err"
}

ends() { # STATUS PID
    wait "$2" && status=0 || status=$?
    [ "$status" -eq "$1" ] || { echo "$2 ended with $status, not $1" >&2 && false; }
}

has_durable() { # N: so many steps were said to be
    eventually "[ \"\$(grep -c . durable)\" -ge $1 ]"
}
more_durable() { has_durable $(($(grep -c . durable || true) + 2)); }

begun() { # ROUND WORLD: all ranks of it
    local rank
    for rank in $(seq 0 $(($2 - 1))); do eventually "[ -e begun/$1.$rank ]"; done
}

last_round() { jq -s 'map(select(.event == "formed"))[-1].restart' log; }

# Of each round all ranks began with the same, none was told another step, nothing durable was lost.
nothing_mixed() {
    local round n
    for round in $(ls begun | cut -d . -f 1 | sort -nu); do
        n=$(cat begun/$round.* | sort -u | wc -l)
        [ "$n" -eq 1 ] || { echo "round $round:" && cat begun/$round.* && false; }
    done
    [ ! -e wrong ] || { cat wrong && false; }
    [ ! -e lost ] || { cat lost && false; }
}

# `report` counts what jq counts in the log, whatever happened to the job. One jq asks for all.
reported() {
    spot-run report --format json log >report.json
    jq -se --slurpfile report report.json '
        def count(f): map(select(f)) | length;
        $report[0] as $r
        | {rounds: [$r.rounds, count(.event == "formed" and (.kept | not))],
           rounds_kept: [$r.rounds_kept, count(.event == "formed" and .kept)],
           causes: [([$r | to_entries[] | select(.key | test("^rounds_(start|failure|kill|notice|join|other)$")).value] | add), $r.rounds],
           commits: [$r.commits, count(.event == "committed")],
           rollbacks: [$r.rollbacks, count(.event == "rolled_back")],
           failures: [$r.failures, count(.event == "failed")],
           kills: [$r.kills, count(.event == "lost")],
           coordinator_restarts: [$r.coordinator_restarts, count(.event == "exec") - 1],
           memory: [$r.durable.memory.count // 0, count(.where == "memory")],
           disk: [$r.durable.disk.count // 0, count(.where == "disk")],
           outcome: [$r.outcome, "finished"]}
        | with_entries(select(.value[0] != .value[1]))
        | . == {} or error("reported and counted: \(tojson)")' log >/dev/null
}

finishes() {
    : >finish
    ends 0 "$job"
    nothing_mixed
    reported
}

# tier: check
@test "a node that is killed: the others go on with the newest commit, and a newcomer begins with it" {
    coordinator --nnodes 2:3
    for name in a b c; do node $name && eval "$name=\$pid"; done
    has_durable 3
    kill -9 "$b"
    seen log restored 1
    round=$(last_round)
    begun $round 2
    more_durable
    node d
    seen log restored 2
    begun $(last_round) 3
    more_durable
    finishes
    [ "$(events log rolled_back)" -le 1 ]
}

@test "two nodes at once: those of one zone, and the other one has it all" {
    coordinator --nnodes 2:4
    node a --domain x && a=$pid
    node b --domain x && b=$pid
    node c --domain y
    node d --domain y
    eventually 'grep "\"formed\"" log | tail -n 1 | grep -q "\"D\":4,"'
    more_durable
    kill -9 "$a" "$b"
    eventually 'grep "\"formed\"" log | tail -n 1 | grep -q "\"D\":2,"'
    begun $(last_round) 2
    [ "$(jq -s 'map(select(.event == "restored"))[-1].nodes' log)" -eq 4 ]
    more_durable
    finishes
}

@test "where there is nobody else, a commit that is to be durable says so" {
    run timeout 60 spot-run exec -q -- sh -c 'echo 1 >"$SPOT_STATE_DIR/x"; spot-run commit --durable --step 7; echo "it gave $?"'
    [ "$status" -eq 0 ]
    [[ "$output" == *"it gave 1"* ]]
    [[ "$output" == *"step 7 is committed, but there is no other node to hold it"* ]]
}

@test "ranks of one node: all commit, and of other steps none is" {
    cat >pair <<'END'
#!/bin/sh
cd "$SPOT_STATE_DIR" || exit 9
say() { spot-run commit --all-ranks $2 >"$HERE/$1.$RANK" 2>&1; echo "status $?" >>"$HERE/$1.$RANK"; }
echo 1 >x.$RANK
[ "$RANK" = 0 ] || sleep 0.3
say counted
say differ "--step $((10 + RANK))"
[ "$RANK" = 0 ] && exit 0
say alone "--step 20"
END
    chmod +x pair
    command=./pair
    coordinator --nproc-per-node 2
    node a --nproc-per-node 2
    ends 0 "$job"
    for rank in 0 1; do
        printf '1\nstatus 0\n' | cmp - counted.$rank
        grep -q 'ranks of one node commit steps 10 and 11' differ.$rank
    done
    printf '20\nstatus 0\n' | cmp - alone.1 # who has ended is not waited for
}

@test "a program that writes while it is committed is refused, and what was committed before stays" {
    cat >writes <<'END'
#!/bin/sh
cd "$SPOT_STATE_DIR" || exit 9
if [ "$TORCHELASTIC_RESTART_COUNT" = 1 ]; then cat what >"$HERE/found"; exit 0; fi
echo good >what
spot-run commit -q --all-ranks --step 1 || exit 7
head -c 30000000 /dev/zero >large
echo bad >what
(while :; do date >>aaa; date >>zzz; done) &
writer=$!
i=2
while spot-run commit -q --all-ranks --step $i 2>>"$HERE/refused"; do i=$((i + 1)); spot-run commit -q --all-ranks --step $i 2>>"$HERE/refused" && echo bad >"$HERE/bad"; [ $i -lt 40 ] || break; i=$((i + 1)); done
kill $writer
exit 3
END
    chmod +x writes
    command=./writes
    coordinator
    node a
    ends 0 "$job"
    grep -q 'changed while it was committed' refused
}

@test "a state that does not fit is refused, the trainer goes on, the one before stays" {
    cat >fills <<'END'
#!/bin/sh
cd "$SPOT_STATE_DIR" || exit 9
if [ "$TORCHELASTIC_RESTART_COUNT" = 1 ]; then cat what >"$HERE/found.$GROUP_RANK"; exit 0; fi
echo good >what
spot-run commit -q --all-ranks --step 1 || exit 7
echo bad >what
head -c 3000000 /dev/urandom >large
spot-run commit -q --all-ranks --step 2 2>"$HERE/refused.$GROUP_RANK" && exit 6
rm large
for _ in $(seq 600); do # the first that fails ends the others: each has its answer before
    [ -s "$HERE/refused.0" ] && [ -s "$HERE/refused.1" ] && exit 3
    sleep .1
done
exit 8
END
    chmod +x fills
    command=./fills
    coordinator --nnodes 2
    SPOT_TEST_STATE_LIMIT=1000000 node a
    node b
    ends 0 "$job"
    for g in 0 1; do
        grep -q 'a: committed states would need more than 1000000 bytes' refused.$g
        [ "$(cat found.$g)" = good ]
    done
}

@test "a coordinator that is killed and started again knows what was agreed, and ranks that commit wait" {
    coordinator --nnodes 2
    node a
    node b
    has_durable 3
    kill -9 $(pgrep -P "$job")
    wait "$job" || true
    n=$(tail -n 1 durable)
    coordinator --nnodes 2 --resume
    more_durable
    [ "$(ls begun | cut -d . -f 1 | sort -u)" = 0 ]
    kill -9 $(sed -n 3p pids) # node b
    node c
    seen log restored 1
    more_durable
    finishes
}

# tier: check
@test "everything dies: --resume goes on from the copies of --state" {
    coordinator --nnodes 2 --state disk --state-every 0.2s
    node a && a=$pid
    node b && b=$pid
    eventually 'grep -q "\"where\":\"disk\"" log'
    more_durable
    eventually '[ "$(grep -c "\"where\":\"disk\"" log)" -ge 3 ]'
    kill -9 $(pgrep -P "$job") "$a" "$b"
    wait "$job" "$a" "$b" || true
    rm -f durable # of what came behind the last copy nothing is left
    step=$(jq -s 'map(select(.event == "durable" and .where == "disk"))[-1].step' log)
    refuses 2 "has the commits of a job: --resume continues it" exec --listen unix:k --state disk -- ./trainer
    first=$(ls begun | cut -d . -f 1 | sort -n | tail -n 1)
    coordinator --nnodes 2 --state disk --state-every 0.2s --resume
    node c
    node d
    begun $((first + 1)) 2
    [ "$(cut -d ' ' -f 1 begun/$((first + 1)).0)" -ge "$step" ]
    more_durable
    finishes
    [ "$(jq -s 'map(select(.event == "restored"))[-1].step' log)" -ge "$step" ]
}

@test "a notice: ranks that save commit a last time, and nothing is computed again" {
    cat >saves <<'END'
#!/bin/sh
trap ': >"$HERE/asked.$TORCHELASTIC_RESTART_COUNT.$RANK"' USR1
cd "$SPOT_STATE_DIR" || exit 9
n=$(cat step 2>/dev/null || echo 0)
echo "$n" >"$HERE/began.$TORCHELASTIC_RESTART_COUNT.$RANK"
while [ ! -e "$HERE/finish" ]; do
    n=$((n + 1))
    echo $n >step
    head -c 300000 /dev/urandom >"more.$RANK"
    sleep 0.02
    [ ! -e "$HERE/asked.$TORCHELASTIC_RESTART_COUNT.0" ] || { # all stop at the same step: a real one votes
        echo 1000 >step
        spot-run commit -q --all-ranks --step 1000 && exit 0
    }
done
END
    chmod +x saves
    command=./saves
    SPOT_TEST_MIRROR_RATE=100000 coordinator --nnodes 2:2 --save-time 20s
    node a && a=$pid
    node b
    eventually '[ -e began.0.1 ]'
    node c
    seen log joined 3
    eventually 'spot-run status --join unix:j --format json | grep -q "\"role\": \"spare\""'
    kill -TERM "$a"
    ends 75 "$a"
    eventually '[ -s began.1.0 ] && [ -s began.1.1 ]'
    [ "$(cat began.1.0)" -eq 1000 ]
    [ "$(cat began.1.1)" -eq 1000 ]
    : >finish
    ends 0 "$job"
    [ "$(events log rolled_back)" -eq 0 ]
}

@test "a storm: nodes and coordinators are killed at random, nothing is mixed and nothing durable is lost" {
    export PAUSE=0.01
    coordinator --nnodes 1:3
    declare -A alive
    for name in a b c; do node $name && alive[$pid]=1; done
    for i in $(seq 1 $(size 30 6)); do
        more_durable
        sleep 0.0$((RANDOM % 10))
        if [ $((RANDOM % 4)) = 0 ]; then
            kill -9 $(pgrep -P "$job")
            wait "$job" || true
            coordinator --nnodes 1:3 --resume
        else
            ids=("${!alive[@]}")
            victim=${ids[$((RANDOM % ${#ids[@]}))]}
            kill -$([ $((RANDOM % 3)) = 0 ] && echo TERM || echo KILL) $victim
            unset "alive[$victim]"
            node n$i && alive[$pid]=1
        fi
    done
    more_durable
    finishes
}

@test "commit: what makes no sense is refused" {
    unset SPOT_SOCKET
    refuses 2 "SPOT_SOCKET is not set" commit
    SPOT_SOCKET=$PWD/nowhere refuses 4 "nowhere" commit
    refuses 2 "--step" commit --step -1
    refuses 2 "--state" exec --join unix:j --state x -- true
}

# bulky: a trainer with a state of 4 MB, all of it new at each commit; each rank writes what it began with
bulky() {
    cat >bulky <<'END'
#!/bin/sh
cd "$SPOT_STATE_DIR" || exit 9
n=0
if [ -e large ]; then
    n=$SPOT_STATE_STEP
    [ "$(tail -c 8 large)" = "$(printf %08d "$n")" ] || echo "step $n has the bytes of another" >>"$HERE/wrong"
fi
least=$(tail -n 1 "$HERE/durable" 2>/dev/null || echo 0)
[ "$n" -ge "$least" ] || echo "round $TORCHELASTIC_RESTART_COUNT begins at $n, durable is $least" >>"$HERE/lost"
echo "$n" >"$HERE/begun/$TORCHELASTIC_RESTART_COUNT.$RANK"
while [ ! -e "$HERE/finish" ]; do
    n=$((n + 1))
    { head -c 4000000 /dev/urandom && printf %08d "$n"; } >large
    spot-run commit -q --all-ranks --durable --step "$n" 2>>"$HERE/commit.err" && [ "$RANK" = 0 ] && echo "$n" >>"$HERE/durable"
done
exit 0
END
    chmod +x bulky
    command=./bulky
}

@test "a node that is killed in any phase: while it takes, gives, is given, or lays out" {
    bulky
    SPOT_TEST_MIRROR_RATE=1e7 coordinator --nnodes 2:3
    declare -A at
    for name in a b c; do node $name && at[$name]=$pid; done
    i=0
    for phase in taking mirroring restoring laying $(size "taking mirroring restoring laying" ""); do
        more_durable
        i=$((i + 1))
        name=$(printf '%s\n' "${!at[@]}" | sed -n 1p)
        case $phase in
        taking) sleep 0.1 ;;
        mirroring) eventually "spot-run status --join unix:j --format json | grep -q '\"moves\": [1-9]'" ;;
        *) # the one that is being given what the others hold
            kill -9 "${at[$name]}" && unset "at[$name]"
            more_durable
            event=$([ "$phase" = restoring ] && echo quiesce || echo formed)
            n=$(events log $event)
            node "r$i" && at[r$i]=$pid
            eventually '[ "$(events log $event)" -gt "$n" ]'
            name=r$i
            ;;
        esac
        kill -9 "${at[$name]}" && unset "at[$name]"
        node "n$i" && at[n$i]=$pid
    done
    more_durable
    finishes
}

# --- links, pipes and names that lead elsewhere: "decoy" is not the node's, and stays as it is -----------

decoy_is_whole() {
    [ "$(find decoy | sort | tr '\n' ' ')" = "decoy decoy/file decoy/sub decoy/sub/file " ]
    [ "$(cat decoy/file decoy/sub/file)" = "precious
precious" ]
}

first_round() { # COMMANDS: an only rank does that in its first round, and fails; its node's directory in $was
    rm -f log
    timeout 100 spot-run exec --workers 1 --events log ${state_dir:-} -- sh -c '
        [ $TORCHELASTIC_RESTART_COUNT = 0 ] || exit 0
        echo ${SPOT_STATE_DIR%/live} >"$HERE/was"; '"$1"'; exit 1' 2>err && status=0 || status=$?
    was=$(cat was)
    decoy_is_whole
}

@test "what a rank puts in the place of its directory is not emptied: the node ends and says what it is" {
    mkdir -p decoy/sub && echo precious | tee decoy/file >decoy/sub/file
    first_round 'rmdir $SPOT_STATE_DIR; ln -s "$HERE/decoy" $SPOT_STATE_DIR'
    [ $status = 0 ] # another node takes its place
    grep -q "local-0 cannot continue: SPOT_STATE_DIR ($was/live) is a symbolic link now, to $HERE/decoy: nothing there was touched" err
    [ ! -e "$was" ]
    first_round 'echo 1 >$SPOT_STATE_DIR/a; spot-run commit -q --step 1; rm -r $SPOT_STATE_DIR; ln -s "$HERE" $SPOT_STATE_DIR.l
        ln -s $SPOT_STATE_DIR.l/decoy $SPOT_STATE_DIR; spot-run commit --step 2'
    grep -q 'not committed: local-0: SPOT_STATE_DIR .* is a symbolic link now' err
    first_round 'mv $SPOT_STATE_DIR $SPOT_STATE_DIR.mine; cp -r "$HERE/decoy" $SPOT_STATE_DIR'
    [ $status = 0 ]
    grep -q "SPOT_STATE_DIR ($was/live) is another directory now" err
    cmp decoy/file "$was/live/sub/file"
    rm -r "$was"
    state_dir='--state-dir kept' first_round 'rmdir $SPOT_STATE_DIR; ln -s "$HERE/decoy" $SPOT_STATE_DIR'
    [ $status = 4 ] # the next node with that name finds it too
    grep -q "SPOT_STATE_DIR ($HERE/kept/0/live) is a symbolic link now" err
}

@test "what a rank puts into its directory goes with the round, however deep, and no further" {
    mkdir -p decoy/sub && echo precious | tee decoy/file >decoy/sub/file
    first_round 'cd $SPOT_STATE_DIR; ln -s "$HERE/decoy" l; mkdir -p d/e; ln -s "$HERE/decoy" d/e/l; ln "$HERE/decoy/file" hard || :
        ln -s "$HERE/decoy" place; mkfifo p d/p; chmod 0 d/e; mkdir ../chunk/d; ln -s "$HERE/decoy" ../chunk/l
        for i in $(seq 300); do mkdir x && cd -P x || exit 2; done'
    [ $status = 0 ]
    run ! grep 'cannot' err
    [ ! -e "$was" ]
}

@test "states that a power failure damaged are told of, and what is whole is begun with" {
    timeout 60 spot-run exec -q --state es --events log -- sh -c 'echo hi >$SPOT_STATE_DIR/f; spot-run commit -q --step 1'
    [ "$(ls es/held | wc -l)" -eq 1 ]
    held=$(ls es/held)
    cp "es/held/$held" "es/held/${held%?}$([ "${held: -1}" = a ] && echo b || echo a)"
    timeout 60 spot-run exec --state es --resume --events log -- sh -c 'cat $SPOT_STATE_DIR/f' >out 2>said
    [ "$(cat out)" = "[0] hi" ]
    grep -q "warning: 'es': a power failure may have damaged 1 of its states, which are removed; 1 are whole" said
    for state in es/held/*; do : >"$state"; done
    timeout 60 spot-run exec --state es --resume --events log -- sh -c 'ls $SPOT_STATE_DIR' >out 2>said
    [ ! -s out ]
    grep -q "damaged 1 of its states, which are removed; 0 are whole" said
}

@test "ranks that do not go on from what was laid out for them are noticed, once" {
    cat >anew <<'END'
#!/bin/sh
spot-run commit -q --step $((40 - TORCHELASTIC_RESTART_COUNT * 10))
[ "$TORCHELASTIC_RESTART_COUNT" = 2 ] || exit 1
END
    chmod +x anew
    timeout 60 spot-run exec -- ./anew 2>err
    [ "$(grep -c 'step 30 .*step 40' err)" -eq 1 ]
    [ "$(grep -c 'does the command load' err)" -eq 1 ]
}
