#!/bin/sh
# SPDX-License-Identifier: MIT
# CPU time of a forecast of 12 steps here, and of the same ARIMA(1,1,0) on 60 changes in
# statsmodels and R where they are installed, all in one run on one trace.
# usage: forecast.sh [trace.csv]      spot-predict on PATH; PYTHON and RSCRIPT name other programs
set -eu
trace=${1:-$(dirname "$0")/../../examples/trace.csv}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

spot-predict --backtest --models last,arima,ses,markov,birthdeath,knn,context,pool --origins 2000 \
    --format csv "$trace" |
    awk -F, '$3 == "all" { n[$2]++; sum[$2] += $9; if (n[$2] == 1) order[++m] = $2 }
        END { for (i = 1; i <= m; i++) printf "%-24s %12.2f us\n", order[i], sum[order[i]] / n[order[i]] }' |
    tee "$tmp/ours"
ours=$(awk '$1 == "arima" { print $2 }' "$tmp/ours")

cat >"$tmp/peer.py" <<'PY'
import sys, time, warnings
warnings.simplefilter("ignore")
from statsmodels.tsa.arima.model import ARIMA
rows = [line.split(",") for line in open(sys.argv[1])][1:]
first = rows[0][1]
t = [(float(r[0]), int(r[3])) for r in rows if r[1] == first]
y, i = [], 0
for s in range(int(t[-1][0] // 60) + 1):
    while i + 1 < len(t) and t[i + 1][0] <= s * 60: i += 1
    y.append(t[i][1])
windows = [y[k:k + 61] for k in range(0, len(y) - 61, max(1, (len(y) - 61) // 30)) if len(set(y[k:k + 61])) > 1]
spent = []
for w in windows:
    at = time.process_time()
    ARIMA([float(v) for v in w], order=(1, 1, 0), trend="n").fit().get_forecast(12).se_mean
    spent.append(time.process_time() - at)
spent.sort()
print(spent[len(spent) // 2] * 1e6)
PY
cat >"$tmp/peer.R" <<'R'
d <- read.csv(commandArgs(TRUE)[1]); d <- d[d$zone == d$zone[1], ]
grid <- seq(0, max(d$time_s), 60)
y <- d$available[findInterval(grid, d$time_s)]
k <- seq(1, length(y) - 61, length.out = 30); spent <- c()
for (i in floor(k)) { w <- y[i:(i + 60)]; if (length(unique(w)) < 2) next
  at <- system.time(for (r in 1:20) predict(arima(w, c(1, 1, 0), method = "ML"), 12))
  spent <- c(spent, (at[1] + at[2]) / 20) }
cat(median(spent) * 1e6, "\n")
R
peer() { # name, command..
    name=$1
    shift
    if us=$("$@" "$trace" 2>/dev/null); then
        awk -v name="$name" -v us="$us" -v ours="$ours" \
            'BEGIN { printf "%-24s %12.2f us  %.0f times arima here\n", name, us, us / ours }'
    else
        echo "$name is not installed"
    fi
}
peer 'statsmodels ARIMA' "${PYTHON:-python3}" "$tmp/peer.py"
peer 'R stats::arima' "${RSCRIPT:-Rscript}" "$tmp/peer.R"
