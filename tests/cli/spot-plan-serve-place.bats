#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs
# spot-plan serve --layout --cluster: who sits where at the least bytes, and what a change costs: the time until serving
# restarts. Oracles: spot-migrate plan on the two layouts; by hand the size of a cache, keys and values, and the layer
# that a pass waits for.

bats_require_minimum_version 1.5.0

setup() {
    jq '.serve.gpus = 1 | .serve.gpus_min = 12' examples/serve/gpt-20b.json >"$BATS_TEST_TMPDIR/job.json"
    cd "$BATS_TEST_TMPDIR"
    set -o pipefail # jq -e of nothing is 0
    layout 2 3 4 2 placed >from.json
    cluster 24 20 6.25e9 >cluster.json
}

# layout D P M KV placed: a worker for each member
layout() {
    jq -n --argjson D "$1" --argjson P "$2" --argjson M "$3" --argjson kv "$4" --arg placed "$5" '{
        schema: "spot.layout/1",
        model: {layers: 48, width: 6144, ffn: 24576, heads: 48, vocab: 51200, positions: 640, bias: true, tied: true},
        components: [{name: "w", byte_per_param: 4, version: 1}],
        grid: {D: $D, P: $P, M: $M},
        kv: [range($kv) | {name: "r\(.)", d: ., tokens: 2560, byte: 4}]}
        + if $placed == "" then {} else {place: [range($D * $P * $M)
            | {node: "n\(.)", d: (. / ($P * $M) | floor), p: ((. / $M | floor) % $P), m: (. % $M), version: 1}]} end'
}

# cluster N FIRST_LEAVING BYTE_PER_S
cluster() {
    jq -n --argjson n "$1" --argjson stay "$2" --argjson rate "$3" '{schema: "spot.cluster/1", nodes: [range($n)
        | {node: "n\(.)", out_byte_per_s: $rate, in_byte_per_s: $rate, slots: 1}
        + if . >= $stay then {leaving: true, deadline_s: 30} else {} end]}'
}

plan() { spot-plan serve -q --no-provenance --job job.json --layout from.json --cluster cluster.json "$@"; }

@test "every member of the plan has a worker that stays, and what moves is what spot-migrate plan moves" {
    plan --now 20 --rate .2 >plan.json
    jq -e '.next as $g | .place | length == $g.D * $g.P * $g.M and length > 0
        and (map(.node) | unique | length) == length
        and (map([.d, .p, .m]) | unique | length) == length
        and all(.[]; .node | ltrimstr("n") | tonumber < 20)' plan.json
    read -r D P M < <(jq -r '.next | "\(.D) \(.P) \(.M)"' plan.json)
    # caches of replicas that are no more go to those that are
    layout "$D" "$P" "$M" 2 "" | jq --argjson D "$D" '.kv |= map(.d %= $D)' >to.json
    jq -s '.[0] + {place: .[1].place}' to.json plan.json >placed.json
    for to in to placed; do
        spot-migrate plan -q --from from.json --to $to.json --cluster cluster.json --format json | jq .total_byte >$to.byte
    done
    cmp to.byte placed.byte # as searched there, and with the places of the plan
    jq -r '.why[-1]' plan.json | grep -q "^$(awk '{ printf "%.4g", $1 / 1e6 }' to.byte) MB move"
}

@test "keys and values are both counted" {
    plan --now 20 --rate .2 >plan.json # one replica: the cache of the other has to come to it
    jq -e '.next.D == 1 and .next.P == 3 and .next.M == 4' plan.json
    # 2 of each of 48 layers: 2,560 tokens of 6,144 numbers of 4 bytes
    jq -r '.why[-1]' plan.json | grep -q "^$(awk 'BEGIN { printf "%.4g", 2 * 48 * 2560 * 6144 * 4 / 1e6 }') MB move"
    jq '.kv = []' from.json >bare && mv bare from.json
    plan --now 20 --rate .2 | jq -r '.why[-1]' | grep -q '^0 MB move'
}

@test "what stays stays where it is" {
    cluster 24 24 6.25e9 >cluster.json
    plan --now 24 --rate .5 >plan.json
    jq -e --slurpfile from from.json '.next.D == 2 and .next.P == 3 and .next.M == 4
        and (.place | sort_by(.node)) == ($from[0].place | map(del(.version)) | sort_by(.node))
        and (.why[-1] | startswith("0 MB move"))' plan.json
}

