#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Goal: the layout of a live job is planned for and its weights are moved, through kills, as the very same model.
bats_require_minimum_version 1.5.0
load ../cli/job

setup() {
    job_setup
    set -o pipefail
}
teardown() { job_teardown; }

live() { # a job of two pipelines with two stages each
    train log --steps 100000 --grid 2x2 --state st
    for name in a b c d; do worker $name; done
    eventually 'grep -q "\"formed\".*\"D\":2,\"P\":2" log'
    seen log durable 1
}

# layout STATUS JOB GRID: of the weights, who sits where included unless the grid is another one
layout() {
    jq --slurpfile job "$2" --argjson grid "$3" '$job[0] as $j | {
        schema: "spot.layout/1",
        model: ($j | {name: "live", layers, width, ffn: (4 * .width), heads, vocab, positions: .seq, shards, norm_elems: 4, bias: true}),
        components: [{name: "master", byte_per_param: 4, version: .step}],
        grid: $grid
    } + if $grid == {D, P, M} then {place: [.members[] | {node: .name, d, p, m}]} else {} end' "$1"
}

# stage_byte HEADER: bytes of the stages of a model with two layers, by the names of GPT-2, as [0, 1]
stage_byte() {
    jq -c '[to_entries[] | select(.key != "__metadata__") | {name: (.key | ltrimstr("transformer.")),
            raw_byte: (.value.data_offsets | .[1] - .[0])}] |
        [map(select(.name | test("^(wte|wpe|h\\.0)\\."))), map(select(.name | test("^(lm_head|ln_f|h\\.1)\\.")))] |
        map(map(.raw_byte) | add)' "$1"
}

@test "the plan to leave a node moves what its successors lack, to the byte" {
    live
    spot-run status --join unix:j >status.json
    spot-run export -q --join unix:j -o model
    layout status.json st/job.json '{"D":2,"P":2,"M":1}' >from.json
    layout status.json st/job.json '{"D":2,"P":1,"M":1}' >to.json
    jq '{schema: "spot.cluster/1", nodes: [.members[] | {node: .name, out_byte_per_s: 1e9} +
        if .name == "b" then {leaving: true, deadline_s: 10} else {} end]}' status.json >cluster.json
    spot-migrate plan --from from.json --to to.json --cluster cluster.json >moves.json

    # each of the two nodes of the new grid lacks the stage that it had no part in
    n=$(od -An -tu8 -N 8 model/model.safetensors)
    head -c $((8 + n)) model/model.safetensors | tail -c +9 >tensors.json
    stages=$(stage_byte tensors.json)
    want=$(jq --argjson stage "$stages" --slurpfile status status.json '[.place[].node as $n |
        $status[0].members[] | select(.name == $n) | $stage[1 - .p]] | add' moves.json)
    jq -e --argjson want "$want" '.total_byte == $want and .lost_byte == 0 and (.place | length) == 2 and
        all(.place[]; .node != "b") and .nodes_touched == 2 and .makespan_s >= .bound_s' moves.json
}

@test "what a live job exports arrives as it was, though the receiver is killed on the way" {
    live
    spot-run export -q --join unix:j -o model
    m=model/model.safetensors
    spot-migrate pack --chunk 4KiB $m | tee m.szt | spot-migrate unpack | cmp - $m
    spot-migrate unpack m.szt | cmp - $m

    mkfifo slow
    spot-migrate send --codec raw --chunk 4KiB $m >all.szt
    exec 7<>slow
    spot-migrate recv -o got <slow 3>&- 7>&- &
    pid=$!
    echo $pid >>pids
    head -c 90000 all.szt >&7 # half of it, and then nothing
    eventually '[ -e got.part ]'
    kill -KILL $pid
    exec 7>&-
    wait $pid || true
    [ ! -e got ]
    [ -e got.part ]
    run -3 spot-migrate recv -o got <<<"$(head -c 200 all.szt | tr -d '\0')" # garbage changes nothing
    [ ! -e got ]

    background spot-migrate recv -q -o got --listen unix:to
    spot-migrate send --chunk 4KiB --connect unix:to $m
    wait $pid
    cmp got $m
    [ ! -e got.part ]
    [ ! -e got.journal ]

    # and it is the model: both say the same of a text
    mkdir moved
    cp model/config.json moved
    mv got moved/model.safetensors
    for dir in model moved; do
        spot-run eval -q --data corpus --load $dir --no-provenance >$dir.eval
    done
    jq -S 'del(.model)' model.eval >want
    jq -S 'del(.model)' moved.eval | cmp - want
    jq -e '.loss > 0' want
}
