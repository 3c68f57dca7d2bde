#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Goal: prices | predict | plan fleet | launch, as examples/fleet tells it: the plan buys no more of a zone than the forecast is
# sure of, at the newest price, and the launcher says what the plan says.
bats_require_minimum_version 1.5.0

setup() {
    T=$BATS_TEST_TMPDIR
    cd "$BATS_TEST_DIRNAME/../.." || return
    set -o pipefail
    spot-replay import --from aws-price examples/fleet/prices.json >"$T/prices.csv"
}

forecast() {
    sed '1s/$/,instance_type/; 1!s/$/,A10G/' examples/traces/zones.csv | spot-predict --interval 10m --horizon 6 --no-provenance
}

offers() { examples/fleet/offers.sh "$@" "$T/prices.csv" "${f:-$T/forecast}" examples/fleet/melange.csv; }

plan() { spot-plan fleet --kind serve --catalogue - --load examples/fleet/melange.json --no-provenance "$@"; }

# run the lines that the README has, of those that the sed script $1 leaves
story() {
    sed -n "$1"'; s/^    //p' examples/fleet/README.md >"$T/story"
    ln -sfn "$PWD/examples" "$T/examples"
    (cd "$T" && bash -o pipefail -e story)
}

# one series of zone $1 with the laws $2 of its steps
law() {
    jq -n --arg zone "$1" --argjson p "$2" '{schema: "spot.forecast/1", series: [{zone: $zone, instance_type: "A10G",
        available: ($p | to_entries | map({step: (.key + 1), p: .value}))}]}' >"$T/forecast"
}

@test "a quota is what every step of the forecast is sure of, and the newest price counts" {
    law r1z1 '[[0.05, 0.05, 0.2, 0.7], [0, 0.02, 0.08, 0.9]]'
    offers | grep '^A10G,0' >"$T/rows"
    echo A10G,0.4312,,r1z1,2 | cmp - "$T/rows" # .2 + .7 is below .9 in doubles, and meant to be .9
    offers --sure .95 | grep -qx 'A10G,0.4312,,r1z1,1'
    offers --sure .7 | grep -qx 'A10G,0.4312,,r1z1,3'
    offers --sure 1 | grep -qx 'A10G,0.4312,,r1z1,0'
    law elsewhere '[[0, 1]]' # no price: no row
    offers | cmp - <(printf '%s\n' instance_type,spot_usd_per_h,on_demand_usd_per_h,zone,quota A10G,,1.01,, A100-80GB,,3.67,,)
}

@test "the whole pipe: within the quotas, cheaper than on demand, and printed as planned" {
    forecast >"$T/forecast"
    offers >"$T/catalogue"
    plan --market both <"$T/catalogue" >"$T/plan"
    plan <"$T/catalogue" >"$T/dear"
    jq -e --slurpfile dear "$T/dear" '.expected.usd_per_h < $dear[0].expected.usd_per_h and any(.buy[]; .market == "spot")' "$T/plan"
    # its cost and its quotas, from the catalogue alone
    jq -r '.buy[] | [.instance_type, .zone, .market, .count] | join(",")' "$T/plan" >"$T/buy"
    awk -F, -v usd="$(jq .expected.usd_per_h "$T/plan")" '
        NR == FNR { price[$1 FS $4 FS ($2 == "" ? "on-demand" : "spot")] = $2 + $3; quota[$1 FS $4] = $5; next }
        { cost += $4 * price[$1 FS $2 FS $3]; over += quota[$1 FS $2] != "" && $4 > quota[$1 FS $2]; n++ }
        END { d = cost - usd; exit !(n && !over && d < 1e-9 && d > -1e-9) }' "$T/catalogue" "$T/buy"
    offers --sure .5 | plan --market both | jq -e --slurpfile sure "$T/plan" '.expected.usd_per_h <= $sure[0].expected.usd_per_h + 1e-9'

    examples/fleet/launch.sh --job chat "$T/plan" >"$T/said"
    jq -r '.buy[] | "would start \(.count) of \(.instance_type) in \(if .zone == "" then "any" else .zone end), \(.market), for chat"' "$T/plan" | sort >"$T/want"
    grep '^would' "$T/said" | sort | cmp - "$T/want"
    tail -n 1 "$T/said" | grep -qx "$(jq '[.buy[].count] | add' "$T/plan") machines; nothing was started"

    # the lines of the README, in one go, say the same
    story '/^## /q' | cmp - "$T/said"
}

@test "the README's training to a loss keeps its deadline within the quotas" {
    story '1,/^## Training/d; /^## /q' >"$T/plan"
    jq -e '.kind == "fleet" and .expected.time_s <= 2400 and .gap == 0' "$T/plan"
    jq -r '.buy[] | [.instance_type, .count] | join(",")' "$T/plan" >"$T/buy"
    # a quota is of an offer: of a type on one market
    awk -F, 'NR == FNR { quota[$1] = $5; next } { over += $2 > quota[$1]; n++ } END { exit !(n && !over) }' \
        examples/fleet/resnet110.csv "$T/buy"
}

