#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# Goal: the probes of examples/clouds write rows that spot-predict reads, ask without cost unless told, and leave nothing behind.
# Held against an aws, a gcloud and an az of this file, which answer as documented and keep what they are told.

bats_require_minimum_version 1.5.0
set -o pipefail

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    clouds=$BATS_TEST_DIRNAME/../../examples/clouds
    mkdir bin
    PATH=$PWD/bin:$PATH
    export SPOT_TEST_PROBE_REST_S=0
}

# stopped PROBE...: SIGTERM comes to it and to what it runs while its cloud, which waits for `go`, begins to act; its status
stopped() {
    local pid at go rc=0
    mkfifo at go
    exec {at}<>at
    exec {go}<>go
    setsid "$@" 3>&- &
    pid=$!
    read -rt 120 -u "$at" _ || rc=1
    kill -TERM -- "-$pid"
    echo >&"$go"
    [ $rc = 1 ] || wait "$pid" || rc=$?
    return $rc
}

command_of() { # NAME: its text from standard input, after a line that keeps the call
    { printf '#!/bin/sh\necho "$*" >>%q/calls\n' "$PWD" && cat; } >"bin/$1"
    chmod +x "bin/$1"
}

fake_aws() {
    command_of aws <<'END'
case "$*" in
*describe-availability-zones*us-1z*) echo '{"AvailabilityZones":[]}' ;;
*describe-availability-zones*us-1a*) echo '{"AvailabilityZones":[{"ZoneName":"us-1a","ZoneId":"z1"}]}' ;;
*describe-availability-zones*) echo '{"AvailabilityZones":[{"ZoneName":"us-1b","ZoneId":"z2"}]}' ;;
*get-spot-placement-scores*) echo '{"SpotPlacementScores":[{"Region":"r","AvailabilityZoneId":"z1","Score":7},{"Region":"r","AvailabilityZoneId":"z2","Score":3}]}' ;;
*price-history*) echo '{"SpotPriceHistory":[{"SpotPrice":"0.25"}]}' ;;
*request-spot-instances*us-full*) echo '{"SpotInstanceRequests":[{"SpotInstanceRequestId":"full","State":"open","Status":{"Code":"pending-evaluation"}}]}' ;;
*request-spot-instances*) echo '{"SpotInstanceRequests":[{"SpotInstanceRequestId":"a","State":"open","Status":{"Code":"pending-evaluation"}},{"SpotInstanceRequestId":"b","State":"open","Status":{"Code":"pending-evaluation"}}]}' ;;
*describe*full*) echo '{"SpotInstanceRequests":[{"SpotInstanceRequestId":"full","State":"open","Status":{"Code":"capacity-not-available"}}]}' ;;
*describe*) echo '{"SpotInstanceRequests":[{"SpotInstanceRequestId":"a","State":"active","InstanceId":"i-1","Status":{"Code":"fulfilled"}},{"SpotInstanceRequestId":"b","State":"open","Status":{"Code":"capacity-not-available"}}]}' ;;
*) echo '{}' ;;
esac
END
}

@test "aws: without --apply scores are asked for, which cost nothing" {
    fake_aws
    "$clouds/aws-probe.sh" --zone us-1a --zone=us-1b --type g5 --to p.csv
    [ "$(cut -d , -f 2- p.csv)" = "$(printf '%s\n' zone,instance_type,asked,granted,price_usd_per_h,score us-1a,g5,0,0,0.25,7 us-1b,g5,0,0,0.25,3)" ]
    run ! grep -E 'request-spot|terminate' calls
    run -1 "$clouds/aws-probe.sh" --zone us-1z --type g5 --to p.csv
    [ "$(wc -l <p.csv)" -eq 3 ]
}

