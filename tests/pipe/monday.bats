#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Goal: from the JSON of an AWS account to where to start, in three commands: docs/results/market.md.

bats_require_minimum_version 1.5.0
set -o pipefail

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    # two weeks of prices in five zones, and what placement scores are today
    jq -n '[range(0; 14 * 24; 6) as $h | ("use1-az1 us-east-1a .42", "use1-az2 us-east-1b .38", "use1-az4 us-east-1c .51", "usw2-az1 us-west-2a .61",
            "usw2-az2 us-west-2b .36") | split(" ") as [$id, $zone, $usd]
        | {AvailabilityZone: $zone, AvailabilityZoneId: $id, InstanceType: "g5.xlarge", ProductDescription: "Linux/UNIX",
           SpotPrice: ($usd | tonumber + .01 * ($h / 6 % 5) | tostring), Timestamp: (1780000000 + $h * 3600 | todate)}] | {SpotPriceHistory: .}' >history.json
    jq -n '[["us-east-1", "use1-az1", 8], ["us-east-1", "use1-az2", 3], ["us-east-1", "use1-az4", 9], ["us-west-2", "usw2-az1", 6], ["us-west-2", "usw2-az2", 2]]
        | {SpotPlacementScores: map({Region: .[0], AvailabilityZoneId: .[1], Score: .[2]})}' >scores.json
    printf '%s\n' instance_type,spot_usd_per_h,on_demand_usd_per_h g5.xlarge,,1.006 >types.csv
    sed 's/1.006//' types.csv >spot-only.csv
}

monday() { # CATALOGUE OPTION...
    spot-replay import --from aws-score --instance-type g5.xlarge scores.json | spot-predict -q --interval 10m --horizon 24 -o forecast.json &&
        spot-replay import --from aws-price history.json | spot-predict -q --kind price --interval 1h --horizon 24 -o prices.json &&
        spot-plan deadline --work 12h --deadline 16h --restart 5m --forecast forecast.json --prices prices.json --catalogue "$@"
}

@test "three commands say where to start now, on which type, and how often the job will be moved" {
    monday types.csv --format table >said
    head -1 said | grep -E '^(spot in us[ew][12]-az[0-9], g5.xlarge|idle) for 600 s$'
    grep -E '^expect to be moved [0-9.]+ times' said
    grep '^on demand alone, from now to the end: 12.24 usd; on demand still finishes in time' said
    monday types.csv | jq -e '.expected.usd < 12.24 and .expected.moves > 0 and (.expected | has("late") | not)'
    monday spot-only.csv | jq -e '.mode == "spot" and .zone == .ask[0].zone and (.ask | length) > 1'
    # a place with a better score is likelier to grant
    jq -e '[.series[] | {(.zone): .start.granted}] | add | .["use1-az4"] > .["use1-az1"] and .["use1-az1"] > .["usw2-az1"] and .["usw2-az1"] > .["use1-az2"]
        and .["use1-az2"] > .["usw2-az2"]' forecast.json
}

# SCORE...: a probe file with these scores, of zones a, b, ..
scored() {
    local zone=({a..z}) i=0
    echo time_s,zone,instance_type,asked,granted,price_usd_per_h,score
    for score; do echo "0,${zone[i++]},g,0,0,,$score"; done
}

@test "a score counts by itself, whatever the other places have" {
    granted() { scored "$@" | spot-predict -q --interval 10m --horizon 24 | jq -c '[.series[].start.granted * 100 | round]'; }
    [ "$(granted 1 1)" = '[27,27]' ]
    [ "$(granted 10 10)" = '[87,87]' ]
    [ "$(granted 1 10)" = '[27,87]' ]
    [ "$(granted 9 10)" = '[83,87]' ]
}

@test "of two zones at one price the one that grants and stays is asked first, and kept" {
    scored 1 10 | spot-predict -q --interval 10m --horizon 24 -o two.json
    for price in .4 .48; do
        printf '%s\n' instance_type,zone,spot_usd_per_h,on_demand_usd_per_h g,a,$price,1.006 g,b,.4,1.006 >two.csv
        plan() { spot-plan deadline --work 12h --deadline 16h --restart 5m --forecast two.json --catalogue two.csv "$@"; }
        plan | jq -e '[.ask[].zone] == ["b", "a"] and .ask[0].usd < .ask[1].usd and .ask[0].usd < .expected.usd
            and (.alternatives | map(.if) | unique == ["granted", "refused"])'
        plan --done 3h --elapsed 5h --now spot --at b | jq -e '.mode == "spot" and .zone == "b" and (has("ask") | not)'
    done
}

@test "what asking costs is counted, and without on demand the chance to be late is said" {
    jq -ne --argjson free "$(monday types.csv | jq .expected.usd)" --argjson dear "$(monday types.csv --probe-usd .05 | jq .expected.usd)" '$dear > $free'
    monday spot-only.csv | jq -e '.expected.late >= 0 and .expected.late < .5 and ([.why[] | select(test("of 100 such jobs would end late"))] | length) == 1'
    monday spot-only.csv --deadline 740m | jq -e '.expected.late > .1'
}

@test "an answer counts for more than a score" {
    monday spot-only.csv | jq -r .zone >before
    { spot-replay import --from aws-score --instance-type g5.xlarge scores.json | head -1
      for i in $(seq 0 40); do for z in use1-az1 use1-az2 use1-az4 usw2-az1 usw2-az2; do
          echo "$((i * 600)),$z,g5.xlarge,1,$([ "$z" = "$(cat before)" ] && echo 0 || echo 1),,"; done; done; } >probes.csv
    spot-predict -q --interval 10m --horizon 24 probes.csv -o forecast.json
    spot-plan deadline --work 12h --deadline 16h --restart 5m --forecast forecast.json --prices prices.json --catalogue spot-only.csv | jq -r .zone >after
    run ! cmp -s before after
}
