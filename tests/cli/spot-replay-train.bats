#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: compute, first
# Goal: spot-replay train accounts for everything it plays, and refuses what it cannot play.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || exit 1
    job=examples/jobs/bert.json
    T=$BATS_TEST_TMPDIR
    trace 20
}

# trace N [COUNT]: so many minutes, from so many instances on
trace() {
    awk -v N="$1" -v n="${2:-20}" 'BEGIN { print "time_s,available"
        for (i = 0; i < N; i++) { if (i % 7 == 3) n -= 2; if (i % 11 == 5) n += 3
                                  printf "%d,%d\n", 60 * i, n } }' >"$T/t.csv"
}

# The job of few instances and grids, for what has nothing to do with a job: spot, and all with
# them, weigh every grid of every count before they begin, which takes a second of the others.
few() { # MINUTES
    job=examples/jobs/demo.json
    trace "$1" 6
}

play() { spot-replay train --job "$job" --trace "$T/t.csv" --format csv "$@"; }

column() { # NAME: that column of CSV on stdin, header left out
    awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) k = i; next }
        { print $k }'
}

@test "one row per policy, ideal has share 1, optimal bounds the rest" {
    trace 12
    play --policy ideal,optimal,parcae-truth,spot,nowcast,persistence,throughput >"$T/o"
    [ "$(column policy <"$T/o" | tr '\n' ' ')" = \
        'ideal optimal parcae-truth spot nowcast persistence throughput ' ]
    [ "$(column ideal_share <"$T/o" | head -1)" = 1 ]
    column ideal_share <"$T/o" | sed 1d | awk 'NR == 1 { best = $1 } $1 > best + 1e-12 { bad = 1 }
        END { exit bad }'
}

@test "the table for people has every policy and share in at most 100 columns" {
    few 12
    spot-replay train --job $job --trace "$T/t.csv" --policy all --format table >"$T/o"
    [ "$(awk '{ if (length($0) > n) n = length($0) } END { print n }' "$T/o")" -le 100 ]
    for policy in $(spot-replay train --policy list --job x --trace x | awk '{ print $1 }'); do
        [ "$(grep -c "^$policy " "$T/o")" -eq 2 ]
    done
    # the same figures as the machine form has
    play --policy spot | awk -F, 'NR > 1 { printf "%.4f %d %.4f %.4f\n", $3, $14, $7, $12 }' >"$T/a"
    awk '$1 == "spot" { if (++n == 1) printf "%s %s ", $3, $7; else print $2, $7 }' "$T/o" >"$T/b"
    diff "$T/a" "$T/b"
}

@test "a policy that cannot be played is left out beside others, with what to change" {
    job=examples/jobs/demo.json
    printf 'time_s,available\n0,4\n%d,4\n' $((60 * 100001)) >"$T/t.csv"
    run --separate-stderr play --policy ideal,optimal,varuna
    [ "$status" -eq 0 ] && [ "$(column policy <<<"$output" | xargs)" = "ideal varuna" ]
    [[ "$stderr" == *"--interval"* ]]
    run -1 --separate-stderr play --policy optimal
    [[ "$stderr" == *"optimal: 100002 intervals"* ]]
    play --policy ideal,optimal --interval 120 >"$T/o" # not too many
    [ "$(column policy <"$T/o" | xargs)" = "ideal optimal" ]
    run -1 play --policy optimal,optimal --plot "$T/p.gp"
}

@test "a replay that takes long says so while it runs, and what makes it shorter" {
    trace 300 50
    "$(command -v spot-replay)" train --job examples/jobs/gpt-1.5b.json --trace "$T/t.csv" --policy ideal,spot >"$T/o" 2>"$T/said" &
    for _ in $(seq 1200); do # until it is said, which takes 5 s of processor time
        [ -s "$T/said" ] && break
        sleep 0.1
    done
    kill -KILL $!
    grep -q 'warning: spot takes its time: a longer --interval, a smaller --scale' "$T/said"
}