@test "serving restarts when spot-migrate plan says, with a token's time a layer where caches are kept, within the cap" {
    cluster 24 16 1e9 >cluster.json
    layout 1 6 4 1 placed >from.json
    for cap in "" "--memory-cap 1500MB"; do
        plan --now 16 --rate .2 $cap >plan.json
        read -r D P M < <(jq -r '.next | "\(.D) \(.P) \(.M)"' plan.json)
        layout "$D" "$P" "$M" 1 "" | jq --slurpfile plan plan.json '. + {place: $plan[0].place}' >to.json
        # 44 layers of the job are 48 of the layout
        layer=$(jq --slurpfile plan plan.json '$plan[0].next as $n | .serve | .factor * 44 / 48
            * (.cells[] | select(.M == $n.M and .B == $n.B / $n.decode_parts).decode_s)' job.json)
        spot-migrate plan -q --from from.json --to to.json --cluster cluster.json --format json --layer-time "$layer" $cap >moves.json
        jq -e '.restart_s > 0 and .restart_s < .in_order_s' moves.json
        jq -r '.why[-1]' plan.json | grep -q "; serving restarts after $(jq .restart_s moves.json | awk '{ printf "%.4g", $1 }') s$"
    done
    jq -e '.peak_extra_byte <= 1.5e9' moves.json
    run -2 spot-plan serve --job job.json --now 20 --rate .2 --memory-cap 1GB
}

@test "a change costs the time until serving restarts, not until all is there" {
    jq '.serve.cells[].prefill_s *= 20' job.json >j && mv j job.json
    cluster 24 24 1.8e8 >cluster.json
    layout 1 6 4 0 placed >from.json
    plan --now 24 --rate .02 --stay 10m >plan.json
    jq -e '.next | .P == 3 and .M == 4 and .B / .prefill_parts == 1' plan.json
    # a node of the first stage fetches 8 of its 16 layers, the last of which comes last and is due 15 layers after the first
    layer=$(jq '.serve | .factor * 44 / 48 * (.cells[] | select(.M == 4 and .B == 1).prefill_s)' job.json)
    read -r all restart < <(jq -r '.why[-1]' plan.json | sed -E 's/.*, ([0-9.]+) s; .* ([0-9.]+) s$/\1 \2/')
    awk -v all="$all" -v restart="$restart" -v layer="$layer" \
        'BEGIN { d = all - 15 * layer - restart; exit !(restart < all / 2 && d < .02 && d > -.02) }'
    plan --now 24 --rate .02 --stay 10m --switch "${all}s" | jq -e '.next.P == 6' # too long for all
}

@test "a change that takes long is not made: bytes over the rates of the links" {
    cluster 24 24 1e9 >cluster.json
    layout 1 6 4 1 placed >from.json # another shape is better, if it is cheap to get
    plan --now 24 --rate .2 --stay 10m | jq -e '.next.P != 6'
    cluster 24 24 1e6 >cluster.json # 75 GB at 1 MB/s: hours
    plan --now 24 --rate .2 --stay 10m | jq -e '.next.P == 6 and .next.M == 4 and (.why[-1] | startswith("0 MB move"))'
    plan --now 24 --rate .2 --stay 10m --switch 1s | jq -e '.next.P != 6' # as said
}

@test "an instance with four GPUs has four places, and keeps a tensor group whole where the cluster says so" {
    jq '.serve.gpus = 4' job.json >j && mv j job.json
    jq '.place |= map(.node = "n\(.node | ltrimstr("n") | tonumber / 4 | floor)")' from.json >f && mv f from.json
    cluster 6 5 6.25e9 | jq '.nodes[].slots = 4' >cluster.json
    plan --now 5 --rate .2 >spread.json
    jq -e '.next as $g | (.place | length == $g.D * $g.P * $g.M) and (.place | group_by(.node) | map(length) | max <= 4)
        and (.place | map(.node) | unique | all(. != "n5"))' spread.json
    jq '.tensor_groups = "whole"' cluster.json >c && mv c cluster.json
    plan --now 5 --rate .2 >whole.json
    jq -e '.next.M == 4 and ([.place | group_by([.d, .p])[] | map(.node) | unique | length] | all(. == 1))' whole.json
    jq '.nodes |= map(.slots = 3)' cluster.json >c && mv c cluster.json # two of four ranks fit; 5 times one pair
    run -1 --separate-stderr plan --now 5 --rate .2
    [[ "$stderr" == *"6 times 2 ranks of a tensor group"*"room for 5"* ]]
}

@test "what cannot be placed is refused" {
    cluster 24 4 6.25e9 >cluster.json
    run -1 --separate-stderr plan --now 20 --rate .2
    run -2 spot-plan serve --job job.json --now 20 --rate .2 --layout from.json
    run -2 spot-plan serve --job job.json --now 20 --rate .2 --cluster cluster.json
    run -3 spot-plan serve --job job.json --now 20 --rate .2 --layout cluster.json --cluster cluster.json
}
