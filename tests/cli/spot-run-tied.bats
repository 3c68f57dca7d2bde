#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# spot-run train --tied: one table at both ends of the model, on any grid and through losses.

bats_require_minimum_version 1.5.0
load job

setup() { job_setup; }
teardown() { job_teardown; }

grids() { # ARGUMENTS -- D P...
    local more=()
    while [ "$1" != -- ]; do more+=("$1"); shift; done
    shift
    for grid in "$@"; do
        timeout 60 spot-run train -q --data corpus $MODEL --tied "${more[@]}" --global-batch 5 \
            --steps 8 --workers $((${grid//x/*})) --grid "$grid" --events "$grid.log"
        jq -es 'map(select(.event == "formed")) | last | "\(.D)x\(.P)\(if .M > 1 then "x\(.M)" else "" end)" == $grid' \
            --arg grid "$grid" "$grid.log"
        same_as "$grid.log" 8 --tied "${more[@]}"
    done
}

@test "every grid has the bits of one worker" { grids -- 1x2 1x3 1x4 2x1 2x2 3x1 3x2 1x2x2 2x1x2; }
# tier: long
@test "the same for a Llama" { grids --arch llama -- 1x2 2x1 2x2; }

@test "it is another job, with another loss, than an untied one" {
    undisturbed 4 --tied >tied
    undisturbed 4 >untied
    run cmp tied untied
    [ "$status" -eq 1 ]
    spot-run train -q --data corpus $MODEL --tied --global-batch 5 --steps 2 --state s --events a.log
    refuses 2 "another job: --tied no, there yes" train --data corpus $MODEL --no-tied --global-batch 5 --steps 3 --state s --resume
}

@test "a job that is killed on every stage and resumed goes on with one table" {
    train log --tied --steps 100000 --grid 1x2 --state s --durable-every 0.2s
    worker one
    worker two
    worker three
    at_step log 5
    kill -9 $pid
    seen log lost 1
    more_steps log
    worker four
    seen log joined 4
    more_steps log
    kill -TERM $train
    wait $train && status=0 || status=$?
    [ "$status" -eq 75 ]
    local steps=$(($(jq -s 'map(select(.event == "committed").step) | max' log) + 20))
    spot-run train -q --data corpus $MODEL --tied --global-batch 5 --steps $steps --state s --resume \
        --events more.log --save end.safetensors
    undisturbed $steps --tied | tail -n 1 >want
    jq -r 'select(.event == "done").state_xxh3_128' more.log | cmp want -
}

@test "a buddy follows a tied head" {
    train log --tied --steps 100000 --grid 1x2 --durable-every 1h
    worker one --domain a
    worker two --domain b
    worker three --domain c
    at_step log 20
    kill -9 $pid
    at_step log 40
    stops_right log --tied
}

@test "the file holds the table once; load gives it to both ends, and refuses two tables" {
    common="$MODEL --tied --global-batch 5"
    spot-run train -q --data corpus $common --steps 3 --save a.safetensors --events a.log
    run grep -qF lm_head a.safetensors
    [ "$status" -eq 1 ]
    grep -qF '\"tie_word_embeddings\":true' a.safetensors
    spot-run train -q --data corpus $common --steps 1 --lr 0 --load a.safetensors --save b.safetensors --events b.log
    cmp a.safetensors b.safetensors
    LC_ALL=C sed 's/"config":/"xonfig":/' a.safetensors >mute # says no shape
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 1 --lr 0 --load mute \
        --save twice.safetensors --events c.log
    grep -qF lm_head twice.safetensors
    refuses 2 "--tied, but twice.safetensors says" train --data corpus $common --steps 1 --load twice.safetensors
    LC_ALL=C sed -i 's/"config":/"xonfig":/' twice.safetensors
    spot-run train -q --data corpus $common --steps 1 --lr 0 --load twice.safetensors --save d.safetensors --events d.log
    cmp a.safetensors d.safetensors
    spot-run train -q --data corpus $MODEL --global-batch 5 --steps 2 --load mute \
        --save other.safetensors --events e.log
    LC_ALL=C sed -i 's/"config":/"xonfig":/' other.safetensors
    refuses 3 "the head is not tied" train --data corpus $common --steps 1 --load other.safetensors
}