@test "samples can be recomputed from the rows of --steps" {
    play --policy nowcast --steps >"$T/s"
    [ "$(sed -n 1p "$T/s")" = "policy,interval,time_s,available,gained,lost,D,P,spares,cost_s,\
samples,usd,effective_s,reconfigure_s,checkpoint_s,redone_s,redundant_s,idle_s,booting_s,asked_D,asked_P,carry_s" ]
    [ "$(wc -l <"$T/s")" -eq 21 ]
    jq -r '.profile[] | "\(.D) \(.P) \(.samples_per_s)"' $job >"$T/speed"
    # effective machine-seconds / machines * samples per second
    awk -F '[ ,]' 'FILENAME ~ /speed/ { v[$1, $2] = $3; next } FNR == 1 { next }
        { sum += $13 / ($7 * $8) * v[$7, $8]; d = sum - $11; if (d * d > 1e-6 * sum) bad = 1 }
        { t = $13 + $14 + $15 + $16 + $17 + $18 + $19 - $4 * 60; if (t * t > 1e-9) bad = 1 }
        { if ($7 * $8 + $9 != $4) bad = 1 }
        END { exit bad || sum == 0 }' "$T/speed" "$T/s"
}

@test "the sum of the steps is the row of totals" {
    few 20
    [ "$(play --policy spot --steps | column samples | tail -1)" = \
        "$(play --policy spot | column samples)" ]
}

@test "every policy plays, equal inputs give equal bytes" {
    few 12
    play --policy all >"$T/1"
    play --policy all >"$T/2"
    cmp "$T/1" "$T/2"
    [ "$(wc -l <"$T/1")" -eq $(($(spot-replay train --policy list | wc -l) + 1)) ]
}

@test "without a notice nowcast knows as little as persistence" {
    play --notice 0 --policy nowcast,persistence | column samples >"$T/o"
    [ "$(sed -n 1p "$T/o")" = "$(sed -n 2p "$T/o")" ]
}

@test "losses are announced and gains are not, unless --notice says both" {
    few 12 # with two losses and a gain
    for policy in nowcast spot; do
        [ "$(play --notice 120s:0 --policy $policy)" = "$(play --policy $policy)" ]
    done
    job=examples/jobs/bert.json
    trace 20
    [ "$(play --notice 120s:120s --policy nowcast)" != "$(play --policy nowcast)" ]
    [ "$(play --notice 120s --policy nowcast)" = "$(play --notice 120s:120s --policy nowcast)" ]
    job=examples/jobs/gpt-6.7b.json
    # with losses alone to know, no gain is acted on in its own interval
    play --policy nowcast,persistence --steps >"$T/s"
    awk -F, '$1 == "nowcast" && $2 && $5 && $7 * $8 > n { bad = 1 } { n = $4 }
        $1 == "nowcast" && $6 { losses++ } END { exit bad || !losses }' "$T/s"
    play --policy nowcast,persistence >"$T/o"
    column samples <"$T/o" | awk 'NR == 1 { x = $1 } NR == 2 { exit x <= $1 }'
    # a trace that only falls has no gains to know
    awk 'BEGIN { print "time_s,available"; for (i = 0; i < 60; i++) printf "%d,%d\n", 60 * i, 30 - i / 5 }' >"$T/t.csv"
    [ "$(play --policy nowcast)" = "$(play --notice 120s:120s --policy nowcast)" ]
    run -2 play --notice 0:soon
    [[ "$output" == *"--notice"* ]]
    run -2 play --notice 0:1:2
    [[ "$output" == *"--notice"*"1:2"* ]]
}

@test "an unannounced gain is used at once where the grid was chosen for it, else in the next interval" {
    jq '.cost = {restart_s: 10} | .profile = [{D: 1, P: 1, step_s: 8}, {D: 2, P: 1, step_s: 4}, {D: 4, P: 1, step_s: 2.5}]
        | .micro_batch = 1 | .global_batch = 8 | .layers = [{params: 1000, forward_s: .1, backward_s: .2, activation_byte: 1, count: 4}]
        | {schema, name, kind, global_batch, micro_batch, layers, profile, cost}' examples/jobs/demo.json >"$T/j.json"
    awk 'BEGIN { print "time_s,available"; for (i = 0; i < 26; i++) printf "%d,%d\n", 60 * i, i < 20 ? 1 : 4 }' >"$T/t.csv"
    job=$T/j.json play --policy spot,nowcast,persistence --steps |
        awk -F, '$7 * $8 > 1 && !seen[$1]++ { print $1, $2, $10 }' | sort | paste -sd, >"$T/first"
    [ "$(cat "$T/first")" = 'nowcast 21 10,persistence 21 10,spot 20 10' ]
}

