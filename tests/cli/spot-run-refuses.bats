#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs asan, lane: wait
# spot-run: what is wrong is named before anything runs, and no answer is a hang.

bats_require_minimum_version 1.5.0
load job

setup() { job_setup; }
teardown() { job_teardown; }

@test "usage errors are status 2 and name what is wrong" {
    refuses 2 "--data is missing" train --steps 1
    refuses 2 "--steps is missing" train --data corpus
    refuses 2 "--step" train --data corpus --stepz 1
    refuses 2 "--steps" train --data corpus --steps x
    refuses 2 "--steps" train --data corpus --steps 0
    refuses 2 "unexpected operand 'more'" train --data corpus --steps 1 more
    refuses 2 "--grid must be DxP" train --data corpus --steps 1 --grid 2
    refuses 2 "--grid must be DxP" train --data corpus --steps 1 --grid 0x1
    refuses 2 "--grid must be DxP" train --data corpus --steps 1 --grid 2x-1
    refuses 2 "--grid must be DxP" train --data corpus --steps 1 --grid 99999999999999999999x2
    refuses 2 "try --micro-batch 2" train --data corpus --steps 1 --micro-batch 3 --global-batch 4
    refuses 2 "--resume has no effect without --state" train --data corpus --steps 1 --resume
    refuses 2 "--usd-per-h" report --usd-per-h 1: log
    refuses 2 "--separator has no effect with --decode" tokenize --tokenizer t --decode --separator x
    refuses 2 "--lr" train --data corpus --steps 1 --lr nan
    refuses 2 "abacus" train --data corpus --steps 1 --device abacus
    refuses 2 "kernel" train --data corpus --steps 1 --device none-such
    refuses 2 "write a path as unix:/tmp/sock" train --data corpus --steps 1 --listen /tmp/sock
    refuses 2 "--join is missing" worker
    refuses 2 "--join is missing" replan plan.json
    refuses 2 "--join is missing" status
    refuses 2 "--format must be json or table, got 'xml'" status --join unix:j --format xml
    refuses 2 "--format must be json or table, got 'csv'" status --join unix:j --format csv
    refuses 2 "unexpected operand" status --join unix:j extra
}

