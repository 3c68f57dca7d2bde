#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154,SC2317 # what probe.bash sets and calls
# Asks Azure where spot machines are to be had, as rows for spot-predict: see --help.
set -euo pipefail
# shellcheck source=/dev/null
. "$(dirname "$(readlink -f "$0")")/probe.bash"

help() {
    cat <<'END'
usage: az-probe.sh --zone LOCATION[-N]... --type SIZE... [OPTIONS]

The spot placement score of each location, or of its zone N, for that many machines; it starts
nothing and costs nothing. High, Medium and Low become 9, 5 and 1. No cloud has seen this script; it
follows the documented text of the interface.

  --zone L[-N]        eastus, or eastus-1: its zone 1; once or more
  --type SIZE         Standard_NC24ads_A100_v4; once or more
  --count N           machines asked about (default: 1)
  --to FILE           add rows there, with a header if it is new (default: print them)
  --subscription ID   else that of the az command

Needs az, jq. Exit status: 0 all answered, 1 some questions had no answer, 2 usage, 4 no jq.
END
}

subscription=''
take_own() {
    case $1 in
    --subscription) subscription=$2 ;;
    *) return 1 ;;
    esac
}
take_probe_options "$@"
[ "$apply" = no ] || usage "--apply: there is nothing to start, a score is all that is asked for"
[ -n "$subscription" ] || subscription=$(az account show --query id --output tsv) || die 4 "az: no subscription"
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT

ask() { # ZONE TYPE
    local location=$1 zone='' score
    [[ $1 =~ ^(.*)-([0-9])$ ]] && location=${BASH_REMATCH[1]} zone=${BASH_REMATCH[2]}
    jq -n --arg l "$location" --arg s "$2" --argjson n "$count" --arg z "$zone" \
        '{desiredLocations: [$l], desiredSizes: [{sku: $s}], desiredCount: $n, availabilityZones: ($z != "")}' >"$T/body"
    az rest --method post --body "@$T/body" --output json --url \
        "https://management.azure.com/subscriptions/$subscription/providers/Microsoft.Compute/locations/$location/placementScores/spot/generate?api-version=2025-06-05" \
        >"$T/score" 2>"$T/err" || { echo "$me: $2 in $1: $(tr -s '\n' ' ' <"$T/err")" >&2 && return 1; }
    score=$(jq -r --arg z "$zone" '{High: 9, Medium: 5, Low: 1} as $of | [.placementScores[]
        | select($z == "" or (.availabilityZone // "" | tostring) == $z) | $of[.score] // empty] | max // empty' "$T/score")
    [ -n "$score" ] || { echo "$me: no score of $2 in $1" >&2 && return 1; }
    row "$1" "$2" 0 0 '' "$score"
}
ask_all
