#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait, first
# spot-run notice, and workers that leave on one, as a user has them: a story of each source. Services that are slow,
# dead or lie, clocks, tokens and hooks are in tests/unit/test_notice*.c.

bats_require_minimum_version 1.5.0
load job

setup() {
    job_setup
    tools=$(dirname "$(command -v spot-run)")/../tests
    # no proxy is ever asked: one that is named leads nowhere
    export http_proxy=http://127.0.0.1:1 all_proxy=http://127.0.0.1:1
}
teardown() { job_teardown; }

cloud() { # aws|gcp|azure: its metadata service, at $at
    mkdir -p cloud
    rm -f cloud/endpoint
    background "$tools/metadata" cloud "$1" 2>>cloud.err
    service=$pid
    eventually '[ -s cloud/endpoint ]'
    at=$(cat cloud/endpoint)
}

says() { # FILE TEXT: at once, or not at all
    printf '%s\n' "$2" >cloud.new
    mv cloud.new "cloud/$1"
}

watch() { # ARGUMENTS...: told goes to got, warnings to said
    : >got
    background spot-run notice --from "auto@$at" --interval 0.05 "$@" >got 2>said
    watch=$pid
}

told_of() { # PATTERN: a notice is so. To ask jq each time would take longer than the notice
    eventually "grep -q '$1' got"
}

asked() { # PATTERN: how often
    grep -c "$1" cloud/log || true
}

ahead() { # SECONDS: by the clock of this machine
    date -u -d "+$1 seconds" +%FT%TZ
}

ends_well() {
    kill -INT $watch
    wait $watch
}

# tier: check
@test "aws: a notice is told with its deadline, and when it is gone" {
    cloud aws
    watch --from "aws@$at"
    eventually '[ "$(asked "GET .*instance-action")" -ge 3 ]'
    [ ! -s got ]
    says instance-action '{"action": "terminate", "time": "'$(ahead 200)'"}'
    told_of '"state":"new"'
    rm cloud/instance-action
    told_of '"state":"gone"'
    ends_well
    jq -es 'length == 2 and all(.schema == "spot.notice/1" and .source == "aws" and .kind == "preempt"
        and .id == "spot/instance-action:terminate")' got
    [ ! -s said ]
    [ "$(asked 'PUT')" -eq 1 ]
}

@test "azure: events of this machine are told, and acknowledged when the hook has ended well" {
    cloud azure
    says name vm_3
    says scheduledevents '{"Events":[{"EventId":"sibling","EventType":"Preempt","Resources":["vm_30"],"NotBefore":"#+30#"},
        {"EventId":"mine","EventType":"Preempt","Resources":["VM_3"],"NotBefore":"#+30#"}]}'
    watch --from "azure@$at" --ack --exec 'echo "$SPOT_NOTICE_ID $SPOT_NOTICE_STATE" >>hooked'
    eventually 'grep -q mine cloud/posted'
    ends_well
    [ "$(cat cloud/posted)" = '{"StartRequests":[{"EventId":"mine"}]}' ]
    [ "$(cat hooked)" = 'mine new' ]
    jq -es 'length == 1 and (.[0] | .id == "mine" and .left_s > 0 and .left_s <= 30.5 and .action == "Preempt")' got
}

@test "auto: finds out which cloud it is; a preemption of gcp has 30 s, or --lead" {
    cloud gcp
    says preempted TRUE
    run -0 spot-run notice --once --from "auto@$at"
    jq -e '.source == "gcp" and .kind == "preempt" and .left_s == 30' <<<"$output"
    run -0 spot-run notice --once --from "auto@$at" --lead 2m
    jq -e '.left_s == 120' <<<"$output"
    kill $service
    refuses 4 "no metadata service answers" notice --once --from "auto@$at" -q --interval 0.01
}

