#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# Two coordinators that share nothing behind a balancer of HTTP (haproxy): one drains and another comes in
# its place, again and again, and no client sees an error or another token.

bats_require_minimum_version 1.5.0
load eventually

setup_file() {
    command -v haproxy >/dev/null || { export MISSING="no haproxy here"; return; }
    tests=$(dirname "$(command -v spot-run)")/../tests
    [ -e "$tests/load" ] || { export MISSING="make check builds load"; return; }
    export LOAD=$tests/load
    cd "$BATS_FILE_TMPDIR" || return 1
    seq -f "the %.0f. line of a text that a small model learns" 400 >text
    spot-run train -q --data text --layers 2 --width 64 --heads 4 --seq 384 --steps 10 --save model >train.log
}

setup() {
    [ -z "${MISSING-}" ] || skip "$MISSING"
    cd "$BATS_TEST_TMPDIR" || return 1
    ln -s "$BATS_FILE_TMPDIR/model" .
    pids=
    declare -gA pid
}

teardown() {
    # shellcheck disable=SC2086
    kill_own -9 $pids
}

serve() { # NAME [OPTION...]: its workers take milliseconds a token, on any machine
    rm -f "$1.http"
    ${SPOT_PACE:+env "LD_PRELOAD=$SPOT_PACE" SPOT_PACE_SEND_MS=2} \
        spot-run serve -q --model model --http "unix:$PWD/$1.http" --workers 1 "${@:2}" 2>>"$1.err" 3>&- &
    pid[$1]=$!
    pids="$pids $!"
}

health() { # ADDRESS [PATH]
    curl -s -o /dev/null -w '%{http_code}' --max-time 60 --unix-socket "$1" "http://x${2:-/health}" || true
}

until_health() { # ADDRESS CODE [PATH]
    eventually "[ \"\$(health '$1' '${3:-}')\" = $2 ]"
}

balance() {
    # the example, on sockets of this test
    sed -e "s|127.0.0.1:8080|unix@$PWD/front|; s|127.0.0.1:8081|unix@$PWD/a.http|; s|127.0.0.1:8082|unix@$PWD/b.http|" \
        -e 's/inter 500ms/inter 50ms/' \
        -e '/^frontend/a\    http-request return status 200 if { path /both } { nbsrv(servers) ge 2 }' \
        -e '/^frontend/a\    http-request return status 404 if { path /both }' \
        "$BATS_TEST_DIRNAME/../../examples/serve/haproxy.cfg" >haproxy.cfg
    haproxy -db -f haproxy.cfg >haproxy.log 2>&1 3>&- &
    pids="$pids $!"
}

@test "coordinators drain one after another behind a balancer; nobody sees it" {
    serve calm --max-batch 1
    until_health calm.http 200
    "$LOAD" unix:calm.http n=80 clients=1 in=40 out=60 answers=got.calm >told.calm
    sort got.calm >want
    kill -TERM "${pid[calm]}"
    wait "${pid[calm]}" || true

    serve a --max-batch 8
    serve b --max-batch 8
    until_health a.http 200
    until_health b.http 200
    balance
    until_health front 200 /both
    "$LOAD" unix:front n=80 clients=6 in=40 out=60 answers=got >told 2>load.err 3>&- &
    load=$!
    pids="$pids $load"
    for name in a b a; do
        sleep 0.4
        kill -TERM "${pid[$name]}" # it takes nothing new, and ends when all that it has is done
        until_health "$name.http" 000
        rc=0
        wait "${pid[$name]}" || rc=$?
        [ "$rc" = 0 ] || { echo "$name ended with $rc" && cat "$name.err" && false; }
        serve "$name" --max-batch 8
        until_health front 200 /both # seen by the balancer too
    done
    rc=0
    wait "$load" || rc=$?
    cat told load.err
    [ "$rc" = 0 ]
    sort got | cmp - want
    grep -q " broken=0 refused=0 " told
}

@test "nobody is there: 503 from the balancer, and the next who comes is taken in" {
    serve a
    until_health a.http 200
    balance
    until_health front 200
    kill -TERM "${pid[a]}"
    wait "${pid[a]}" || true
    until_health front 503
    serve b
    until_health front 200
}
