# SPDX-License-Identifier: MIT
# What the tests of spot-run share: a small job, its undisturbed result, processes that end.

# shellcheck source=tests/cli/eventually.bash
. "$(dirname "${BASH_SOURCE[0]}")/eventually.bash" # bats has load, scripts have not

MODEL="--layers 2 --width 32 --heads 2 --seq 16 --shards 2"

job_setup() {
    cd "$BATS_TEST_TMPDIR"
    export TMPDIR=$PWD # the state of a job that is stopped stays
    seq 1 3000 >corpus
    : >pids
}

# End what is left, by its own id, and what that started: a killed `timeout` ends nothing. Tell how
# a job went whose test failed.
job_teardown() {
    [ -n "${BATS_TEST_COMPLETED:-}" ] || told || true
    for pid in $(cat pids); do
        for id in $(pgrep -P "$pid") "$pid"; do
            kill_own -CONT "$id"
            kill_own -9 "$id"
        done
    done
    wait $(cat pids) 2>/dev/null || true
}

told() {
    local log
    for log in log* *.err; do
        [ -s "$log" ] || continue
        echo "$log:"
        grep -vE '"event":"(committed|step)"' "$log" | tail -n 25 | cut -c 1-300
        tail -n 1 "$log" | cut -c 1-300
    done
}

# background COMMAND...: its id in $pid
background() {
    "$@" 3>&- &
    pid=$!
    echo $pid >>pids
}

# train EVENTS-FILE ARGUMENTS...: a coordinator in the background, at unix:j unless told otherwise; on a
# machine that starves its workers nobody is silent for too long, unless that is what is tested. One
# that goes on until it is stopped has the pace of $SPOT_PACE (tests/preload/pace.c), where that is set.
train() {
    local log=$1 lease="--lease 20s" pace=()
    shift
    [[ -z "${SPOT_PACE-}" || " $* " != *" --steps 100000"* ]] ||
        pace=(env "LD_PRELOAD=${LD_PRELOAD:+$LD_PRELOAD:}$SPOT_PACE")
    [[ " $* " != *" --lease "* ]] || lease=
    # what an earlier job told is not to be taken for news
    [[ " $* " == *" --resume "* ]] || [ ! -f "$log" ] || rm "$log"
    background timeout 300 "${pace[@]}" spot-run train ${VERBOSE--q} --data corpus $MODEL --global-batch 5 --listen unix:j $lease \
        --events "$log" "$@" 2>"$log.err"
    train=$pid
}

# kill_job: the coordinator and its local workers die of SIGKILL, and what they held is free again
kill_job() {
    local coordinator workers
    coordinator=$(pgrep -P $train)
    workers=$(pgrep -P $coordinator || true)
    kill -9 $workers $coordinator $train
    wait $train || true
    eventually "! kill -0 $coordinator"
}

# worker NAME: it ends with its coordinator, or soon after
worker() {
    background spot-run worker -q --join unix:j --join-timeout 60s --name "$1" 2>>workers.err
}

# passes SECONDS: of the coordinator's own time, in which it looks about and answers
passes() {
    local now
    now=$(spot-run status --join unix:j --format json | jq .time_s)
    eventually "spot-run status --join unix:j --format json | jq -e '.time_s >= $now + $1'"
}

events() { # LOG EVENT: how many
    grep -c "\"event\":\"$2\"" "$1" 2>/dev/null || true
}

at_step() { # LOG STEP: has committed that far
    eventually "grep -q '\"event\":\"committed\".*\"step\":$2,' $1"
}

more_steps() { # LOG: are committed; more than MORE, 5 unless that is set
    eventually "[ \"\$(events $1 committed)\" -gt $(($(events "$1" committed) + ${MORE:-5})) ]"
}

seen() { # LOG EVENT HOW-MANY: at least
    eventually "[ \"\$(events $1 $2)\" -ge $3 ]"
}

# one_dies_then_all: of the job that $train runs with its log in `log`, one of two workers is killed, a third takes
# part, and the job is stopped; the outcome so far is in `got`
one_dies_then_all() {
    local status
    worker one
    worker two
    eventually '[ "$(events log joined)" -ge 2 ]'
    at_step log 5
    kill -9 $pid
    worker three
    eventually 'sed "1,/\"joined\".*\"three\"/d" log | grep -q formed'
    at_step log $(($(events log committed) + 5))
    kill -TERM $train
    wait $train && status=0 || status=$?
    [ "$status" -eq 75 ]
    outcome log | grep -v null >got
}

