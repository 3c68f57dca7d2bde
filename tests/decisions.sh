#!/bin/bash
# SPDX-License-Identifier: MIT
# Is what is measured what ships? At prefixes of a trace `spot-replay X --policy spot` and the tools that see the
# prefix alone, have to decide the same.
# usage: decisions.sh JOB TRACE PREFIXES [NOTICE]    spot-predict | spot-plan train; NOTICE in seconds (default: 120); the
#                                                    trace has one series
#        decisions.sh deadline TRACE PREFIXES FROM OPTION...    spot-plan deadline --trace; FROM in seconds, options of both
#        decisions.sh fleet TRACE PREFIXES N [AVAILABILITY [TICK [LOAD RATE]]]    spot-predict | spot-plan fleet --kind replicas; a cold
#                                                    start of one tick; LOAD is on the trace's clock and begins with it, RATE is a replica's
#        decisions.sh serve JOB TRACE LOAD PREFIXES OPTION...    spot-predict | spot-plan serve; options of both
#        decisions.sh share JOBS CLUSTER THROUGHPUT PREFIXES OPTION...    spot-plan share; options of both; POLICY=spot:max-min and so on
# The tools on PATH. Prints one line: how many of how many agree, and each that does not. Fails if one does not.
set -eu

deadline() {
    local trace=$1 prefixes=$2 from=$3
    shift 3
    spot-replay deadline --quiet --trace "$trace" --policy spot --steps --from "${from}s" --format csv "$@" >"$tmp/steps"
    tick=$(awk -F, 'NR == 3 { print $2 }' "$tmp/steps") n=$(($(wc -l <"$tmp/steps") - 1)) same=0 all=0 step=$(((n - 1) / prefixes))
    [ "$step" -gt 0 ] || step=1
    for ((i = n - 1; i > 0 && all < prefixes; i -= step)); do # the last tick is one of them
        # and a row at this tick, which tells what time it is where a trace has rows of changes alone
        awk -F, -v OFS=, -v end="$(awk -v f="$from" -v i="$i" -v t="$tick" 'BEGIN { print f + i * t }')" 'NR == 1 || $1 <= end { print; last = $0 }
            END { $0 = last; if ($1 < end) { $1 = end; print } }' "$trace" >"$tmp/prefix.csv"
        # what the last tick left: mode, work done, time since a launch; the zone where it ran last
        read -r mode done_s launching zone <<<"$(awk -F, -v i="$i" 'NR > 1 && NR <= i + 1 { if ($6 != "") zone = $6; m = $4; d = $5; l = $7 }
            END { printf "%s %.2f %s %s", m, d * 3600, l, zone }' "$tmp/steps")"
        ask=(--now "$mode" --done "$done_s" --elapsed "$(awk -v i="$i" -v t="$tick" 'BEGIN { print i * t }')" --launching "$launching")
        [ -z "$zone" ] || ask+=(--at "$zone")
        spot-plan deadline --quiet --trace "$tmp/prefix.csv" "${ask[@]}" "$@" >"$tmp/plan"
        jq -r '"\(.mode) \(.zone // "")"' "$tmp/plan" >"$tmp/pipe"
        awk -F, -v i="$i" 'NR == i + 2 { print $4 " " $6 }' "$tmp/steps" >"$tmp/replay"
        all=$((all + 1))
        if cmp -s "$tmp/pipe" "$tmp/replay"; then
            same=$((same + 1))
        else
            echo "tick $i: the replay $(cat "$tmp/replay"), the plan $(cat "$tmp/pipe") with ${ask[*]}"
        fi
    done
    echo "deadline, $trace from $from s: $same of $all decisions agree"
    [ "$same" = "$all" ]
}

