#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Joins prices and a forecast to a catalogue for spot-plan fleet: see --help.
set -euo pipefail

help() {
    cat <<'END'
usage: offers.sh [--sure SHARE] PRICES.csv FORECAST.json ON_DEMAND.csv

Prints a catalogue. PRICES.csv is what `spot-replay import` makes of a cloud's spot prices: the
newest one of each zone and type counts. FORECAST.json is of spot-predict: the quota of a zone and
type is the largest count that is available with probability SHARE at each step of the forecast.
A spot price without a forecast makes no row. ON_DEMAND.csv is a catalogue whose prices on demand
and quotas are kept.

  --sure SHARE    above 0, at most 1 (default .9)

Needs jq. Exit status: 0, 2 usage, 3 an input is malformed.
END
}

die() { # STATUS TEXT
    echo "${0##*/}: $2" >&2
    exit "$1"
}

sure=.9
case ${1-} in
--help | -h)
    help
    exit
    ;;
--sure)
    [[ ${2-} =~ ^(0?\.[0-9]*[1-9][0-9]*|1(\.0+)?)$ ]] || die 2 "--sure: expected a share in (0, 1], got '${2-}'"
    sure=$2
    shift 2
    ;;
esac
[ $# -eq 3 ] || die 2 "expected PRICES.csv FORECAST.json ON_DEMAND.csv, got $# operands; try --help"

# A sum of doubles may miss the share that it stands for by a rounding: hence the 1e-9.
quotas=$(jq -r --arg sure "$sure" '
    def at_least($p): reduce range($p | length) as $n (0; if ($p[$n:] | add) + 1e-9 >= ($sure | tonumber) then $n else . end);
    if .schema != "spot.forecast/1" then error("expected a document spot.forecast/1, got \(.schema | tojson)") else . end
    | .series[] | [.zone, .instance_type, ([.available[] | at_least(.p)] | min)] | map(tostring) | join(",")' "$2") ||
    die 3 "$2: no forecast to take quotas from"
[ -n "$quotas" ] || die 3 "$2: no forecast to take quotas from"

quotas=$quotas awk -F, -v OFS=, -v prices="$1" '
    function fail(text) { print "offers.sh: " FILENAME ":" FNR ": " text | "cat >&2"; failed = 1; exit 3 }
    function need(name) { if (!(name in column)) fail("expected a column " name); return $column[name] }
    BEGIN {
        print "instance_type,spot_usd_per_h,on_demand_usd_per_h,zone,quota"
        n = split(ENVIRON["quotas"], line, "\n")
        for (i = 1; i <= n; i++) { split(line[i], f, ","); quota[f[1] FS f[2]] = f[3] }
    }
    { sub(/\r$/, "") }
    FNR == 1 { split("", column); for (i = 1; i <= NF; i++) column[$i] = i; next }
    FILENAME == prices {
        if (need("market") != "spot") next
        key = need("zone") FS need("instance_type"); at = need("time_s") + 0
        if (!(key in newest)) order[++keys] = key
        if (!(key in newest) || at >= newest[key]) { newest[key] = at; price[key] = need("price_usd_per_h") }
        next
    }
    need("on_demand_usd_per_h") != "" {
        dear[++rows] = need("instance_type") OFS "" OFS need("on_demand_usd_per_h") OFS "" \
            OFS ("quota" in column ? $column["quota"] : "")
    }
    END {
        if (failed) exit 3
        for (i = 1; i <= keys; i++)
            if (order[i] in quota) { split(order[i], f, FS); print f[2], price[order[i]], "", f[1], quota[order[i]] }
        for (i = 1; i <= rows; i++) print dear[i]
    }' "$1" "$3"
