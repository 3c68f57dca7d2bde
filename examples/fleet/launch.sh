#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2154 # what common.bash sets
# Prints what a plan of spot-plan fleet says to start; starts nothing. Those of ../clouds do.
set -euo pipefail
# shellcheck source=/dev/null
. "$(dirname "$(readlink -f "$0")")/../clouds/common.bash"

help() {
    cat <<'END'
usage: launch.sh --job NAME PLAN|-

Prints one line for each type, zone and market of `buy` of a spot.plan/1 of kind fleet, and how
many machines that are in all. It asks no cloud and starts nothing.

  --max-age 15m      a plan file that is older is refused; `-` is as old as the pipe
END
}

take_own() { return 1; }
take_options "$@"
read_plan
awk -F '\t' -v job="$job" '
    $4 > 0 { printf "would start %d of %s in %s, %s, for %s\n", $4, $1, $2, $3, job; n += $4 }
    END { printf "%d machines; nothing was started\n", n }' "$T/want"
