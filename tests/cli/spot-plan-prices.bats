#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# spot-plan fleet and deadline --prices: what is planned costs what is expected, and bad documents are refused.
bats_require_minimum_version 1.5.0

setup() {
    T=$BATS_TEST_TMPDIR
    set -o pipefail
    printf 'instance_type,spot_usd_per_h,on_demand_usd_per_h,zone\nA10G,.50,1.01,a\nA10G,.40,1.01,b\nA100-80GB,,3.67,\n' >"$T/c"
    # b is dear from the second hour on
    jq -n '{schema: "spot.price/1", interval_s: 3600, horizon: 2, quantiles: [.5], series: [
        {zone: "a", instance_type: "A10G", market: "spot", now: .5, usd: [.5, .5]}, {zone: "b", instance_type: "A10G", market: "spot", now: .4, usd: [.4, .8]},
        {zone: "z", instance_type: "A10G", market: "spot", now: .1, usd: [.1, .1]}]}
        | .series[] |= {zone, instance_type, market, time_s: 0, now_usd_per_h: .now, mean_usd_per_h: (.usd | add / 2),
            price: [(.usd | to_entries[]) | {step: (.key + 1), mean_usd_per_h: .value, lower_prob: 0, higher_prob: 0, quantiles_usd_per_h: [.value]}]}' >"$T/f"
}

fleet() { spot-plan fleet --catalogue "$T/c" --load examples/fleet/melange.json --market spot --no-provenance "$@"; }

@test "the cheap zone of now is left for the one that is cheap over the horizon" {
    fleet >"$T/now"
    fleet --prices "$T/f" >"$T/then"
    jq -e 'all(.buy[]; .zone == "b")' "$T/now"
    jq -e --slurpfile now "$T/now" 'all(.buy[]; .zone == "a") and ([.buy[].count] | add) * .5 == .expected.usd_per_h
        and ([.buy[].count] | add) == ([$now[0].buy[].count] | add) and any(.why[]; test("2 prices are forecast means over the next 7200 s.*1 of 3"))' "$T/then"
}

@test "what is no spot.price/1 is refused with its place" {
    bad() { jq "$1" "$T/f" >"$T/bad"; run -3 --separate-stderr fleet --prices "$T/bad"; [[ "$stderr" == *"$2"* ]]; }
    bad '.schema = "spot.forecast/1"' 'spot.price/1'
    bad '.series[1].price |= .[:1]' '/series/1/price: expected 2 steps'
    bad '.series[1].price[1].step = 1' '/series/1/price/1'
    bad '.series[1].mean_usd_per_h = -1' '/series/1/mean_usd_per_h'
    bad '.series[0].market = "free"' '/series/0/market'
    bad '.series[1].zone = "a"' '/series/1'
    bad '.quantiles = [.5, .4]' '/quantiles/1'
    bad '.series[0].price[0].quantiles_usd_per_h = []' 'expected 1 prices'
    bad '.series[0].price[0].lower_prob = 2' 'lower_prob'
    bad '.series = []' '/series'
    bad '.horizon = 100000' '/horizon'
    run -2 spot-plan fleet --kind train --catalogue "$T/c" --prices "$T/f" --job examples/fleet/resnet110.json --deadline 1h
    run -4 fleet --prices "$T/nothing"
}

@test "a deadline job waits for the hour that is expected to be cheap, and is told what it pays" {
    deadline() { spot-plan deadline --work 2h --deadline 12h --tick 1h --no-provenance --zone a --trace <(printf 'time_s,zone,instance_type,available\n0,a,A10G,1\n864000,a,A10G,1\n') "$@"; }
    path() { jq --argjson p "$1" '.horizon = 6 | .series |= .[:1] | .series[0] |= (.mean_usd_per_h = ($p | add / 6)
        | .price = [$p | to_entries[] | {step: (.key + 1), mean_usd_per_h: .value, lower_prob: 0, higher_prob: 0, quantiles_usd_per_h: [.value]}])' "$T/f"; }
    path '[3, 3, 3, 0.1, 0.1, 3]' >"$T/p"
    deadline --usd-per-h .5 | jq -e '.mode == "spot"'
    deadline --prices "$T/p" --format json >"$T/plan"
    # a cheap hour comes with spot that lasts: 2 h at .1, or at 3.06 on demand where it does not
    jq -e '.mode == "idle" and .expected.usd < 3 and any(.why[]; test("1 prices are the expected"))' "$T/plan"
    path '[3, 3, 3, 3, 3, 3]' | deadline --prices - | jq -e '.expected.usd > 5'
    jq '.series[0].zone = "q"' "$T/p" >"$T/bad"
    run -3 --separate-stderr deadline --prices "$T/bad"
    [[ "$stderr" == *'no price of the zones'* ]]
}
