#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# --checkpoint: what a script saves by itself, in its own directory and without a word to anybody, is a
# commit of all ranks. Each node has a directory of its own here, as machines without shared storage.

# shellcheck disable=SC2016,SC2154,SC2030,SC2031,SC2086,SC2046,SC2164,SC2103,SC2012,SC2125 # eventually evaluates; background sets $pid; words; numbers

bats_require_minimum_version 1.5.0
load job

# A trainer as there are many: rank 0 saves now and then, all load at the start. It knows nothing of
# us. Each rank writes down where it began: in one round all begin with the same.
setup() {
    job_setup
    export HERE=$PWD EVERY=5 PAUSE=0.02
    mkdir begun
    cat >trainer <<'END'
#!/bin/sh
n=0
[ ! -e ckpt.txt ] || n=$(tail -n 1 ckpt.txt)
[ ! -e ckpt.txt ] || [ "$(wc -l <ckpt.txt)" -eq 3 ] || echo "half of one" >>"$HERE/wrong"
echo "$n" >"$HERE/begun/$TORCHELASTIC_RESTART_COUNT.$RANK.tmp"
mv "$HERE/begun/$TORCHELASTIC_RESTART_COUNT.$RANK.tmp" "$HERE/begun/$TORCHELASTIC_RESTART_COUNT.$RANK"
while [ ! -e "$HERE/finish" ]; do
    n=$((n + 1))
    sleep "$PAUSE"
    [ "$RANK" = 0 ] && [ $((n % EVERY)) = 0 ] || continue
    { # in place, slowly: half of it lies there most of the time
        echo begin
        [ ! -e "$HERE/slow" ] || echo $$ >"$HERE/writes"
        while [ -e "$HERE/slow" ]; do sleep 0.02; done
        sleep "${SLOW:-0.05}"
        echo middle
        echo "$n"
    } >ckpt.txt
    sleep "${LATER:-0.2}"
done
END
    chmod +x trainer
}
teardown() { job_teardown; }

coordinator() { # ARGUMENTS...: its id in $job
    background timeout 120 spot-run exec ${quiet--q} --listen unix:j --lease 20s --checkpoint "${pattern:-ckpt*}" --events log "$@" -- "$HERE/${command:-trainer}" 2>>job.err
    job=$pid
}

node() { # NAME ARGUMENTS...: in a directory of that name; its id in $pid
    local name=$1
    shift
    mkdir -p $name
    cd $name
    background spot-run exec --join "unix:$HERE/j" --join-timeout 60s --name "$name" --checkpoint "${pattern:-ckpt*}" "$@" -- "$HERE/${command:-trainer}" >>"../$name.out" 2>>"../$name.err"
    cd ..
    eval "id_$name=$pid"
}

committed() { # N: in the newest round
    eventually "[ \"\$(jq -s 'map(select(.event == \"committed\")) | length' log)\" -ge $1 ]"
}
more() { committed $(($(events log committed) + 2)); }
restored() { # N times, and the round that begins from it is formed
    seen log restored $1
    eventually "jq -se 'map(.event) | rindex(\"formed\") > rindex(\"restored\")' log"
}
last_round() { jq -s 'map(select(.event == "formed"))[-1].restart' log; }

finishes() {
    : >finish
    wait "$job"
    [ "$(for name in $(jq -rs 'map(select(.event == "formed"))[-1].place[]' log); do cat $name/ckpt.txt | md5sum; done 2>/dev/null | sort -u | wc -l)" -le 1 ] # all have the same
    [ ! -e wrong ] || { cat wrong && false; }
    for round in $(ls begun | cut -d . -f 1 | sort -nu); do
        [ "$(cat begun/$round.* | sort -u | wc -l)" -eq 1 ] || { head begun/$round.* && false; }
    done
}

vanishes() { eventually "rm -rf $1"; } # DIRECTORY: of ranks that are being killed

begun() { # ROUND WORLD
    for rank in $(seq 0 $(($2 - 1))); do eventually "[ -e begun/$1.$rank ]"; done
}

@test "rank 0 saves, its node is killed with its disk: the others go on with that, a newcomer too" {
    coordinator --nnodes 2:3
    for name in a b c; do node $name; done
    committed 2
    gone=$(jq -rs 'map(select(.event == "formed"))[-1].place[0]' log)
    eval "kill -9 \$id_$gone"
    vanishes $gone
    restored 1
    first=$(last_round)
    begun $first 2
    [ "$(cat begun/$first.0)" -gt 0 ]
    more
    node d
    restored 2
    begun $(last_round) 3
    [ "$(cat begun/$(last_round).0)" -gt "$(cat begun/$first.0)" ]
    finishes
}

