#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154,SC2317 # what common.bash sets and calls
# Prints the az commands that make Azure hold what a plan says to buy: see --help.
set -euo pipefail
# shellcheck source=/dev/null
. "$(dirname "$(readlink -f "$0")")/common.bash"

help() {
    cat <<'END'
usage: az-launch.sh [OPTIONS] --job NAME --resource-group G --image URN --running FILE PLAN|-

Obeys `buy` of a spot.plan/1 of kind fleet (spot-plan fleet) and prints, one a line, the
commands that start what of it does not run yet; `| bash` carries them out. It asks no cloud
itself. What runs is counted by its tags:

  az vm list --show-details --resource-group G --output json >running.json

  --job NAME         tag and first part of the names of all machines of this job
  --resource-group G where they live
  --image URN        what they start from
  --running FILE     the output of that command
  --terminate        print the commands that end what runs beyond the plan, too
  --location L       region, for all; a zone of the plan is 1, 2 or 3 in it, or LOCATION-1
  --custom-data FILE cloud-init or script of a new machine
  --max-age 15m      a plan file that is older is refused; `-` is as old as the pipe

Lines that begin with # are for people. Needs jq. Exit status: 0, 2 usage, 3 the plan or the
list is malformed or too old.
END
}

running='' group='' image='' location='' custom_data=''
take_own() {
    [ -n "$2" ] || return 1
    case $1 in
    --running) running=$2 ;;
    --resource-group) group=$2 ;;
    --image) image=$2 ;;
    --location) location=$2 ;;
    --custom-data) custom_data=$2 ;;
    *) return 1 ;;
    esac
}
take_options "$@"
[ -n "$running" ] || usage "--running is missing"
[ -n "$group" ] || usage "--resource-group is missing"
[ -n "$image" ] || usage "--image is missing"
read_plan

jq -r '.[] | .name' "$running" >"$T/names" 2>"$T/err" ||
    die 3 "$running: expected the list that az prints: $(head -n 1 "$T/err")"
# the plan's own words for type and zone are in the tags: Azure changes the case of sizes
jq -r --arg job "$job" '[.[] | select((.tags // {})["spot-job"] == $job)
        | select(.powerState == null or (.powerState | test("^VM (creating|starting|running)$")))]
    | sort_by(.timeCreated, .name)[]
    | [.tags["spot-type"] // "?", .tags["spot-zone"] // "?", .tags["spot-market"] // "?", .name] | @tsv' \
    "$running" >"$T/running"

act() {
    local command
    case $1 in
    ensure)
        echo "# $2 in $3, $4: $5 of $6 run"
        [ "$5" -lt "$6" ] || return 0
        while read -r name; do
            command=(az vm create --resource-group "$group" --name "$name" --size "$2" --image "$image"
                --tags "spot-job=$job" "spot-type=$2" "spot-zone=$3" "spot-market=$4" --no-wait)
            [ -z "$location" ] || command+=(--location "$location")
            [ "$3" = any ] || command+=(--zone "${3##*-}")
            [ "$4" = on-demand ] || command+=(--priority Spot --eviction-policy Delete --max-price -1)
            [ -z "$custom_data" ] || command+=(--custom-data "$custom_data")
            quoted "${command[@]}"
        done < <(free_names "$(($6 - $5))")
        ;;
    surplus)
        if [ "$terminate" = no ]; then
            echo "# beyond the plan: $5, $2 in $3, $4; --terminate ends it"
        else
            quoted az vm delete --resource-group "$group" --name "$5" --yes --no-wait
        fi
        ;;
    esac
}
compare_fleet "$T/running"
