#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2034 # what launchers read
# What the launchers share: options, a plan that is fit to be obeyed, and the difference between
# what it says to hold and what runs. Sourced; it does nothing by itself.
#
# A launcher defines help() and sets the defaults of options of its own; take_own OPTION VALUE
# takes one of them, or fails.

me=${0##*/}
job='' max_age=15m terminate=no plan='' T=''

die() { # STATUS TEXT
    echo "$me: $2" >&2
    exit "$1"
}

usage() { # TEXT
    echo "$me: $1" >&2
    echo "try '$me --help'" >&2
    exit 2
}

seconds() { # 90s 15m 2h
    [[ $1 =~ ^([0-9]{1,6})([smh])$ ]] || usage "--max-age: expected a duration as 15m, got '$1'"
    case ${BASH_REMATCH[2]} in
    s) echo "$((10#${BASH_REMATCH[1]}))" ;;
    m) echo "$((10#${BASH_REMATCH[1]} * 60))" ;;
    h) echo "$((10#${BASH_REMATCH[1]} * 3600))" ;;
    esac
}

take_options() {
    while [ $# -gt 0 ]; do
        case $1 in
        --help | -h)
            help
            exit 0
            ;;
        --terminate) terminate=yes ;;
        --job=*) job=${1#*=} ;;
        --max-age=*) max_age=${1#*=} ;;
        --job | --max-age)
            [ $# -ge 2 ] || usage "$1 needs a value"
            set -- "$1=$2" "${@:3}"
            continue
            ;;
        - | [!-]*)
            [ -z "$plan" ] || usage "one plan, not '$plan' and '$1'"
            plan=$1
            ;;
        *)
            if [[ $1 != *=* && $# -ge 2 ]] && take_own "$1" "$2"; then
                shift
            elif [[ $1 == *=* ]] && take_own "${1%%=*}" "${1#*=}"; then
                :
            elif ! take_own "$1" ''; then
                usage "unknown option, or one without its value: '$1'"
            fi
            ;;
        esac
        shift
    done
    [ -n "$plan" ] || usage "a plan is missing"
    # the strictest of what three clouds take in names and labels
    [[ $job =~ ^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$ ]] ||
        usage "--job: expected 1 to 30 of a-z, 0-9 and '-', a letter first, got '$job'"
    max_age_s=$(seconds "$max_age") || exit
}

# read_plan: checks it and leaves its rows in $T/want, "type zone market count" with tabs, rows of
# the same place added up; zone is 'any' where the plan names none.
read_plan() {
    local now made
    command -v jq >/dev/null || die 4 "needs jq"
    T=$(mktemp -d)
    trap 'rm -rf "$T"' EXIT
    if [ "$plan" = - ]; then
        cat >"$T/plan" # as old as the pipe
    else
        cat -- "$plan" >"$T/plan" || exit 4
        made=$(stat -c %Y -- "$plan")
        printf -v now '%(%s)T' -1
        # a document of kind fleet has no clock in it: equal inputs give equal bytes
        [ $((now - made)) -le "$max_age_s" ] ||
            die 3 "$plan: is $(((now - made) / 60)) minutes old, more than $max_age; make it anew"
    fi
    jq -e 'type == "object" and .schema == "spot.plan/1"' "$T/plan" >/dev/null 2>"$T/err" ||
        die 3 "$plan: expected a document spot.plan/1${1:+ }$(head -n 1 "$T/err")"
    jq -e '.kind == "fleet"' "$T/plan" >/dev/null ||
        die 3 "$plan: expected a plan of kind fleet, got $(jq -c '.kind // "train"' "$T/plan")"
    jq -r 'def bad($i; $what): error("/buy/\($i)/\($what)");
        if .buy | type != "array" then error("/buy: expected an array") else . end
        | .buy | to_entries | map(.key as $i | .value
            | if type != "object" then error("/buy/\($i): expected an object") else . end
            | if (.instance_type | type == "string" and test("^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$")) then .
              else bad($i; "instance_type: expected the name of a machine type, got \(.instance_type | tojson)") end
            | .zone = (if .zone == null or .zone == "" then "any" else .zone end)
            | if (.zone | type == "string" and test("^[a-z0-9][a-z0-9-]{0,39}$")) then .
              else bad($i; "zone: expected a zone of the cloud, got \(.zone | tojson)") end
            | if .market == "spot" or .market == "on-demand" then .
              else bad($i; "market: expected spot or on-demand, got \(.market | tojson)") end
            | if (.count | type == "number" and . >= 0 and . == floor and . <= 1000) then .
              else bad($i; "count: expected an integer in [0, 1000], got \(.count | tojson)") end)
        | group_by([.instance_type, .zone, .market])[]
        | [.[0].instance_type, .[0].zone, .[0].market, (map(.count) | add)] | @tsv' \
        "$T/plan" >"$T/want" 2>"$T/err" || die 3 "$plan: $(sed 's/^jq: error ([^)]*): //; q' "$T/err")"
}

# compare_fleet RUNNING-FILE: rows "type zone market id" of what runs. Calls
# `act ensure TYPE ZONE MARKET HAVE WANT` for each row of the plan, then
# `act surplus TYPE ZONE MARKET ID` for each machine above the count, or of no row.
compare_fleet() {
    local type zone market want have id kind
    awk -F '\t' -v OFS='\t' '
        FILENAME == ARGV[1] { want[$1 FS $2 FS $3] = $4; order[++n] = $1 FS $2 FS $3; next }
        { key = $1 FS $2 FS $3
          if (++have[key] > want[key]) { surplus[++m] = $0; have[key]-- } }
        END { for (i = 1; i <= n; i++) print "ensure", order[i], have[order[i]] + 0, want[order[i]]
              for (i = 1; i <= m; i++) print "surplus", surplus[i] }' "$T/want" "$1" >"$T/todo"
    while IFS=$'\t' read -r kind type zone market have want; do
        if [ "$kind" = ensure ]; then
            act ensure "$type" "$zone" "$market" "$have" "$want" </dev/null
        else
            id=$have
            act surplus "$type" "$zone" "$market" "$id" </dev/null
        fi
    done <"$T/todo"
}

# quoted WORD...: one line that a shell reads as these words
quoted() {
    local line
    printf -v line '%q ' "$@"
    echo "${line% }"
}

# free_names N: of JOB-1, JOB-2 and so on the first N that no machine has; $T/names are those taken.
# A name belongs to one machine, so a command that is run twice makes nothing twice.
free_names() {
    local n=0 i=1
    while [ "$n" -lt "$1" ]; do
        if ! grep -qxF "$job-$i" "$T/names"; then
            echo "$job-$i" | tee -a "$T/names"
            n=$((n + 1))
        fi
        i=$((i + 1))
    done
}