serve() {
    local job=$1 trace=$2 load=$3 prefixes=$4 n i t usable waiting runs want state status same=0 all=0 step
    shift 4
    spot-replay serve --quiet --job "$job" --trace "$trace" --load "$load" --policy spot --steps --format csv "$@" >"$tmp/steps"
    # of the intervals that begin with a decision, when a request has come: time_s usable waiting runs D P M spares state
    awk -F, -v OFS=, 'NR == FNR { if (FNR == 2) first = $1; next } FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["time_s"] == $at["decided_s"] && $at["time_s"] > first { print $at["time_s"], $at["usable"], $at["waiting"], $at["runs"],
            $at["asked_D"] " " $at["asked_P"] " " $at["asked_M"] " " $at["spares"], $at["state"] }' "$load" "$tmp/steps" >"$tmp/asked"
    n=$(wc -l <"$tmp/asked") step=$((n / prefixes))
    [ "$step" -gt 0 ] || step=1
    for ((i = step; i <= n && all < prefixes; i += step)); do
        IFS=, read -r t usable waiting runs want state <<<"$(sed -n "${i}p" "$tmp/asked")"
        awk -F, -v OFS=, -v t="$t" 'NR == 1 || $1 <= t { print; last = $0 } END { $0 = last; if ($1 < t) { $1 = t; print } }' "$trace" >"$tmp/prefix.csv"
        awk -F, -v t="$t" 'NR == 1 || $1 <= t' "$load" >"$tmp/load.csv"
        echo "$state" >"$tmp/state"
        ask=(--now "$usable" --backlog "$waiting" --current "$runs" --state "$tmp/state")
        spot-predict --quiet --interval 60 "$tmp/prefix.csv" >"$tmp/forecast"
        status=0
        spot-plan serve --job "$job" --forecast "$tmp/forecast" --load "$tmp/load.csv" "${ask[@]}" "$@" >"$tmp/plan" 2>"$tmp/err" || status=$?
        case $status in
        0) jq -r '"\(.next.D) \(.next.P) \(.next.M) \(.spares)"' "$tmp/plan" ;;
        1) echo 0 0 0 0 ;; # nothing holds the model
        *) cat "$tmp/err" ;;
        esac >"$tmp/pipe"
        echo "$want" >"$tmp/replay"
        all=$((all + 1))
        if cmp -s "$tmp/pipe" "$tmp/replay"; then
            same=$((same + 1))
        else
            echo "at $t s: the replay $want, the pipe $(cat "$tmp/pipe") with ${ask[*]} of '$state'"
            cat "$tmp/err"
        fi
    done
    echo "serve, $trace, $load: $same of $all decisions agree"
    [ "$same" = "$all" ]
}

# The jobs that had arrived by a time, as the replay told of them before that round; nothing of later ones. Jobs with a priority that
# are over are there too: what they wanted is what the forecast learns from.
jobs_at() { # TIME
    awk -F, -v OFS=, -v now="$1" 'FNR == 1 { file++; for (i = 1; i <= NF; i++) at[file, $i] = i }
        file == 1 && FNR > 1 && $6 < now && $7 > ended[$2] { ended[$2] = $7 }
        file == 1 && FNR > 1 && $6 == now { told[$2] = $8 OFS $9 OFS $10 OFS $11 OFS $12 }
        file == 2 && FNR == 1 { n = split("id arrival_s kind steps scale weight slo_s scale_min scale_max priority", name, " ")
            for (k = 1; k <= n; k++) if ((2, name[k]) in at) row = row name[k] OFS
            print row "done,unsaved,on,on_workers,isolated_s" ((2, "priority") in at ? ",ended_s" : "") }
        file == 2 && FNR > 1 && $at[2, "id"] in told { row = ""
            for (k = 1; k <= n; k++) if ((2, name[k]) in at) row = row $at[2, name[k]] OFS
            print row told[$at[2, "id"]] ((2, "priority") in at ? "," : "") }
        file == 2 && FNR > 1 && (2, "priority") in at && !($at[2, "id"] in told) && $at[2, "id"] in ended { row = ""
            for (k = 1; k <= n; k++) if ((2, name[k]) in at) row = row $at[2, name[k]] OFS
            print row $at[2, "steps"] ",0,,0,0," ended[$at[2, "id"]] }' "$tmp/steps" "$jobs"
}

