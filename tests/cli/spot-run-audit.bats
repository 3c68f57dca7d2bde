#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: check, lane: wait
# spot-run audit: a range of steps is computed anew; what was changed is found and named.

bats_require_minimum_version 1.5.0
load job
load errors

setup() { job_setup; }
teardown() { job_teardown; }

job() { # ARGUMENTS...: of 12 steps, its log in log and its state in st
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 12 --events log --state st "$@"
}

audit() { spot-run audit --state st --events log --steps 1:12 "$@"; }

differs() { # STEP WORD ARGUMENTS...: in that step, and the message has that word
    local step=$1 word=$2
    shift 2
    run -1 --separate-stderr audit "$@"
    [[ "$stderr" == *"step $step differs"*"$word"* ]]
}

@test "what any grid, family and schedule trained is equal when it is computed anew alone" {
    local options
    for options in "--workers 4 --grid 2x2" "--workers 2 --grid 1x1x2 --arch llama --tied" \
        "--tied --workers 2 --grid 1x2 --lr-schedule cosine:warmup=3" \
        "--micro-batch 2 --global-batch 4 --workers 2 --grid 2x1 --clip 0"; do
        rm -rf log st
        job $options
        audit | grep -q '^equal: 12 steps'
    done
    audit --sample 3 --threads 1 | grep -q '^equal'
    spot-run audit --state st --events - --steps 1:12 <log | grep -q '^equal: 12 steps'
    spot-run audit --state st/gen-000000000012 --events log --steps 4:4 | grep -q '^equal: 4 steps'
}

@test "the chain is the same for every grid, goes on with a resumed job, and stands in its generations" {
    job --workers 2 --grid 2x1
    jq -r 'select(.event == "committed").chain' log >whole
    mv log other
    rm -r st
    job --steps 7
    job --steps 12 --resume --workers 2 --grid 1x2
    jq -r 'select(.event == "committed").chain' log >got
    cmp got whole
    [ "$(jq -r .chain st/gen-000000000012/manifest.json)" = "$(tail -n 1 whole)" ]
    # without its log the job goes on from the manifest
    rm -r st log
    job --steps 7
    rm log
    job --steps 12 --resume
    jq -r 'select(.event == "committed").chain' log >got
    cmp got <(tail -n +8 whole)
    # steps after a generation are computed from there
    mkdir kept
    cp -r st/job.json kept
    rm -r st log
    job --steps 7
    cp -r st/gen-000000000007 kept
    job --steps 12 --resume
    spot-run audit --state kept --events log --steps 9:12 | grep -q '^equal: 5 steps up to 12, from step 7'
}

@test "a changed sample is found: the first step that read it is named" {
    job
    sed 's/^[12]/3/' corpus >changed
    differs 1 samples --data changed
    grep -q 'not those of the job' <<<"$stderr"
}

@test "a changed learning rate, loss, sum, state or chain is found and named" {
    job
    cp log whole
    sed 's/"lr":0.001/"lr":0.002/' whole >log
    differs 1 "learning rate 0.002"
    sed -E '/"committed".*"step":5,/s/"loss_hex":"..../"loss_hex":"0000/' whole >log
    differs 5 loss
    sed -E '/"committed".*"step":5,/s/"loss":[0-9.]*/"loss":1.5/' whole >log
    differs 5 "loss: 1.5 in the log"
    sed -E '/"committed".*"step":5,/s/"samples":\[[0-9]*/&7/' whole >log
    differs 5 "samples: the list"
    sed -E '/"committed".*"step":9,/s/"sums":\["[^"]*","..../&/; /"committed".*"step":9,/s/("sums":\["[^"]*",")..../\1zzzz/' whole >log
    differs 9 "bundle 1, tensor l000."
    sed -E '/"committed".*"step":9,/s/("state":\["[^"]*",")..../\1zzzz/' whole >log
    differs 9 "state before the step: bundle 1, tensor l000."
    sed -E '/"committed".*"step":6,/s/"chain":"./"chain":"x/' whole >log
    fails 3 data.value spot-run audit --state st --events log --steps 1:12
    sed -E '/"committed".*"step":6,/s/"chain":"......../"chain":"00000000/' whole >log
    differs 6 chain
    # the job that the state says it is has another rate: it is another job, whose steps are others
    cp whole log
    sed -i 's/"lr": .*/"lr": 0.002,/' st/job.json
    differs 1 "learning rate 0.001 in the log, 0.002"
}