# Prices of three zones over a month: r1z1 stands, r1z2 falls from hour to hour and is the dearest by little, r2z1 leaps.
prices() {
    awk 'BEGIN { srand(7); print "time_s,zone,instance_type,market,price_usd_per_h"; fall = .52
        for (h = 0; h < 720; h++) {
            if (h % 3 == 0) { printf "%d,r1z2,A10G,spot,%.5f\n", h * 3600, fall; fall *= h < 500 ? 1 : .995 }
            if (h % 24 == 0) printf "%d,r1z1,A10G,spot,.36\n", h * 3600
            if (rand() < .2) printf "%d,r2z1,A10G,spot,%.4f\n", h * 3600, .3 + .4 * rand() } }' >"$T/prices.csv"
}

@test "prices | predict | plan | launch: the plan pays what is expected, not what is asked now" {
    prices
    forecast >"$T/forecast"
    offers >"$T/catalogue"
    spot-predict --kind price --horizon 24 --no-provenance "$T/prices.csv" >"$T/expected"
    plan --market both --prices "$T/expected" <"$T/catalogue" >"$T/plan"
    jq -e 'any(.buy[]; .market == "spot")' "$T/plan"
    # its cost is that of the expected prices, from the documents alone
    jq -e --slurpfile e "$T/expected" '(.expected.usd_per_h - ([.buy[] | . as $b | .count * (
            if .market == "spot" then ($e[0].series[] | select(.zone == $b.zone and .instance_type == $b.instance_type) | .mean_usd_per_h)
            else {"A10G": 1.01, "A100-80GB": 3.67}[.instance_type] end)] | add) | fabs) < 1e-9' "$T/plan"
    # r1z2 goes on falling: a price below that of now is expected, and nothing else is planned with
    jq -e '.series[] | select(.zone == "r1z2") | .mean_usd_per_h < .now_usd_per_h and .price[23].mean_usd_per_h < .price[0].mean_usd_per_h' "$T/expected"
    jq -e '.series[] | select(.zone == "r1z1") | .mean_usd_per_h - .now_usd_per_h | fabs < 1e-9' "$T/expected"
    # at the expected prices no plan that was made at those of now is cheaper
    plan --market both <"$T/catalogue" | jq -e --slurpfile e "$T/expected" --slurpfile p "$T/plan" '([.buy[] | . as $b | .count * (
            if .market == "spot" then ($e[0].series[] | select(.zone == $b.zone) | .mean_usd_per_h)
            else {"A10G": 1.01, "A100-80GB": 3.67}[.instance_type] end)] | add) >= $p[0].expected.usd_per_h - 1e-9'
    examples/fleet/launch.sh --job chat "$T/plan" >"$T/said"
    tail -n 1 "$T/said" | grep -qx "$(jq '[.buy[].count] | add' "$T/plan") machines; nothing was started"
    # in one go, as the README has it
    sed -n '/^## At the prices/,/^## Train/s/^    //p' examples/fleet/README.md | grep -q 'spot-predict --kind price'
    spot-predict --kind price --horizon 24 --no-provenance "$T/prices.csv" | spot-plan fleet --kind serve --market both --prices - \
        --catalogue "$T/catalogue" --load examples/fleet/melange.json --no-provenance | examples/fleet/launch.sh --job chat - | cmp - "$T/said"
}

@test "what is no forecast, no price or no share is refused" {
    law r1z1 '[[0, 1]]'
    run -2 --separate-stderr offers --sure 0
    run -2 --separate-stderr offers --sure 1.5
    [[ "$stderr" == *"--sure"* ]]
    echo '{"schema": "spot.plan/1"}' >"$T/bad"
    f=$T/bad run -3 --separate-stderr offers
    [[ "$stderr" == *'spot.forecast/1, got "spot.plan/1"'* ]]
    : >"$T/bad" # of a predictor that failed
    f=$T/bad run -3 --separate-stderr offers
    [[ "$stderr" == *'no forecast'* ]]
    printf 'time_s,zone,instance_type,market\n0,r1z1,A10G,spot\n' >"$T/prices.csv"
    run -3 --separate-stderr offers
    [[ "$stderr" == *'prices.csv:2: expected a column price_usd_per_h'* ]]
    jq -n '{schema: "spot.plan/1", kind: "train"}' >"$T/bad"
    run -3 examples/fleet/launch.sh --job chat "$T/bad"
    run -2 examples/fleet/launch.sh --job chat --apply "$T/bad"
}

@test "the README's load on mixed types: ours pays less than on demand, and nobody less than the bound" {
    story '1,/^## A load/d; /^## /q' >"$T/table"
    awk -F, 'NR > 1 { usd[$1] = $4; n++; under += $4 < $8 * (1 - 1e-9) }
        END { exit !(n == 8 && !under && usd["spot"] + 0 < usd["on-demand"] + 0) }' "$T/table"
}
