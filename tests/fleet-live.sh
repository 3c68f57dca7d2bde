#!/bin/bash
# SPDX-License-Identifier: MIT
# A live fleet beside its replay: examples/demo-fleet.sh on several traces of three zones, a minute in a second. Machines are killed
# without a notice, as in the replay; the cold start is what was measured at the begin.
# usage: fleet-live.sh [SECONDS of each] [SEED:FROM...]
# Goals: availability within 1 point, cost within 3 %, no request failed.
set -eu
here=$(dirname "$(readlink -f "$0")")
seconds=${1:-80}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- 44:6960 45:3600 46:7200
printf '%-12s %s\n' '' 'availability: live replayed points    cost: live replayed percent    failed' 
for one; do
    out=$(SPOT_DEMO_SECONDS=$seconds SPOT_DEMO_SEED=${one%:*} SPOT_DEMO_FROM=${one#*:} SPOT_DEMO_GRACE=0 "$here/../examples/demo-fleet.sh" 2>/dev/null) || true
    awk -v one="$one" '/^share of time/ { live = $7; said = $8 } /^cost/ { paid = $6; cost = $7 } $1 == "failed" { failed = $2 }
        END { printf "%-12s %18.3f %8.3f %6.1f %13.3f %8.3f %7.1f %9s\n", one, live, said, 100 * (live - said), paid, cost, (cost + 0 ? 100 * (paid / cost - 1) : 0), failed }' <<<"$out"
done
