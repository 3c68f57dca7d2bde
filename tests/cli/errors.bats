#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Goal: a program learns what went wrong, and where, from --error-format json of every tool.
bats_require_minimum_version 1.5.0

load errors

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    tools="spot-migrate spot-plan spot-predict spot-replay spot-run"
}

@test "every tool has a code for a command line it does not know" {
    for tool in $tools; do
        fails 2 usage.unknown "$tool" --no-such-option
    done
    fails 2 usage.unknown spot-plan no-such-command
    fails 2 usage.unknown spot-run worker --no-such-option
    fails 2 usage.value spot-predict --seed x
    fails 2 usage.missing spot-run worker
}

@test "what a document has wrong has a place" {
    printf 'time_s,available\n0,4\n60,x\n' >t.csv
    fails 3 data.value spot-predict t.csv
    at t.csv 3 4
    echo '{"schema":"spot.job/1","name":3}' >job.json
    fails 3 data.type spot-plan train --job job.json --now 4
    at job.json 1 31 /name
    echo '{"schema":' >job.json
    fails 3 data.syntax spot-plan train --job job.json --now 4
    at job.json 2 1
    : >t.csv
    fails 3 data.missing spot-predict t.csv
    at t.csv
}

@test "a file that is not there, one that may not be written" {
    fails 4 system.missing spot-predict nowhere.csv
    printf 'time_s,available\n0,4\n60,4\n120,4\n' >t.csv
    fails 4 system.missing spot-predict -o nowhere/x t.csv
}

@test "a warning is a line of its own, and no error" {
    printf 'time_s,available\n0,4\n60,4\n120,4\n' >t.csv
    spot-predict --error-format json t.csv 2>err >/dev/null
    [ ! -s err ] || jq -e '.level != "error" and has("message")' err
    spot-predict --error-format=text nowhere.csv 2>err || [ $? = 4 ]
    grep -q '^spot-predict: ' err
}

@test "what a command is given is not ours" {
    run --separate-stderr spot-run exec --listen unix:no/where -- true --error-format json
    [ "$status" -ne 0 ]
    [[ "$stderr" != "{"* ]]
}
