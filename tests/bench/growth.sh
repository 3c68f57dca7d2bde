#!/bin/bash
# SPDX-License-Identifier: MIT
# How time and memory grow with the size of what a tool is given: five sizes over two decades, processor time (the
# best of three runs below a second), peak memory, and the exponents of both: `all` fitted to every size, `top` between
# the two largest, where the start of a program hides nothing. As Markdown.
# usage: growth.sh [CASE...]      of those below; all of them: two minutes of a core. GNU time is needed.
set -euo pipefail
shopt -s inherit_errexit # a run that fails is no row: it ends this
cd "$(dirname "$0")/../.."
PATH="$PWD/build/release/bin:$PWD/build/release/tests:$PATH"
here=$PWD tmp=$(mktemp -d) server=''
cleanup() {
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$tmp"
}
trap cleanup EXIT
cd "$tmp"

run() { # COMMAND...: "seconds kB"; of GNU time only the memory, since it counts hundredths
    local TIMEFORMAT='%3U %3S'
    { time /usr/bin/time -o peak -f %M "$@" >/dev/null 2>errors; } 2>spent || { tail -n 3 errors >&2; return 1; }
    awk -v kb="$(tail -n 1 peak)" '{ printf "%.3f %d\n", $1 + $2, kb }' spent
}
best() { # COMMAND...: of three, or of one that takes long
    local first
    first=$(run "$@")
    { echo "$first"; [ "${first%%.*}" -gt 0 ] || { run "$@"; run "$@"; }; } | sort -g | head -n 1
}
row() { # SIZE COMMAND...: "size seconds kB"
    local got
    got=$("${@:2}")
    echo "$1 $got"
}
law() { # "NAME | WHAT": a row from lines "size seconds kB"
    awk -v name="$1" '
        function fit(y,   i, sx, sy, sxx, sxy) {
            for (i = 1; i <= NR; i++) { sx += log(x[i]); sy += log(y[i]); sxx += log(x[i]) ^ 2; sxy += log(x[i]) * log(y[i]) }
            return (NR * sxy - sx * sy) / (NR * sxx - sx * sx)
        }
        function top(y) { return log(y[NR] / y[NR - 1]) / log(x[NR] / x[NR - 1]) }
        function list(y, form,   i, s) { for (i = 1; i <= NR; i++) s = s (i > 1 ? ", " : "") sprintf(form, y[i]); return s }
        { x[NR] = $1; s[NR] = $2 > .001 ? $2 : .001; mb[NR] = $3 / 1e3 }
        END { printf "| %s: %s | %s | %.2f, %.2f | %s | %.2f, %.2f |\n", name, list(x, "%d"), list(s, "%.3f"), fit(s), top(s),
              list(mb, "%.0f"), fit(mb), top(mb) }'
}
sizes() { # LARGEST: five
    awk -v most="$1" 'BEGIN { for (i = 4; i >= 0; i--) printf "%d\n", most / 10 ^ (i / 2) + .5 }'
}

