#!/bin/bash
# SPDX-License-Identifier: MIT
# What the front costs before engines of others, and what it is worth in a storm. The engines are tests/tool/engine.c.
#   1. the way of a token, from the engine's send to the client's read, at 64 streams of one token every 10 ms: straight, through haproxy, and through
#      the front, in turn. Where the machine has other work, `chrt -f 10` before all of it: what it adds is then in the straight way as well.
#   2. tokens/s through a front that has one processor for itself, and tokens for a second of its processor time
#   3. three engines of which one is killed every EVERY_S, and begins anew, requests at RATE: through the front; through haproxy
#      with retries; and through haproxy by clients that retry whole requests. Failed requests and P99 of those that did not.
#   tests/bench/engines.sh [SECONDS of each storm]     EVERY_S=2 RATE=20 OUT=100
set -eu
window_s=${1:-30} every_s=${EVERY_S:-2} rate=${RATE:-20} out=${OUT:-100}
here=$(dirname "$(readlink -f "$0")")
PATH="$here/../../build/release/bin:$here/../../build/release/tests:/usr/sbin:$PATH"
make -s -C "$here/../.." build/release/tests/load build/release/tests/engine
engine=$(command -v engine)
tmp=$(mktemp -d)
declare -A pid
cleanup() {
    [ ${#pid[@]} = 0 ] || kill -KILL "${pid[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$tmp"
}
trap cleanup EXIT
cd "$tmp"

begin() { # NAME COMMAND...
    local name=$1
    shift
    "$@" 2>>"$name.err" &
    pid[$name]=$!
    disown $!
}
end() { # NAME...
    local name
    for name; do
        kill -KILL "${pid[$name]}" 2>/dev/null || true
        unset "pid[$name]"
    done
}
value() { # NAME LINE
    sed -n "s/.*\b$1=\([0-9.]*\).*/\1/p" <<<"$2"
}
front() { # [COMMAND before]
    rm -f j h
    begin front "$@" spot-run serve -q --dtype engine --model M --served-model-name model --http unix:h --listen unix:j --max-batch 256 --queue 4000
    until [ -S j ]; do sleep 0.1; done
}
worker() { # NAME OPTION of the engine...
    begin "$1" spot-run worker -q --join unix:j --name "$1" --engine "exec '$engine' \$PORT kind=vllm ${*:2}" --engine-kind vllm
}
well() { # ADDRESS
    until load "$1" n=1 clients=1 in=4 out=1 plain=1 ids=0 >/dev/null 2>&1; do sleep 0.1; done
}
cpu_s() { # NAME
    awk -v hz="$(getconf CLK_TCK)" '{ print ($14 + $15) / hz }' "/proc/${pid[$1]}/stat"
}

echo "1. 64 streams, a token every 10 ms: the way of a token, ms"
rm -f port
begin alone "$engine" 0 kind=vllm ms=10 stamp=1 port=port
until [ -s port ]; do sleep 0.1; done
front
worker w1 ms=10 stamp=1
well unix:h
proxied=
if command -v haproxy >/dev/null; then
    printf 'defaults\n mode http\n timeout connect 5s\n timeout client 10m\n timeout server 10m\nlisten l\n bind unix@%s/bare\n server e 127.0.0.1:%s\n' \
        "$tmp" "$(cat port)" >cfg
    begin bare haproxy -f cfg
    well unix:bare
fi
for _ in 1 2 3; do
    straight=$(load 127.0.0.1:"$(cat port)" n=128 clients=64 out=200 plain=1 ids=0 stamp=1)
    [ -z "${pid[bare]-}" ] || proxied=$(load unix:bare n=128 clients=64 out=200 plain=1 ids=0 stamp=1)
    through=$(load unix:h n=128 clients=64 out=200 plain=1 ids=0 stamp=1)
    for name in delay_p50 delay_p99; do
        a=$(value $name "$straight") b=$(value $name "$through")
        printf '   %s straight %s, haproxy %s, the front %s, which adds %s' "$name" "$a" "$(value $name "$proxied")" "$b" "$(awk "BEGIN { print $b - $a }")"
    done
    echo
done
[ -z "${pid[bare]-}" ] || end bare
end alone w1 front

echo "2. an engine as fast as it can be"
cpus=$(nproc)
front taskset -c 0
taskset -pc "1-$((cpus - 1))" $$ >/dev/null 2>&1 || true # all that begins from here
worker w1 ms=0
well unix:h
for _ in 1 2 3; do
    before=$(cpu_s front)
    line=$(load unix:h n=640 clients=64 out=500 plain=1)
    awk -v n="$(value tokens "$line")" -v t="$(value took_s "$line")" -v a="$before" -v b="$(cpu_s front)" \
        'BEGIN { printf "   %d tokens in %.2f s: %.0f tokens/s, %.0f for a second of the front'"'"'s processor\n", n, t, n / t, n / (b - a) }'
done
taskset -pc "0-$((cpus - 1))" $$ >/dev/null 2>&1 || true
end w1 front

echo "3. three engines, one is killed every $every_s s; $rate requests/s of $out tokens, one every 10 ms"
n=$(awk "BEGIN { print int($rate * $window_s) }")
answer() { # WHAT LINE
    printf '   %-34s %s failed of %s, %s broke off; P50 %s ms, P99 %s ms\n' "$1" "$(value failed "$2")" "$(value requests "$2")" \
        "$(value broken "$2")" "$(value whole_p50 "$2")" "$(value whole_p99 "$2")"
}
kills() { # COMMAND that begins anew what it is told the number of
    local k=0
    while [ ! -e over ]; do
        sleep "$every_s"
        kill -KILL "${pid[w$((k % 3))]}" 2>/dev/null || true
        "$1" $((k % 3))
        k=$((k + 1))
    done
    declare -p pid | sed 's/^declare -A/declare -gA/' >members
}
storm() { # WHAT ADDRESS BACK [OPTION of load...]
    rm -f over members
    kills "$3" &
    line=$(load "$2" n="$n" clients=400 out="$out" plain=1 rate="$rate" "${@:4}" || true)
    : >over
    until [ -s members ]; do sleep 0.1; done
    # shellcheck source=/dev/null
    . ./members
    answer "$1" "$line"
}
own() { worker "w$1" ms=10; }
bare() { begin "w$1" "$engine" "$(cat "port$1")" kind=vllm ms=10; }

front
for i in 0 1 2; do own $i; done
until [ "$(spot-run status --join unix:j | jq .replicas)" = 3 ]; do sleep 0.1; done
answer "undisturbed, through the front:" "$(load unix:h n="$n" clients=400 out="$out" plain=1 rate="$rate")"
storm "the front:" unix:h own
end w0 w1 w2 front
if ! command -v haproxy >/dev/null; then
    echo "   no haproxy here"
    exit 0
fi
{
    printf 'defaults\n mode http\n timeout connect 5s\n timeout client 10m\n timeout server 10m\n timeout check 1s\n retries 5\n'
    printf ' retry-on all-retryable-errors\n option redispatch 1\n option httpchk GET /health\n default-server inter 500ms fall 1 rise 1\n'
    printf 'frontend f\n bind unix@%s/p\n default_backend b\nbackend b\n balance leastconn\n' "$tmp"
    for i in 0 1 2; do
        begin "w$i" "$engine" 0 kind=vllm ms=10 port="port$i"
        until [ -s "port$i" ]; do sleep 0.1; done
        echo " server e$i 127.0.0.1:$(cat "port$i") check"
    done
} >cfg
begin haproxy haproxy -f cfg
well unix:p
storm "haproxy with retries:" unix:p bare ids=0 lost=fail
for i in 0 1 2; do end "w$i"; bare $i; done
well unix:p
storm "retry of whole requests:" unix:p bare ids=0 lost=anew
