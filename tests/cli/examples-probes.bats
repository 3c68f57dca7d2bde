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
}

command_of() { # NAME: its text from standard input, after a line that keeps the call
    { printf '#!/bin/sh\necho "$*" >>%q/calls\n' "$PWD" && cat; } >"bin/$1"
    chmod +x "bin/$1"
}

fake_aws() {
    command_of aws <<'END'
case "$*" in
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
    "$clouds/aws-probe.sh" --zone z1 --zone=z2 --type g5 --to p.csv
    [ "$(cut -d , -f 2- p.csv)" = "$(printf '%s\n' zone,instance_type,asked,granted,price_usd_per_h,score z1,g5,0,0,0.25,7 z2,g5,0,0,0.25,3)" ]
    run ! grep -E 'request-spot|terminate' calls
    run -1 "$clouds/aws-probe.sh" --zone z9 --type g5 --to p.csv
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
    run -1 "$clouds/gcloud-probe.sh" --apply --zone wrong --type g2 --to p.csv
    [ "$(wc -l <p.csv)" -eq 3 ]
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