@test "without --shards the largest number up to 4 that divides the heads is taken" {
    local heads shards
    for heads in 6:3 5:1 8:4 2:2; do
        shards=${heads#*:} heads=${heads%:*}
        for asked in '' "--shards $shards"; do
            # shellcheck disable=SC2086  # none or two words
            spot-run train -q --data corpus --steps 1 --global-batch 1 --seq 8 --layers 1 \
                --heads "$heads" --width $((4 * heads)) $asked >"events$asked"
        done
        # another S would be another job, with another id
        [ "$(jq -r 'select(.job).job' events | head -n 1)" = \
            "$(jq -r 'select(.job).job' "events--shards $shards" | head -n 1)" ]
    done
}

@test "usage errors of a command point at the help of that command" {
    local command
    for command in "spot-run train" "spot-plan train" "spot-migrate pack" "spot-replay import"; do
        # shellcheck disable=SC2086  # two words
        run -2 --separate-stderr $command --no-such
        [[ "$stderr" == "$command: "*"try '$command --help'"* ]]
    done
}

@test "absurd model shapes are refused before memory is taken" {
    refuses 2 "--heads 7 does not divide --width 30; try --heads 6" train --data corpus --steps 1 --width 30 --heads 7
    refuses 2 "--shards 4 does not divide --heads 6; try --shards 3" train --data corpus --steps 1 --width 12 --heads 6 --shards 4
    refuses 2 "--layers" train --data corpus --steps 1 --layers 0
    refuses 2 "--layers" train --data corpus --steps 1 --layers 99999999
    refuses 2 "--vocab" train --data corpus --steps 1 --vocab 1
    refuses 2 "--tokens u16 requires --vocab" train --data corpus --steps 1 --tokens u16
    refuses 2 "got 'u8'" train --data corpus --steps 1 --tokens u8
    refuses 3 "parameters" train --data corpus --steps 1 --layers 4096 --width 65536
    refuses 3 "in one piece" train --data corpus --steps 1 --layers 1 --width 16384
    refuses 3 "in one piece" train --data corpus --steps 1 --seq 4096 --width 256 --micro-batch 2048 --global-batch 2048
    refuses 2 "microbatches" train --data corpus --steps 1 --global-batch 8192
}

@test "a stage that this machine has no memory for is refused with both numbers" {
    [ "$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)" -lt 100000000 ] || skip "100 GB are free"
    seq 1 300000 >corpus
    run --separate-stderr timeout 60 spot-run train --data corpus --steps 1 --layers 12 --width 768 --heads 12 \
        --seq 1024 --micro-batch 256 --global-batch 256
    [ "$status" -eq 4 ]
    [[ "$stderr" == *"a stage of bundles 0 to 13 needs 115 GB of memory, "*" GB are available"* ]]
}

@test "a corpus shorter than one sequence, empty, absent or of foreign bytes is named" {
    printf 'too short' >short
    : >empty
    refuses 3 "short: 9 tokens" train --data short --steps 1
    refuses 3 "empty: 0 tokens" train --data empty --steps 1
    refuses 4 "cannot open 'absent'" train --data absent --steps 1
    refuses 4 "." train --data . --steps 1
    refuses 3 "the vocabulary has 40" train --data corpus --steps 1 --vocab 40
    refuses 3 "are not a whole number of 4 byte tokens" train --data corpus --steps 1 --tokens u32 --vocab 8
    printf '\1\0\2\0\54\1' >u16 # 1, 2, 300
    refuses 3 "u16: token 2 (byte 4) is 300, the vocabulary has 300" train --data u16 --steps 1 \
        --tokens u16 --vocab 300
    printf 'x%.0s' $(seq 17) >exact # one sequence of 16 and its last target
    timeout 60 spot-run train -q --data exact $MODEL --global-batch 2 --steps 2 --events exact.log
    jq -es 'last.event == "done"' exact.log
}

@test "standard input can be the corpus" {
    spot-run train -q --data - $MODEL --global-batch 5 --steps 3 --events pipe.log <corpus
    same_as pipe.log 3
    run --separate-stderr timeout 60 spot-run train --data - --steps 1 </dev/null
    [ "$status" -eq 3 ]
}

@test "standard input can be the plan, not the corpus too" {
    plan='{"schema":"spot.plan/1","kind":"train","job":"x","time_s":0,"next":{"D":1,"P":2,"M":1,"B":1}}'
    echo "$plan" >- # a file of that name is not it
    echo "$plan" | spot-run train -q --data corpus $MODEL --global-batch 5 --steps 3 --workers 2 --plan - --events log
    grep -q '"formed".*"D":1,"P":2' log
    same_as log 3
    refuses 3 "<stdin>: empty input" train -q --data corpus --steps 1 --plan - </dev/null
    refuses 2 "only one of --data and --plan can come from standard input" train --data - --steps 1 --plan -
}

@test "what cannot be written is told before the training, status 4" {
    refuses 4 "cannot write 'no/such/events'" train --data corpus --steps 1 --events no/such/events
    refuses 4 "cannot write 'no/such/w.safetensors'" train --data corpus --steps 1000000 --save no/such/w.safetensors
    refuses 4 "cannot make 'no/such/model'" train --data corpus --steps 1000000 --save no/such/model
    refuses 4 "cannot make 'no/such/state'" train --data corpus --steps 1000000 --state no/such/state
    refuses 4 "cannot" train --data corpus --steps 1 --state corpus
    refuses 4 "cannot open 'no-plan'" train --data corpus --steps 1000000 --plan no-plan
    refuses 4 "cannot listen" train --data corpus --steps 1 --listen unix:no/such/socket
}

@test "a full disk ends the run with status 4 and leaves no half file" {
    refuses 4 "No space left on device" train -q --data corpus $MODEL --steps 3 --events /dev/full
    refuses 4 "No space left on device" train -q --data corpus $MODEL --steps 3 --events e.log --save /dev/full
    run sh -c "timeout 60 spot-run train -q --data corpus $MODEL --steps 3 >/dev/full"
    [ "$status" -eq 4 ]
    rm e.log
    # files of at most 4 blocks: the weights do not fit, nothing of them stays
    run --separate-stderr sh -c "trap '' XFSZ; ulimit -f 4
        timeout 60 spot-run train -q --data corpus $MODEL --steps 3 --events e.log --save w.safetensors"
    [ "$status" -eq 4 ]
    [[ "$stderr" == *"cannot write"* ]]
    [ ! -e w.safetensors ]
    [ -z "$(ls | grep tmp || true)" ]
}

@test "a result that cannot be written leaves the state there, named, and the job goes on from it" {
    mkdir out
    train log --steps 20 --save out/w.safetensors
    eventually '[ -S j ]'
    rm -r out
    worker w
    wait $train && status=0 || status=$?
    [ "$status" -eq 4 ]
    state=$(echo spot-state-*)
    grep -q "cannot write 'out/w.safetensors': .*; the state of step 20 is in '.*/$state', --state and --resume continue it" log.err
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 20 --state $state --resume --save w.safetensors --events log
    [ -s w.safetensors ]
    same_as log 20
}

@test "a job whose events cannot be written leaves its durable state there, and names it" {
    { timeout 60 spot-run train -q --data corpus $MODEL --steps 1000000 --durable-every 0.01s 2>said && status=0 || status=$?
      echo $status >status; } | grep -m 1 '"durable"'
    [ "$(cat status)" -eq 4 ]
    grep -q "Broken pipe; the state of step .*spot-state-" said
    [ "$(ls spot-state-* | grep -c '^gen-[0-9]*$')" -ge 1 ]
}

@test "a job that is stopped before its first step leaves nothing" {
    train log --steps 100000 --width 768 --workers 1 # weights that are not drawn in a moment
    seen log migrate 1
    kill -INT $(pgrep -P $train)
    wait $train && status=0 || status=$?
    [ "$status" -eq 75 ]
    grep -q "stopped; no state is durable" log.err
    [ -z "$(ls | grep spot-state || true)" ]
}

@test "a closed standard output is an error, not a silent success" {
    run sh -c "timeout 60 spot-run train -q --data corpus $MODEL --steps 2 >&-"
    [ "$status" -eq 4 ]
    run sh -c "timeout 60 spot-run --help >&-"
    [ "$status" -eq 4 ]
    run sh -c "timeout 60 spot-run train --help >/dev/full"
    [ "$status" -eq 4 ]
}

@test "a reader that goes away ends the run with status 4, and nothing stays behind" {
    mkdir t
    { TMPDIR=t timeout 60 spot-run train -q --data corpus $MODEL --steps 1000000 --workers 2 2>said && status=0 || status=$?
      echo $status >status; } | head -n 3 >three
    [ "$(wc -l <three)" -eq 3 ]
    [ "$(cat status)" -eq 4 ]
    [ "$(cat said)" = "spot-run train: cannot write output: Broken pipe" ]
    [ -z "$(ls -A t)" ]
}

# The address of a socket has 107 bytes. /spot-run-XXXXXX/job.PID takes 28 of them: a TMPDIR of more
# than 79 is reached by its descriptor.
@test "private sockets are in TMPDIR, however long its name, and do not stay there" {
    for n in 31 32 79 80 3055; do
        dir=$(printf "%0$((n % 200))d" 0)
        while [ ${#dir} -lt $n ]; do dir+=/$(printf %0199d 0); done
        [ ${#dir} -eq $n ]
        mkdir -p $dir
        TMPDIR=$dir background timeout 300 spot-run train -q --data corpus $MODEL --global-batch 5 --steps 1000000 \
            --grid 1x2 --workers 2 --events log.$n
        train=$pid
        at_step log.$n 5
        [ "$(find $dir -type s | sed 's|.*/||; s|[.].*|.PID|' | sort | xargs)" = "job job.PID job.PID" ]
        kill -9 $(pgrep -P $(pgrep -P $train) | head -n 1) # another one reaches its peer
        seen log.$n joined 3
        more_steps log.$n
        stops_right log.$n
        [ "$(ls $dir | cut -c 1-11)" = spot-state- ]
    done
}

# stopped TEXT COMMAND...: told to stop, COMMAND does, though what it waits for never comes
stopped() {
    local text=$1
    shift
    eventually "$ready"
    kill -TERM $pid
    wait $pid && status=0 || status=$?
    [ "$status" -eq 75 ]
    [[ "$(cat said)" == *"$text"* ]]
}

@test "who waits for its data can be told to stop; a job goes on whose events nobody reads, and tells" {
    mkfifo silent
    background sh -c 'exec sleep 300 3>silent'
    background spot-run train --data silent --steps 3 2>said
    ready="readlink /proc/$pid/fd/3 | grep -q silent" stopped "before the job began"
    background sh -c 'exec sleep 300 <silent'
    background spot-run train --data corpus $MODEL --state state --durable-every 0.01s --steps 100000 --events silent 2>said
    ready="[ \"\$(ls state | grep -o '[0-9]*\$' | sort -n | tail -n 1)\" -ge 1000 ]" stopped "--resume continue it" # the pipe is full at some 250
    grep -q "the reader of the events was blocked: the last [0-9]* bytes are missing" said
    spot-run train -q --data corpus $MODEL --state state --resume --steps 100000 --events log 2>said &
    pid=$!
    ready="grep -q committed log" stopped "--resume continue it"
}

@test "a file at its limit is an error as a full disk is, status 4" {
    run --separate-stderr sh -c "ulimit -f 20; TMPDIR=/nowhere exec timeout 60 spot-run train --data corpus $MODEL --listen unix:j --workers 1 --state state --steps 1000 --events log"
    [ "$status" -eq 4 ]
    [[ "$stderr" == *"File too large"* ]]
    [ ! -e j ]
}

@test "a quiet worker that its coordinator left says nothing, another one does; both are 4" {
    train log --steps 1000000
    eventually 'spot-run status --join unix:j >/dev/null'
    for how in -q ""; do
        background spot-run worker $how --join unix:j --join-timeout 5s --name "w$how" 2>"said$how"
        worker[${#how}]=$pid
    done
    at_step log 20
    kill -9 $(pgrep -P $train)
    for how in -q ""; do
        wait ${worker[${#how}]} && status=0 || status=$?
        [ "$status" -eq 4 ]
    done
    [ ! -s said-q ]
    [ -s said ]
}

@test "a signal that was waiting before the program ran is heard: 75" {
    for command in "worker --join unix:none --join-timeout 5s" "train --data corpus --steps 1000000"; do
        run --separate-stderr timeout 60 env --block-signal=TERM sh -c "kill -TERM \$\$; exec spot-run $command"
        [ "$status" -eq 75 ]
    done
}

@test "names and domains are UTF-8 without control characters, status 2" {
    for text in $'\xff' $'a\xc3' $'\xed\xa0\x80' $'a\nb' $'\e[2J' $'\x7f' $'\xc2\x9b' $'\xe2\x80\xa8'; do
        refuses 2 "--name must be UTF-8 text" worker --join unix:none --join-timeout 0s --name "$text"
        refuses 2 "--domain must be UTF-8 text" worker --join unix:none --join-timeout 0s --domain "$text"
    done
    refuses 4 "cannot connect" worker --join unix:none --join-timeout 0s --name 'größe 大 🙂'
}

@test "listeners refuse everything that a stranger could reach, status 2" {
    for address in 0.0.0.0:4000 192.168.1.1:4000 [::]:4000 :4000 example.org:4000 127.0.0.2:4000 \
        4000 tcp://127.0.0.1:4000 unix: "unix:$(printf 'x%.0s' $(seq 200))" 127.0.0.1:99999 \
        127.0.0.1:; do
        refuses 2 "" train --data corpus --steps 1 --listen "$address"
        refuses 2 "" worker --join "$address" --join-timeout 1s
        refuses 2 "" status --join "$address"
    done
}

@test "a path that leaves workers no room for their sockets is refused, status 2" {
    long=$(printf 'x%.0s' $(seq 100))
    refuses 2 "longer than 99 bytes" train --data corpus $MODEL --steps 1 --listen unix:$long
    refuses 2 "longer than 99 bytes" train --data corpus $MODEL --steps 1 --listen unix:$long$long
    timeout 60 spot-run train -q --data corpus $MODEL --steps 1 --workers 1 --listen unix:${long%x}
}

@test "a port that the kernel chose is told" {
    background spot-run train --data corpus $MODEL --steps 2 --events log --listen 127.0.0.1:0 2>said
    eventually 'grep -q "listening at 127.0.0.1:[1-9]" said'
    timeout 60 spot-run worker -q --join "$(sed -n 's/.*listening at //p' said)"
    wait $pid
}

@test "who listens at a port without a key is told who else is let in" {
    background spot-run train --data corpus $MODEL --steps 100000 --listen '[::1]:0' 2>said
    eventually 'grep -q "listening at" said'
    grep -q 'without --key-file every user of this machine can join, stop or change this job' said
    kill $pid
    wait $pid || true
    head -c 32 /dev/urandom >key && chmod 600 key
    for closed in "127.0.0.1:0 --key-file key" unix:closed; do
        background spot-run train --data corpus $MODEL --steps 100000 --listen $closed 2>said
        eventually 'grep -q "listening at" said'
        run ! grep 'every user' said
        kill $pid
        wait $pid || true
    done
}

@test "the log, state and socket of a job that runs are not for a second one, and stay" {
    train log --state state --steps 1000000
    worker w
    at_step log 3
    for other in "--state state --listen unix:k" "--state state --resume --listen unix:j" "--listen unix:j"; do
        refuses 4 "in use" train --data corpus $MODEL --steps 3 $other --events second
        [ ! -e second ]
    done
    refuses 4 "'log' is the log of a running job" train --data corpus $MODEL --steps 3 --events log
    [ "$(head -n 1 log | jq -r .event)" = joined ]
    spot-run status --join unix:j
    stops_right log
}

@test "a state that is no directory is told, and so is that there is nothing to resume" {
    refuses 4 "cannot use 'corpus': Not a directory" train --data corpus $MODEL --steps 1 --state corpus
    refuses 2 "there is no 'mistyped' to resume from" train --data corpus $MODEL --steps 1 --state mistyped --resume \
        --events log
    [ ! -e mistyped ]
    [ ! -e log ]
    mkdir empty
    run --separate-stderr timeout 60 spot-run train --data corpus $MODEL --steps 1 --state empty --resume --events log
    [ "$status" -eq 0 ]
    [[ "$stderr" == *"'empty'"* ]]
}

@test "the socket has mode 0600 and goes with the job; loopback works as well" {
    train log --steps 100000
    worker w1
    eventually '[ -S j ]'
    [ "$(stat -c %a j)" = 600 ]
    eventually '[ "$(ls j.* 2>/dev/null | wc -l)" = 1 ]'
    [ "$(stat -c %a j.*)" = 600 ]
    # somebody answers there: it is not taken over
    refuses 4 "cannot listen on unix:$PWD/j: Address already in use" train --data corpus --steps 1 --listen unix:j
    at_step log 3
    kill -TERM $train
    wait $train || true
    [ ! -e j ]
    for address in 127.0.0.1:0 [::1]:0; do
        rm -f tcp.log
        timeout 60 spot-run train -q --data corpus $MODEL --global-batch 5 --steps 4 --workers 3 \
            --listen $address --events tcp.log || { [ $address = [::1]:0 ] && continue; false; }
        same_as tcp.log 4
    done
}

@test "a socket left by a dead process is replaced" {
    train first --steps 100000
    eventually '[ -S j ]'
    kill -9 $train $(pgrep -P $train)
    eventually '! spot-run status --join unix:j 2>/dev/null'
    [ -S j ]
    train second --steps 3
    worker w1
    wait $train
    same_as second 3
}

@test "nobody there: worker, replan and status say so, status 4" {
    echo '{"schema":"spot.plan/1","kind":"train","job":"x","time_s":0,"next":{"D":1,"P":1,"M":1,"B":1}}' >plan.json
    refuses 4 "cannot connect to unix:none" worker --join unix:none --join-timeout 0s
    refuses 4 "cannot connect to unix:none" status --join unix:none
    refuses 4 "cannot connect to unix:none" replan --join unix:none plan.json
    refuses 4 "cannot open 'absent.json'" replan --join unix:none absent.json
    echo '{"schema":"spot.job/1"}' >plan.json # told whether somebody is there or not
    refuses 3 "plan.json:1:11: /schema: expected \"spot.plan/1\"" replan --join unix:none plan.json
    : >plan.json
    refuses 3 "plan.json: empty input, expected a plan" replan --join unix:none plan.json
}

# A copy of the program in which the text $1 reads $2, of equal length.
forge() {
    sed "s/$1/$2/g" "$(command -v spot-run)" >forged
    chmod +x forged
    cmp -s forged "$(command -v spot-run)" && return 1
    true
}

@test "a worker of another version is refused by name, status 1, and the job goes on" {
    local version other
    version=$(spot-run --version | awk '{print $NF}')
    other=$(printf '%s' "$version" | tr '0-9a-f' '1-9a-f0')
    forge "$version" "$other"
    train log --steps 100000
    worker good
    run --separate-stderr timeout 60 ./forged worker --join unix:j --name stranger
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"worker stranger is version $other (protocol "*"), the job runs $version (protocol "** ]]
    at_step log 30
    stops_right log
}

@test "a worker of a patch release is welcome, and named; the bits are the job's" {
    local version other
    version=$(spot-run --version | awk '{print $NF}')
    other=$(sed -E 's/^([0-9]+\.[0-9]+\.)[0-9]/\19/' <<<"$version")
    forge "$version" "$other"
    [ "$(./forged --version)" = "spot-run $other" ]
    background timeout 300 spot-run train --data corpus $MODEL --global-batch 5 --listen unix:j --lease 20s \
        --steps 30 --device portable --events log 2>said
    train=$pid
    background ./forged worker -q --join unix:j --join-timeout 60s --name patched
    wait $train
    grep -q "worker patched is version $other, the job runs $version" said
    same_as log 30 --device portable
}

@test "a worker of another protocol is refused by name and versions, on both sides" {
    local version protocol
    version=$(spot-run --version | awk '{print $NF}')
    protocol=$(awk '/SPOT_PROTOCOL =/ {print $3 + 0}' "$BATS_TEST_DIRNAME/../../lib/cluster/protocol.h")
    head -c 32 /dev/urandom >key
    chmod 600 key
    background timeout 300 spot-run train --data corpus $MODEL --global-batch 5 --listen unix:j --lease 20s \
        --key-file key --steps 100000 --events log 2>said
    train=$pid
    background timeout 300 spot-run worker -q --join unix:j --key-file key --join-timeout 60s --name good
    at_step log 3
    for old in 1 $((protocol + 1)) 0; do
        run "$(dirname "$(command -v spot-run)")/../tests/rude" unix:j key old $old
        [[ "$output" == *"version 0.0.9"*"(protocol $old), the job runs $version (protocol $protocol)"* ]]
        grep -q "refused: worker ancient is version 0.0.9.*(protocol $old), the job runs $version (protocol $protocol)" said
    done
    at_step log $(($(events log committed) + 3))
    kill $train
}

@test "a worker that lacks the job's kernel is refused by name, status 1" {
    forge portable portabel
    train log --steps 30 --device portable
    run --separate-stderr timeout 60 ./forged worker --join unix:j --name stranger
    [ "$status" -eq 1 ]
    [[ "$stderr" == *"worker stranger cannot compute with the job's kernel 'portable'"* ]]
    worker good
    wait $train
    same_as log 30 --device portable
}

@test "garbage on the coordinator's socket does not disturb the job" {
    background timeout 300 spot-run train --data corpus $MODEL --global-batch 5 --steps 100000 --workers 2 \
        --listen 127.0.0.1:0 --events log 2>said
    train=$pid
    eventually 'grep -q "listening at 127.0.0.1:[1-9]" said'
    door=/dev/tcp/127.0.0.1/$(sed -n 's/.*listening at 127.0.0.1://p' said)
    at_step log 3
    for i in $(seq 30); do
        head -c $((RANDOM % 5000)) /dev/urandom >$door || true
    done 2>/dev/null
    printf 'GET / HTTP/1.1\r\n\r\n' >$door
    # the right magic, an absurd length
    printf 'POT1\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\377\377\377\377\377\377\377\177' >$door
    printf 'POT1\1\0\0\0' >$door
    more_steps log
    [ "$(events log lost)" -eq 0 ]
    stops_right log
}

@test "an output without a name is refused before the training" {
    seq 1 2000 >corpus
    refuses 2 "the name of an output file is empty" train --data corpus --steps 1000000 --save ""
    refuses 4 "cannot write ''" train --data corpus --steps 1000000 --events ""
}

@test "an endless --data ends at its limit, or where memory does, with an error" {
    mkfifo endless
    cat /dev/zero >endless &
    refuses 3 "endless: more than 1024 MiB" train --data endless --steps 1
    wait
    (ulimit -v 400000 && spot-run --version) >/dev/null 2>&1 || skip # a sanitizer wants more
    run timeout 60 bash -c 'ulimit -v 400000; exec spot-run train --data /dev/zero --steps 1'
    [ "$status" -eq 4 ]
    [[ "$output" == *"cannot keep /dev/zero in memory after "*" MiB: Cannot allocate memory"* ]]
}

@test "an output that is an input, or another output, is refused and both stay" {
    seq 1 2000 >corpus
    cp corpus before
    ln corpus hard
    ln -s corpus soft
    mkdir d
    for name in corpus ./corpus d/../corpus hard soft; do
        refuses 2 "would overwrite 'corpus', the input of --data" train --data corpus --steps 1 --events $name
        refuses 2 "would overwrite 'corpus', the input of --data" train --data corpus --steps 1 --save $name
    done
    refuses 2 "--events and --save would both write 'd/../out'" train --data corpus --steps 1 \
        --events out --save d/../out
    refuses 2 "--output would overwrite the input 'corpus'" report -o hard corpus
    refuses 2 "the input of --reference" report -o hard --reference corpus log
    refuses 2 "--output and --plot would both write 'a.svg'" report -o a.svg --plot a.svg log
    cmp corpus before
    [ ! -e out ]
}

# A rate at which weights grow without bound: the gradient leaves the numbers at step 4.
@test "a training that diverges stops with step and tensor named, and keeps what was good" {
    wild="$MODEL --global-batch 5 --lr 1e3 --beta2 0 --clip 0 --state s"
    refuses 1 "the training diverged: the gradient of" train -q --data corpus $wild --steps 40 --events a.log
    step=$(sed -n "s/.*is not finite at step \([0-9]*\).*/\1/p" <<<"$stderr")
    jq -es "[.[] | select(.event == \"committed\").step] | max == $step - 1" a.log
    # what was kept goes on to the weights of a run that never saw the bad step
    timeout 60 spot-run train -q --data corpus $wild --steps $((step - 1)) --resume --save w.safetensors
    timeout 60 spot-run train -q --data corpus ${wild% --state s} --steps $((step - 1)) --save v.safetensors
    cmp w.safetensors v.safetensors
}

@test "a worker whose machine is too small for its place ends with 1, and says what there was too little of" {
    (ulimit -v 400000 && spot-run --version) >/dev/null 2>&1 || skip # a sanitizer wants more
    train log --steps 100000
    background bash -c 'ulimit -v 400000; exec spot-run worker -q --join unix:j --threads 200 --name small' 2>small.err
    small=$pid
    seen log joined 1
    worker w1
    wait $small && status=0 || status=$?
    [ "$status" -eq 1 ]
    grep -q "cannot continue: stage: cannot allocate [0-9]* byte" small.err
    more_steps log # without it
}
