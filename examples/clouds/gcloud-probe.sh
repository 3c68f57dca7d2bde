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

Creates spot machines and deletes them at once; a zone without capacity refuses one with
ZONE_RESOURCE_POOL_EXHAUSTED, which is an answer, too. A machine that was made is paid for a minute;
one that could not be deleted ends by itself after ten.
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
trap 'exit 130' INT TERM HUP # a question ends before it

# gone ZONE NAME...
gone() {
    "${gcloud[@]}" compute instances delete "${@:2}" --zone "$1" --quiet >"$T/gone" 2>"$T/err" || grep -q 'was not found' "$T/err" ||
        echo "$me: ${*:2} in $1 may be left, delete them: $(tr -s '\n' ' ' <"$T/err")" >&2
}

# made ZONE COMMAND...: how many of $count there are to be had at a time. All are made, then deleted,
# as is one of which it is not known. Whoever stops us meanwhile waits until nothing is left.
made() {
    local names=() name failed=0
    trap '' INT TERM HUP
    while [ ${#names[@]} -lt "$count" ]; do
        name=spot-probe-$$-${#names[@]}
        "${@:2}" "$name" >"$T/made" 2>"$T/err" || break
        names+=("$name")
    done
    if [ ${#names[@]} -lt "$count" ] && ! grep -qE 'ZONE_RESOURCE_POOL_EXHAUSTED|STOCKOUT|does not have enough resources' "$T/err"; then
        echo "$me: $(tr -s '\n' ' ' <"$T/err")" >&2
        gone "$1" "$name"
        failed=1
    fi
    [ ${#names[@]} = 0 ] || gone "$1" "${names[@]}"
    [ $failed = 0 ] && echo ${#names[@]}
}

ask() { # ZONE TYPE
    local granted command
    command=("${gcloud[@]}" compute instances create --zone "$1" --machine-type "$2" --provisioning-model SPOT
        --instance-termination-action DELETE --max-run-duration 10m --image-family "$image"
        --image-project debian-cloud --no-address --quiet --format json)
    if [ "$apply" = no ]; then
        echo "$me: would run ${command[*]} spot-probe-$$-0" >&2
        return
    fi
    granted=$(made "$1" "${command[@]}") || return 1
    row "$1" "$2" "$count" "$granted" '' ''
}
ask_all
