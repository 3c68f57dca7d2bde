#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# spot-plan job --roofline: a profile of serving from a model's config and a catalogue.

bats_require_minimum_version 1.5.0

setup() {
    T=$BATS_TEST_TMPDIR
    set -o pipefail # jq -e of nothing is 0
}

job() { spot-plan job --roofline examples/serve/llama-8b --catalogue examples/serve/gpus.csv "$@"; }

@test "a model and a type make a profile, which is planned with and played" {
    job --type g4dn.12xlarge --name l8 --context 8192 -o "$T/j.json"
    jq -e '.schema == "spot.job/1" and .kind == "serve" and .name == "l8" and .instance_type == "g4dn.12xlarge"
        and .cost.usd_per_h == 1.9046 and .cost.on_demand_usd_per_h == 3.912 and .memory.node_byte == 64e9
        and .serve.gpus == 4 and .serve.layers == 32 and .serve.model_byte == 16060522496
        and (.source | test("not measured")) and (.made_by.inputs | length) == 2
        and ([.serve.cells[] | [.M, .B]] == [[1, 2, 4][] as $m | [1, 2, 4, 8][] as $b | [$m, $b]])' "$T/j.json"
    # by hand: 218,112,000 elements of a layer and a 32nd of the head's, of two bytes, and 576 tokens' keys and values, at .75 of 320e9
    jq -e '.serve.cells[0].decode_s as $s | (218112000 * 2 + 4096 * 128256 * 2 / 32 + 576 * 2 * 8 * 128 * 2) / 240e9
        | (. - $s) / $s | fabs < 1e-12' "$T/j.json"
    spot-plan serve --job "$T/j.json" --now 4 --rate 1 |
        jq -e '.next.D >= 1 and .expected.e2e_p99_s > 0 and .expected.usd_per_h <= 4 * 1.9046'
    spot-replay generate --kind load --arrivals poisson --rate 1 --hours .2 --prompt-tokens lognormal:600:1 --output-tokens lognormal:100:.5 \
        --context 8192 -o "$T/l.csv"
    printf 'time_s,available\n0,4\n300,3\n800,4\n' >"$T/t.csv"
    spot-replay serve --job "$T/j.json" --trace "$T/t.csv" --load "$T/l.csv" --policy spot,spotserve --format csv |
        awk -F, 'NR > 1 { n++; if ($2 != $3 || !($13 > 0)) exit 1 } END { exit n != 2 }'
}

@test "better hardware and smaller numbers are quicker, and the same question has the same bytes" {
    job --type g6.12xlarge >"$T/a"
    job --type g6.12xlarge | cmp - "$T/a"
    job --type p5.48xlarge >"$T/b"
    job --type g6.12xlarge --dtype q8 >"$T/c"
    for f in a b c; do jq -c '[.serve.cells[] | select(.M == 4 and .B == 1)][0] | [.prefill_s, .decode_s]' "$T/$f"; done |
        jq -s -e '.[0] as $a | .[1][0] < $a[0] and .[1][1] < $a[1] and .[2][0] < $a[0] and .[2][0] > $a[0] * .95 and  .[2][1] < $a[1] * .55'
}

@test "what does not fit says how much memory would do, exit 1" {
    huge() { # BYTES OF A GPU
        awk -F, -v x="$1" 'BEGIN { OFS = "," } $1 == "g6.12xlarge" { $3 = 1; $4 = x } { print }' examples/serve/gpus.csv >"$T/gpus"
        spot-plan job --roofline examples/serve/llama-8b --catalogue "$T/gpus" --type g6.12xlarge --context 8000 --max-batch 1024
    }
    run -1 --separate-stderr huge 24e9
    need=$(sed -n 's/.*however it is cut; \(.*\) GB would do/\1/p' <<<"$stderr")
    [ -z "$output" ] && [ -n "$need" ]
    huge "$(awk -v x="$need" 'BEGIN { printf "%.0f", x * 1e9 / .9 + 1 }')" >"$T/j"
    run -1 huge "$(awk -v x="$need" 'BEGIN { printf "%.0f", (x - .002) * 1e9 / .9 }')"
    job --type g4dn.12xlarge --dtype fp32 --max-batch 32 --context 8000 -o "$T/j"
    run -1 --separate-stderr spot-plan serve --job "$T/j" --now 1 --rate 1
    [[ "$stderr" == *"1 instance of 4 GPUs cannot hold the model; "*" would do; its weights are 32.12 GB, 8.03 GB or more of each GPU there is" ]]
}

@test "what is missing or wrong is named" {
    run -3 --separate-stderr job --type g7
    [[ "$stderr" == *"gpus.csv:"* ]]
    printf 'instance_type,gpu_mem_byte,gpu_flop_per_s\na,1e9,1e12\nb,1e9,x\n' >"$T/c"
    run -3 --separate-stderr spot-plan job --roofline examples/serve/llama-8b --catalogue "$T/c" --type a
    [[ "$stderr" == *"'a'"* ]]
    run -3 --separate-stderr spot-plan job --roofline examples/serve/llama-8b --catalogue "$T/c" --type b
    [[ "$stderr" == *"c:3:7:"* ]]
    run -3 --separate-stderr job --type g6.12xlarge --max-batch 3
    [[ "$stderr" == *"a batch of 3 is not a power of two"* ]]
    run -3 job --type g6.12xlarge --context 10000
    printf '{"model_type": "opt"}' >"$T/config.json"
    run -3 --separate-stderr spot-plan job --roofline "$T" --catalogue examples/serve/gpus.csv --type g6.12xlarge
    [[ "$stderr" == *"config.json"*"model_type: 'opt'"* ]]
    run -4 spot-plan job --roofline "$T/none" --catalogue examples/serve/gpus.csv --type g6.12xlarge
    for bad in "--type g6.12xlarge --ddp 1:2" "--type g6.12xlarge --params 7" "" "--type g6.12xlarge --dtype fp16"; do
        # shellcheck disable=SC2086  # no words are no option
        run -2 job $bad
    done
    run -2 spot-plan job
    run -2 spot-plan job --type g6.12xlarge --ddp 1:2 --global-batch 2
}

@test "weights take no more than .9 of a GPU's memory" {
    # 16.06 GB of weights on GPUs of 16 GB
    job --type g4dn.12xlarge | jq -e '.serve.gpus_min == 2'
}
