#!/bin/bash
# SPDX-License-Identifier: MIT
# Serving as its clients see it, in ratios of one run: calm windows; windows with a preemption every few
# seconds, once all three workers are there (notices and kills in turn, another joins each time); and the same with
# clients that begin anew where a worker was killed, as they must where a server goes on with
# nothing. The windows take turns; the arrivals are Poisson at 70 % of what a closed loop took just
# before. Then streams and connections by the thousand.
# STRIKE=KILL: kills alone, which is where clients that begin anew lose the most.
#   OUT=64 STRIKE=both tests/bench/serve-live.sh [TURNS] [SECONDS of a window] [SECONDS between preemptions] [OPTION of the server...]
set -eu
turns=${1:-3}
window_s=${2:-20}
every_s=${3:-1.5}
out=${OUT:-64} # tokens of a request
strike=${STRIKE:-both} # KILL, TERM or both
here=$(dirname "$(readlink -f "$0")")
PATH="$here/../../build/release/bin:$here/../../build/release/tests:$PATH"
make -s -C "$here/../.." build/release/tests/load
tmp=$(mktemp -d)
server='' n=0
declare -A pid name
cleanup() {
    # shellcheck disable=SC2086  # a word may be none
    kill -KILL $server "${pid[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$tmp"
}
trap cleanup EXIT
cd "$tmp"
for i in $(seq 400); do echo "the $i. line of a text that a small model learns"; done >text
spot-run train -q --data text --layers 6 --width 384 --heads 6 --seq 512 --steps 1 --global-batch 1 --save model >/dev/null

start() { # SLOT
    name[$1]=w$((n += 1))
    spot-run worker -q --join unix:j --name "${name[$1]}" --join-timeout 60s 2>/dev/null &
    pid[$1]=$!
    disown $!
}
mkdir st
spot-run serve -q --model model --http unix:s --listen unix:j --state st --linger 0s --queue 4000 --max-batch 32 "${@:4}" &
server=$!
for slot in 0 1 2; do start $slot; done
until load unix:s n=1 out=1 in=1 plain=1 clients=1 >/dev/null 2>&1; do sleep 0.1; done
value() { # NAME LINE
    sed -n "s/.*\b$1=\([0-9.]*\).*/\1/p" <<<"$2"
}
now_s() {
    cut -d' ' -f1 /proc/uptime
}

# strikes of a window: KIND of them, a line each: when, kind
storm() { # none|KILL|TERM|both
    local k=0 slot kind
    while [ ! -e over ]; do
        sleep "$every_s"
        [ "$1" = none ] || until [ -e over ] || [ "$(spot-run status --join unix:j | jq .replicas)" -ge 3 ]; do sleep 0.2; done
        slot=$((k % 3)) kind=$([ $((k % 2)) = 0 ] && echo KILL || echo TERM)
        k=$((k + 1))
        [ "$1" = both ] || kind=$1
        if [ "$kind" != none ]; then
            kill -"$kind" "${pid[$slot]}" 2>/dev/null || true
            [ "$kind" = TERM ] || echo "${name[$slot]}" >>struck
            start $slot
        fi
        echo "$(now_s) $kind" >>strikes
    done
    declare -p pid name n | sed 's/^declare -A/declare -gA/; s/^declare --/declare -g/' >members
}
window() { # NAME none|KILL|TERM|both [load's options]
    local how=$1 what=$2
    shift 2
    rm -f over struck
    : >struck
    storm "$what" &
    load unix:s in=64 out="$out" plain=1 clients=400 rate="$rate" n="$(awk "BEGIN { print int($rate * $window_s) }")" gaps=gaps "$@" >line
    touch over
    wait %% 2>/dev/null || wait $! || true
    # shellcheck source=/dev/null
    . ./members
    cat gaps >>"gaps.$how"
    echo "$how $(cat line)" >>lines
    tail -n 1 lines | cut -c1-260
}

echo "closed loop, 16 clients, 128 in, 64 out:"
load unix:s n=32 clients=16 in=128 out=64 plain=1
closed=$(load unix:s n=48 clients=16 in=64 out="$out" plain=1)
rate=$(awk "BEGIN { print 0.7 * 48 / $(value took_s "$closed") }")
echo "in the open: 64 in, $out out, $rate requests/s, 70 % of what a closed loop took"
: >strikes
for _ in $(seq "$turns"); do
    window calm none
    window storm "$strike"
    window anew "$strike" struck=struck
done

# the longest wait of any stream around each strike, less the median of all
median_ms=$(awk '$1 == "calm" { for (i = 2; i <= NF; i++) if (split($i, a, "=") && a[1] == "gap_p50") { s += a[2]; n++ } } END { print s / n }' lines)
for kind in none TERM KILL; do
    awk -v kind=$kind -v median="$median_ms" 'FNR == NR { at[NR] = $1; for_s[NR] = $2; n = NR; next }
        $2 == kind { most = 0
            for (i = 1; i <= n; i++)
                if (at[i] >= $1 && at[i] - for_s[i] <= $1 + 1 && for_s[i] > most) most = for_s[i]
            print 1e3 * most - median }' <(cat gaps.calm gaps.storm) strikes | sort -g >waits
    awk -v kind=$kind '{ w[NR] = $1 } END { if (NR) printf "longest wait after %s, less the median: P50 %.0f ms, P90 %.0f ms, most %.0f ms (%d)\n",
        kind, w[int((NR + 1) / 2)], w[int(0.9 * NR + 0.5)], w[NR], NR }' waits
done
awk '{ for (i = 2; i <= NF; i++) { split($i, a, "="); v[$1, a[1]] += a[2] } n[$1]++ }
    END { for (k in n) p[k] = v[k, "whole_p99"] / n[k]
        printf "P99 of whole requests: calm %.0f ms, storm %.0f ms, anew %.0f ms; storm/calm %.2f, anew/storm %.2f\n", p["calm"], p["storm"], p["anew"], p["storm"] / p["calm"], p["anew"] / p["storm"] }' lines
echo "$(grep -c -E 'KILL|TERM' strikes) preemptions, median between tokens $median_ms ms"
echo "1,000 streams at once, and 10,000 idle connections beside 16:"
load unix:s n=1000 clients=1000 in=4 out=4 plain=1
load unix:s n=32 clients=16 in=64 out=32 plain=1 idle=10000 2>&1
