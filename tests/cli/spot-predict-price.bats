#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs
# spot-predict --kind price: prices of zones and types as distributions, and how good they were.
bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    set -o pipefail
    # a price that stands for 4 to 6 hours and then mostly moves on the same way; one that never moved
    awk 'BEGIN { srand(1); print "time_s,zone,instance_type,market,price_usd_per_h"; p = 1; way = .004
        print "0,a,g,on_demand,3"; print "0,b,g,spot,.7"
        for (t = 0; t < 3000000; t += 3600 * (4 + int(3 * rand()))) {
            printf "%d,a,g,spot,%.4f\n", t, p; if (rand() < .25) way = -way; p *= exp(way * (.5 + rand())) } }' >p.csv
}

price() { spot-predict --kind price --no-provenance "$@"; }

@test "a forecast is a spot.price/1: quantiles rise, means lie among them, what never moved stays" {
    price p.csv >f
    jq -e '.schema == "spot.price/1" and .interval_s == 3600 and .horizon == 12 and .model == "best" and (.series | length) == 3' f
    jq -e '[.series[] | [.zone, .market]] == [["a", "spot"], ["a", "on_demand"], ["b", "spot"]]' f
    jq -e 'all(.series[]; . as $s | ([.price[].step] == [range(1; 13)])
        and all(.price[]; .quantiles_usd_per_h == (.quantiles_usd_per_h | sort) and (.quantiles_usd_per_h | length) == 7
            and .lower_prob + .higher_prob <= 1.000001)
        and (([.price[].mean_usd_per_h] | add / 12) - .mean_usd_per_h | fabs < 1e-9))' f
    jq -e 'all(.series[1, 2]; .now_usd_per_h as $now | all(.price[]; .mean_usd_per_h == $now and .lower_prob == 0 and .higher_prob == 0))' f
    # further ahead a move is likelier, and the spread wider
    jq -e '.series[0].price | (.[11].lower_prob + .[11].higher_prob) > (.[0].lower_prob + .[0].higher_prob)
        and (.[11].quantiles_usd_per_h | .[6] - .[0]) > (.[0].quantiles_usd_per_h | .[6] - .[0])' f
    cmp f <(price - <p.csv)
    { head -1 p.csv; sed 1d p.csv | sort -r; } >mixed.csv # rows in any order
    cmp f <(price mixed.csv)
}

@test "rows and tables have the columns of the manual, models are those asked for" {
    price --format csv --horizon 2 p.csv >rows
    [ "$(head -1 rows)" = zone,instance_type,market,time_s,now_usd_per_h,step,mean_usd_per_h,p05,p10,p25,p50,p75,p90,p95,lower,higher ]
    [ "$(wc -l <rows)" -eq 7 ]
    price --format table --horizon 1 p.csv | grep -q 'mean_usd_per_h'
    price --model last p.csv | jq -e 'all(.series[]; .model == "last" and .price[0].quantiles_usd_per_h[0] == .now_usd_per_h)'
    price --model steps@100 --interval 30m p.csv | jq -e '.model == "steps@100" and .interval_s == 1800 and .series[0].model == "steps"'
}

@test "a backtest scores models, and nothing of the future is in a forecast" {
    price --backtest --horizon 6 --dump d p.csv >b
    [ "$(head -1 b)" = series,model,step,origins,mae,crps,brier_drop,cover80,us_per_origin,pinball ]
    awk -F, '$1 == "a g spot" && $3 == "all" { crps[$2] = $6; pinball[$2] = $10 }
        END { exit !(crps["steps"] < .85 * crps["last"] && crps["best"] < crps["last"] && crps["best"] < 1.1 * crps["steps"] &&
            pinball["steps"] < pinball["last"]) }' b
    # crps from the dump, by the energy of its points
    jq -s 'map(select(.series == "a g spot" and .model == "steps" and .step == 3)) | map(. as $d | [range(.p | length)]
        | map(. as $i | $d.p[$i] * ((($d.usd_per_h[$i] - $d.y) | fabs) - .5 * ([range($d.p | length) | $d.p[.] * (($d.usd_per_h[$i] - $d.usd_per_h[.]) | fabs)] | add))) | add) | add / length' d >mine
    awk -F, -v mine="$(cat mine)" '$1 == "a g spot" && $2 == "steps" && $3 == 3 { d = $6 - mine; exit !(d < 1e-9 && d > -1e-9) }' b
    # what is forecast at an origin is what a trace that ends there gives
    at=$(jq -s 'map(select(.series == "a g spot" and .model == "best" and .step == 6))[100].origin_s' d)
    awk -F, -v at="$at" 'NR == 1 || $1 <= at' p.csv >cut.csv
    echo "$at,b,g,spot,.7" >>cut.csv # the present of all
    price --horizon 6 cut.csv >f
    jq -s --argjson at "$at" 'map(select(.series == "a g spot" and .model == "best" and .step == 6 and .origin_s == $at))[0]
        | [range(.p | length) as $i | .p[$i] * .usd_per_h[$i]] | add' d >mean
    jq -e --argjson mean "$(cat mean)" '.series[0].price[5].mean_usd_per_h - $mean | fabs < 1e-9' f
    price --backtest --models steps,last --horizon 6 p.csv |
        awk -F, '$1 == "a g spot" && $3 == "all" { crps[$2] = $6 } END { exit !(crps["steps"] < crps["last"]) }'
    price --backtest --format table --horizon 6 p.csv | grep -q 'geometric mean'
}

@test "malformed prices are refused with their place, and what has no meaning is said" {
    bad() { printf 'time_s,zone,instance_type,market,price_usd_per_h\n%b' "$1" >bad.csv; run -3 --separate-stderr price bad.csv; [[ "$stderr" == *"$2"* ]]; }
    bad '0,a,g,spot,-1\n' 'bad.csv:2:12: price_usd_per_h'
    bad '0,a,g,spot,1e300\n' 'bad.csv:2:'
    bad '0,a,g,free,1\n' "expected spot or on_demand, got 'free'"
    bad '-5,a,g,spot,1\n' 'bad.csv:2:1'
    bad '0,a,g,spot\n' 'bad.csv:2'
    bad '' 'no price'
    bad '0,a,g,spot,1\n1e11,a,g,spot,2\n' 'give a larger --interval'
    { head -1 p.csv; seq 5000 | sed 's/.*/0,z&,g,spot,1/'; } >bad.csv
    run -3 --separate-stderr price bad.csv
    [[ "$stderr" == *'more than 4096 zones, types and markets'* ]]
    run -3 price <(head -c 40 /dev/zero)
    run -2 price --horizon 300 p.csv
    run -2 --separate-stderr price --model pool p.csv
    [[ "$stderr" == *"'pool'"* ]]
    run -2 price --model steps@0 p.csv
    run -2 price --state s p.csv
    run -2 price --cap 3 p.csv
    run -1 price --backtest --horizon 200 --from 1e9 p.csv
    run -4 price nothing.csv
}