@test "a row that may lie above optimal says why, the others cannot" {
    for job in examples/jobs/demo.json examples/jobs/gpt-1.5b.json; do
        case $job in *demo*) trace 12 6 ;; *) trace 12 ;; esac
        play --policy all --notice 120s:120s >"$T/o"
        column may_beat_optimal <"$T/o" | paste -d, <(column policy <"$T/o") <(column samples <"$T/o") - >"$T/why"
        awk -F, '$1 == "optimal" { best = $2 } { x[$1] = $2; why[$1] = $3 }
            END { for (p in x) if (x[p] > best * (1 + 1e-12) && why[p] == "") bad = 1
                  exit bad || why["ideal"] != "free" || why["torchft"] == "" || why["spot"] != "" }' "$T/why"
    done
}

@test "other systems gain by --peer-model generous and lose by as-measured" {
    trace 90
    for model in generous published as-measured; do
        play --peer-model $model --policy varuna,bamboo,oobleck,torchft,torchrun | column samples >"$T/$model"
    done
    paste "$T/generous" "$T/published" "$T/as-measured" | awk '!($1 > $2 && $2 > $3) { bad = 1 } END { exit bad || NR != 5 }'
    few 8
    [ "$(play --peer-model generous --policy spot,optimal)" = "$(play --policy spot,optimal)" ]
    run play --peer-model kind
    [ "$status" -eq 2 ]
}

@test "the demonstration's job tells policies apart: what knows less or pays more is further from optimal" {
    spot-replay train --job examples/jobs/demo.json --trace examples/traces/demo.csv --notice 0 --format csv \
        --policy optimal,spot,persistence,throughput,torchrun >"$T/o"
    [ "$(column policy <"$T/o" | tr '\n' ' ')" = 'optimal spot persistence throughput torchrun ' ]
    column ideal_share <"$T/o" | awk 'NR > 1 && $1 > last - 0.001 { bad = 1 } { last = $1 } END { exit bad }'
}

@test "a job is suspended below its minimum and resumes" {
    printf 'time_s,available\n0,4\n120,1\n240,4\n600,4\n' >"$T/t.csv"
    play --policy spot,parcae-truth,throughput,optimal --steps >"$T/s"
    [ "$(awk -F, '$3 == 120 || $3 == 180' "$T/s" | cut -d, -f7,8 | sort -u)" = 0,0 ]
    awk -F, '$3 == 600 && $7 == 0 { bad = 1 } END { exit bad }' "$T/s"
}

@test "--cost measured charges what the log of a real run shows, to every policy" {
    e() { printf '{"schema":"spot.event/1","event":"%s","time_s":%s,"epoch":%s,"step":%s%s}\n' "$@"; }
    grid() { e quiesce "$1" "$3" "$4"; e migrate "$1" "$3" "$4" ',"restored_byte":0,"moved_byte":0'
        e formed "$2" "$3" "$4" ',"D":1,"P":1,"members":'"$5"; }
    commit() { e step "$1" "$2" "$3"; e committed "$1" "$2" "$3" ',"loss":1,"loss_hex":"3f800000","samples":[]'; }
    { e joined 0 0 0 ',"member":1,"members":1'; e joined 0 0 0 ',"member":2,"members":2'
      grid 0 0 1 0 2; commit 1 1 1; commit 2 1 2; e lost 2.5 1 2 ',"member":1'
      grid 2.5 5 2 2 1; commit 7 2 3; commit 8 2 4; } >"$T/e.jsonl"
    play --policy nowcast,torchrun >"$T/1"
    play --policy nowcast,torchrun --cost measured --events "$T/e.jsonl" -v >"$T/2" 2>"$T/err"
    grep -q '1 changes .* 4 s' "$T/err"
    [ "$(column samples <"$T/1" | head -1)" != "$(column samples <"$T/2" | head -1)" ]
    [ "$(column samples <"$T/1" | tail -1)" != "$(column samples <"$T/2" | tail -1)" ]
    run play --cost measured
    [ "$status" -eq 2 ]
    run play --events "$T/e.jsonl"
    [ "$status" -eq 2 ]
    run play --cost measured --events "$T/none"
    [ "$status" -eq 4 ]
    e quiesce 1 1 0 '' >"$T/e.jsonl"
    run play --cost measured --events "$T/e.jsonl"
    [ "$status" -eq 3 ]
}

