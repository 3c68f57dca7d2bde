#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# --state-command: generations behind a command of the user, which fails, hangs, lies, is killed.

bats_require_minimum_version 1.5.0
load job

example=$BATS_TEST_DIRNAME/../../examples/state

setup() {
    job_setup
    export SPOT_PACE_MS=20 # what is waited for here are commands
    # a command with faults: a file of the name of one switches it on
    cat >cmd <<EOF
[ ! -e fails ] || { echo "the cloud is full of rain" >&2; exit 1; }
[ ! -e fails-once ] || { rm -f fails-once; echo once >&2; exit 1; }
[ ! -e hangs ] || [ "\$1" != put ] || { sleep 1000 & echo \$! >>hung; wait; }
if [ -e cuts ] && [ "\$1" = put ]; then { head -c 1000; cat >/dev/null; } | sh "$example/directory.sh" "$PWD/store" "\$@"; exit 0; fi
if [ -e adds ] && [ "\$1" = get ] && [ "\${2##*/}" = bundle-0001 ]; then sh "$example/directory.sh" "$PWD/store" "\$@"; head -c 100000 /dev/zero; exit 0; fi
if [ -e lies ] && [ "\$1" = put ]; then cat >/dev/null; exit 0; fi
if [ -e dies ] && [ "\$1" = put ]; then kill -9 \$\$; fi
exec sh "$example/directory.sh" "$PWD/store" "\$@"
EOF
    command="sh $PWD/cmd"
    export SPOT_TEST_STATE_TIMEOUT_S=2
}
teardown() { job_teardown; }

# member NAME: a worker that has the command, too
member() {
    background timeout 300 spot-run worker -q --join unix:j --join-timeout 60s --name "$1" --state-command "$command" \
        2>>workers.err
}

# runs [ARGUMENTS]: a job in a grid of 2x2, whose state is behind the command
runs() {
    background timeout 300 ${SPOT_PACE:+env LD_PRELOAD=$SPOT_PACE} spot-run train --data corpus $MODEL --global-batch 5 \
        --listen unix:j --lease 20s --events log --steps 1000000 --grid 2x2 --state st --state-command "$command" --durable-every 0.3s "$@" 2>log.err
    train=$pid
    for name in a b c d; do member $name; done
}

# goes_on: from the store alone, as if nothing had been
goes_on() {
    local steps=$(($(jq -s 'map(select(.event == "committed").step) | max' log) + 5))
    rm -rf st
    timeout 300 spot-run train --data corpus $MODEL --global-batch 5 --steps $steps --state st --resume \
        --state-command "$command" --workers 1 --events log 2>>log.err
    same_as log $steps
}

relayed() { jq -s 'map(select(.event == "durable").relayed_byte // 0) | add // 0' "$1"; }

warned() { # TEXT
    eventually "grep -qF '$1' log.err"
}

@test "members put their bundles, and another machine goes on from the store alone" {
    runs
    seen log durable 3
    [ "$(relayed log)" -eq 0 ]
    stops_right log
    [ "$(ls -d store/gen-*/manifest.json | wc -l)" -eq 2 ]
    run ! ls st/gen-* 2>/dev/null
    goes_on
}

# tier: long
@test "a member without the command sends its bundles, and is sent what it lacks" {
    train log --steps 1000000 --grid 1x2 --state st --state-command "$command" --durable-every 0.3s
    member a
    worker b
    seen log durable 2
    [ "$(relayed log)" -gt 0 ]
    stops_right log
    rm -rf st
    steps=$(($(jq -s 'map(select(.event == "committed").step) | max' log) + 5))
    train log --steps $steps --grid 1x2 --state st --resume --state-command "$command"
    worker c
    worker d
    wait $train
    same_as log $steps
}

