#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154,SC2317 # what common.bash sets and calls
# Makes EC2 hold what a plan of spot-plan fleet says to buy: see --help.
set -euo pipefail
# shellcheck source=/dev/null
. "$(dirname "$(readlink -f "$0")")/common.bash"

help() {
    cat <<'END'
usage: aws-launch.sh [OPTIONS] --job NAME --image AMI PLAN|-

Obeys `buy` of a spot.plan/1 of kind fleet (spot-plan fleet): what of it does not run yet is
started. What runs is counted by its tags spot-job, spot-zone and spot-market, so a second
call starts nothing. Prints one line per action; without --apply it only says what it would do.

  --job NAME         tag of all machines of this job
  --image AMI        what they start from
  --apply            do it
  --terminate        end what runs beyond the plan; its workers get SIGTERM at shutdown
  --user-data FILE   script that a new machine runs, e.g. one that starts spot-run worker
  --subnet ID        subnet of new machines; of rows without a zone alone, or of one zone
  --key-name NAME    ssh key
  --region NAME      else as the aws command is configured
  --endpoint-url U   another endpoint, for tests
  --max-age 15m      a plan file that is older is refused; `-` is as old as the pipe

Needs aws, jq. Exit status: 0 the plan holds, 1 some machines could not be had, 2 usage,
3 the plan is malformed or too old, 4 the cloud could not be asked.
END
}

image='' apply=no user_data='' subnet='' key_name='' aws=(aws)
take_own() {
    if [ "$1" = --apply ] && [ -z "$2" ]; then
        apply=yes
        return
    fi
    [ -n "$2" ] || return 1
    case $1 in
    --image) image=$2 ;;
    --user-data) user_data=$2 ;;
    --subnet) subnet=$2 ;;
    --key-name) key_name=$2 ;;
    --region | --endpoint-url) aws+=("$1" "$2") ;;
    *) return 1 ;;
    esac
}
take_options "$@"
[ -n "$image" ] || usage "--image is missing"
[ -z "$user_data" ] || [ -r "$user_data" ] || die 4 "$user_data: cannot be read"
read_plan

# All machines that have the tag, those that ended of late as well: which ids there were makes the
# token below a new one when a machine that was lost is replaced.
"${aws[@]}" ec2 describe-instances --output json \
    --filters "Name=tag:spot-job,Values=$job" >"$T/all" || die 4 "cannot list what runs"
jq -r '[.Reservations[].Instances[].InstanceId] | sort | .[]' "$T/all" >"$T/ids"
jq -r 'def tag($k): [(.Tags // [])[] | select(.Key == $k) | .Value][0] // "?";
    [.Reservations[].Instances[] | select(.State.Name == "pending" or .State.Name == "running")]
    | sort_by(.LaunchTime, .InstanceId)[]
    | [.InstanceType, tag("spot-zone"), tag("spot-market"), .InstanceId] | @tsv' "$T/all" >"$T/running"

failed=0 placed=0
# start N TYPE ZONE MARKET: one request; what of it was placed is in $placed
start() {
    local token tags command
    # two calls that saw the same machines ask for the same ones: EC2 answers the second with the first's
    token=$({ echo "$job $*"; cat "$T/ids"; } | sha256sum | cut -c 1-64)
    tags="{Key=Name,Value=$job},{Key=spot-job,Value=$job},{Key=spot-zone,Value=$3},{Key=spot-market,Value=$4}"
    command=("${aws[@]}" ec2 run-instances --output json --image-id "$image" --instance-type "$2"
        --count "1:$1" --client-token "$token"
        --tag-specifications "ResourceType=instance,Tags=[$tags]")
    [ "$3" = any ] || command+=(--placement "AvailabilityZone=$3")
    [ "$4" = on-demand ] || command+=(--instance-market-options MarketType=spot)
    [ -z "$subnet" ] || command+=(--subnet-id "$subnet")
    [ -z "$key_name" ] || command+=(--key-name "$key_name")
    [ -z "$user_data" ] || command+=(--user-data "file://$user_data")
    placed=0
    if [ "$apply" = no ]; then
        echo "would start $1 of $2 in $3, $4: $(quoted "${command[@]}")"
    elif "${command[@]}" >"$T/made" 2>"$T/err"; then
        jq -r '.Instances[].InstanceId' "$T/made" | tee "$T/new" >>"$T/ids"
        placed=$(wc -l <"$T/new")
        echo "started $placed of $1 of $2 in $3, $4: $(paste -sd ' ' "$T/new")"
    else
        echo "could not start $1 of $2 in $3, $4: $(tr -s '\n' ' ' <"$T/err")"
        failed=1
    fi
}

# A request may be answered in part: then the rest is asked for, until there is none of that kind.
start_all() { # TYPE ZONE MARKET HAVE WANT
    local n=$(($5 - $4))
    placed=1
    while [ "$n" -gt 0 ] && [ "$placed" -gt 0 ]; do
        start "$n" "$1" "$2" "$3"
        n=$((n - placed))
    done
}

act() {
    local command=("${aws[@]}" ec2 terminate-instances --output json --instance-ids "${5-}")
    case $1 in
    ensure)
        if [ "$5" -ge "$6" ]; then
            echo "holds $5 of $6 of $2 in $3, $4"
        else
            start_all "${@:2}"
        fi
        ;;
    surplus)
        if [ "$terminate" = no ]; then
            echo "beyond the plan: $5, $2 in $3, $4; --terminate ends it"
        elif [ "$apply" = no ]; then
            echo "would end $5, $2 in $3, $4: $(quoted "${command[@]}")"
        elif "${command[@]}" >"$T/made" 2>"$T/err"; then
            echo "ended $5, $2 in $3, $4"
        else
            echo "could not end $5: $(tr -s '\n' ' ' <"$T/err")"
            failed=1
        fi
        ;;
    esac
}
compare_fleet "$T/running"
exit $failed