@test "a weight that the last update got wrong, with nobody to compare it, is found in the generation" {
    background faulty unix:j bad update 12 5 20
    train log --steps 12 --grid 1x1 --state st
    wait $train
    differs 12 "generation after it: bundle 1, tensor l000."
}

@test "what cannot be audited is refused" {
    job
    fails 2 usage spot-run audit --events log --steps 1:2
    fails 2 usage spot-run audit --state st --steps 1:2
    fails 2 usage spot-run audit --state st --events log
    for steps in 0:2 3:2 x 1: 1:2:3 1:99999; do
        fails 2 usage spot-run audit --state st --events log --steps $steps
    done
    fails 2 usage spot-run audit --state . --events log --steps 1:2
    fails 4 system.missing spot-run audit --state st --events nolog --steps 1:2
    grep -v '"step":5,' log >holes || true
    fails 3 data spot-run audit --state st --events holes --steps 1:12
}

@test "weights of samples: as 1 they change no bit, of every grid and story they are the same, and audited" {
    local n weight
    n=$(wc -c <corpus)
    jot() { awk -v n="$n" -v k="$1" 'BEGIN { for (i = 0; i < n; i++) print k ? (i * 7 % 11 - 4) / 3 : 1 }'; }
    jot 0 >ones
    jot 1 >weights
    job
    jq -r 'select(.event == "committed").loss_hex' log >plain
    hash=$(jq -r 'select(.event == "done").state_xxh3_128' log)
    rm -rf st log
    job --weights-of-samples ones
    jq -r 'select(.event == "committed").loss_hex' log | cmp - plain
    [ "$(jq -r 'select(.event == "done").state_xxh3_128' log)" = "$hash" ]
    rm -rf st log
    job --weights-of-samples weights --val-data corpus --val-every 4
    [ "$(jq -r 'select(.event == "done").state_xxh3_128' log)" != "$hash" ]
    audit | grep -q '^equal: 12 steps'
    jq -r 'select(.event == "committed") | .chain, .samples_xxh3' log >whole
    # a loss is validated as it is
    jq -es 'map(select(.event == "validated").loss) | length > 1 and all(. > 1)' log
    for options in "--workers 4 --grid 2x2 --verify 1" "--workers 2 --grid 1x1x2"; do
        rm -rf st log
        job --weights-of-samples weights $options
        jq -r 'select(.event == "committed") | .chain, .samples_xxh3' log | cmp - whole
    done
    # a job that is resumed knows them; another weight is found by the audit, and is another job
    rm -rf st log
    job --weights-of-samples weights --steps 5
    spot-run train -q --resume st --steps 12 --events log
    jq -r 'select(.event == "committed") | .chain, .samples_xxh3' log | cmp - whole
    audit | grep -q '^equal: 12 steps'
    sed -i 's/^1$/1.5/' weights
    run -1 --separate-stderr audit
    [[ "$stderr" == *"weights of samples are not those"*differs*samples* ]]
    run -2 spot-run train -q --resume st --steps 13 --events log
    [[ "$output" == *"another job"*"weights-of-samples"* ]]
    sed -i '400s/.*/much/' weights
    run -3 spot-run train -q --resume st --steps 13 --events log
    [[ "$output" == *"weights:400: expected a number, got 'much'"* ]]
    run -2 spot-run train -q --data corpus $MODEL --steps 1 --weights-of-samples ones --device cuda
}