# gave_up LOG NAME WHY: the coordinator did, for that (a regular expression). Polls ask no jq, which takes 20 ms to begin
gave_up() { eventually "grep -qE '\"event\":\"lost\".*\"name\":\"$2\",\"why\":\"[^\"]*($3)' $1"; }

# The loss of every step that survived, in order, and the final hash. Fails if a step committed
# twice without a roll-back between, if the step changes without a word, or a sample is lost or repeated.
outcome() { # LOG; which is one that report takes
    local said
    said=$(spot-run report "$1" 2>&1 >/dev/null | grep -v warning:) || true # grep found nothing
    [ -z "$said" ] || { echo "$said" >&2 && return 1; }
    jq -nr --argjson G 5 '
        reduce (inputs | select(.event as $e | ["committed", "rolled_back", "restored", "formed", "done"] | index($e)))
        as $e ({at: 0, step: []};
            if $e.event == "rolled_back" then
                if $e.from != .at or $e.to >= .at then error("rolled back from \($e.from) at \(.at)") else .at = $e.to end
            elif $e.event == "restored" then
                if $e.from != .at or $e.step <= .at then error("restored \($e.step) at \(.at)") else .at = $e.step end
            elif $e.event == "formed" then
                if $e.step != .at then error("formed at \($e.step), not \(.at)") else . end
            elif $e.event == "committed" then
                if $e.step != .at + 1 then error("step \($e.step) after \(.at)")
                else .step[.at] = $e | .at += 1 end
            else .hash = $e.state_xxh3_128 end)
        | .step = .step[:.at]
        | if ([.step[].samples[]] | sort) != [range(.at * $G)] then error("samples lost or repeated") else . end
        | .step[].loss_hex, .hash' "$1"
}

# The outcome of a job nobody disturbs, made once per file: of $1 steps and further arguments
undisturbed() {
    local key="$BATS_FILE_TMPDIR/$(printf '%s' "$*" | tr -c 'a-z0-9' _)"
    if ! [ -e "$key" ]; then
        local steps=$1
        shift
        timeout 300 spot-run train -q --data corpus $MODEL --global-batch 5 --steps "$steps" \
            --events "$key.log" "$@"
        outcome "$key.log" >"$key"
    fi
    cat "$key"
}

# The losses of the first STEPS steps of the job nobody disturbs. What is kept per file is a longer story than was
# asked for first, so that most tests find their part of it.
calm_losses() { # STEPS [ARGUMENTS]
    local steps=$1 key
    shift
    key="$BATS_FILE_TMPDIR/losses.$(printf '%s' "$MODEL $*" | tr -c 'a-z0-9' _)"
    if ! [ -e "$key" ] || [ "$(wc -l <"$key")" -lt "$steps" ]; then
        undisturbed $((steps + steps / 4)) "$@" | sed '$d' >"$key"
    fi
    head -n "$steps" "$key"
}

# stop a job that would go on for long; what it did so far is the undisturbed story
stops_right() { # LOG [ARGUMENTS]
    kill -TERM $train
    wait $train && status=0 || status=$?
    [ "$status" -eq 75 ]
    outcome "$1" | grep -v null >got
    calm_losses "$(wc -l <got)" "${@:2}" >want
    cmp want got
}

# same_as LOG STEPS [ARGUMENTS]: that log tells the undisturbed story
same_as() {
    local log=$1
    shift
    undisturbed "$@" >want
    outcome "$log" >got
    cmp want got
}

# refuses STATUS TEXT ARGUMENTS...: at once, with TEXT, and without a word on standard output
refuses() {
    local want=$1 text=$2
    shift 2
    run --separate-stderr timeout "${patience:-120}" spot-run "$@"
    [ "$status" -eq "$want" ] || { echo "$* gave $status: $stderr" >&2; return 1; }
    [[ "$stderr" == *"$text"* ]] || { echo "$* said: $stderr" >&2; return 1; }
    [ -z "$output" ]
}

# churn FROM TO PREFIX N: each time one of the workers in the caller's `alive`, by id, is told to go or
# killed, worker n$i comes, and PREFIX followed by less than N seconds pass
churn() {
    local i ids victim
    for i in $(seq "$1" "$2"); do
        ids=("${!alive[@]}")
        victim=${ids[$((RANDOM % ${#ids[@]}))]}
        kill -$([ $((RANDOM % 2)) = 0 ] && echo TERM || echo KILL) $victim 2>/dev/null || true
        unset "alive[$victim]"
        sleep 0.0$((RANDOM % 10))
        worker n$i && alive[$pid]=1
        sleep "$3$((RANDOM % $4))"
    done
}
