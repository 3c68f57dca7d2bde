#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Commands of `spot-run fleet` for EC2: see --help.
set -euo pipefail

help() {
    cat <<'END'
usage: spot-run fleet --launch 'aws-fleet.sh launch' --terminate 'aws-fleet.sh terminate' --list 'aws-fleet.sh list' ...

The token is EC2's client token, so that a launch that is asked for again launches nothing more, and a tag.
"No capacity" and quotas that are used up are an answer: fewer machines, or none.

  FLEET_IMAGE    AMI of a machine (required)
  FLEET_OPTIONS  more options of `aws ec2 run-instances`, e.g. '--user-data file://worker.sh --key-name k'

Region, profile and endpoint are as the aws command has them (AWS_REGION, AWS_PROFILE, AWS_ENDPOINT_URL). EC2 has no
notice that a user gives: the agent of a machine gets SIGTERM at its shutdown. Needs aws, jq.
END
}

scarce='InsufficientInstanceCapacity|InsufficientCapacity|MaxSpotInstanceCountExceeded|InstanceLimitExceeded|VcpuLimitExceeded|SpotMaxPriceTooLow|InsufficientHostCapacity|UnfulfillableCapacity'

launch() {
    local command more
    T=$(mktemp -d)
    trap 'rm -rf "$T"' EXIT
    read -ra more <<<"${FLEET_OPTIONS-}"
    command=(aws ec2 run-instances --output json --image-id "${FLEET_IMAGE:?FLEET_IMAGE is missing}" --instance-type "$SPOT_TYPE" --count "1:$SPOT_N"
        --client-token "$SPOT_TOKEN" --tag-specifications "ResourceType=instance,Tags=[{Key=Name,Value=$SPOT_TOKEN},{Key=spot-token,Value=$SPOT_TOKEN},{Key=spot-fleet,Value=${SPOT_TOKEN%%-*}}]")
    [ -z "$SPOT_ZONE" ] || command+=(--placement "AvailabilityZone=$SPOT_ZONE")
    [ "$SPOT_MARKET" != spot ] || command+=(--instance-market-options MarketType=spot)
    if "${command[@]}" "${more[@]}" >"$T/made" 2>"$T/err"; then
        jq -r '.Instances[].InstanceId' "$T/made"
    elif ! grep -qE "$scarce" "$T/err"; then
        cat "$T/err" >&2
        return 1
    fi
}

terminate() {
    local said
    said=$(aws ec2 terminate-instances --output json --instance-ids "$SPOT_ID" 2>&1) || grep -q InvalidInstanceID.NotFound <<<"$said" || {
        echo "$said" >&2
        return 1
    }
}

list() {
    aws ec2 describe-instances --output json --filters "Name=tag:spot-fleet,Values=$SPOT_FLEET" | jq -r '
        ["id", "token", "zone", "instance_type", "market", "state"],
        (.Reservations[].Instances[] | [.InstanceId, ([(.Tags // [])[] | select(.Key == "spot-token").Value][0] // ""), .Placement.AvailabilityZone,
            .InstanceType, (.InstanceLifecycle // "on-demand"),
            ({pending: "starting", running: "running", "shutting-down": "leaving", stopping: "leaving"}[.State.Name] // "gone")]) | @csv'
}

case ${1-} in
launch) launch ;;
terminate) terminate ;;
list) list ;;
--help) help ;;
*)
    help >&2
    exit 2
    ;;
esac