share() {
    local jobs=$1 cluster=$2 throughput=$3 prefixes=$4 same=0 all=0 now
    shift 4
    spot-replay share --jobs "$jobs" --cluster "$cluster" --throughput "$throughput" --policy "${POLICY-spot}" --steps --format csv "$@" >"$tmp/steps"
    awk -F, 'NR > 1 { print $6 }' "$tmp/steps" | uniq >"$tmp/times"
    step=$(($(wc -l <"$tmp/times") / prefixes))
    [ "$step" -gt 0 ] || step=1
    while read -r now && [ "$all" -lt "$prefixes" ]; do
        jobs_at "$now" >"$tmp/jobs.csv"
        spot-plan share --jobs "$tmp/jobs.csv" --cluster "$cluster" --throughput "$throughput" --time "${now}s" --policy "${POLICY-spot}" "$@" |
            jq -r '.run[] | "\(.job) \(.instance_type) \(.workers)"' | sort >"$tmp/pipe"
        awk -F, -v now="$now" 'NR > 1 && $6 == now && $3 != "" { n[$2 " " $3] += $5 } END { for (k in n) print k, n[k] }' "$tmp/steps" |
            sort >"$tmp/replay"
        all=$((all + 1))
        if cmp -s "$tmp/pipe" "$tmp/replay"; then
            same=$((same + 1))
        else
            echo "at $now s, replay and plan:"
            diff "$tmp/replay" "$tmp/pipe" || true
        fi
    done < <(awk -v step="$step" 'NR % step == 0' "$tmp/times")
    echo "share, ${POLICY-spot}, $jobs: $same of $all decisions agree"
    [ "$same" = "$all" ]
}