@test "a member whose command leads elsewhere is found out, and sends" {
    train log --steps 1000000 --grid 1x2 --state st --state-command "$command" --durable-every 0.3s
    member a
    background timeout 300 spot-run worker --join unix:j --join-timeout 60s --name b \
        --state-command "sh $example/directory.sh $PWD/elsewhere" 2>b.err
    seen log durable 2
    [ "$(relayed log)" -gt 0 ]
    [ "$(grep -c "to the coordinator to be made durable: the state command leads to another store" b.err)" -eq 1 ]
    [ ! -e elsewhere ]
    stops_right log
}

@test "hash and file at the end are those of a job with files" {
    timeout 300 spot-run train -q --data corpus $MODEL --global-batch 5 --steps 7 --workers 1 --events calm --save calm.safetensors
    train log --steps 7 --grid 2x2 --state st --state-command "$command" --save m.safetensors
    for name in a b c d; do member $name; done
    wait $train
    [ "$(tail -n 1 log | jq -r .state_xxh3_128)" = "$(tail -n 1 calm | jq -r .state_xxh3_128)" ]
    cmp m.safetensors calm.safetensors
}

# tier: long
@test "a command that fails once is tried again, and nobody hears of it" {
    : >fails-once
    runs
    seen log durable 1
    : >fails-once
    seen log durable $(($(events log durable) + 2))
    stops_right log
    ! grep -q "once" log.err
}

@test "a command that fails is told of with what it said, the job goes on, and then writes again" {
    runs
    seen log durable 1
    : >fails
    warned "the cloud is full of rain"
    grep -q "training continues without a durable copy" log.err
    more_steps log
    rm fails
    seen log durable $(($(events log durable) + 1))
    stops_right log
    goes_on
}

@test "workers of a job that is stopped are not told that its state is safe when it is not" {
    runs
    seen log durable 1
    background timeout 300 spot-run worker --join unix:j --name e 2>told.err
    seen log joined 5
    : >fails
    run -4 timeout 100 spot-run stop --join unix:j
    [[ "$output" == *"the cloud is full of rain"* ]]
    wait $pid || true
    grep -q "left: the job was stopped, and not all of its work is durable" told.err
    ! grep -q "is safe" told.err
}

@test "a command that hangs is ended, with what it started" {
    runs
    seen log durable 1
    : >hangs
    warned "no byte moved for 2 s"
    more_steps log
    rm hangs
    seen log durable $(($(events log durable) + 1))
    stops_right log
    for p in $(cat hung); do eventually "! kill -0 $p"; done
    goes_on
}

# hangs PATTERN: from now on the coordinator's commands whose verb and key match it sleep, with what they start
hangs() {
    grep -q hangs-at cmd || sed -i '1i case "$1 $2" in $(cat hangs-at 2>/dev/null)) sleep 1002 & echo $$ $! >>asleep; wait ;; esac' cmd
    echo "$1" >hangs-at
}

# patient ARGUMENTS: a coordinator that waits for its commands as long as they like
patient() {
    SPOT_TEST_STATE_TIMEOUT_S=1000 background timeout 150 ${SPOT_PACE:+env LD_PRELOAD=$SPOT_PACE} spot-run train --data corpus $MODEL --global-batch 5 --listen unix:j \
        --lease 20s --events log --steps 1000000 --state st --state-command "$command" --durable-every 0.3s "$@" 2>log.err
    train=$pid
}

# insists: signals until it is gone; of those to timeout(1) only the first comes through
insists() {
    coordinator=$(pgrep -P $train)
    kill -TERM $coordinator
    eventually "! kill -TERM $coordinator"
}

# ended: it is, as one that was told to stop, and nothing that hung is left
ended() {
    wait $train && status=0 || status=$?
    [ "$status" -eq 75 ]
    for p in $(cat asleep); do eventually "! kill -0 $p"; done
    rm asleep hangs-at
}

@test "a signal ends a job that waits for its store to begin" {
    hangs "list*"
    patient --workers 1
    eventually '[ -s asleep ]'
    kill -TERM $train
    ended
    grep -q "stopped; no state is durable" log.err
}

