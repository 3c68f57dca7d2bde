#!/bin/sh
# SPDX-License-Identifier: MIT
# The tables of docs/results/train.md, as Markdown.
# usage: train_tables.sh [P3 EDITED [OTHER...]]     spot-replay on PATH
#   P3      Parcae's p3 trace, time_s,available, 683 intervals of 60 s
#   EDITED  the same as its authors edited it for GPT-6.7B and ResNet-152 from interval 508 on
#   OTHER   other traces, time_s,available: spot less nowcast (without a notice: persistence) on each
# Without arguments the first table of examples/traces/typical.csv.
# PART="policies notices" (or peers, doubt, hours, money, others) prints these only.
set -eu
cd "$(dirname "$0")/../.."
if [ $# -lt 2 ]; then
    PART=policies
    set -- examples/traces/typical.csv examples/traces/typical.csv
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
p3=$1 edited=$2
shift 2
jobs='gpt-1.5b gpt-6.7b bert resnet152 vgg19'
peers=varuna,varuna-released,bamboo,bamboo-released,oobleck,torchft,torchrun
BLOCK=60 DRAWS=2000 # intervals of a block, resamples

trace_of() { # job
    case $1 in
    gpt-6.7b) awk -F, 'NR < 616' "$edited" ;;
    resnet152) cat "$edited" ;;
    vgg19) awk -F, 'NR < 616' "$p3" ;;
    *) cat "$p3" ;;
    esac >"$tmp/$1.csv"
}
replay() { # job, options..
    job=$1
    shift
    spot-replay train --job "examples/jobs/$job.json" --trace "$tmp/$job.csv" --cost parcae --format csv --quiet "$@"
}
wanted() { case " ${PART-$1} " in *" $1 "*) ;; *) false ;; esac; }
head_of() { # first columns
    echo
    echo "| $1 | gpt-1.5b | gpt-6.7b | bert | resnet152 | vgg19 |"
    echo "|$(echo "$1" | sed 's/[^|]*/---/g')|---:|---:|---:|---:|---:|"
}
# Of the files "$tmp/JOB.$1", a row for each policy in the order of the first: samples as a share of
# ideal's (share), or usd for a million samples (usd).
across() {
    # shellcheck disable=SC2016
    for job in $jobs; do echo "$tmp/$job.$1"; done | xargs awk -F, -v what="$2" '
        FNR == 1 { n++; for (i = 1; i <= NF; i++) at[$i] = i; next }
        !(($1) in seen) { seen[$1] = 1; name[++m] = $1 }
        { x[$1, n] = $at["samples"]; usd[$1, n] = $at["usd"] } # both from the start on
        END { for (i = 1; i <= m; i++) { printf "| %s |", name[i]
            for (k = 1; k <= n; k++) if (what == "usd") printf " %.2f |", 1e6 * usd[name[i], k] / x[name[i], k]
                else printf " %.4f |", x[name[i], k] / x["ideal", k]
            print "" } }'
}
# As "across .. share", with 95 % of each share over circular blocks of intervals, the same blocks for
# every policy. $1: of the files "$tmp/JOB.$1".
shares() {
    for job in $jobs; do
        awk -F, -v block=$BLOCK -v draws=$DRAWS '
            NR == 1 { for (i = 1; i <= NF; i++) if ($i == "samples") at = i; next }
            !($1 in row) { row[$1] = n_policy + 0; name[n_policy++] = $1; before = n = 0 } # samples are from the start on
            { x[row[$1], n++] = $at - before; before = $at }
            END { srand(20261123); m = int((n + block - 1) / block)
                for (p = 0; p < n_policy; p++) for (i = 0; i < 2 * n; i++) sum[p, i + 1] = sum[p, i] + x[p, i % n]
                for (k = 0; k < draws * m; k++) from[k] = int(n * rand())
                for (p = 0; p < n_policy; p++) {
                    for (k = 0; k < draws; k++) { s = t = 0
                        for (j = 0; j < m; j++) { i = from[k * m + j]; s += sum[p, i + block] - sum[p, i]
                            t += sum[row["ideal"], i + block] - sum[row["ideal"], i] }
                        v[k] = s / t }
                    for (gap = int(draws / 2); gap > 0; gap = int(gap / 2)) for (i = gap; i < draws; i++) { h = v[i]
                        for (j = i; j >= gap && v[j - gap] > h; j -= gap) v[j] = v[j - gap]
                        v[j] = h }
                    printf "%s,%.4f (%.3f, %.3f)\n", name[p], sum[p, n] / sum[row["ideal"], n], v[int(.025 * draws)], v[int(.975 * draws)] } }' "$tmp/$job.$1" >"$tmp/$job.shares"
    done
    # shellcheck disable=SC2046
    (cd "$tmp" && paste -d, $(for job in $jobs; do echo "$job.shares"; done)) | sed 's/, */,/g' | awk -F, '
        { n = 0; out = "| " $1 " |"; for (i = 2; i <= NF; i += 3) out = out " " $i ", " $(i + 1) " |"; print out }'
}
# The mean over intervals of what $1 is above $2 in points of ideal, and 95 % of it over circular
# blocks of intervals drawn anew. $3: notice.
difference() {
    printf '| %s less %s, %s s |' "$1" "$2" "$3"
    for job in $jobs; do
        awk -F, -v a="$1" -v b="$2" -v block=$BLOCK -v draws=$DRAWS '
            NR == 1 { for (i = 1; i <= NF; i++) if ($i == "samples") at = i; next }
            $1 != policy { policy = $1; before = 0 } # samples are from the start on
            { more = $at - before; before = $at }
            $1 == "ideal" { ideal[n++] = more } $1 == a { x[i1++] += more } $1 == b { x[i2++] -= more }
            END { srand(20261123); for (i = 0; i < n; i++) { d += x[i]; all += ideal[i] }
                for (i = 0; i < 2 * n; i++) { px[i + 1] = px[i] + x[i % n]; pi[i + 1] = pi[i] + ideal[i % n] }
                m = int((n + block - 1) / block)
                for (k = 0; k < draws; k++) { s = t = 0
                    for (j = 0; j < m; j++) { i = int(n * rand()); s += px[i + block] - px[i]; t += pi[i + block] - pi[i] }
                    v[k] = 100 * s / t }
                for (gap = int(draws / 2); gap > 0; gap = int(gap / 2)) for (i = gap; i < draws; i++) { h = v[i]
                    for (j = i; j >= gap && v[j - gap] > h; j -= gap) v[j] = v[j - gap]
                    v[j] = h }
                printf " %+.2f (%+.2f, %+.2f) |", 100 * d / all, v[int(.025 * draws)], v[int(.975 * draws)] }' "$tmp/$job.$3"
    done
    echo
}

