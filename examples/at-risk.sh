#!/bin/sh
# SPDX-License-Identifier: MIT
# What a preemption would cost now, where those who choose whom to preempt can read it: every half minute the seconds of work that
# a job of spot-run exec would do again, as annotation of pods, comment of Slurm jobs, or metric for the textfile collector of
# Prometheus's node_exporter.
set -eu
usage() {
    cat <<'END2'
usage: at-risk.sh JOIN KEY-FILE kubernetes SELECTOR     e.g. app=ddp,role=node
       at-risk.sh JOIN KEY-FILE slurm JOBID...
       at-risk.sh JOIN KEY-FILE prometheus FILE.prom

EVERY is the pause between two looks (30 s). It ends with the job.
END2
}
[ "${1-}" != --help ] || { usage && exit 0; }
[ $# -ge 4 ] || { usage >&2 && exit 2; }
join=$1 key=$2 where=$3
shift 3
while at=$(spot-run status --join "$join" --key-file "$key" --format json); do
    lost=$(printf %s "$at" | sed -n 's/.*"seconds_lost_if_killed_now": *\([0-9.]*\).*/\1/p' | head -n 1)
    lost=${lost%.*}
    case $where in
    kubernetes) kubectl annotate pods --overwrite -l "$1" "spot/seconds-lost-if-killed-now=${lost:-0}" >/dev/null ;;
    slurm) for id; do scontrol update "JobId=$id" "Comment=seconds_lost_if_killed_now=${lost:-0}"; done ;;
    prometheus)
        printf '# TYPE spot_exec_seconds_lost_if_killed_now gauge\nspot_exec_seconds_lost_if_killed_now %s\n' "${lost:-0}" >"$1.$$" &&
            mv "$1.$$" "$1" ;;
    *) usage >&2 && exit 2 ;;
    esac
    sleep "${EVERY:-30}"
done
