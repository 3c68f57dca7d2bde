# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# shellcheck disable=SC2154 # bats sets status, output, stderr
# What a tool says is wrong, by code and place instead of words.

# fails STATUS CODE TOOL [COMMAND] [ARGUMENTS...]: it ends so, with that code, which `at` and `error` ask about
fails() {
    local want=$1 code=$2
    shift 2
    run --separate-stderr timeout 120 "$@" --error-format json
    error=$(jq -c 'select(.level == "error")' <<<"$stderr")
    [ "$status" -eq "$want" ] && [ "$(jq -r .code <<<"$error")" = "$code" ] && [ -z "$output" ] && return
    echo "$*: status $status, $stderr$output" >&2
    return 1
}

# at FILE [LINE [COLUMN [POINTER]]]: there
at() {
    local is
    is=$(jq -r '[.file, .line, .column, .pointer] | map(values) | map(tostring) | join(" ")' <<<"$error")
    [ "$is" = "$*" ] || { echo "at '$is', not '$*'" >&2 && false; }
}