@test "a second signal ends a job whose store takes nothing, and one whose store gives nothing" {
    patient
    worker a # which has no command
    a=$pid
    seen log durable 1
    hangs "put*"
    eventually '[ -s asleep ]'
    insists
    ended
    grep -q "stopped; the state of step [0-9]* is in the store of --state-command" log.err

    kill -9 $a # and what it held
    hangs "get gen-*/bundle-*"
    patient --resume --lease 1s # for who held what was newest
    worker b
    eventually '[ -s asleep ]'
    insists
    ended
    grep -q "stopped; the state of step [0-9]* is in the store of --state-command" log.err
    goes_on
}

@test "without the command its job is not begun anew" {
    runs
    seen log durable 2
    [ "$(jq -s 'map(select(.event == "durable").where) | unique | .[0]' log)" = '"store"' ]
    stops_right log
    run -2 --separate-stderr timeout 60 spot-run train --data corpus $MODEL --global-batch 5 --steps 1000000 --state st --resume --workers 1 --events log
    [[ "$stderr" == *"'st'"* ]]
    run -3 --separate-stderr spot-run export --state st --output w.safetensors
    [[ "$stderr" == *"'st'"* ]]
    goes_on
}

@test "an old generation that cannot be deleted is told of, and is deleted when that can be done" {
    sed -i '1i [ ! -e keeps ] || [ "$1" != delete ] || { echo "not allowed" >\&2; exit 1; }' cmd
    : >keeps
    runs
    seen log durable 4
    warned "delete gen-"
    grep -q "not allowed; the state of step [0-9]* stays there too" log.err
    [ "$(ls store | grep -c '^gen-')" -gt 2 ]
    rm keeps
    seen log durable $(($(events log durable) + 3))
    eventually '[ "$(ls store | grep -c "^gen-")" -le 4 ]'
    stops_right log
    goes_on
}

@test "a command goes when the worker that runs it is killed" {
    sed -i '1i [ ! -e sleeps ] || [ "$1" != put ] || { sleep 1001 \& echo $$ $! >>asleep; wait; }' cmd
    runs
    seen log durable 1
    : >sleeps
    eventually '[ -s asleep ]'
    for p in $(cat pids); do kill -9 $(pgrep -P "$p") || true; done # what "timeout" runs
    for p in $(cat asleep); do eventually "! kill -0 $p"; done
}

@test "a stop with a slow store waits for it: no member is blamed, and nothing is put twice" {
    cat >slow-cmd <<EOF
[ ! -e slow ] || [ "\$1" != put ] || { echo "\$2" >>puts; sleep 1; }
exec sh "$PWD/cmd" "\$@"
EOF
    command="sh $PWD/slow-cmd"
    SPOT_TEST_STALL_S=2 background timeout 300 ${SPOT_PACE:+env LD_PRELOAD=$SPOT_PACE} spot-run train --data corpus $MODEL --global-batch 5 \
        --listen unix:j --lease 20s --events log --steps 1000000 --grid 2x2 --state st --state-command "$command" \
        --durable-every 0.3s --layers 8 2>log.err
    train=$pid
    member a
    member b
    worker c # these two send theirs
    worker d
    seen log durable 2
    touch slow
    spot-run stop --join unix:j
    rm slow
    wait $train || [ $? -eq 75 ]
    [ "$(grep -c "made no progress" log.err)" -eq 0 ]
    [ "$(grep "gen-0*$(jq -s 'map(select(.event == "committed").step) | max' log)[.]" puts | cut -d/ -f1 | sort -u | wc -l)" -eq 1 ]
}

lies() { # HOW
    runs
    seen log durable 1
    : >$1
    # which object it lies of first is chance, and the next failures are told a minute later
    eventually "grep -qE 'bytes of bundle|get gen-[0-9a-f.]*/manifest.json' log.err"
    rm $1
    seen log durable $(($(events log durable) + 1))
    stops_right log
    goes_on
}

@test "a command that says it stored and did not is found out" { lies lies; }
# tier: long
@test "so is one that stores a part" { lies cuts; }

@test "a command that is killed counts as one that failed" {
    runs
    seen log durable 1
    : >dies
    warned "status 137"
    rm dies
    seen log durable $(($(events log durable) + 1))
    stops_right log
    goes_on
}

