#!/bin/bash
# SPDX-License-Identifier: MIT
# How a group grows: rounds of the toy (tests/toy) with 8 to 512 members on this machine, each a process.
# Per member and round: wall time, processor time of the coordinator, bytes and frames that it sends and
# hears (counted by the kernel, on TCP). And the time and bytes of an epoch with all members.
#   tests/bench/rounds.sh [MEMBERS...]
set -eu
sizes=${*:-8 16 32 64 128 256 512}
tmp=$(mktemp -d)
toy=$(dirname "$(command -v spot-run)")/../tests/toy-run
[ -x "$toy" ] || { echo "skipped: make $toy first"; exit 0; }
command -v ss >/dev/null || { echo 'skipped: ss (iproute2) is not here'; exit 0; }
coordinator='' members=()
stop() {
    kill -KILL $coordinator "${members[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    coordinator='' members=()
}
trap 'stop; rm -rf "$tmp"' EXIT
cd "$tmp"
ulimit -n 4096

cpu_ns() { cut -d' ' -f1 "/proc/$coordinator/schedstat"; }
rounds() { [ ! -s commits ] || tail -n 1 commits | cut -d' ' -f3; }
now_ns() { date +%s%N; }
traffic() { # bytes sent and received, segments do not matter
    ss -tinH "sport = :$port" | grep -o 'bytes_acked:[0-9]*\|bytes_received:[0-9]*' |
        awk -F: '{ sum[$1] += $2 } END { printf "%d %d\n", sum["bytes_acked"], sum["bytes_received"] }'
}
joined() { grep -c "\"joined\"" events 2>/dev/null || true; }

printf '%8s %10s %12s %16s %14s %14s %12s\n' members rounds/s 'round (ms)' 'us/member,round' 'cpu us/m,r' 'bytes out/m,r' 'bytes in/m,r'
for n in $sizes; do
    rm -f commits events
    port=$((20000 + RANDOM % 10000)) # below what the kernel hands out
    "$toy" coordinate lockstep "127.0.0.1:$port" commits events 1000000000 5 0 2>coordinator.err &
    coordinator=$!
    for _ in $(seq 100); do [ -s events ] && break; sleep 0.05; done
    for i in $(seq "$n"); do
        "$toy" member "127.0.0.1:$port" "r1.m$i" >/dev/null 2>>members.err &
        members+=($!)
    done
    for _ in $(seq 600); do [ "$(joined)" = "$n" ] && break; sleep 0.1; done
    [ "$(joined)" = "$n" ] || { tail -n 3 coordinator.err members.err >&2; exit 1; }
    sleep 0.5
    read -r out0 in0 < <(traffic)
    r0=$(rounds) c0=$(cpu_ns) t0=$(now_ns)
    sleep 4
    r1=$(rounds) c1=$(cpu_ns) t1=$(now_ns)
    read -r out1 in1 < <(traffic)
    r2=$(rounds)
    awk -v n="$n" -v r="$((r1 - r0))" -v q="$((r2 - r0))" -v c="$((c1 - c0))" -v t="$((t1 - t0))" \
        -v o="$((out1 - out0))" -v i="$((in1 - in0))" 'BEGIN {
        printf "%8d %10.0f %12.3f %16.1f %14.2f %14.0f %12.0f\n", n, r * 1e9 / t, t / 1e6 / r, t / 1e3 / r / n,
            c / 1e3 / r / n, o / q / n, i / q / n }'
    stop
done
