#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154,SC2317 # what probe.bash sets and calls
# Asks EC2 where spot instances are to be had, as rows for spot-predict: see --help.
set -euo pipefail
# shellcheck source=/dev/null
. "$(dirname "$(readlink -f "$0")")/probe.bash"

help() {
    cat <<'END'
usage: aws-probe.sh --zone ZONE... --type TYPE... [OPTIONS]

Without --apply it costs nothing: the placement score of each zone and type, with its spot price.
With --apply it submits a one-time spot request and cancels it as soon as EC2 has said whether there
is capacity; an instance that was started meanwhile is ended at once, and is paid for a minute.

  --zone ZONE        us-east-1a; for a score its id, use1-az1; once or more
  --type TYPE        instance type; once or more
  --count N          instances asked for (default: 1)
  --to FILE          add rows there, with a header if it is new (default: print them)
  --apply            submit and cancel
  --image AMI        what a request names; needed with --apply
  --wait SECONDS     for EC2's answer, at most (default: 20)
  --region NAME      else as the aws command is configured
  --endpoint-url U   another endpoint, for tests

From cron: */10 * * * * aws-probe.sh --zone us-east-1a --type g5.xlarge --to /var/lib/spot/probes.csv
Needs aws, jq. Exit status: 0 all answered, 1 some questions had no answer, 2 usage, 4 no jq.
END
}

image='' wait_s=20 region='' aws=(aws)
take_own() {
    case $1 in
    --image) image=$2 ;;
    --wait) wait_s=$2 ;;
    --region)
        region=$2
        aws+=("$1" "$2")
        ;;
    --endpoint-url) aws+=("$1" "$2") ;;
    *) return 1 ;;
    esac
}
take_probe_options "$@"
[[ $wait_s =~ ^[1-9][0-9]{0,2}$ ]] || usage "--wait: expected 1 to 999 seconds, got '$wait_s'"
[ "$apply" = no ] || [ -n "$image" ] || usage "--image is missing"
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT

# call NAME ARGUMENTS...: the answer is in $T/NAME
call() {
    "${aws[@]}" ec2 "${@:2}" --output json >"$T/$1" 2>"$T/err" && return
    echo "$me: $(tr -s '\n' ' ' <"$T/err")" >&2
    return 1
}

price() { # ZONE TYPE: the spot price now, or nothing
    call price describe-spot-price-history --instance-types "$2" --availability-zone "$1" \
        --product-descriptions Linux/UNIX --max-items 1 --start-time "$(date -u +%FT%TZ)" 2>/dev/null || return 0
    jq -r '.SpotPriceHistory[0].SpotPrice // empty' "$T/price"
}

score() { # ZONE TYPE
    call score get-spot-placement-scores --instance-types "$2" --target-capacity "$count" \
        --single-availability-zone ${region:+--region-names "$region"} || return 1
    jq -r --arg zone "$1" '[.SpotPlacementScores[] | select(.AvailabilityZoneId == $zone) | .Score][0] // empty' "$T/score"
}

# submit ZONE TYPE: how many of $count there is capacity for. A request waits in pending-evaluation
# until that is known. After the cancellation the list says what was started meanwhile.
submit() {
    local i id ids=()
    call made request-spot-instances --type one-time --instance-count "$count" --launch-specification \
        "{\"ImageId\":\"$image\",\"InstanceType\":\"$2\",\"Placement\":{\"AvailabilityZone\":\"$1\"}}" || return 1
    mapfile -t ids < <(jq -r '.SpotInstanceRequests[].SpotInstanceRequestId' "$T/made")
    cp "$T/made" "$T/state"
    for ((i = 0; i < wait_s; i++)); do
        call state describe-spot-instance-requests --spot-instance-request-ids "${ids[@]}" || break
        jq -e 'any(.SpotInstanceRequests[]; .Status.Code == "pending-evaluation")' "$T/state" >/dev/null || break
        sleep 1
    done
    call cancel cancel-spot-instance-requests --spot-instance-request-ids "${ids[@]}" || return 1
    call after describe-spot-instance-requests --spot-instance-request-ids "${ids[@]}" || return 1
    while read -r id; do
        call end terminate-instances --instance-ids "$id" || echo "$me: $id in $1 is left, end it" >&2
    done < <(jq -r '.SpotInstanceRequests[].InstanceId // empty' "$T/after")
    jq -r --slurpfile after "$T/after" '([$after[0].SpotInstanceRequests[] | select(.InstanceId) | .SpotInstanceRequestId]
        + [.SpotInstanceRequests[] | select(.Status.Code == "pending-fulfillment" or .Status.Code == "fulfilled")
            | .SpotInstanceRequestId]) | unique | length' "$T/state"
}

ask() { # ZONE TYPE
    local answer
    if [ "$apply" = no ]; then
        answer=$(score "$1" "$2") || return 1
        [ -n "$answer" ] || { echo "$me: no score of $2 in $1" >&2 && return 1; }
        row "$1" "$2" 0 0 "$(price "$1" "$2")" "$answer"
    else
        answer=$(submit "$1" "$2") || return 1
        row "$1" "$2" "$count" "$answer" "$(price "$1" "$2")" ''
    fi
}
ask_all