@test "half a generation in the store is no state, and goes" {
    runs
    seen log durable 2
    stops_right log
    newest=$(ls -d store/gen-*/manifest.json | sort | tail -n 1)
    half=store/gen-000000999999.00000000deadbeef
    cp -r "$(dirname "$newest")" $half
    rm $half/manifest.json
    goes_on
    [ ! -e $half ]
}

# tier: long
@test "a generation that is damaged in the store is set aside, and the one before goes on" {
    runs
    seen log durable 3
    stops_right log
    bundle=$(ls store/gen-*/bundle-0001 | sort | tail -n 1)
    printf x | dd of="$bundle" bs=1 seek=5000 conv=notrunc status=none
    : >log.err
    goes_on
    grep -qF "'store:${bundle#store/}' is damaged" log.err
    grep -q "set aside, continuing from step [1-9]" log.err
    ! grep -q "last copy of a stage was lost" log.err
}

# tier: long
@test "two jobs in one store: the second is refused, and changes nothing" {
    runs
    seen log durable 2
    run -2 --separate-stderr spot-run train -q --data corpus $MODEL --global-batch 4 --steps 3 --state other \
        --state-command "$command" --workers 1 --events other.log
    [[ "$stderr" == *"another job"* ]]
    seen log durable $(($(events log durable) + 2))
    stops_right log
    goes_on
}

@test "the same job twice: who comes later has the store, the first says so" {
    runs
    seen log durable 1
    background timeout 300 spot-run train -q --data corpus $MODEL --global-batch 5 --steps 1000000 --state other --resume \
        --state-command "$command" --workers 1 --events other.log --durable-every 0.3s 2>other.err
    warned "another coordinator has taken over the store"
}

# refused STATUS TEXT ARGUMENTS...: such a start at the same store, and the job that runs does not notice
refused() {
    cp store/owner owner
    run -$1 --separate-stderr timeout 60 spot-run train -q --data corpus $MODEL --global-batch 5 \
        --state other --state-command "$command" --workers 1 --events other.log "${@:3}"
    [[ "$stderr" == *"$2"* ]] || { echo "$stderr" >&2; return 1; }
    cmp owner store/owner
}

@test "a start that is refused takes the store from nobody" {
    runs
    seen log durable 2
    refused 2 "the store of --state-command holds the state of step" --steps 1000000
    refused 2 "--resume continues it" --steps 1000000
    refused 2 "--steps 1 is less than the" --steps 1 --resume
    refused 2 "--grid 8x1: the job has 5 microbatches" --steps 1000000 --resume --grid 8x1
    refused 4 "Address already in use" --steps 1000000 --resume --listen unix:j
    seen log durable $(($(events log durable) + 1))
    stops_right log
    grep -q "is in the store of --state-command, --state, --state-command and --resume continue it" log.err
}

@test "export and eval read the store, alone or beside the directory of the coordinator" {
    timeout 300 spot-run train -q --data corpus $MODEL --global-batch 5 --steps 7 --workers 1 --events calm --state files
    timeout 300 spot-run train -q --data corpus $MODEL --global-batch 5 --steps 7 --workers 1 --events log --state st \
        --state-command "$command"
    spot-run export -q --state files -o of-files
    spot-run export -q --state st --state-command "$command" -o beside
    rm -rf st
    spot-run export -q --state-command "$command" --step 7 -o alone
    cmp of-files/model.safetensors beside/model.safetensors
    cmp of-files/model.safetensors alone/model.safetensors
    cmp of-files/config.json alone/config.json
    spot-run eval --state-command "$command" --data corpus --no-provenance >of-store.json
    spot-run eval --state files --data corpus --no-provenance >of-files.json
    [ "$(jq 'del(.model)' of-store.json)" = "$(jq 'del(.model)' of-files.json)" ]
    run -2 --separate-stderr spot-run export -q --state-command "$command" --step 3 -o none
    [[ "$stderr" == *"has no state of step 3; it has 7"* ]]
    rm store/job.json
    run -3 --separate-stderr spot-run export -q --state-command "$command" -o none
    [[ "$stderr" == *"--state-command"* ]]
    : >fails
    run -4 --separate-stderr spot-run eval --state-command "$command" --data corpus
    [[ "$stderr" == *"the cloud is full of rain"* ]]
}