@test "aws: a request is cancelled, and what it started is ended" {
    fake_aws
    "$clouds/aws-probe.sh" --apply --image ami --zone us-1a --type g5 --count 2 --to p.csv
    "$clouds/aws-probe.sh" --apply --image ami --zone us-full --type g5 --to p.csv
    [ "$(tail -n 2 p.csv | cut -d , -f 2-5)" = "$(printf '%s\n' us-1a,g5,2,1 us-full,g5,1,0)" ]
    grep -q 'cancel-spot-instance-requests --spot-instance-request-ids a b' calls
    grep -q 'terminate-instances --instance-ids i-1' calls
    spot-predict -q p.csv | jq -e '[.series[].start.granted] | .[0] > .[1]'
}

@test "aws: a request that is not found at once, and calls that are refused for a while: nothing is left" {
    command_of aws <<'END'
case "$* $(grep -c describe-spot-instance calls) $(grep -c cancel-spot calls)" in
*price-history*) echo '{}' ;;
*request-spot-instances*) echo '{"SpotInstanceRequests":[{"SpotInstanceRequestId":"a","State":"open","Status":{"Code":"pending-evaluation"}}]}' ;;
*cancel*[12]) echo RequestLimitExceeded >&2; exit 254 ;;
*describe-spot*\ 1\ 0) echo InvalidSpotInstanceRequestID.NotFound >&2; exit 254 ;;
*describe-spot*\ 3\ *) echo RequestLimitExceeded >&2; exit 254 ;;
*describe-spot*\ [24]\ *) echo '{"SpotInstanceRequests":[{"SpotInstanceRequestId":"a","State":"open","Status":{"Code":"pending-fulfillment"}}]}' ;;
*describe-spot*) echo '{"SpotInstanceRequests":[{"SpotInstanceRequestId":"a","State":"cancelled","InstanceId":"i-9","Status":{"Code":"request-canceled-and-instance-running"}}]}' ;;
*) echo '{}' ;;
esac
END
    "$clouds/aws-probe.sh" --apply --image ami --zone us-1a --type g5 --to p.csv
    [ "$(tail -n 1 p.csv | cut -d , -f 2-5)" = us-1a,g5,1,1 ]
    [ "$(grep -c 'cancel-spot-instance-requests --spot-instance-request-ids a' calls)" = 3 ]
    grep -q 'terminate-instances --instance-ids i-9' calls
}

@test "aws: what may be left is said, and an answer that EC2 did not give is no row" {
    command_of aws <<'END'
case "$*" in
*request-spot-instances*) echo '{"SpotInstanceRequests":[{"SpotInstanceRequestId":"sir-a","State":"open","Status":{"Code":"pending-evaluation"}}]}' ;;
*) echo RequestLimitExceeded >&2; exit 254 ;;
esac
END
    run -1 --separate-stderr "$clouds/aws-probe.sh" --apply --image ami --wait 2 --zone us-1a --type g5 --to p.csv
    [[ $stderr == *'sir-a in us-1a'* ]]
    [ ! -e p.csv ]
}

@test "aws: who stops the probe waits until its request is cancelled, and what it started ended" {
    fake_aws
    mv bin/aws bin/real
    printf '#!/bin/sh\ncase "$*" in *request-spot*) echo >at; read -r _ <go ;; esac\nexec real "$@"\n' >bin/aws
    chmod +x bin/aws
    run -130 stopped "$clouds/aws-probe.sh" --apply --image ami --zone us-1a --zone us-full --type g5 --to p.csv
    grep -q 'cancel-spot-instance-requests --spot-instance-request-ids a b' calls
    grep -q 'terminate-instances --instance-ids i-1' calls
    run ! grep us-full calls
}

