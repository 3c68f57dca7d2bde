#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Goal: plan reads two layouts and a cluster, writes the moves, and says exactly what is wrong.
bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_DIRNAME/../.." || exit 1
    D=examples/migrate
    T=$BATS_TEST_TMPDIR
}

gpt() { spot-migrate plan --from $D/gpt2xl_4x4.json --to $D/gpt2xl_3x5.json --cluster "$@"; }
llama() { spot-migrate plan --from $D/llama7b_2x2x2.json --to $D/llama7b_1x3x2.json --cluster "$@"; }

@test "sixteen nodes less one: the optimum, its proof, every byte from a holder" {
    gpt $D/sixteen_less_one.json >"$T/m.json"
    jq -e '.schema == "spot.moves/1" and .makespan_s == 2.75437568 and .gap == 0 and
           .total_byte == 18936332800 and .lost_byte == 0 and .all_compared and
           .certificate.by == "receiver" and .certificate.byte == 3442969600' "$T/m.json"
    jq -e '([.moves[] | .byte_to - .byte_from] | add) == .total_byte' "$T/m.json"
    jq -e '[.units[] | (.byte == ([.pieces[].byte] | add))] | all' "$T/m.json"
    jq -e '[.moves[] | select(.from == .to or .from == "n05")] == []' "$T/m.json"
    jq -e '(.place | length) == 15 and ([.place[].node] | unique | length) == 15' "$T/m.json"
}

@test "equal inputs give equal bytes" {
    gpt $D/sixteen_less_one.json >"$T/a"
    gpt $D/sixteen_less_one.json >"$T/b"
    cmp "$T/a" "$T/b"
}

@test "the recorded case with caches reaches its optimum, urgent moves first" {
    llama $D/four_one_leaving.json >"$T/m.json"
    jq -e '(.makespan_s - 3.332859 | fabs) < 1e-6 and .total_byte == 8734801920' "$T/m.json"
    jq -e '[.moves[] | .replicated] | . == (sort)' "$T/m.json"
    jq -e '[.moves[] | select(.replicated | not) | .from] | unique == ["gpu3"]' "$T/m.json"
}

@test "what does not fit before a deadline is named with its cost, caches whole" {
    jq '.nodes[3].deadline_s = 1' $D/four_one_leaving.json >"$T/c.json"
    llama "$T/c.json" >"$T/m.json"
    # gpu3 can send 1.25 GB; only it has the 2.1 GB of its half of the cache "code"
    jq -e '.lost_byte > 0 and ([.lost[] | .how] | unique) == ["recompute"] and
           ([.lost[] | .recovery_s] | unique) == [2.048]' "$T/m.json"
    jq -e '.lost[0].unit as $u | .units[$u].kv == "code"' "$T/m.json"
    jq -e '[.moves[] | select(.from == "gpu3") | .byte_to - .byte_from] | add <= 1.25e9' "$T/m.json"
    [ "$(llama $D/four_one_leaving.json --deadline 1s | jq .lost_byte)" = 0 ] # it has its own, 30 s
}

@test "bundles are saved whole, and what is lost has a cost that no choice undercuts" {
    jq '.nodes[1].node = "gpu9" | .nodes[3].deadline_s = 4 | .restore_byte_per_s = 1e9' \
        $D/four_one_leaving.json >"$T/c.json"
    run -0 --separate-stderr llama "$T/c.json" --explain
    echo "$output" >"$T/m.json"
    # 5 GB get out: the cache "code" of 2.15 GB, and seven of the bundles 17..33
    jq -e '.recovery_s == .recovery_bound_s and (.lost_groups | length) == 2 and
           .lost_groups[0].what == "bundles" and .lost_groups[0].bundle_last == 33 and
           .lost_groups[1].kv == "chat" and
           ([.lost_groups[].recovery_s] | add) == .recovery_s' "$T/m.json"
    jq -e '.lost_groups[0].bundle_first as $b |
           [.moves[] | select(.from == "gpu3").unit] as $u | [.units[$u[]] | select(.kv == null) |
           .pieces[].bundle_first] | max < $b' "$T/m.json"
    jq -e '[.lost[] | .group] | unique == [0, 1]' "$T/m.json"
    [[ "$stderr" = *"bundles 24 to 33, 3.90505 GB of them, have no source in time: checkpoint"* ]]
    [[ "$stderr" = *"of 18 groups held only by leaving nodes, 8 are saved in time"* ]]
}