@test "the longer a restart takes, the fewer samples" {
    for s in 10 20 30; do
        jq ".cost.restart_s = $s" "$job" >"$T/restart.json"
        job=$T/restart.json play --policy throughput | column samples
    done >"$T/o"
    [ "$(wc -l <"$T/o")" -eq 3 ]
    sort -c -n -r "$T/o"
}

@test "--plot draws a picture of each kind" {
    few 8
    for what in samples grids cost; do
        play --policy spot,nowcast --plot "$T/$what.gp" --picture $what >/dev/null
        grep -q plot "$T/$what.gp"
    done
    # a step that goes on needs no points within
    play --policy on-demand,spot --plot "$T/flat.gp" --picture grids >/dev/null
    [ "$(sed -n '/^\$s1 <</,/^EOD/p' "$T/flat.gp" | grep -c '^[0-9]')" = 2 ]
    # every policy has a panel of its own, whatever their number
    # of all at most eight are drawn, each with its name, colour and no dashes, and the rest is told
    few 5
    for what in samples grids cost; do
        run -0 --separate-stderr play --policy all --plot "$T/all.gp" --picture $what
        jq -nr --arg e "$stderr" '$e | capture("not drawn: (?<names>[^;]*); --policy names others").names' |
            tr -d ' ' | tr , '\n' >"$T/left"
        spot-replay train --policy list | cut -d' ' -f1 | grep -vxFf "$T/left" >"$T/named"
        [ "$(wc -l <"$T/named")" -eq 8 ]
        [ "$(cat "$T/left" "$T/named" | wc -l)" -eq "$(spot-replay train --policy list | wc -l)" ]
        while read -r name; do grep -qE "(title|label 2) '$name'" "$T/all.gp"; done <"$T/named"
        while read -r name; do ! grep -q "'$name'" "$T/all.gp" || false; done <"$T/left"
    done
    # all that are named are drawn, told apart by their dashes
    play --policy "$(spot-replay train --policy list | cut -d' ' -f1 | paste -sd,)" --plot "$T/all.gp" >/dev/null
    grep '^plot ' "$T/all.gp" | grep -oE "lc rgb '[^']*'( dt [0-9]+)?" >"$T/styles"
    [ "$(sort "$T/styles" | uniq -d | wc -l)" -eq 0 ]
    [ "$(wc -l <"$T/styles")" -eq "$(spot-replay train --policy list | wc -l)" ]
    play --policy spot --plot - >"$T/drawn"
    grep -q 'samples trained' "$T/drawn"
    run -1 grep ideal_share "$T/drawn"
    play --policy spot --plot - -o "$T/table" >"$T/again"
    cmp "$T/drawn" "$T/again"
    grep -q ideal_share "$T/table"
}

@test "--plot of one interval draws it without a word of gnuplot's" {
    job=examples/jobs/gpt-6.7b.json
    printf 'time_s,available\n0,18\n10,18\n' >"$T/t.csv"
    for plot in - "$T/p.svg"; do
        run -0 --separate-stderr play --policy nowcast,persistence --plot "$plot"
        [ -z "$stderr" ]
    done
}

@test "what cannot be played is refused with the right status" {
    run spot-replay train --trace "$T/t.csv"
    [ "$status" -eq 2 ]
    run play --policy spto
    [ "$status" -eq 2 ]
    [[ "$output" == *parcae-truth* ]]
    run play --notice soon
    [ "$status" -eq 2 ]
    run play --cost guessed
    [ "$status" -eq 2 ]
    echo 'time_s,available' >"$T/t.csv"
    run play
    [ "$status" -eq 3 ]
    printf 'time_s,available\n0,500\n' >"$T/t.csv"
    run play
    [ "$status" -eq 3 ]
    [[ "$output" == *--scale* ]]
    jq '.profile += [.profile[0] | .D = 64 | .P = 4]' $job >"$T/j.json"
    printf 'time_s,available\n0,4\n' >"$T/t.csv"
    run spot-replay train --job "$T/j.json" --trace "$T/t.csv"
    [ "$status" -eq 3 ]
    [[ "$output" == *'/profile: a grid of 256 instances, a replay prices up to 64'* ]]
    run spot-replay train --job "$T/none" --trace "$T/t.csv"
    [ "$status" -eq 4 ]
}