@test "cmd: each line is a notice, and what fails is started again" {
    run -0 spot-run notice --from "cmd:printf 'preempt 90s\\nrebalance\\n\\npreempt 10s\\n'; kill -INT \$PPID"
    jq -es 'map([.kind, .state, .id, (.left_s // 0 | round)]) ==
        [["preempt", "new", "cmd", 90], ["rebalance", "new", "cmd", 0], ["preempt", "earlier", "cmd", 10]]' \
        < <(grep '^{' <<<"$output") || { echo "$output"; false; }
    at=http://127.0.0.1:1
    watch --from "cmd:read x <n; echo \$((x + 1)) >n; [ \$x -ge 4 ]"
    echo 0 >n
    told_of '"id":"exit"'
    ends_well
    [ "$(cat n)" -eq 5 ]
    grep -q "the command ended with status 1" said
}

@test "cmd: with the command ends what it started, told to or not" {
    at=http://127.0.0.1:1
    watch --from "cmd:trap '' TERM; sleep 1003 & echo \$\$ \$! >stays; wait"
    eventually '[ -s stays ]'
    ends_well
    for p in $(cat stays); do eventually "! kill -0 $p"; done
}

@test "SIGTERM is a notice and the end; the hook is waited for; SIGINT is the end alone" {
    at=http://127.0.0.1:1
    watch --from sigterm --lead 30s --exec 'echo out; sleep 0.3; env | grep SPOT_NOTICE_ | sort >hooked'
    hears $watch 15
    kill -TERM $watch
    wait $watch
    jq -es 'length == 1 and .[0].source == "sigterm" and .[0].left_s == 30' got
    grep -q "^SPOT_NOTICE_KIND=preempt" hooked
    grep -q "^SPOT_NOTICE_LEFT_S=30" hooked
    [ "$(wc -l <hooked)" -eq 9 ]
    [ "$(cat said)" = out ]
    watch --from sigterm
    hears $watch 15
    ends_well
    [ ! -s got ]
}

@test "--once: 0 with a notice, 1 without, 4 where nobody answers" {
    cloud aws
    refuses 1 "" notice --once --from "aws@$at"
    says rebalance '{"noticeTime": "2099-01-01T00:00:00Z"}'
    run -0 spot-run notice --once --from "aws@$at"
    [ "$(jq -r .kind <<<"$output")" = rebalance ]
    says fault 401
    refuses 4 "no metadata service answers" notice --once --from "aws@$at" -q --interval 0.01
}

@test "what is not of this machine or its link is not asked; other mistakes are named" {
    refuses 2 "expected http://ADDRESS" notice --from auto@http://example.org
    refuses 2 "expected http://ADDRESS" worker --join unix:j --notice aws@http://10.0.0.1
    refuses 2 "expected aws, gcp, azure, auto, sigterm or cmd:COMMAND" notice --from ibm
    refuses 2 "expected aws, gcp, azure" worker --join unix:j --notice "cmd: "
    refuses 2 "asked once" notice --once --from cmd:true
    refuses 2 "--notice" worker --join unix:j --notice-rebalance
    run -4 timeout 120 bash -c 'spot-run notice --from "cmd:echo preempt; sleep 500" >/dev/full'
}

leaver() { # ARGUMENTS...: a worker that watches
    background spot-run worker --join unix:j --join-timeout 60s --name leaver "$@" 2>leaver.err
    leaver=$pid
}

leaves() { # preempted, with its state handed over
    local rc=0
    wait $leaver || rc=$?
    [ $rc -eq 75 ]
}

@test "a worker leaves on a notice as on SIGTERM, and not on a recommendation; the bits stay" {
    cloud aws
    train plain --steps 40 --workers 1
    wait $train
    train log --steps 1000000 --workers 1
    leaver --notice "aws@$at"
    eventually 'grep -q "\"joined\".*\"leaver\"" log'
    says rebalance '{"noticeTime": "2099-01-01T00:00:00Z"}'
    at_step log 45
    local n
    n=$(asked rebalance)
    eventually '[ "$(asked rebalance)" -gt '$((n + 2))' ]' # it has been told
    run -1 grep '"notice"' log
    says instance-action '{"action": "terminate", "time": "@+100@"}'
    leaves
    eventually 'grep -q "\"left\".*\"leaver\"" log'
    grep -q '"notice".*"leaver"' log
    [ "$(events log lost)" -eq 0 ]
    grep -q "leaving: notice of aws (preempt, terminate)" leaver.err
    kill -TERM $train
    wait $train || true
    hexes() { jq -r 'select(.event == "committed" and .step <= 40) | [.step, .loss_hex] | @tsv' "$1"; }
    diff <(hexes plain) <(hexes log)
}

@test "a worker leaves on a recommendation where it is told to, and on a line of a command" {
    cloud aws
    train log --steps 1000000 --workers 1
    leaver --notice "auto@$at" --notice-rebalance
    eventually 'grep -q "\"joined\".*\"leaver\"" log'
    says rebalance '{"noticeTime": "2099-01-01T00:00:00Z"}'
    leaves
    leaver --notice "cmd:until [ -e gone ]; do sleep 0.05; done" -q
    eventually '[ "$(grep -c "\"joined\".*\"leaver\"" log)" -eq 2 ]'
    : >gone
    leaves
    eventually '[ "$(events log left)" -eq 2 ]'
    [ "$(events log lost)" -eq 0 ]
    kill -TERM $train
    wait $train || true
}
