#!/usr/bin/env bats
# tier: jobs, lane: wait
# spot-run serve: what a request gets alone it gets in company, and through a storm.

load eventually

setup() {
    tools=$(dirname "$(command -v spot-run)")/../tests
    [ -x "$tools/load" ] || skip "no tests/load: make check builds it"
    cd "$BATS_TEST_TMPDIR" || return 1
}

teardown() {
    # shellcheck disable=SC2046
    [ ! -e pids ] || kill_own -TERM $(cat pids)
}

serve() { # socket options...
    spot-run serve -q --model model --http "unix:$1" --queue 1000 "${@:2}" 2>"$1.err" 3>&- &
    echo $! >>pids
    for _ in $(seq 600); do
        "$tools/load" "unix:$1" n=1 in=1 out=1 plain=1 clients=1 >/dev/null 2>&1 && return 0
        sleep 0.1
    done
    return 1
}

@test "200 requests, sampled ones and log probabilities too, are the same alone and in company of 15 and of 199" {
    seq -f "the %.0f. line of a text that a small model learns" 400 >text
    spot-run train -q --data text --layers 2 --width 64 --heads 4 --seq 128 --steps 20 --save model >train.log
    serve alone --workers 1 --max-batch 1
    serve company --workers 2 --max-batch 16
    "$tools/load" unix:alone n=200 clients=1 in=40 out=60 answers=1
    "$tools/load" unix:company n=200 clients=16 in=40 out=60 answers=16
    "$tools/load" unix:company n=200 clients=200 rate=200 in=40 out=60 answers=200
    sort 1 >want
    [ "$(wc -l <want)" = 240 ] # a fifth have two choices
    sort 16 | cmp - want
    sort 200 | cmp - want
}

@test "a thousand streams at once, beside two thousand connections that say nothing" {
    seq -f "the %.0f. line of a text that a small model learns" 400 >text
    spot-run train -q --data text --layers 1 --width 32 --heads 2 --seq 64 --steps 1 --save model >train.log
    serve s --workers 1 --max-batch 64 --queue 1200
    run "$tools/load" unix:s n=1000 clients=1000 idle=2000 in=4 out=4 plain=1
    echo "$output"
    [ "$status" = 0 ]
    [[ "$output" == *"requests=1000 tokens=4000 "*"broken=0 refused=0 wrong=0"* ]]
}

# tier: long # make soak-serve
@test "40 preemptions of a server, coordinators among them, and no token lost, repeated or different" {
    PATH="$tools:$PATH" "$BATS_TEST_DIRNAME/../soak-serve.sh" 40 2
}
