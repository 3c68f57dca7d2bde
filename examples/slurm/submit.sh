#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Submits a job of spot: see --help.
set -euo pipefail

help() {
    cat <<'END'
usage: submit.sh [OPTIONS] DIR -- OPTIONS-OF-SPOT-RUN-TRAIN...

Submits an array of workers to a preemptible partition and a coordinator to another one.
DIR is on a file system that all nodes see; key, address, state and events of the job lie there.

  --workers N         elements of the array (4)
  --partition P       of the workers (spot)
  --coordinator P     partition of the coordinator; `here`: it runs in this shell (here)
  --sbatch OPTION     for the workers, e.g. --sbatch --gres=gpu:1; may be repeated

SPOT_HOST (its host name) and SPOT_PORT (7077) tell workers where the coordinator is, SPOT_LISTEN
(0.0.0.0) it where to listen.
END
}

workers=4 partition=spot coordinator=here more=()
while [ $# -gt 0 ]; do
    case $1 in
    --help)
        help
        exit 0
        ;;
    --workers | --partition | --coordinator | --sbatch)
        [ $# -ge 2 ] || { echo "submit.sh: $1 needs a value" >&2; exit 2; }
        case $1 in
        --workers) workers=$2 ;;
        --partition) partition=$2 ;;
        --coordinator) coordinator=$2 ;;
        --sbatch) more+=("$2") ;;
        esac
        shift 2
        ;;
    *) break ;;
    esac
done
if [ $# -lt 3 ] || [ "$2" != -- ] || ! [[ $workers =~ ^[1-9][0-9]{0,4}$ ]]; then
    echo "submit.sh: expected [OPTIONS] DIR -- TRAIN-OPTIONS; try 'submit.sh --help'" >&2
    exit 2
fi
mkdir -p -- "$1"
dir=$(cd -- "$1" && pwd)
shift 2
here=$(dirname "$(readlink -f "$0")")
[ -s "$dir/key" ] || (umask 077 && head -c 32 /dev/urandom >"$dir/key")
rm -f "$dir/address" "$dir/done"

sbatch --array="1-$workers" --partition="$partition" --output="$dir/worker-%a.out" \
    "${more[@]}" "$here/worker.sbatch" "$dir"
if [ "$coordinator" = here ]; then
    exec "$here/coordinator.sbatch" "$dir" "$@"
fi
sbatch --partition="$coordinator" --output="$dir/coordinator.out" "$here/coordinator.sbatch" "$dir" "$@"
