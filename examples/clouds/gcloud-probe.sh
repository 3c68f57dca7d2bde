#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154,SC2317 # what probe.bash sets and calls
# Asks Compute Engine where spot machines are to be had, as rows for spot-predict: see --help.
set -euo pipefail
# shellcheck source=/dev/null
. "$(dirname "$(readlink -f "$0")")/probe.bash"

help() {
    cat <<'END'
usage: gcloud-probe.sh --zone ZONE... --type TYPE... --apply [OPTIONS]

Creates a spot machine and deletes it at once; a zone without capacity refuses it with
ZONE_RESOURCE_POOL_EXHAUSTED, which is an answer, too. A machine that was made is paid for a minute.
There is no way to ask without: without --apply it says what it would do. No cloud has seen this
script; it follows the documented text of the commands.

  --zone ZONE    us-central1-a; once or more
  --type TYPE    machine type; once or more
  --count N      machines asked for (default: 1)
  --to FILE      add rows there, with a header if it is new (default: print them)
  --apply        do it
  --image NAME   image family of the debian-cloud project (default: debian-12)
  --project P    else as the gcloud command is configured

Needs gcloud, jq. Exit status: 0 all answered, 1 some questions had no answer, 2 usage, 4 no jq.
END
}

image=debian-12 gcloud=(gcloud)
take_own() {
    case $1 in
    --image) image=$2 ;;
    --project) gcloud+=("$1" "$2") ;;
    *) return 1 ;;
    esac
}
take_probe_options "$@"
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT

# made ZONE NAME COMMAND...: a machine, deleted at once. 1: none is to be had; 2: no answer.
made() {
    if "${@:3}" >"$T/made" 2>"$T/err"; then
        "${gcloud[@]}" compute instances delete "$2" --zone "$1" --quiet >"$T/gone" 2>"$T/err" ||
            echo "$me: $2 in $1 is left, delete it: $(tr -s '\n' ' ' <"$T/err")" >&2
        return 0
    fi
    grep -qE 'ZONE_RESOURCE_POOL_EXHAUSTED|STOCKOUT|does not have enough resources' "$T/err" && return 1
    echo "$me: $(tr -s '\n' ' ' <"$T/err")" >&2
    return 2
}

ask() { # ZONE TYPE
    local name granted=0 status=0 command
    while [ "$granted" -lt "$count" ] && [ $status = 0 ]; do
        name=spot-probe-$$-$granted
        command=("${gcloud[@]}" compute instances create "$name" --zone "$1" --machine-type "$2"
            --provisioning-model SPOT --instance-termination-action DELETE --image-family "$image"
            --image-project debian-cloud --no-address --quiet --format json)
        if [ "$apply" = no ]; then
            echo "$me: would run ${command[*]}" >&2
            return
        fi
        made "$1" "$name" "${command[@]}" || status=$?
        [ $status != 0 ] || granted=$((granted + 1))
    done
    [ $status != 2 ] || return 1
    row "$1" "$2" "$count" "$granted" '' ''
}
ask_all