@test "a half-written one never counts, and is out of the way of the next round" {
    export SLOW=0.4 LATER=0.3
    coordinator --nnodes 1:2
    node a
    node b
    for round in 1 2 3; do
        more
        eventually '[ "$(wc -l <'"$(jq -rs 'map(select(.event == "formed"))[-1].place[0]' log)"'/ckpt.txt)" -eq 1 ]' # it writes
        left=$(jq -rs 'map(select(.event == "formed"))[-1].place[1]' log)
        eval "kill -9 \$id_$left"
        begun $(last_round) 1
        node $left
        seen log joined $((2 + round))
        eventually "[ \"\$(jq -s 'map(select(.event == \"formed\"))[-1].D' log)\" -eq 2 ]"
        begun $(last_round) 2
    done
    finishes
    [ -e a/.spot-aside/ckpt.txt ] || [ -e b/.spot-aside/ckpt.txt ]
}

@test "directories: a marker makes one whole, the script removes old ones, a link comes along, ours alone are removed" {
    command=dirs pattern=out/step-*
    cat >dirs <<'END'
#!/bin/sh
mkdir -p out
n=$(ls out 2>/dev/null | grep -v tmp | sed -n 's/^step-//p' | grep -v latest | sort -n | tail -n 1)
n=${n:-0}
[ "$n" = 0 ] || [ -s out/step-$n/rank-0 ] && [ "$n" = 0 -o -e out/step-$n/trainer_state.json ] || echo "step $n is not whole" >>"$HERE/wrong"
[ "$n" = 0 ] || [ "$(ls out/step-$n | grep -c rank)" = "$(cat out/step-$n/trainer_state.json)" ] || echo "step $n lacks ranks" >>"$HERE/wrong"
echo "$n" >"$HERE/begun/$TORCHELASTIC_RESTART_COUNT.$RANK"
k=0
while [ ! -e "$HERE/finish" ]; do
    n=$((n + 1)) k=$((k + 1))
    mkdir -p out/step-$n
    echo "$RANK of $n" >out/step-$n/rank-$RANK
    : >"$HERE/at.$TORCHELASTIC_RESTART_COUNT.$n.$RANK"
    while [ "$(ls "$HERE" | grep -c "^at.$TORCHELASTIC_RESTART_COUNT.$n\\.")" -lt "$WORLD_SIZE" ]; do # as a barrier
        [ ! -e "$HERE/finish" ] || exit 0 # others may have left before it
        sleep 0.01
    done
    if [ "$RANK" = 0 ]; then
        sleep 0.1
        echo "$WORLD_SIZE" >out/step-$n/trainer_state.json
        rm -rf out/step-$((n - 2))
        ln -sfn step-$n out/step-latest
    fi
    sleep 0.5
done
END
    chmod +x dirs
    mkdir -p a/out/elsewhere b c
    coordinator --nnodes 2:3
    for name in a b c; do node $name; done
    committed 3
    gone=$(jq -rs 'map(select(.event == "formed"))[-1].place[0]' log)
    eval "kill -9 \$id_$gone"
    [ $gone = a ] || vanishes $gone
    restored 1
    begun $(last_round) 2
    first=$(jq -rs 'map(select(.event == "formed"))[-1].place[0]' log)
    [ "$(cat begun/$(last_round).0)" -gt 0 ]
    [ -L $first/out/step-latest ]
    more
    finishes
    [ -d a/out/elsewhere ]
}

@test "a commit of one rank is one of all: nobody waits for the others" {
    cat >alone <<'END'
#!/bin/sh
if [ "$RANK" = 0 ]; then
    echo hello >"$SPOT_STATE_DIR/what"
    spot-run commit -q --durable --step 5 && : >"$HERE/done"
fi
[ "$TORCHELASTIC_RESTART_COUNT" = 0 ] || { cat "$SPOT_STATE_DIR/what" >"$HERE/found.$RANK"; exit 0; }
while [ ! -e "$HERE/done" ]; do sleep 0.02; done
[ "$RANK" = 0 ] || exit 1
sleep 60
END
    chmod +x alone
    background timeout 60 spot-run exec -q --workers 2 --nproc-per-node 2 --events log -- ./alone
    job=$pid
    wait "$job"
    [ "$(jq -s 'map(select(.event == "committed")) | map(.step) | max' log)" -ge 5 ]
    for rank in 1 2 3; do grep -q hello found.$rank; done
}