@test "gcloud: a machine that was made is deleted, one that is refused is an answer" {
    command_of gcloud <<'END'
case "$*" in
*create*full*) echo 'ERROR: ZONE_RESOURCE_POOL_EXHAUSTED' >&2; exit 1 ;;
*create*wrong*) echo 'ERROR: no permission' >&2; exit 1 ;;
esac
END
    "$clouds/gcloud-probe.sh" --zone us-a --type g2 --to p.csv
    [ ! -e calls ]
    "$clouds/gcloud-probe.sh" --apply --zone us-a --zone full --type g2 --to p.csv
    [ "$(tail -n 2 p.csv | cut -d , -f 2-5)" = "$(printf '%s\n' us-a,g2,1,1 full,g2,1,0)" ]
    [ "$(grep -c delete calls)" -eq 1 ]
    grep -q 'delete .*--zone us-a' calls
    run -1 "$clouds/gcloud-probe.sh" --apply --zone wrong --type g2 --to p.csv
    [ "$(wc -l <p.csv)" -eq 3 ]
}

@test "gcloud: machines are counted that are there at a time, and what may have been made is deleted" {
    command_of gcloud <<'END'
there=$(ls there 2>/dev/null | wc -l)
case "$*" in
*create*full*) [ $there = 0 ] || { echo 'ERROR: ZONE_RESOURCE_POOL_EXHAUSTED' >&2; exit 1; } ;;
*create*lost*) [ $there = 0 ] || { echo >there/spot-of-an-operation; echo 'ERROR: timed out' >&2; exit 1; } ;;
*delete*) rm -rf there ;;
esac
case "$*" in *create*) mkdir -p there && echo >"there/$there" ;; esac
END
    "$clouds/gcloud-probe.sh" --apply --count 3 --zone full --zone us-a --type g2 --to p.csv
    [ "$(tail -n 2 p.csv | cut -d , -f 2-5)" = "$(printf '%s\n' full,g2,3,1 us-a,g2,3,3)" ]
    [ ! -e there ]
    run -1 "$clouds/gcloud-probe.sh" --apply --count 3 --zone lost --type g2 --to p.csv
    [ "$(wc -l <p.csv)" -eq 3 ]
    [ "$(grep -c 'delete .*--zone lost' calls)" = 2 ]
}

@test "gcloud: who stops the probe waits until its machine is deleted" {
    command_of gcloud <<'END'
case "$*" in *create*) echo >at; read -r _ <go ;; esac
END
    run -130 stopped "$clouds/gcloud-probe.sh" --apply --zone us-a --zone us-b --type g2 --to p.csv
    grep -q 'delete spot-probe-[0-9]*-0 --zone us-a' calls
    run ! grep us-b calls
}

@test "az: a score of a location, and of a zone" {
    command_of az <<'END'
echo '{"placementScores":[{"sku":"S","availabilityZone":"1","score":"Low"},{"sku":"S","availabilityZone":"2","score":"High"}]}'
END
    "$clouds/az-probe.sh" --subscription s --zone eastus-1 --zone eastus --type S >p.csv
    [ "$(cut -d , -f 2- p.csv)" = "$(printf '%s\n' zone,instance_type,asked,granted,price_usd_per_h,score eastus-1,S,0,0,,1 eastus,S,0,0,,9)" ]
}

@test "cron: the places whose answers are worth most are asked, and the best is told" {
    cp "$clouds/probes.csv" p.csv
    command_of ask <<'END'
echo 36000,$2,$4,1,0,1.3, >>"$6"
END
    "$BATS_TEST_DIRNAME/../../examples/cron/probe.sh" p.csv 1 ask >best
    [ "$(cat calls)" = "--zone us-east-1a --type p3.2xlarge --to p.csv" ]
    [ "$(cut -d ' ' -f 1 best)" = us-west-2c ]
}

@test "cron: probes that cannot be read are an error, and nobody is asked" {
    printf '%s\n' time_s,zone,instance_type,asked,granted,price_usd_per_h,score 0,a,g,1,,1, >p.csv
    command_of ask </dev/null
    run ! "$BATS_TEST_DIRNAME/../../examples/cron/probe.sh" p.csv 1 ask
    [ ! -e calls ]
}