@test "export takes the newest sound generation of a store in use, and is not fed more than was stored" {
    runs
    seen log durable 2
    for n in 1 2 3; do # generations come and go meanwhile
        spot-run export -q --state-command "$command" -o running$n
    done
    stops_right log
    : >adds
    run -3 --separate-stderr spot-run export --state-command "$command" -o none
    [[ "$stderr" == *"more than the"*"bytes in the manifest"* ]]
    rm adds
    newest=$(ls -d store/gen-* | sort | tail -n 1)
    printf x | dd of="$newest/bundle-0001" bs=1 seek=5000 conv=notrunc status=none
    spot-run export --state-command "$command" -o sound 2>export.err
    grep -q "is damaged: .*; using the state of step" export.err
    [ -e "$newest/manifest.json" ] && [ ! -e "$newest/bad" ] # nothing is changed there
}

# tier: world
@test "a directory by rclone" {
    command -v rclone || skip "rclone is not here"
    export RCLONE_CONFIG=$PWD/rclone.conf
    : >rclone.conf
    state="sh $example/rclone.sh :local:$PWD/cloud/job"
    put() { printf '%s' "$2" | $state put "$1"; }
    [ -z "$($state list gen-)" ] # a place that is not there yet
    put gen-1.a/bundle-0000 hello
    put gen-1.a/manifest.json '{}'
    put gen-10.b/bundle-0000 ''
    [ "$($state get gen-1.a/bundle-0000)" = hello ]
    [ "$($state list gen-1. | sort)" = "$(printf '2 gen-1.a/manifest.json\n5 gen-1.a/bundle-0000')" ]
    [ "$($state list gen-1 | wc -l)" -eq 3 ]
    $state delete gen-1.a/bundle-0000
    $state delete gen-1.a/bundle-0000 # it is gone already
    run ! $state get gen-1.a/bundle-0000
    timeout 600 spot-run train -q --data corpus $MODEL --global-batch 5 --steps 2 --state st --workers 1 --events log \
        --state-command "$state" --durable-every 1h
    rm -rf st
    timeout 600 spot-run train -q --data corpus $MODEL --global-batch 5 --steps 3 --state st --workers 1 --events log \
        --state-command "$state" --durable-every 1h --resume
    same_as log 3
    grep -q '"resumed"' log
    spot-run export -q --state-command "$state" -o of-cloud
    [ -e of-cloud/model.safetensors ]
}

# tier: world # some thirty calls, each of which starts Python
@test "a bucket by the AWS command line (aws, moto)" {
    command -v moto_server && command -v aws || skip "moto[server] or awscli is not here"
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    background moto_server -H 127.0.0.1 -p "$port" >moto.out 2>&1
    export AWS_ENDPOINT_URL=http://127.0.0.1:$port AWS_ACCESS_KEY_ID=x AWS_SECRET_ACCESS_KEY=y AWS_DEFAULT_REGION=us-east-1
    eventually 'aws s3 mb s3://bucket 2>aws.err || grep -q BucketAlreadyOwnedByYou aws.err'
    command="sh $example/s3.sh bucket/some/prefix"
    timeout 600 spot-run train -q --data corpus $MODEL --global-batch 5 --steps 2 --state st --workers 1 --events log \
        --state-command "$command" --durable-every 1h
    rm -rf st
    timeout 600 spot-run train -q --data corpus $MODEL --global-batch 5 --steps 3 --state st --workers 1 --events log \
        --state-command "$command" --durable-every 1h --resume
    same_as log 3
    grep -q '"resumed"' log
    aws s3 ls --recursive s3://bucket/some/prefix/ | grep -q 'gen-000000000003.*/manifest.json'
}