@test "a script that saves without a rest is committed all the same" {
    export LATER=0 EVERY=1 PAUSE=0.001 SLOW=0.01
    coordinator --nnodes 2
    node a
    node b
    committed 2
    kill -9 "$id_b"
    node c
    restored 1
    begun $(last_round) 2
    finishes
}

@test "a link in the place of the directory of checkpoints: nothing that it leads to is touched" {
    command=linked pattern=out/
    mkdir precious
    echo mine >precious/what
    cat >linked <<'END'
#!/bin/sh
mkdir -p out
[ "$TORCHELASTIC_RESTART_COUNT" = 0 ] || exit 0
echo 1 >out/ckpt
while [ ! -e "$HERE/strike" ]; do sleep 0.02; done
rm -r out
ln -s "$HERE/precious" out
exit 1
END
    chmod +x linked
    coordinator --nnodes 1
    node a
    committed 1
    : >strike
    wait "$id_a" && status=0 || status=$?
    [ "$status" -ne 0 ]
    [ "$(cat precious/what)" = mine ]
    [ "$(ls -A precious)" = what ]
}

@test "what the only node that saves completes while the coordinator is away counts when it is back" {
    coordinator --nodes 1:2
    node a
    node b
    eventually "[ \"\$(jq -s 'map(select(.event == \"formed\"))[-1].D' log)\" -eq 2 ]"
    more
    first=$(jq -rs 'map(select(.event == "formed"))[-1].place[0]' log)
    other=$(jq -rs 'map(select(.event == "formed"))[-1].place[1]' log)
    round=$(last_round)
    kill -9 "$(pgrep -P "$job")" # not its timeout
    wait "$job" || true
    at=$(tail -n 1 $first/ckpt.txt)
    eventually "[ \"\$(tail -n 1 $first/ckpt.txt | grep -v '[a-z]')\" -ge $((at + 20)) ]"
    eval "kill -9 \$id_$other"
    coordinator --nodes 1:2 --resume
    begun $((round + 1)) 1
    [ "$(cat begun/$((round + 1)).0)" -ge $((at + 10)) ]
    more
    finishes
}

saved() { # NODE N MINUTES: it saved N so long ago
    mkdir -p $1
    printf 'begin\nmiddle\n%s\n' $2 >$1/ckpt.txt
    touch -d "$3 minutes ago" $1/ckpt.txt
}

