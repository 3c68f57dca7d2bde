#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Goal: what spot-run profile measures is planned with and replayed, and both follow its numbers.
bats_require_minimum_version 1.5.0
load ../cli/job

setup() {
    job_setup
    set -o pipefail
    SPOT_TEST_WARM_UP=1 spot-run profile -q --data corpus $MODEL --global-batch 4 --steps 3 --max-workers 2 \
        --skip links,stalls -o measured.json
    # on a busy machine a grid may be flagged, and planned without: here each counts as measured
    jq 'del(.profile[].outlier)' measured.json >job.json
}
teardown() { job_teardown; }

# the measured grid with the most samples a second on $1 workers
best() {
    jq -c --argjson n "$1" '.global_batch as $g | [.profile[] | select(.D * .P <= $n)] | min_by(.step_s) | [.D, .P, $g / .step_s]' job.json
}

@test "the plan runs the best measured grid, at the measured speed, and the job runs the plan" {
    spot-plan train --job job.json --now 2 --throughput table >plan.json
    jq -e --argjson best "$(best 2)" '[.next.D, .next.P] == $best[:2] and
        (.expected.undisturbed_samples_per_s / $best[2] - 1 | fabs < 1e-9) and .expected.from == "profile"' plan.json
    timeout 60 spot-run train -q --data corpus $MODEL --global-batch 4 --steps 5 --workers 2 --plan plan.json --events log
    jq -ne --argjson best "$(best 2)" '[inputs | select(.event == "formed")] | last | [.D, .P] == $best[:2]' log
}

@test "a replay of the measured job accounts for each sample of the ideal, and no policy beats it" {
    spot-replay generate --cap 2 --hours 1 --seed 5 --profile stormy -o trace.csv
    cut -d, -f2 trace.csv | sort -u | tr '\n' ' ' | grep -q '0 1 2' # all that two machines can do
    spot-replay train --job job.json --trace trace.csv --policy ideal,optimal,spot,persistence --throughput table --format json >replay.json
    # each row holds for an interval of 60 s
    want=$(awk -F, -v one="$(best 1 | jq '.[2]')" -v two="$(best 2 | jq '.[2]')" \
        'NR > 1 { s += 60 * ($2 >= 2 ? two : $2 == 1 ? one : 0) } END { printf "%.17g", s }' trace.csv)
    jq -se --argjson want "$want" 'map({(.policy): .}) | add | length == 4 and (.ideal.samples / $want - 1 | fabs < 1e-9) and
        .ideal.ideal_share == 1 and .optimal.samples <= .ideal.samples * (1 + 1e-9) and
        all(.[]; .policy == "ideal" or (.ideal_share > 0 and .samples <= 1.000001 * $want))' replay.json
}