notices=
if wanted policies || wanted money; then notices=120; fi
if wanted notices || wanted doubt; then notices='120 30 0'; fi
for job in $jobs; do
    trace_of "$job"
    for notice in $notices; do
        replay "$job" --policy all --steps --notice "${notice}s:0" >"$tmp/$job.$notice"
    done
done
if wanted policies; then
    echo "Share of ideal, losses announced 120 s before, 95 % over blocks of an hour"
    head_of policy
    shares 120
fi
if wanted money; then
    echo "USD per million samples"
    head_of policy
    across 120 usd
fi
if wanted notices; then
    for notice in 120 30 0; do
        echo "Share of ideal, losses announced $notice s before"
        head_of policy
        across $notice share
    done
fi
if wanted doubt; then
    echo "Points of ideal, 95 % over blocks of an hour"
    head_of 'difference, notice of losses'
    for notice in 120 30; do difference spot nowcast $notice; done
    difference spot persistence 0
    difference optimal spot 120
    difference spot oobleck 120
    difference spot torchft 120
fi
if wanted doubt; then
    for job in $jobs; do
        replay "$job" --steps --policy ideal,spot,$peers --peer-model generous >"$tmp/$job.120"
    done
    echo "Points of ideal, other systems generous"
    head_of 'difference, notice of losses'
    for peer in varuna bamboo oobleck torchft torchrun; do difference spot $peer 120; done
fi
if wanted peers; then
    for model in published generous as-measured; do
        for notice in 120 30 0; do
            for job in $jobs; do
                replay "$job" --steps --policy ideal,$peers --peer-model $model --notice ${notice}s:0 >"$tmp/$job.peer"
            done
            echo "Other systems, $model, losses announced $notice s before"
            head_of policy
            across peer share
        done
    done
fi
if wanted hours; then
    echo "Hours of different character"
    head_of 'segment | policy'
    for segment in HA-DP:19800:23340 HA-SP:5400:8940 LA-DP:28800:32340 LA-SP:36000:39540; do
        from=${segment#*:}
        for job in $jobs; do
            replay "$job" --steps --policy all --from "${from%:*}" --to "${from#*:}" >"$tmp/$job.hour"
        done
        across hour share | sed "s/^/| ${segment%%:*} /"
    done
fi
wanted others || exit 0
for other; do
    head_of "$(basename "$other" .csv), losses announced before"
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) { if ($i == "available") a = i; if ($i == "time_s") t = i }; next }
        { time[++n] = $t; x[n] = $a; if ($a > most) most = $a }
        END { print "time_s,available"; for (i = 1; i <= n; i++) print time[i] "," int(32 * x[i] / most + .5) }' "$other" >"$tmp/other"
    for job in $jobs; do cp "$tmp/other" "$tmp/$job.csv"; done
    for notice in 120 0; do
        for job in $jobs; do
            replay "$job" --steps --policy ideal,spot,nowcast,persistence --notice ${notice}s:0 --interval 60s >"$tmp/$job.$notice"
        done
        if [ $notice = 0 ]; then difference spot persistence 0; else difference spot nowcast $notice; fi
    done
done