@test "a job begins from the newest checkpoint that a node has, and nothing that lay there is lost" {
    saved a 100 30
    saved b 2000 20
    saved d 9000 10
    coordinator --nnodes 3:4
    for name in a b c; do node $name; done
    begun 0 3
    for rank in 0 1 2; do [ "$(cat begun/0.$rank)" -eq 2000 ]; done
    [ "$(tail -n 1 a/.spot-aside/ckpt.txt)" -eq 100 ]
    [ ! -e b/.spot-aside ]
    node d # it comes later: what the others go on from counts
    seen log joined 4
    eventually "[ \"\$(jq -s 'map(select(.event == \"formed\"))[-1].D' log)\" -eq 4 ]"
    begun $(last_round) 4
    [ "$(cat begun/$(last_round).3)" -lt 9000 ]
    [ "$(tail -n 1 d/.spot-aside/ckpt.txt)" -eq 9000 ]
    more
    finishes

    saved a 300 30 # the same again, with one that is old and one that is the newest
    saved d 12000 0
    rm -r finish begun log
    mkdir begun
    coordinator --nnodes 4
    for name in a b c d; do node $name; done
    begun 0 4
    [ "$(cat begun/0.0)" -eq 12000 ]
    for n in 100 300; do grep -qx $n a/.spot-aside/*; done
    grep -qx 9000 d/.spot-aside/*
    finishes
}

picky() { # N...: nothing that says so can be loaded
    command=picky
    printf '%s\n' "$@" >bad
    cat >picky <<'END'
#!/bin/sh
echo "$TORCHELASTIC_RESTART_COUNT $(tail -n 1 ckpt.txt 2>/dev/null)" >>"$HERE/tried"
! tail -n 1 ckpt.txt | grep -qxf "$HERE/bad" || exit 3
exec "$HERE/trainer"
END
    chmod +x picky
}

@test "a checkpoint that nobody can load: after three rounds an older one, of whichever node, and nothing is lost" {
    saved a 100 30
    saved b 2000 20
    picky 2000
    quiet='' coordinator --nnodes 2
    node a
    node b
    begun 3 2
    for rank in 0 1; do [ "$(cat begun/3.$rank)" -eq 100 ]; done
    [ "$(grep -c ' 2000$' tried)" -ge 3 ]
    grep -q '^[^0-9]*3 rounds .*instead' job.err
    more
    finishes
    [ "$(tail -n 1 b/.spot-aside/ckpt.txt)" -eq 2000 ]
    [ "$(grep -c ' 100$' tried)" -eq 2 ]
}

@test "no checkpoint can be loaded: each is tried, the newest again, and it is said" {
    saved a 100 30
    saved b 2000 20
    picky 100 2000
    coordinator --nnodes 2 --max-restarts 7
    node a
    node b
    wait "$job" && false || [ $? -eq 1 ]
    for round in 0 1 2 6 7; do grep -qx "$round 2000" tried; done
    for round in 3 4 5; do grep -qx "$round 100" tried; done
    tail -n 1 job.err | grep -q 'ckpt.txt'
}

@test "what a job began from stays until there is a commit, however often nodes come, and is on all at the end" {
    export EVERY=1000000
    saved a 500 30
    coordinator --nodes 1:3
    node a
    begun 0 1
    for name in b c; do
        round=$(last_round)
        node $name
        eventually "[ \"\$(last_round)\" -gt $round ]"
    done
    eventually "[ \"\$(jq -s 'map(select(.event == \"formed\"))[-1].D' log)\" -eq 3 ]"
    begun $(last_round) 3
    finishes
    for name in a b c; do [ "$(tail -n 1 $name/ckpt.txt)" -eq 500 ]; done
}

@test "at the end nothing that was never committed is moved" {
    pattern=out/ command=final
    cat >final <<'END'
#!/bin/sh
mkdir -p out/rank$RANK-final
[ "$RANK" != 0 ] || echo 1 >out/rank0-final/trainer_state.json
while [ ! -e "$HERE/finish" ]; do sleep 0.02; done
echo "$RANK" >out/rank$RANK-final/result
END
    chmod +x final
    coordinator --nnodes 2
    node a
    node b
    committed 1
    : >finish
    wait "$job"
    other=$(jq -rs 'map(select(.event == "formed"))[-1].place[1]' log)
    [ "$(cat $other/out/rank1-final/result)" = 1 ]
    [ "$(cat a/out/rank0-final/result b/out/rank0-final/result)" = "$(printf '0\n0')" ]
}

@test "no round begins from scratch beside a checkpoint that is on one node alone" {
    saved a 700 10
    coordinator --nnodes 2
    node b
    SPOT_TEST_STATE_LIMIT=10 node a
    wait "$id_a" && status=0 || status=$?
    [ "$status" -ne 0 ]
    grep -q 'make room' a.err
    [ "$(tail -n 1 a/ckpt.txt)" -eq 700 ]
    [ ! -e begun/0.0 ]
    node a
    eventually '[ -e begun/$(last_round).0 ]'
    begun $(last_round) 2
    [ "$(cat begun/$(last_round).0)" -eq 700 ]
    more
    finishes
}

@test "everything is killed in mid-save: --resume goes on from the commit and not from half of a file" {
    coordinator --nnodes 1 --state st --state-every 0.1s
    node a
    eventually 'grep -q "\"where\":\"disk\"" log'
    : >slow
    eventually '[ -s writes ]'
    kill -9 $(pgrep -P "$job") "$id_a"
    wait "$job" "$id_a" || true
    eventually '! kill -0 $(cat writes)'
    [ "$(wc -l <a/ckpt.txt)" -eq 1 ]
    rm slow writes
    mv begun earlier
    mkdir begun
    coordinator --nnodes 1 --state st --resume
    node a
    more
    [ "$(cat begun/*.0)" -gt 0 ]
    finishes
    [ -e a/.spot-aside/ckpt.txt ]
    [ ! -e a/.spot-running ]
}

@test "a checkpoint that was removed does not come back from the state of a node that never had a round" {
    saved a 700 10
    coordinator --nnodes 2
    node a --state-dir "$HERE/kept"
    seen log joined 1
    kill -9 "$id_a"
    rm a/ckpt.txt
    node a --state-dir "$HERE/kept"
    node b
    begun 0 2
    [ "$(cat begun/0.0)" -eq 0 ]
    finishes
}

@test "the end waits for a move that takes longer than it has patience without one" {
    command=large
    cat >large <<'END'
#!/bin/sh
while [ ! -e "$HERE/save" ]; do sleep 0.02; done
[ "$RANK" != 0 ] || head -c 4000000 /dev/urandom >ckpt
END
    chmod +x large
    export SPOT_TEST_FINISH_S=0.3 SPOT_TEST_MIRROR_RATE=2000000
    coordinator --nnodes 2
    node a
    node b
    seen log formed 1
    : >save
    wait "$job"
    cmp a/ckpt b/ckpt
}

# Lines of one host, which save in the directory they are started in.
line() { # NAME: its id in $pid
    background spot-run exec -q --checkpoint 'ckpt*' --events "log.$1" -- "$HERE/trainer" >"$1.out" 2>"$1.err"
}

@test "a second job in the directory of a job is refused with the process of the first, and nothing is moved" {
    line first
    first=$pid
    seen log.first committed 2
    for checkpoint in 'ckpt*' ./ckpt.txt other; do
        run spot-run exec --checkpoint $checkpoint -- "$HERE/trainer"
        [ "$status" -eq 4 ]
        [[ $output == *"process $first:"* ]]
    done
    run spot-run exec --join unix:nobody --checkpoint 'ckpt*' -- "$HERE/trainer"
    [ "$status" -eq 4 ]
    [[ $output == *"process $first:"* ]]
    [ ! -e .spot-aside ]
    before=$(jq -s 'map(select(.event == "committed")) | length' log.first)
    eventually "[ \"\$(jq -s 'map(select(.event == \"committed\")) | length' log.first)\" -gt $((before + 1)) ]"
    : >finish
    wait "$first"
    [ "$(jq -s 'map(select(.event == "formed")) | length' log.first)" -eq 1 ]
    [ "$(wc -l <ckpt.txt)" -eq 3 ]
    [ ! -e .spot-lock ]
    line second # it is over
    wait "$pid"
}

@test "a job that is killed refuses nobody, though its node dies after it" {
    line first
    seen log.first committed 2
    kill -9 "$pid" # it is not waited for
    line second
    seen log.second committed 1
    kill -9 "$(pgrep -P "$pid")" # its node: the next one is of the same job
    eventually '[ "$(jq -s "map(select(.event == \"formed\")) | length" log.second)" -eq 2 ]'
    : >finish
    wait "$pid"
    [ ! -e .spot-lock ]
}

@test "nodes of one job share a directory, and a coordinator that is begun anew goes on with them" {
    coordinator --workers 1 --nnodes 1:2
    background spot-run exec --join unix:j --join-timeout 60s --checkpoint 'ckpt*' -- "$HERE/trainer" >b.out 2>b.err
    eventually "[ \"\$(jq -s 'map(select(.event == \"formed\"))[-1].D' log)\" -eq 2 ]"
    more
    run spot-run exec -q --checkpoint 'ckpt*' -- "$HERE/trainer"
    [ "$status" -eq 4 ]
    kill -9 "$(pgrep -P "$job")" # not its timeout
    wait "$job" || true
    coordinator --workers 1 --nnodes 1:2 --resume
    more
    : >finish
    wait "$job"
    [ ! -e .spot-aside ]
}

@test "a directory that the scripts of two jobs create is of one of them" {
    cat >makes <<'END'
#!/bin/sh
while [ ! -e "$HERE/go" ]; do sleep 0.02; done
mkdir -p out
while [ ! -e "$HERE/finish" ]; do sleep 0.02; done
END
    chmod +x makes
    for name in first second; do
        background timeout 100 spot-run exec -q --checkpoint 'out/ckpt*' --events log.$name -- "$HERE/makes" 2>$name.err
        seen log.$name formed 1
    done
    : >go
    wait -n $(cat pids) && status=0 || status=$?
    [ "$status" -eq 4 ]
    [ -s out/.spot-lock ]
    : >finish
    wait # for the other
    cat log.first log.second >logs
    [ "$(jq -s 'map(select(.event == "finished")) | length' logs)" -eq 1 ]
}

@test "a job of one host that is stopped says what is saved, and its line goes on with that" {
    background spot-run exec --checkpoint 'ckpt*' --events log.first -- "$HERE/trainer" 2>first.err
    seen log.first committed 2
    kill -TERM "$pid"
    wait "$pid" && status=0 || status=$?
    [ "$status" -eq 75 ]
    tail -n 1 first.err | grep -q 'ckpt.txt'
    run ! grep join-timeout first.err
    rm begun/*
    line second
    eventually '[ -e begun/0.0 ]'
    [ "$(cat begun/0.0)" -gt 0 ]
    : >finish
    wait "$pid"
}
