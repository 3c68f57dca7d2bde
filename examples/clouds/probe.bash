#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034,SC2154 # what probes read, and set
# What the probes share: options, and rows that are added to a file whole. Sourced.
#
# A probe defines help() and `ask ZONE TYPE`, which calls row once or more; own options as launchers
# have them: take_own OPTION VALUE, or fails.

# shellcheck source=/dev/null
. "$(dirname "$(readlink -f "$0")")/common.bash"

zones=() types=() count=1 to='' apply=no

take_own() { return 1; }

take_probe_options() {
    while [ $# -gt 0 ]; do
        case $1 in
        --help | -h)
            help
            exit 0
            ;;
        --apply) apply=yes ;;
        --zone | --type | --count | --to | --*)
            [[ $1 == *=* ]] && set -- "${1%%=*}" "${1#*=}" "${@:2}"
            [ $# -ge 2 ] || usage "unknown option, or one without its value: '$1'"
            case $1 in
            --zone) zones+=("$2") ;;
            --type) types+=("$2") ;;
            --count) count=$2 ;;
            --to) to=$2 ;;
            *) take_own "$1" "$2" || usage "unknown option '$1'" ;;
            esac
            shift
            ;;
        *) usage "unexpected operand '$1'" ;;
        esac
        shift
    done
    [[ $count =~ ^[1-9][0-9]{0,2}$ ]] || usage "--count: expected 1 to 999, got '$count'"
    [ ${#zones[@]} -gt 0 ] || usage "--zone is missing"
    [ ${#types[@]} -gt 0 ] || usage "--type is missing"
    command -v jq >/dev/null || die 4 "needs jq"
}

readonly header=time_s,zone,instance_type,asked,granted,price_usd_per_h,score

# row ZONE TYPE ASKED GRANTED PRICE SCORE: one answer of now; the last two may be empty. 1: the
# counts are none, and the file could not be read with them.
row() {
    local now line
    [[ $3 =~ ^[0-9]+$ && $4 =~ ^[0-9]+$ ]] || return 1
    printf -v now '%(%s)T' -1
    line="$now,$1,$2,$3,$4,$5,$6"
    if [ -z "$to" ]; then
        [ -n "${has_header-}" ] || echo "$header"
        has_header=1
        echo "$line"
        return
    fi
    # whole lines, also when two probes write at a time
    # shellcheck disable=SC2094 # empty or not is asked under the lock
    {
        flock 9
        [ -s "$to" ] || echo "$header" >&9
        echo "$line" >&9
    } 9>>"$to"
}

# ask_all: every zone and type; 1 if a question had no answer
ask_all() {
    local zone type failed=0
    for zone in "${zones[@]}"; do
        for type in "${types[@]}"; do
            ask "$zone" "$type" || failed=1
        done
    done
    return $failed
}
