#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# spot-run notice, and workers that leave on one: metadata services that are good, slow, dead or lie.

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
    background spot-run notice --endpoint "$at" --interval 0.05 "$@" >got 2>said
    watch=$pid
}

told_of() { # N FILTER: so many notices are as FILTER says
    eventually "[ \"\$(jq -c 'select($2)' got | wc -l)\" -ge $1 ]"
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

@test "aws: a notice is told with its deadline; again when that moves, and when it is gone" {
    cloud aws
    watch --from aws
    eventually '[ "$(asked "GET .*instance-action")" -ge 3 ]'
    [ ! -s got ]
    says instance-action '{"action": "terminate", "time": "'$(ahead 200)'"}'
    told_of 1 '.state == "new"'
    says instance-action '{"action": "terminate", "time": "'$(ahead 100)'"}'
    told_of 1 '.state == "earlier"'
    says instance-action '{"action": "terminate", "time": "'$(ahead 300)'"}'
    told_of 1 '.state == "later"'
    rm cloud/instance-action
    told_of 1 '.state == "gone"'
    says rebalance '{"noticeTime": "2099-01-01T00:00:00Z"}'
    told_of 1 '.kind == "rebalance" and .memory_lost == false'
    ends_well
    jq -es 'length == 5 and all(.schema == "spot.notice/1" and .source == "aws")
        and (map(select(.kind == "preempt")) | map(.id) | unique == ["spot/instance-action:terminate"])' got
    [ ! -s said ]
    [ "$(asked 'PUT')" -eq 1 ]
}

@test "aws: tokens are renewed before they end, and when they are refused" {
    cloud aws
    says ttl 1
    watch --from aws
    eventually '[ "$(asked "PUT /latest/api/token")" -ge 4 ]'
    says ttl 21600
    says fault 401
    eventually '[ "$(asked "PUT")" -ge 6 ]'
    rm cloud/fault
    says instance-action '{"action": "stop", "time": "@+100@"}'
    told_of 1 '.action == "stop"'
    ends_well
    run -1 grep -c "401" said
}

@test "aws: a storm of 401 is answered with fewer and fewer questions, one warning, and survived" {
    cloud aws
    says fault "401 instance-action"
    watch --from aws
    eventually 'grep -q "each token is refused" said'
    sleep 3
    # pauses of 0.05 s, 0.1 s, ... : a dozen in the time of sixty
    [ "$(asked PUT)" -le 12 ]
    [ "$(asked "GET .*instance-action")" -le 12 ]
    rm cloud/fault
    says instance-action '{"action": "terminate", "time": "@+100@"}'
    told_of 1 '.kind == "preempt"'
    ends_well
    [ "$(grep -c warning said)" -eq 1 ]
}

@test "gcp: one question waits for each value; a preemption has 30 s, or --lead" {
    cloud gcp
    watch --from gcp
    eventually '[ "$(asked "wait_for_change=true.*last_etag=")" -eq 2 ]'
    sleep 0.5
    [ "$(asked GET)" -eq 4 ]
    says maintenance-event MIGRATE_ON_HOST_MAINTENANCE
    told_of 1 '.kind == "maintenance" and .memory_lost == false'
    says maintenance-event NONE
    told_of 1 '.kind == "maintenance" and .state == "gone"'
    says preempted TRUE
    told_of 1 '.kind == "preempt" and .left_s == 30'
    ends_well
    [ "$(wc -l <got)" -eq 3 ]
    watch --from gcp --lead 2m # it is there already
    told_of 1 '.kind == "preempt" and .left_s == 120'
    ends_well
}

@test "gcp: a service that does not wait is not asked in a circle" {
    cloud gcp
    says fault hasty
    watch --from gcp --interval 0.2
    eventually '[ "$(asked GET)" -ge 6 ]'
    # of each value two at once, then one in 0.2 s
    awk '/GET.*preempted/ { if (n++ > 1 && $1 - last < 0.19) bad++; last = $1 } END { exit bad > 1 }' cloud/log
    says preempted TRUE
    told_of 1 '.kind == "preempt"'
    ends_well
}

event() { # ID TYPE RESOURCE [STATUS [NOT-BEFORE]]
    echo "{\"EventId\":\"$1\",\"EventStatus\":\"${4-Scheduled}\",\"EventType\":\"$2\",\"ResourceType\":\"VirtualMachine\",\"Resources\":[\"other\",\"$3\"],\"NotBefore\":\"${5-#+30#}\"}"
}

@test "azure: events of this machine are told, and acknowledged when the hook has ended well" {
    cloud azure
    says name vm_3
    watch --from azure --ack --exec '[ "$SPOT_NOTICE_ID" != bad ] && echo "$SPOT_NOTICE_ID $SPOT_NOTICE_STATE" >>hooked'
    eventually '[ "$(asked "GET /metadata/scheduledevents")" -ge 2 ]'
    says scheduledevents "{\"DocumentIncarnation\":2,\"Events\":[$(event sibling Preempt vm_30),$(event bad Freeze VM_3),$(event mine Preempt VM_3)]}"
    told_of 1 '.id == "mine" and .left_s > 20 and .left_s <= 30.5 and .action == "Preempt"'
    told_of 1 '.id == "bad" and .kind == "maintenance" and .memory_lost == false'
    eventually 'grep -q mine cloud/posted'
    says scheduledevents "{\"DocumentIncarnation\":3,\"Events\":[$(event mine Preempt vm_3 Started '')]}"
    told_of 1 '.id == "bad" and .state == "gone"'
    says scheduledevents '{"DocumentIncarnation":"4","Events":[]}'
    told_of 1 '.id == "mine" and .state == "gone"'
    ends_well
    [ "$(cat cloud/posted)" = '{"StartRequests":[{"EventId":"mine"}]}' ]
    [ "$(cat hooked)" = $'mine new\nmine gone' ]
    grep -q "the hook ended with status 1" said
    run -1 grep sibling got
}

@test "auto: finds out which cloud it is, and says once that it is none" {
    for which in aws gcp azure; do
        cloud $which
        says name here
        says instance-action '{"action": "terminate", "time": "@+100@"}'
        says preempted TRUE
        says scheduledevents "{\"Events\":[$(event e Preempt here)]}"
        run -0 spot-run notice --once --endpoint "$at"
        [ "$(jq -r .source <<<"$output")" = $which ]
        kill $service
    done
    watch # nobody answers there any more
    eventually 'grep -q "no metadata service answers at http://127.0.0.1" said'
    sleep 0.5
    ends_well
    [ "$(wc -l <said)" -eq 1 ]
    refuses 4 "no metadata service answers" notice --once --endpoint "$at" -q --interval 0.01
}

@test "a service that stalls, drips, lies, floods, redirects or hangs up gives no notice, one warning, and is asked on" {
    cloud aws
    says instance-action '{"action": "terminate", "time": "@+100@"}'
    for fault in drip garbage huge redirect reset 403 503; do
        says fault "$fault instance-action"
        watch --from aws
        eventually 'grep -q warning said'
        [ ! -s got ]
        rm cloud/fault
        told_of 1 '.kind == "preempt"'
        ends_well
        [ "$(wc -l <got)" -eq 1 ]
        [ "$(wc -l <said)" -eq 1 ] || { cat said; false; }
    done
    # what stands still does not keep the other question from being answered
    says fault "stall instance-action"
    says rebalance '{"noticeTime": "2099-01-01T00:00:00Z"}'
    watch --from aws
    told_of 1 '.kind == "rebalance"'
    rm cloud/fault
    told_of 1 '.kind == "preempt"'
    ends_well
}

@test "a clock that is wrong by hours, ours or theirs, changes nothing of what is left" {
    cloud aws
    for skew in -7200 0 7200 100000 none; do
        says skew $skew
        says instance-action '{"action": "terminate", "time": "@+100@"}'
        run -0 spot-run notice --once --from aws --endpoint "$at"
        jq -e '.left_s > 60 and .left_s <= 101.5' <<<"$output" || { echo "$skew: $output"; false; }
    done
    # a Date that cannot be: the deadline makes sense by our own clock
    says skew 100000000
    says instance-action "{\"action\": \"terminate\", \"time\": \"$(ahead 100)\"}"
    run -0 spot-run notice --once --from aws --endpoint "$at"
    [[ "$output" == *"s from its own Date"* ]]
    jq -e '.left_s > 60 and .left_s <= 101' <<<"$(grep '^{' <<<"$output")"
}

@test "a deadline that moves away with every answer is told ever more seldom" {
    cloud aws
    says instance-action '{"action": "terminate", "time": "@+120@"}'
    watch --from aws
    eventually '[ "$(jq -c "select(.state == \"later\")" got | wc -l)" -ge 2 ]'
    n=$(asked instance-action)
    ends_well
    [ "$n" -ge 20 ]
    [ "$(wc -l <got)" -le 4 ]
}

@test "cmd: each line is a notice, so is an end without one; what fails is started again" {
    run -0 spot-run notice --from "cmd:printf 'preempt 90s\\nrebalance\\n\\nmaintenance 2099-01-01 x\\npreempt 10s\\n'; kill -INT \$PPID"
    jq -es 'map([.kind, .state, .id, (.left_s // 0 | round)]) ==
        [["preempt", "new", "cmd", 90], ["rebalance", "new", "cmd", 0], ["maintenance", "new", "x", 0],
         ["preempt", "earlier", "cmd", 10]]' < <(grep '^{' <<<"$output") || { echo "$output"; false; }
    at=http://127.0.0.1:1
    watch --from "cmd:read x <n; echo \$((x + 1)) >n; [ \$x -ge 4 ]"
    echo 0 >n
    told_of 1 '.id == "exit" and .kind == "preempt"'
    ends_well
    [ "$(cat n)" -eq 5 ]
    grep -q "the command ended with status 1" said
    # it goes on after its last line: we do not wait for it, and it does not outlive us
    watch --from "cmd:echo preempt; exec >&-; echo \$\$ >child; exec sleep 100"
    told_of 1 '.action == "line"'
    eventually '[ -s child ]'
    ends_well
    ! kill -0 "$(cat child)" || false
}

@test "SIGTERM is a notice and the end; the hook is waited for; SIGINT is the end alone" {
    at=http://127.0.0.1:1
    watch --from sigterm --lead 30s --exec 'echo out; sleep 0.3; env | grep SPOT_NOTICE_ | sort >hooked'
    sleep 0.2
    kill -TERM $watch
    wait $watch
    jq -es 'length == 1 and .[0].source == "sigterm" and .[0].left_s == 30' got
    grep -q "^SPOT_NOTICE_KIND=preempt" hooked
    grep -q "^SPOT_NOTICE_LEFT_S=30" hooked
    [ "$(wc -l <hooked)" -eq 9 ]
    [ "$(cat said)" = out ]
    watch --from sigterm
    sleep 0.2
    ends_well
    [ ! -s got ]
}

@test "--once: 0 with a notice, 1 without, 4 where nobody answers" {
    cloud aws
    refuses 1 "" notice --once --from aws --endpoint "$at"
    says rebalance '{"noticeTime": "2099-01-01T00:00:00Z"}'
    run -0 spot-run notice --once --from aws --endpoint "$at"
    [ "$(jq -r .kind <<<"$output")" = rebalance ]
    says fault 401
    refuses 4 "no metadata service answers" notice --once --from aws --endpoint "$at" -q --interval 0.01
}

@test "what is not of this machine or its link is not asked; other mistakes are named" {
    for url in http://example.org http://10.0.0.1 https://127.0.0.1 127.0.0.1:80 http://127.0.0.1/x; do
        refuses 2 "expected http://ADDRESS" notice --endpoint $url
        refuses 2 "expected http://ADDRESS" worker --join unix:j --notice aws --notice-endpoint $url
    done
    for from in ibm cmd: "cmd: " ""; do
        refuses 2 "expected aws, gcp, azure, auto, sigterm or cmd:COMMAND" notice --from "$from"
        refuses 2 "expected aws, gcp, azure" worker --join unix:j --notice "$from"
    done
    refuses 2 "asked once" notice --once --from cmd:true
    refuses 2 "--notice" worker --join unix:j --notice-rebalance
    run -4 timeout 30 bash -c 'spot-run notice --from "cmd:echo preempt; sleep 50" >/dev/full'
}

leaver() { # ARGUMENTS...: a worker that watches
    background spot-run worker --join unix:j --join-timeout 60s --name leaver --notice-endpoint "$at" "$@" 2>leaver.err
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
    leaver --notice aws
    eventually 'grep -q "\"joined\".*\"leaver\"" log'
    says rebalance '{"noticeTime": "2099-01-01T00:00:00Z"}'
    at_step log 45
    sleep 1.5 # longer than its interval
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
    leaver --notice auto --notice-rebalance
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
