#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# spot-run serve --workers: local workers that die again and again, beside one that is well.

load eventually

setup_file() {
    command -v curl >/dev/null || { export MISSING="no curl here"; return; }
    cd "$BATS_FILE_TMPDIR" || return 1
    seq -f "the %.0f. line of a text that a small model learns" 400 >text
    for seed in 1 2; do
        spot-run train -q --data text --layers 2 --width 64 --heads 4 --seq 128 --steps 1 \
            --seed $seed --save model$seed >train.log
    done
}

setup() {
    [ -z "${MISSING-}" ] || skip "$MISSING"
    cd "$BATS_TEST_TMPDIR" || return 1
    cp -r "$BATS_FILE_TMPDIR/model1" model
    server=
}

teardown() {
    [ -z "$server" ] || kill -9 "$server" 2>/dev/null || true
}

serve() { # workers
    spot-run serve --model model --http unix:s --workers "$1" --events log 2>err 3>&- &
    server=$!
    eventually '[ "$(joined)" = '"$1"' ] && is_served'
}

joined() {
    jq -s 'map(select(.event == "joined")) | length' log
}

pid_of() { # name
    pgrep -P "$server" -f "name $1"
}

is_served() {
    curl -sf --max-time 20 --unix-socket s http://x/v1/completions \
        -d '{"model":"model","prompt":"the","max_tokens":9,"temperature":0}' >answer &&
        [ "$(jq .usage.completion_tokens answer)" = 9 ]
}

runs() { # replicas
    curl -sf --unix-socket s http://x/metrics | grep -q "^spot_serve_replicas.* $1\$"
}

# Another model comes in the place of the one that is served.
replace() {
    cp "$BATS_FILE_TMPDIR/model2/model.safetensors" model/new
    mv model/new model/model.safetensors
}

@test "an idle worker that is killed whenever it is back leaves the other one serving" {
    serve 2
    well=$(pid_of local-1)
    for k in 1 2 3 4 5; do
        kill -9 "$(pid_of local-0)"
        eventually '[ "$(joined)" = '$((2 + k))' ] && [ -n "$(pid_of local-0)" ]'
        kill -0 $server
    done
    [ "$(pid_of local-1)" = "$well" ]
    is_served
    kill $server
    wait $server
    server=
}

@test "an only worker that is killed again and again though it was ready comes back each time" {
    serve 1
    for k in 1 2 3 4; do
        kill -9 "$(pid_of local-0)"
        eventually '[ "$(joined)" = '$((1 + k))' ] && runs 1'
    done
    is_served
}

@test "a worker that is refused each time is tried ever more rarely, and the other one serves" {
    serve 2
    replace
    kill -9 "$(pid_of local-0)"
    eventually 'grep -q "local worker 0 died 4 times in a row at its start, the last time with exit status .*: it is restarted in 4 s" err'
    grep -q "restarted in 1 s" err
    grep -q "restarted in 2 s: .*model" err # in the worker's own words
    is_served
    kill -9 "$(pid_of local-1)" # now nobody is well
    wait $server && status=0 || status=$?
    server=
    [ "$status" = 4 ]
    grep -q "died 3 times in a row before any worker was ready, the last time with exit status [0-9]*: .*model" err
}

@test "a model that is put back is served by who was refused" {
    serve 2
    replace
    kill -9 "$(pid_of local-0)"
    eventually 'grep -q "local worker 0 died 2 times" err'
    cp "$BATS_FILE_TMPDIR/model1/model.safetensors" model/new
    mv model/new model/model.safetensors
    kill -9 "$(pid_of local-1)"
    eventually 'runs 2'
    is_served
}
