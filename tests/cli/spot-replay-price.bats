#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# spot-replay price: rows, moves that pay, refusals.

bats_require_minimum_version 1.5.0

setup() {
    T=$BATS_TEST_TMPDIR
    set -o pipefail
    { echo time_s,zone,instance_type,market,price_usd_per_h
      for d in $(seq 0 15); do
          echo "$((d * 86400)),us-east-1a,g,spot,1"
          echo "$((d * 86400 + 60)),us-west-2a,g,spot,$((d < 6 ? 2 : 1))"
          echo "$((d * 86400 + 60)),us-west-2a,g,on_demand,0.01"
      done; } >"$T/p.csv"
    printf 'instance_type,gpus,speed\ng,1,1\n' >"$T/types.csv"
}

replay() { spot-replay price --trace "$T/p.csv" --catalogue "$T/types.csv" --work 48h --starts 4 "$@"; }

@test "a row for each policy, on demand left out, moves only where they pay" {
    replay >"$T/out"
    [ "$(head -1 "$T/out")" = policy,usd,usd_min,usd_max,hours,moves,starts,cut ]
    [ "$(wc -l <"$T/out")" = 8 ]
    awk -F, 'NR > 1 && ($2 < 47.99 || $7 != 4 || $8 != 0) { bad = 1 } END { exit bad }' "$T/out"
    replay --policy spot --egress-usd 5 | awk -F, 'NR == 2 { exit $6 != 0 }'
    replay --policy list | grep -q '^dispa-dynamic '
}

@test "what cannot be is refused" {
    run -2 spot-replay price --trace "$T/p.csv"
    run -2 replay --policy best
    sed 's/,2$/,-2/' "$T/p.csv" >"$T/bad.csv"
    run -3 --separate-stderr spot-replay price --trace "$T/bad.csv" --catalogue "$T/types.csv" --work 48h
    [[ "$stderr" == *:3:* ]]
    sed 's/,spot,/,spit,/' "$T/p.csv" >"$T/bad.csv"
    run -3 spot-replay price --trace "$T/bad.csv" --catalogue "$T/types.csv" --work 48h
    run -3 replay --catalogue <(printf 'instance_type,gpus\ng,0\n')
}