@test "a job that no count of the trace and no profile can run is exit 1" {
    jq '.memory.P_min = 20 | .memory.P_max = 26 | .memory.D_min = 3' $job >"$T/j.json"
    run spot-replay train --job "$T/j.json" --trace "$T/t.csv"
    [ "$status" -eq 1 ]
}

@test "a job of whose speed nothing is known is refused" {
    for edit in 'del(.profile)' '.profile = []' '.profile |= [.[0] | .M = 2]'; do
        jq "$edit" $job >"$T/j.json"
        run timeout 120 spot-replay train --job "$T/j.json" --trace "$T/t.csv"
        [ "$status" -eq 3 ]
        [[ "$output" == *"has no profile: its speed is not known"* ]]
    done
}

@test "a price that is missing leaves the money columns empty" {
    few 20
    jq 'del(.cost.usd_per_h)' $job >"$T/j.json"
    run --separate-stderr spot-replay train --job "$T/j.json" --trace "$T/t.csv" --policy spot \
        --format csv
    [ "$(column usd <<<"$output")" = '' ]
    jq 'del(.cost.on_demand_usd_per_h)' $job >"$T/j.json"
    run spot-replay train --job "$T/j.json" --trace "$T/t.csv" --policy on-demand
    [ "$status" -eq 3 ]
}

@test "the published decisions are reproduced in every interval" {
    golden=../shared/data/golden/parcae/liveput_res_bert_gbs1024_mbs8.csv
    [ -f $golden ] || skip "needs the published runs"
    awk -F, 'NR == 1 { print "time_s,available"; next } { print 60 * $1 "," $2 }' $golden \
        >"$T/t.csv"
    play --policy throughput,parcae-truth --steps >"$T/s"
    sed 1d $golden | cut -d, -f5,6 >"$T/want"
    sed 1d $golden | cut -d, -f7,8 >>"$T/want"
    sed 1d "$T/s" | cut -d, -f7,8 | cmp - "$T/want"
}

@test "an option that would do nothing is refused by name" {
    cd "$BATS_TEST_TMPDIR" || exit 1
    run -2 spot-replay train --job no --trace no --plot x.jpg # before anything is read
    [[ "$output" == *"'x.jpg'"* ]]
    run -2 spot-replay train --job j --trace t --picture cost
    [[ "$output" == *"--picture"* ]]
    run -2 spot-replay import --from count-log --cap 4 x
    [[ "$output" == *"--cap"* ]]
    run -2 spot-replay generate --events --steps
    [[ "$output" == *"--steps"* ]]
    touch t
    run -2 spot-replay live --trace t --events ./t -- true
    [[ "$output" == *"--events"* ]]
}

@test "--throughput says which speeds are chosen by; policies beyond the table are named" {
    # a table that begins at 4 stages: others are not run, whatever their number of instances
    jq '.memory.P_min = 1 | del(.memory.P_skip) | .profile |= map(select(.P == 4 or .P == 8))' $job >"$T/j.json"
    job=$T/j.json
    awk 'BEGIN { print "time_s,available"
        for (i = 0; i < 60; i++) printf "%d,%d\n", 60 * i, 2 + (i * 7) % 11 }' >"$T/t.csv"
    for policy in spot nowcast optimal parcae persistence; do
        play --policy $policy --steps --throughput table | awk -F, 'NR > 1 && $7 * $8 { n++; bad = bad || ($8 != 4 && $8 != 8) }
            END { exit bad || !n }'
    done
    run -0 --separate-stderr play --policy ideal,spot,varuna-released --throughput table
    [[ "$stderr" == *'warning: varuna-released ran grids'*'--throughput both'* ]]
    [[ "$stderr" != *'spot,'* ]]
    # their share of ideal means nothing, whoever reads the warning
    play -q --policy ideal,spot,varuna-released --throughput table | awk -F, 'NR > 1 { share[$1] = $3 }
        END { exit !(share["ideal"] == 1 && share["spot"] > 0 && share["varuna-released"] == "") }'
    run -0 --separate-stderr play --policy ideal,spot --throughput table
    [ -z "$stderr" ]
    # as in spot-plan train: unasked, also stages between those that were measured
    play --policy spot --steps >"$T/steps"
    cmp "$T/steps" <(play --policy spot --steps --throughput both)
    awk -F, 'NR > 1 && $8 > 4 && $8 < 8 { n++ } NR > 1 && $7 && ($8 < 4 || $8 > 8) { bad = 1 }
        END { exit bad || !n }' "$T/steps"
    # by the curve all of them know the same grids, and none has more than ideal
    run -0 --separate-stderr play --policy ideal,optimal,spot,varuna-released,varuna --throughput law
    [ -z "$(grep -v 'takes its time' <<<"$stderr")" ] # of many grids spot may
    column ideal_share <<<"$output" | awk '$1 > 1 + 1e-12 { bad = 1 } END { exit bad }'
    [ "$(play --policy ideal --throughput law | column samples)" != "$(play --policy ideal | column samples)" ]
    [ "$(play --policy ideal --throughput both)" = "$(play --policy ideal)" ]
    run -2 play --throughput fast
    [[ "$output" == *'expected table, law or both'* ]]
}

