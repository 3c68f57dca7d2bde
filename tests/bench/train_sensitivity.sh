#!/bin/sh
# SPDX-License-Identifier: MIT
# How much the rows of other systems in docs/results/train.md hang on their constants: each constant
# at half and at twice its value, the others as they are. Shares of ideal, and who changes places.
# usage: train_sensitivity.sh [P3 EDITED]     bench_peers of build/release/bench
#   P3, EDITED  as in train_tables.sh; without them examples/traces/typical.csv for every job
# MODEL=generous (or as-measured) changes those of another model.
set -eu
cd "$(dirname "$0")/../.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
p3=${1-} edited=${2-} model=${MODEL-published}
jobs='gpt-1.5b gpt-6.7b bert resnet152 vgg19'
peers=varuna,bamboo,oobleck,torchft,torchrun

trace_of() { # job
    if [ -z "$edited" ]; then
        cat examples/traces/typical.csv
        return
    fi
    case $1 in
    gpt-6.7b) awk -F, 'NR < 616' "$edited" ;;
    resnet152) cat "$edited" ;;
    vgg19) awk -F, 'NR < 616' "$p3" ;;
    *) cat "$p3" ;;
    esac
}
play() { # job, policies, constants..: policy,share
    job=$1 policies=$2
    shift 2
    build/release/bench/bench_peers "examples/jobs/$job.json" "$tmp/$job.csv" "$policies" rules=parcae model="$model" "$@" |
        awk -F, 'NR > 1 { print $1 "," $3 }'
}

build/release/bench/bench_peers constants model="$model" | awk '$2 > 0 { split($1, part, "."); print part[1], ++n[part[1]], $1, $2, $3 }' >"$tmp/constants"
most=$(awk '$2 > most { most = $2 } END { print most }' "$tmp/constants")
for job in $jobs; do
    trace_of "$job" >"$tmp/$job.csv"
    play "$job" all | sed "s/^/$job,,,/" >>"$tmp/rows"
    for k in $(seq "$most"); do # a constant of each system at once: no system is charged another's
        for times in .5x 2x; do
            # half the stages of Bamboo do not hold the model: the least that do. One word each.
            # shellcheck disable=SC2046
            play "$job" $peers $(awk -v k="$k" -v t=$times '$2 == k { print $3 "=" ($3 == "bamboo.stages" && t == ".5x" ? 1 : t) }' "$tmp/constants") |
                awk -F, -v k="$k" -v t=$times -v j="$job" 'NR == FNR { split($0, w, " "); if (w[2] == k) name[w[1]] = w[3]; next }
                    $1 in name { print j "," name[$1] "," t "," $0 }' "$tmp/constants" - >>"$tmp/rows"
        done
    done
done
echo "Share of ideal at half / twice the value ($model), and the rank among all policies where it changes"
echo
echo '| constant | gpt-1.5b | gpt-6.7b | bert | resnet152 | vgg19 | rank |'
echo '|---|---:|---:|---:|---:|---:|---|'
awk -F, -v jobs="$jobs" '
    NR == FNR { split($0, w, " "); peer[++n] = w[1]; name[n] = w[3]; value[n] = sprintf("%.3g %s", w[4], w[5]); next }
    $2 == "" { base[$1, $4] = $5; if ($4 != "ideal") policy[$4] = 1; next }
    { x[$1, $2, $3] = $5 }
    function rank(job, who, share, p, r) { r = 1; for (p in policy) if (p != who && base[job, p] + 0 > share + 0) r++; return r }
    END { m = split(jobs, job, " ")
        for (i = 1; i <= n; i++) {
            if (peer[i] != before) { before = peer[i]; printf "| **%s** as it is, rank |", before
                for (k = 1; k <= m; k++) printf " %.4f, %d |", base[job[k], before], rank(job[k], before, base[job[k], before])
                print " |" }
            printf "| %s, %s |", name[i], value[i]; moved[1] = moved[2] = ""
            for (k = 1; k <= m; k++) {
                was = rank(job[k], peer[i], base[job[k], peer[i]])
                printf " %.4f / %.4f |", x[job[k], name[i], ".5x"], x[job[k], name[i], "2x"]
                for (t = 1; t <= 2; t++) { is = rank(job[k], peer[i], x[job[k], name[i], t == 1 ? ".5x" : "2x"])
                    if (is != was) moved[t] = moved[t] (moved[t] == "" ? "" : ", ") job[k] " " was " to " is } }
            print " " (moved[1] == "" ? "" : "half: " moved[1] (moved[2] == "" ? "" : "; ")) (moved[2] == "" ? "" : "twice: " moved[2]) " |" } }' "$tmp/constants" "$tmp/rows"