fleet() {
    local trace=$1 prefixes=$2 wanted=$3 availability=${4:-.999} tick=${5:-} load=${6:-} rate=${7:-} i=0 n step now same=0 all=0
    local replay=(--trace "$trace" --n "$wanted" --availability "$availability") plan=(--n "$wanted" --availability "$availability")
    [ -z "$tick" ] || replay+=(--tick "$tick")
    [ -z "$load" ] || { replay+=(--load "$load" --per-replica "$rate") && plan+=(--requests "$tmp/load.csv" --per-replica "$rate"); }
    spot-replay fleet --quiet --policy spot --steps --format tsv "${replay[@]}" >"$tmp/steps"
    # a series a line, sorted as the tools do: zone, type
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        NR > 1 { print $at["zone"] "/" (at["instance_type"] ? $at["instance_type"] : "") }' "$trace" | LC_ALL=C sort -u -t / -k 1,1 -k 2,2 >"$tmp/series"
    { echo instance_type,spot_usd_per_h,on_demand_usd_per_h
      cut -d / -f 2 "$tmp/series" | sort -u | awk '{ print ($0 == "" ? "any" : $0) ",0.918,3.06" }'; } >"$tmp/catalogue.csv"
    n=$(($(wc -l <"$tmp/steps") - 1)) step=$(((n - 1) / prefixes))
    [ "$step" -gt 0 ] || step=1
    tick=$(awk -F'\t' 'NR == 2 { t = $2 } NR == 3 { print $2 - t }' "$tmp/steps")
    for ((i = step; i < n && all < prefixes; i += step)); do
        # rows up to this tick, and one at it: the forecast is of then
        now=$(awk -F'\t' -v i="$i" 'NR == i + 2 { print $2 }' "$tmp/steps")
        awk -F, -v OFS=, -v t="$now" 'NR == 1 { print } NR > 1 && $1 <= t { print; if ($1 >= end) end = $1; last = $0 }
            END { $0 = last; if (end < t) { $1 = t; print } }' "$trace" >"$tmp/prefix.csv"
        [ -z "$load" ] || awk -F, -v t="$now" 'NR == 1 || $1 < t' "$load" >"$tmp/load.csv"
        # what ran after the last one, and the state
        IFS=$'\t' read -r demand ran state <<<"$(awk -F'\t' -v i="$i" 'NR == i + 1 { print $5 "\t" $9 "\t" $10 }' "$tmp/steps")"
        echo "$state" >"$tmp/state"
        spot-predict --quiet --interval "$tick" "$tmp/prefix.csv" >"$tmp/forecast"
        # less what is lost by now, of which nothing starts: one tick is over
        current=$(jq -r --arg ran "$ran" --rawfile names "$tmp/series" '[$names / "\n", ($ran | split(" ") | map(tonumber))] | transpose
            | map(select(.[1])| {(.[0]): .[1]}) | add as $n | [$f[0].series[] | "\(.zone)/\(.instance_type // "")" as $k
            | "\($k)=\([$n[$k] // 0, .now] | min)"] | join(",")' -n --slurpfile f "$tmp/forecast")
        spot-plan fleet --kind replicas --catalogue "$tmp/catalogue.csv" --forecast "$tmp/forecast" --current "$current,on-demand=$demand" \
            --state "$tmp/state" "${plan[@]}" >"$tmp/plan" 2>"$tmp/err" || cat "$tmp/err"
        zones=$(jq -r --rawfile names "$tmp/series" '.buy as $b | $names | rtrimstr("\n") / "\n" | map(. as $k | [$b[]
            | select(.market == "spot" and "\(.zone)/\(.instance_type)" == $k) | .count] | add // 0) | join(" ")' "$tmp/plan")
        printf '%s\t%s\t%s\n' "$zones" "$(jq '[.buy[] | select(.market != "spot") | .count] | add // 0' "$tmp/plan")" "$(cat "$tmp/state")" >"$tmp/pipe"
        awk -F'\t' -v i="$i" 'NR == i + 2 { print $9 "\t" $5 "\t" $10 }' "$tmp/steps" >"$tmp/replay"
        all=$((all + 1))
        if cmp -s "$tmp/pipe" "$tmp/replay"; then
            same=$((same + 1))
        else
            echo "tick $i: the replay $(cat "$tmp/replay"), the plan $(cat "$tmp/pipe") with $current,on-demand=$demand"
        fi
    done
    echo "fleet of $wanted, $trace: $same of $all decisions agree"
    [ "$same" = "$all" ]
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
case $1 in
deadline | fleet | serve | share)
    "$@"
    exit
    ;;
esac
job=$1 trace=$2 prefixes=$3 notice=${4:-120}

spot-replay train --quiet --job "$job" --trace "$trace" --policy spot --steps --notice "${notice}s:0" \
    --format csv >"$tmp/steps"
interval=$(jq '.cost.interval_s // 60' "$job")
horizon=$(jq '.cost.look_ahead // 12' "$job")
profiled=$(jq '[.profile[] | .D * .P] | max' "$job")
told=losses
[ "$notice" != 0 ] || told=none

field() { # ROW COLUMN of --steps
    awk -F, -v row="$1" -v name="$2" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
        NR > 1 && $2 == row { print $at[name] }' "$tmp/steps"
}

n=$(($(wc -l <"$tmp/steps") - 1)) same=0 all=0
step=$(((n - 1) / prefixes))
[ "$step" -gt 0 ] || step=1
for ((i = step; i < n && all < prefixes; i += step)); do
    awk -F, -v i="$i" 'NR == 1 { print "time_s,available" } NR > 1 && $2 < i { print $3 "," $4 }' "$tmp/steps" >"$tmp/prefix.csv"
    cap=$(awk -F, -v cap="$profiled" 'NR > 1 && $2 > most { most = $2 } END { while (cap < most) cap *= 2; print cap }' "$tmp/prefix.csv")
    # losses that are told: of this interval, and of those that begin before the notice is over
    announced=$(awk -F, -v i="$i" -v t="$interval" -v notice="$notice" 'NR > 1 && $2 >= i && notice > 0 &&
        ($2 == i || ($2 - i) * t < notice) { lost[++n] = $6; if ($6) last = n }
        END { for (k = 1; k <= last; k++) printf "%s%d", (k > 1 ? "," : ""), -lost[k] }' "$tmp/steps")
    ask=(--now "$(field $((i - 1)) available)" --starts next --told "$told")
    d=$(field $((i - 1)) D) p=$(field $((i - 1)) P)
    [ "$d" = 0 ] || ask+=(--current "${d}x$p" --pending "$(field $((i - 1)) carry_s)")
    [ -z "$announced" ] || ask+=(--announced="$announced")
    spot-predict --interval "$interval" --horizon "$horizon" --cap "$cap" "$tmp/prefix.csv" |
        spot-plan train --job "$job" --forecast - "${ask[@]}" 2>"$tmp/err" |
        jq -r '"\(.next.D) \(.next.P)"' >"$tmp/pipe"
    echo "$(field "$i" asked_D) $(field "$i" asked_P)" >"$tmp/replay"
    all=$((all + 1))
    if cmp -s "$tmp/pipe" "$tmp/replay"; then
        same=$((same + 1))
    else
        echo "interval $i: the replay $(cat "$tmp/replay"), the pipe $(cat "$tmp/pipe") with ${ask[*]}"
        cat "$tmp/err"
    fi
done
echo "$job, $trace, notice $notice s: $same of $all decisions agree"
[ "$same" = "$all" ]
