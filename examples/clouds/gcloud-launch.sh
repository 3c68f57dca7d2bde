#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154,SC2317 # what common.bash sets and calls
# Prints the gcloud commands that make Compute Engine hold what a plan says to buy: see --help.
set -euo pipefail
# shellcheck source=/dev/null
. "$(dirname "$(readlink -f "$0")")/common.bash"

help() {
    cat <<'END'
usage: gcloud-launch.sh [OPTIONS] --job NAME --running FILE PLAN|-

Obeys `buy` of a spot.plan/1 of kind fleet (spot-plan fleet) and prints, one a line, the
commands that start what of it does not run yet; `| bash` carries them out. It asks no cloud
itself. What runs is counted by its labels:

  gcloud compute instances list --filter=labels.spot-job=NAME --format=json >running.json

  --job NAME         label and first part of the names of all machines of this job
  --running FILE     the output of that command
  --terminate        print the commands that end what runs beyond the plan, too
  --zone ZONE        for rows of the plan that name none
  --image-family F   of --image-project P; else gcloud's default image
  --image-project P
  --startup-script FILE  what a new machine runs, e.g. a script that starts spot-run worker
  --max-age 15m      a plan file that is older is refused; `-` is as old as the pipe

Lines that begin with # are for people. Needs jq. Exit status: 0, 2 usage, 3 the plan or the
list is malformed or too old.
END
}

running='' default_zone='' more=()
take_own() {
    [ -n "$2" ] || return 1
    case $1 in
    --running) running=$2 ;;
    --zone) default_zone=$2 ;;
    --image-family | --image-project) more+=("$1=$2") ;;
    --startup-script) more+=("--metadata-from-file=startup-script=$2") ;;
    *) return 1 ;;
    esac
}
take_options "$@"
[ -n "$running" ] || usage "--running is missing"
read_plan
[ -n "$default_zone" ] || ! cut -f 2 "$T/want" | grep -qx any ||
    usage "the plan has rows without a zone: name one by --zone"
# a row without a zone is one of the default zone, and may meet another there
awk -F '\t' -v OFS='\t' -v zone="$default_zone" '$2 == "any" { $2 = zone }
    { key = $1 OFS $2 OFS $3; if (!(key in n)) order[++m] = key; n[key] += $4 }
    END { for (i = 1; i <= m; i++) print order[i], n[order[i]] }' "$T/want" >"$T/placed"
mv "$T/placed" "$T/want"

jq -r '.[] | .name' "$running" >"$T/names" 2>"$T/err" ||
    die 3 "$running: expected the list that gcloud prints: $(head -n 1 "$T/err")"
jq -r --arg job "$job" '[.[] | select(.labels["spot-job"] == $job)
        | select(.status == "PROVISIONING" or .status == "STAGING" or .status == "RUNNING")]
    | sort_by(.creationTimestamp, .name)[]
    | [(.machineType | sub(".*/"; "")), (.zone | sub(".*/"; "")),
       (if .scheduling.provisioningModel == "SPOT" then "spot" else "on-demand" end), .name] | @tsv' \
    "$running" >"$T/running"

act() {
    local command
    case $1 in
    ensure)
        echo "# $2 in $3, $4: $5 of $6 run"
        [ "$5" -lt "$6" ] || return 0
        while read -r name; do
            command=(gcloud compute instances create "$name" "--zone=$3" "--machine-type=$2"
                "--labels=spot-job=$job,spot-market=$4")
            [ "$4" = on-demand ] ||
                command+=(--provisioning-model=SPOT --instance-termination-action=DELETE)
            command+=("${more[@]}")
            quoted "${command[@]}"
        done < <(free_names "$(($6 - $5))")
        ;;
    surplus)
        if [ "$terminate" = no ]; then
            echo "# beyond the plan: $5, $2 in $3, $4; --terminate ends it"
        else
            quoted gcloud compute instances delete "$5" "--zone=$3" --quiet
        fi
        ;;
    esac
}
compare_fleet "$T/running"