@test "where work is rolled back no part of a step is sent in vain" {
    jq '.nodes[1].node = "gpu9" | .nodes[3].deadline_s = 4 | .rollback_s = 60' \
        $D/four_one_leaving.json >"$T/c.json"
    llama "$T/c.json" >"$T/m.json"
    jq -e '.lost_groups[0] | .what == "state" and .recovery_s == 60' "$T/m.json"
    jq -e '[.moves[] | select(.from == "gpu3").unit] as $u | [.units[$u[]].kv] | unique == ["code"]' \
        "$T/m.json"
}

@test "a cache that is computed sooner than moved is not moved" {
    jq '.prefill_tokens_per_s = 1e6' $D/four_one_leaving.json >"$T/c.json"
    llama "$T/c.json" >"$T/m.json"
    jq -e '.lost_byte == 0 and ([.lost[] | .chosen] | all) and (.lost | length) > 0 and
           ([.moves[].unit] as $u | [.units[$u[]].kv] | unique == [null])' "$T/m.json"
}

@test "with all else equal the cheaper zone sends" {
    jq '.egress = [{from: "a", to: "b", usd_per_gb: 0.01}, {from: "b", to: "a", usd_per_gb: 0.01}]' \
        $D/sixteen_less_one.json >"$T/c.json"
    gpt "$T/c.json" >"$T/m.json"
    jq -e '.makespan_s == 2.75437568 and .egress_usd < 0.19 and .egress_usd >= 0' "$T/m.json"
    cost=$(jq -n --slurpfile m "$T/m.json" --slurpfile c "$T/c.json" '
        ($c[0].nodes | map({(.node): .zone}) | add) as $z |
        [$m[0].moves[] | select($z[.from] != $z[.to]) | .byte_to - .byte_from] | add // 0 | . * 1e-11')
    jq -e --argjson c "$cost" '(.egress_usd - $c | fabs) < 1e-9' "$T/m.json"
}

@test "state that nobody holds comes from a checkpoint" {
    jq 'del(.nodes[] | select(.node == "n01" or .node == "n09" or .node == "n13")) |
        .rollback_s = 600' $D/sixteen_less_one.json >"$T/c.json"
    jq '.grid = {D: 3, P: 4, M: 1} | del(.stage_ends)' $D/gpt2xl_3x5.json >"$T/to.json"
    spot-migrate plan --from $D/gpt2xl_4x4.json --to "$T/to.json" --cluster "$T/c.json" >"$T/m.json"
    jq -e '.lost_byte == 5594825600 and ([.lost[] | .how] | unique) == ["checkpoint"]' "$T/m.json"
}

@test "too few nodes is a negative answer" {
    jq '.nodes = .nodes[:14]' $D/sixteen_less_one.json >"$T/c.json"
    run -1 --separate-stderr gpt "$T/c.json"
    [ "$stderr" = "spot-migrate plan: 15 positions but only 14 nodes to take them" ]
}

@test "wrong documents are refused with their place" {
    jq '.stage_ends[2] = 18' $D/gpt2xl_3x5.json >"$T/to.json"
    run -3 --separate-stderr spot-migrate plan --from $D/gpt2xl_4x4.json --to "$T/to.json" \
        --cluster $D/sixteen_less_one.json
    [[ "$stderr" = *"to.json:"*": /stage_ends/2: ends must ascend"* ]]
    run -3 --separate-stderr spot-migrate plan --from $D/gpt2xl_4x4.json \
        --to $D/llama7b_1x3x2.json --cluster $D/sixteen_less_one.json
    [[ "$stderr" = *"different models"* ]]
    jq '.nodes[1].node = "n00"' $D/sixteen_less_one.json >"$T/c.json"
    run -3 --separate-stderr gpt "$T/c.json"
    [[ "$stderr" = *"/nodes/1/node: 'n00' is named twice" ]]
    run -2 --separate-stderr spot-migrate plan --from $D/gpt2xl_4x4.json
    [[ "$stderr" = *"--to is missing"* ]]
}

@test "layouts that tell of different caches are refused" {
    jq '.kv[0].tokens = 5' $D/llama7b_1x3x2.json >"$T/to.json"
    run -3 --separate-stderr spot-migrate plan --from $D/llama7b_2x2x2.json --to "$T/to.json" \
        --cluster $D/four_one_leaving.json
    [[ "$stderr" = *"to.json:"*": /kv/0: cache chat has 5 tokens of 2 bytes a number here, 16384 of 2 in"* ]]
    jq '.kv[1].name = "chat"' $D/llama7b_1x3x2.json >"$T/to.json"
    run -3 --separate-stderr spot-migrate plan --from $D/llama7b_2x2x2.json --to "$T/to.json" \
        --cluster $D/four_one_leaving.json
    [[ "$stderr" = *"/kv: 'chat' is named twice" ]]
}

@test "rates that lead to no time, nameless nodes and absurd slots" {
    for k in prefill_tokens_per_s restore_byte_per_s; do
        jq ".$k = 1e-300" $D/four_one_leaving.json >"$T/c.json"
        run -3 --separate-stderr llama "$T/c.json"
        [[ "$stderr" = *"/$k: 1e-300 is neither 0, unknown, nor 0.001 or more" ]]
    done
    jq '.nodes[0].node = ""' $D/four_one_leaving.json >"$T/c.json"
    run -3 --separate-stderr llama "$T/c.json"
    [[ "$stderr" = *"/nodes/0: a node without a name" ]]
    # more slots than positions are no more work than as many
    jq '.nodes[].slots = 6' $D/four_one_leaving.json >"$T/c.json"
    llama "$T/c.json" --no-provenance >"$T/six.json"
    jq '.nodes[].slots = 1024' $D/four_one_leaving.json >"$T/c.json"
    llama "$T/c.json" --no-provenance | cmp - "$T/six.json"
    # 32000 slots for 16384 positions
    jq '.grid = {D: 128, P: 32, M: 4} | del(.stage_ends, .kv, .place)' $D/llama7b_2x2x2.json >"$T/l.json"
    jq '.nodes = [range(2000) | {node: "n\(.)", out_byte_per_s: 1e9, slots: 16}]' \
        $D/four_one_leaving.json >"$T/c.json"
    run -3 --separate-stderr spot-migrate plan --from "$T/l.json" --to "$T/l.json" --cluster "$T/c.json"
    [[ "$stderr" = *"32000 slots for 16384 positions are too many to compare"* ]]
}

@test "a deadline of zero is one: what only leaving nodes have is lost" {
    jq 'del(.nodes[3].deadline_s)' $D/four_one_leaving.json >"$T/c.json"
    [ "$(llama "$T/c.json" | jq .lost_byte)" = 0 ]
    [ "$(llama "$T/c.json" --deadline 0 | jq .lost_byte)" = 4294967296 ]
}

@test "before a deadline receivers take in no more than their links carry" {
    jq 'del(.prefill_tokens_per_s) | .nodes[1].node = "gpu9" | .nodes[:3][].in_byte_per_s = 1e8 |
        .nodes[3].deadline_s = 30' $D/four_one_leaving.json >"$T/c.json"
    llama "$T/c.json" >"$T/m.json"
    # gpu3 could send 37.5 GB; a receiver takes 3 GB in 30 s
    jq -e '[.moves[] | select(.from == "gpu3")] | group_by(.to) |
           map([.[] | .byte_to - .byte_from] | add) | length > 1 and all(. <= 3e9)' "$T/m.json"
    jq -e '.lost_byte > 0 and .bound_s <= .makespan_s' "$T/m.json"
    jq '.nodes[:3][].in_byte_per_s = 1e9' "$T/c.json" >"$T/fast.json"
    [ "$(llama "$T/fast.json" | jq .lost_byte)" -lt "$(jq .lost_byte "$T/m.json")" ]
}

@test "the picture's script holds one bar a transfer, and reasons go to stderr" {
    run -0 --separate-stderr gpt $D/sixteen_less_one.json --plot - -o "$T/doc"
    [[ "$output" == *"GB travel"* ]]
    jq -e '.schema == "spot.moves/1"' "$T/doc"
    run -0 --separate-stderr gpt $D/sixteen_less_one.json --plot -
    [[ "$output" != *schema* ]]
    run -0 --separate-stderr gpt $D/sixteen_less_one.json --plot "$T/p.gp" --explain
    grep -q "shared links: 2.754 s" "$T/p.gp"
    # nodes have their names, and none lies on the frame
    name=$(jq -r '.nodes[3].node' $D/sixteen_less_one.json)
    last=$(jq '.nodes | length - 1' $D/sixteen_less_one.json)
    [ "$(grep -c "^set [xy]tics .*'$name' 3" "$T/p.gp")" -eq 3 ]
    [ "$(grep -c "^set [xy]range \[-0.5:$last.5\]" "$T/p.gp")" -eq 3 ]
    [ "$(grep -c . <<<"$stderr")" -ge 3 ]
    [ "$(jq .schema <<<"$output")" = '"spot.moves/1"' ]
}
