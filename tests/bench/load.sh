#!/bin/bash
# SPDX-License-Identifier: MIT
# load.sh DATA - the forecast of load against last value, window mean and negative binomial of the window.
#
# DATA/traces/requests has recorded loads. Mean CRPS over all origins, bins of 10 and 30 s, 1 and 12 steps ahead;
# windows of 12 and 60. `best` is the least of the five in that cell. Once over all origins, and once over the newer
# half of each load, which nothing of the model was chosen on. A load that is too short for its bins is left out.
# spot-predict on PATH.
set -euo pipefail

data=$1/traces/requests
singles=last,ma@12,ma@60,negbin@12,negbin@60

# cells FROM: newer half or whole
rows() {
    local file seconds from interval
    for file in "$data"/*.csv; do
        seconds=$(tail -n 1 "$file" | cut -d, -f1)
        for interval in 10 30; do
            from=0
            [ "$1" = whole ] || from=$(awk "BEGIN { print $seconds / 2 }")
            spot-predict --kind load --backtest --models "$singles,load" --interval "${interval}s" --horizon 12 \
                --origins 100000 --from "$from" --format csv "$file" 2>/dev/null |
                awk -F, -v name="$(basename "$file" .csv) ${interval}s" '$3 == 1 || $3 == 12 {
                    print name "," $3 "," $2 "," $4 "," $6 }' || true
        done
    done
}

for part in whole newer; do
    echo "# $part"
    rows $part | awk -F, '
        function short(x) { return sprintf("%.3f", x) }
        { cell = $1 " +" $2; if (!(cell in n)) order[++cells] = cell; n[cell] = $4; crps[cell, $3] = $5 }
        END {
            m = split("last,ma@12,ma@60,negbin@12,negbin@60,load", model, ",")
            line = "cell,origins,best"
            for (i = 1; i <= m; i++) line = line "," model[i]
            print line
            for (c = 1; c <= cells; c++) {
                best = ""
                for (i = 1; i < m; i++) if (best == "" || crps[order[c], model[i]] < best) best = crps[order[c], model[i]]
                line = order[c] "," n[order[c]] "," short(best)
                for (i = 1; i <= m; i++) {
                    r = crps[order[c], model[i]] / best
                    sum[i] += r; if (r > worst[i]) worst[i] = r
                    line = line "," short(r)
                }
                print line
            }
            line = "mean,,"; for (i = 1; i <= m; i++) line = line "," short(sum[i] / cells); print line
            line = "worst,,"; for (i = 1; i <= m; i++) line = line "," short(worst[i]); print line
        }'
done