@test "all leaves out what the job has no price for" {
    few 12
    jq 'del(.cost.on_demand_usd_per_h)' $job >"$T/j.json"
    run -0 --separate-stderr spot-replay train --job "$T/j.json" --trace "$T/t.csv" --policy all --format csv
    [[ "$stderr" == *"'demo'"* ]]
    play --policy all | grep -v '^on-demand,' >"$T/all"
    diff "$T/all" <(echo "$output")
    run -3 spot-replay train --job "$T/j.json" --trace "$T/t.csv" --policy on-demand
}

@test "a trace of n steps has n + 1 intervals: the last row holds for one" {
    printf 'time_s,available\n0,8\n600,8\n' >"$T/t.csv"
    [ "$(play --policy ideal --steps --interval 60 | wc -l)" -eq 12 ]
}

@test "a trace of two rows a lifetime apart is refused before it takes memory" {
    printf 'time_s,available\n0,3\n1000000000,4\n' >"$T/far.csv"
    run -3 --separate-stderr timeout 60 spot-replay train --job "$job" --trace "$T/far.csv" --interval 60s
    [[ $stderr == *'16666667 intervals of 60 s, the limit is 400000: give a larger --interval, or less of it (--from, --to)'* ]]
    run -0 --separate-stderr timeout 60 spot-replay train --job "$job" --trace "$T/far.csv" --interval 60s --to 600s --policy varuna
}

@test "a migration is carried on and a start is plain, unless Parcae's rules are asked for" {
    job=examples/jobs/gpt-6.7b.json # whose changes outlast an interval
    trace 10
    play --policy throughput --steps >"$T/default"
    play --policy throughput --steps --cost parcae >"$T/parcae"
    # as released a rest costs a restart more, and the first interval broadcasts the state
    for rules in default parcae; do tail -1 "$T/$rules" | cut -d, -f11; done |
        awk 'NR == 1 { x = $1 } NR == 2 { exit !($1 < x) }'
    job=examples/jobs/bert.json # whose first grid has several pipelines
    trace 3
    { play --policy spot --steps | column cost_s | head -1; play --policy spot --steps --cost parcae | column cost_s | head -1; } |
        awk 'NR == 1 { x = $1 } NR == 2 { exit !($1 > x + 0.3) }'
}

@test "the man page names every policy" {
    spot-replay train --policy list --job x --trace x | awk '{ print $1 }' | sort >"$T/there"
    sed -n '/^\.Cm ideal ,/,/[.]$/p' docs/man/spot-replay.1 | sed 's/^\.Cm//; s/[,.]/ /g' |
        tr -s ' ' '\n' | grep . | sort >"$T/named"
    diff "$T/there" "$T/named"
}

@test "Parcae's policies look as far ahead as they are told" {
    for n in 1 12; do play --policy parcae --horizon $n >"$T/$n"; done
    play --policy parcae | cmp - "$T/12" # the job's
    run ! cmp -s "$T/1" "$T/12"
}

@test "a plan after one whose changes took longer has a table of its own size" {
    spot-replay generate --zones 4 --regions 2 --cap 4 --hours 3 --profile stormy --seed 7001 -o "$T/t.csv"
    job=examples/jobs/gpt-6.7b.json
    play --notice 0s:0 --policy spot -q >"$T/out"
    [ "$(wc -l <"$T/out")" = 2 ]
    # as a glibc that looks at its heap sees it
    MALLOC_PERTURB_=165 play --notice 0s:0 --policy spot -q | cmp - "$T/out"
}