trace() { # ROWS
    spot-replay generate --profile typical --hours "$(awk "BEGIN { print $1 / 60 }")" --seed 1
}
describe() {
    for n in $(sizes 10000000); do
        trace "$n" >trace.csv
        row "$n" best spot-replay describe --format csv trace.csv
    done
}
predict() {
    for n in $(sizes 100000); do
        trace "$n" >trace.csv
        row "$n" best spot-predict trace.csv
    done
}
train() {
    for n in $(sizes 3000); do
        trace "$n" >trace.csv
        row "$n" best spot-replay train -q --job "$here/examples/jobs/bert.json" --trace trace.csv --policy spot
    done
}
machines() {
    for n in $(sizes 1000); do
        awk -v n="$n" 'BEGIN { srand(1); print "time_s,available"; x = n
            for (i = 0; i < 400; i++) {
                u = rand(); x += u < .1 ? -1 - int(3 * rand()) : u < .2 ? 1 + int(3 * rand()) : 0
                x = x < .9 * n ? int(.9 * n) : x > n ? n : x; print 60 * i "," x } }' >trace.csv
        spot-predict trace.csv >forecast.json
        row "$n" best spot-plan train -q --throughput law --job "$here/examples/jobs/gpt-1.5b.json" --forecast forecast.json
    done
}
serving() {
    spot-replay generate --hours 1920 --cap 16 --seed 1 --steps >trace.csv
    for n in $(sizes 138240); do
        spot-replay generate --kind load --rate .02 --requests "$n" --seed 1 >load.csv
        awk -F, -v end="$(tail -n 1 load.csv | cut -d, -f1)" 'NR == 1 || $1 <= end + 60' trace.csv >part.csv
        row "$n" best spot-replay serve -q --job "$here/examples/serve/gpt-20b.json" --policy spot --trace part.csv --load load.csv
    done
}
offers() { # types of few GPUs to many, six sizes of requests, both markets
    for n in $(sizes 200); do
        awk -v n="$n" 'BEGIN {
            srand(1)
            print "instance_type,gpus,spot_usd_per_h,on_demand_usd_per_h" >"catalogue.csv"
            for (i = 0; i < n; i++) {
                speed[i] = exp(3 * rand()); usd = speed[i] * (.8 + .4 * rand())
                printf "t%d,1,%.4f,%.4f\n", i, .3 * usd, usd >"catalogue.csv"
            }
            printf "{\"schema\": \"spot.demand/1\", \"buckets\": [" >"load.json"
            for (b = 0; b < 6; b++) {
                printf "%s{\"name\": \"b%d\", \"rate_per_s\": %d, \"per_s\": {", b ? ", " : "", b, 3 + 5 * b >"load.json"
                for (i = 0; i < n; i++) printf "%s\"t%d\": %.4f", i ? ", " : "", i, speed[i] / (1 + b) * (.8 + .4 * rand()) >"load.json"
                printf "}}" >"load.json"
            }
            print "]}" >"load.json"
        }'
        row "$n" best spot-plan fleet -q --kind serve --market on-demand --catalogue catalogue.csv --load load.json
    done
}
assign() { # by costs: a problem of n machines has n * n, and each is read
    for n in 200 356 632 1125 2000; do
        awk -v n="$n" 'BEGIN { srand(7); printf "{\"cost\":["
            for (i = 0; i < n; i++) { printf i ? ",[" : "["; for (j = 0; j < n; j++) printf j ? ",%d" : "%d", 1e6 * rand(); printf "]" }
            print "]}" }' >costs.json
        row "$((n * n))" best spot-migrate assign costs.json
    done
}
members() { # the processor time of all; the memory of the largest, the coordinator
    seq 1 3000 >corpus
    for n in $(sizes 300); do
        row "$n" run spot-run train -q --data corpus --layers 2 --width 32 --heads 2 --seq 16 --shards 2 \
            --global-batch "$n" --steps 1 --workers "$n"
    done
}
of_server() { # "seconds kB" of the server so far
    awk -v tick="$(getconf CLK_TCK)" '{ print ($14 + $15) / tick }' "/proc/$server/stat" | tr '\n' ' '
    awk '$1 == "VmHWM:" { print $2 }' "/proc/$server/status"
}
clients() { # beside 200 requests of 16 clients
    seq 1 3000 >corpus
    spot-run train -q --data corpus --layers 2 --width 32 --heads 2 --seq 64 --global-batch 4 --steps 1 --save model >/dev/null
    for n in $(sizes 10000); do
        spot-run serve -q --model model --http unix:s --listen unix:j --workers 1 --linger 0s 2>errors &
        server=$!
        until [ -S s ]; do kill -0 "$server"; done
        load unix:s n=200 clients=16 in=8 out=8 plain=1 idle="$n" >/dev/null 2>>errors || { tail -n 3 errors >&2; exit 1; }
        echo "$n $(of_server)"
        kill "$server"
        wait "$server" || true
        server=''
        rm -f s j
    done
}

declare -A of=(
    [describe]='spot-replay describe | rows'
    [predict]='spot-predict | rows'
    [train]='spot-replay train --policy spot | intervals'
    [machines]='spot-plan train | machines'
    [serving]='spot-replay serve --policy spot | requests'
    [offers]='spot-plan fleet | types'
    [assign]='spot-migrate assign | costs'
    [members]='spot-run train, one step | members'
    [clients]='spot-run serve, 200 requests | idle clients'
)
[ $# -gt 0 ] || set -- describe predict train machines serving offers assign members clients
echo "| tool | size | processor s | exponent: all, top | peak MB | exponent: all, top |"
echo "|---|---|---|---:|---|---:|"
for case in "$@"; do
    "$case" >rows
    law "${of[$case]}" <rows
done
