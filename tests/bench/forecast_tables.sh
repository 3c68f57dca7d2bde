#!/bin/sh
# SPDX-License-Identifier: MIT
# The tables of docs/results/forecast.md, as Markdown.
# usage: forecast_tables.sh DATA      spot-predict on PATH, bench_chain beside it or built here
#   DATA  a folder with the public traces and forecast_series.csv: file,interval_s,kind,changes
# MODELS=last,arima,parcae,pool names others, last first and pool last.
set -eu
[ $# -eq 1 ] || { sed -n 's/^# usage: //p' "$0" >&2 && exit 2; }
data=$1 models=${MODELS:-last,arima,parcae,pool}
chain=$(dirname "$(command -v spot-predict)")/bench_chain
[ -x "$chain" ] || chain=$(dirname "$0")/../../build/release/bench/bench_chain
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
held='g4dn-trace.csv us-west-2c us-east-2a us-west-2a_k80_8 04-22-2023/us-east-1c' # every third of its kind by name

spot-predict --version
tail -n +2 "$data/forecast_series.csv" | sort -t, -k 3,3r -k 1,1 | while IFS=, read -r file interval kind _; do
    group=tuned
    for name in $held; do case $file in *"$name"*) group='held out' ;; esac; done
    for origins in 220 20000; do
        spot-predict --quiet --backtest --models "$models" --interval "$interval" --origins $origins --format csv "$data/$file" |
            awk -F, -v OFS=, -v file="$file" -v kind="$kind" -v group="$group" -v origins=$origins '
                NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i }
                NR > 1 { print file, kind, group, origins, $at["model"], $at["step"], $at["crps"], $at["brier_drop"], $at["mae"], $at["cover80"] }'
    done
done >"$tmp/scores"

# CRPS to that of the last value; held out marked; then the geometric means.
awk -F, '
    function short(s) { sub(/^skypilot\//, "", s); sub(/_v100_1\.csv$|\.csv$/, "", s); return s }
    $5 == "last" { last[$1, $4, $6] = $7; brier[$1, $4, $6] = $8 }
    $6 == "all" { if (!(($1) in seen)) { seen[$1] = 1; file[++n] = $1; kind[$1] = $2; group[$1] = $3 }
        if (!($5 in col)) { col[$5] = 1; model[++m] = $5 }
        crps[$1, $4, $5] = $7; drop[$1, $4, $5] = $8; cover[$1, $4, $5] = $10 }
    $5 == "pool" && $4 == 20000 && $6 != "all" { step[$6, $2] += log($7 / last[$1, $4, $6]); held80[$6, $2] += $10; count[$6, $2]++ }
    END {
        printf "\n| series, 220 origins |"; for (k = 2; k <= m; k++) printf " %s |", model[k]; print " Brier of a drop | cover80 |"
        printf "|---|"; for (k = 2; k <= m + 2; k++) printf "---:|"; print ""
        for (i = 1; i <= n; i++) { f = file[i]; printf "| %s%s |", short(f), group[f] == "tuned" ? "" : " *"
            for (k = 2; k <= m; k++) printf " %.3f |", crps[f, 220, model[k]] / crps[f, 220, "last"]
            printf " %.3f | %.3f |\n", drop[f, 220, "pool"] / drop[f, 220, "last"], cover[f, 220, "pool"] }
        print "\n| geometric means of pool | n | to last, 220 origins | Brier | to arima | to parcae | to last, every interval | Brier |\n|---|---:|---:|---:|---:|---:|---:|---:|"
        split("count binary", kinds, " "); split("tuned,held out,all", groups, ",")
        for (a = 1; a <= 2; a++) for (b = 1; b <= 3; b++) { g = 0
            for (x = 1; x <= 6; x++) s[x] = 0
            for (i = 1; i <= n; i++) { f = file[i]; if (kind[f] != kinds[a] || (b < 3 && group[f] != groups[b])) continue
                g++; s[1] += log(crps[f, 220, "pool"] / crps[f, 220, "last"]); s[2] += log(drop[f, 220, "pool"] / drop[f, 220, "last"])
                if (col["arima"]) s[3] += log(crps[f, 220, "pool"] / crps[f, 220, "arima"])
                if (col["parcae"]) s[4] += log(crps[f, 220, "pool"] / crps[f, 220, "parcae"])
                s[5] += log(crps[f, 20000, "pool"] / crps[f, 20000, "last"]); s[6] += log(drop[f, 20000, "pool"] / drop[f, 20000, "last"]) }
            printf "| %s, %s | %d |", kinds[a], groups[b], g; for (x = 1; x <= 6; x++) printf " %.3f |", exp(s[x] / g); print "" }
        printf "\n| step, every interval |"; for (h = 1; h <= 12; h++) printf " %d |", h; print ""
        printf "|---|"; for (h = 1; h <= 12; h++) printf "---:|"; print ""
        for (a = 1; a <= 2; a++) { printf "| %s, CRPS to last |", kinds[a]; for (h = 1; h <= 12; h++) printf " %.3f |", exp(step[h, kinds[a]] / count[h, kinds[a]]); print ""
            printf "| %s, in the 80 %% |", kinds[a]; for (h = 1; h <= 12; h++) printf " %.3f |", held80[h, kinds[a]] / count[h, kinds[a]]; print "" } }' "$tmp/scores"

printf '\n'
for interval in 60 300; do
    # shellcheck disable=SC2046
    "$chain" $interval $(awk -F, -v i=$interval -v d="$data" 'NR > 1 && $3 == "count" && $2 == i { print d "/" $1 }' "$data/forecast_series.csv")
done | sed "s#$data/##"
