#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Commands of `spot-run fleet` for Slurm: see --help.
set -euo pipefail

help() {
    cat <<'END'
usage: spot-run fleet --launch 'slurm-fleet.sh launch' --terminate 'slurm-fleet.sh terminate'
           --drain 'slurm-fleet.sh drain' --list 'slurm-fleet.sh list' ...

A machine is an element of an array job, whose name is the token: one that is there is not submitted
again.

  FLEET_SCRIPT     batch script of a machine and its arguments, e.g. 'worker.sbatch /shared/job' (required)
  FLEET_SPOT       options of sbatch for spot (--partition=spot)
  FLEET_ON_DEMAND  options of sbatch on demand (--partition=normal)
  FLEET_FEATURES   yes: the type, and the zone if there is one, are features of nodes (--constraint)

Slurm puts an element that is preempted back in the queue unless the script says --no-requeue: then
it starts again by itself, and the controller sees one that starts.
END
}

# id, token, "zone|type|market", state of each element; the comment has what was asked for
elements() { squeue --noheader --array --user="$(id -un)" --states=all --format='%i;%j;%k;%T' "$@"; }

of_token() { elements --name="$SPOT_TOKEN" | cut -d ';' -f 1; }

launch() {
    local options script constraint=()
    if of_token | grep -q .; then
        of_token
        return
    fi
    read -ra options <<<"$([ "$SPOT_MARKET" = spot ] && echo "${FLEET_SPOT---partition=spot}" || echo "${FLEET_ON_DEMAND---partition=normal}")"
    read -ra script <<<"${FLEET_SCRIPT:?FLEET_SCRIPT is missing: what a machine runs}"
    [ "${FLEET_FEATURES-}" != yes ] || constraint=(--constraint="$SPOT_TYPE${SPOT_ZONE:+&$SPOT_ZONE}")
    sbatch --parsable --job-name="$SPOT_TOKEN" --array="1-$SPOT_N" --comment="$SPOT_ZONE|$SPOT_TYPE|$SPOT_MARKET" \
        "${options[@]}" "${constraint[@]}" "${script[@]}" >/dev/null
    of_token
}

list() {
    echo id,token,zone,instance_type,market,state
    elements | awk -F ';' -v fleet="$SPOT_FLEET" '
        BEGIN { state["RUNNING"] = "running"; state["COMPLETING"] = "leaving"; state["STOPPED"] = state["SUSPENDED"] = "leaving"
            n = split("PENDING CONFIGURING REQUEUED REQUEUE_HOLD RESIZING", word, " "); for (i = 1; i <= n; i++) state[word[i]] = "starting" }
        index($2, fleet "-") == 1 && split($3, asked, "|") == 3 {
            print $1 "," $2 "," asked[1] "," asked[2] "," asked[3] "," ($4 in state ? state[$4] : "gone") }'
}

# Status 0 also for one that is not there any more.
tell() {
    scancel "$@" "$SPOT_ID" || ! elements --jobs="$SPOT_ID" 2>/dev/null | grep -qE ';(RUNNING|PENDING|CONFIGURING|COMPLETING)$'
}

case ${1-} in
launch) launch ;;
drain) tell --signal=TERM ;;
terminate) tell ;;
list) list ;;
--help) help ;;
*)
    help >&2
    exit 2
    ;;
esac
