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

  --zone ZONE        us-east-1a; once or more
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
trap 'exit 130' INT TERM HUP # a submission ends before it

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

score() { # ZONE TYPE; scores name zones by their ids
    local id
    call zone describe-availability-zones --zone-names "$1" || return 1
    id=$(jq -r '.AvailabilityZones[0].ZoneId // empty' "$T/zone")
    call score get-spot-placement-scores --instance-types "$2" --target-capacity "$count" \
        --single-availability-zone ${region:+--region-names "$region"} || return 1
    jq -r --arg zone "$id" '[.SpotPlacementScores[] | select(.AvailabilityZoneId == $zone) | .Score][0] // empty' "$T/score"
}

rest() { sleep "${SPOT_TEST_PROBE_REST_S:-$1}"; }

# end_all ZONE REQUEST...: cancels them and ends what they started, also what EC2 shows some seconds
# later alone. 1: something may be left, which is said.
end_all() {
    local i id ids=() ended=' ' cancelled=no seen=no failed=0
    for i in 1 2 3 4 5; do
        call cancel cancel-spot-instance-requests --spot-instance-request-ids "${@:2}" && cancelled=yes && break
        rest 2
    done
    for i in 1 2 3; do
        rest 2
        call now describe-spot-instance-requests --spot-instance-request-ids "${@:2}" && seen=yes && mv "$T/now" "$T/after"
        mapfile -t ids < <(jq -r '.SpotInstanceRequests[].InstanceId // empty' "$T/made" "$T/state" "$T/after" | sort -u)
        for id in "${ids[@]}"; do
            [[ $ended == *" $id "* ]] || ! call end terminate-instances --instance-ids "$id" || ended+="$id "
        done
    done
    for id in "${ids[@]}"; do
        [[ $ended == *" $id "* ]] || { echo "$me: $id in $1 is left, end it" >&2 && failed=1; }
    done
    [ $cancelled$seen = yesyes ] || { echo "$me: ${*:2} in $1 may be left, cancel them and end what they started" >&2 && failed=1; }
    return $failed
}

# submit ZONE TYPE: how many of $count there is capacity for. A request waits in pending-evaluation
# until that is known, and may be found some seconds after it was made. Whoever stops us meanwhile
# waits until nothing is left.
submit() {
    local i ids=() failed=0
    trap '' INT TERM HUP
    echo '{"SpotInstanceRequests":[]}' | tee "$T/state" >"$T/after"
    call made request-spot-instances --type one-time --instance-count "$count" \
        --valid-until "$(date -u -d "+$((wait_s + 300)) sec" +%FT%TZ)" --launch-specification \
        "{\"ImageId\":\"$image\",\"InstanceType\":\"$2\",\"Placement\":{\"AvailabilityZone\":\"$1\"}}" || return 1
    mapfile -t ids < <(jq -r '.SpotInstanceRequests[].SpotInstanceRequestId' "$T/made")
    for ((i = 0; i < wait_s; i++)); do
        if call now describe-spot-instance-requests --spot-instance-request-ids "${ids[@]}"; then
            mv "$T/now" "$T/state"
            jq -e 'any(.SpotInstanceRequests[]; .Status.Code == "pending-evaluation")' "$T/state" >/dev/null || break
        fi
        rest 1
    done
    end_all "$1" "${ids[@]}" || failed=1
    jq -e '.SpotInstanceRequests[0]' "$T/state" >/dev/null || { echo "$me: no answer for $2 in $1" >&2 && return 1; }
    jq -r --slurpfile after "$T/after" '([$after[0].SpotInstanceRequests[] | select(.InstanceId) | .SpotInstanceRequestId]
        + [.SpotInstanceRequests[] | select(.Status.Code == "pending-fulfillment" or .Status.Code == "fulfilled")
            | .SpotInstanceRequestId]) | unique | length' "$T/state"
    return $failed
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
