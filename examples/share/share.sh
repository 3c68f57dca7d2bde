#!/bin/sh
# SPDX-License-Identifier: MIT
# One turn of a scheduler of several training jobs, for cron or a systemd timer: how far each is, who runs
# on how many workers until the next turn, tell each job. A turn that still runs when the next is due
# makes that one leave.
#
#   * * * * *  share.sh jobs.csv throughput.json cluster.csv
#
# jobs.csv is as spot-plan share wants it, with one column more: join, where the job listens. Each
# job was started with as many workers as its scale_max (spot-run train --listen ADDR --workers N): those
# that it is not given wait, and a job that is given none is suspended with its state. What a job
# has done and where it runs is asked of it. One that does not answer has ended, and has no part.
set -eu
[ $# -eq 3 ] || {
    echo "usage: $0 JOBS.csv THROUGHPUT.json CLUSTER.csv" >&2
    exit 2
}
jobs=$1 throughput=$2 cluster=$3
exec 9>"$jobs.lock"
flock -n 9 || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The columns by name, a line a job: id, kind, steps, scale, smallest and largest scale, weight, join
table() {
    awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        { print $at["id"], $at["kind"], $at["steps"], $at["scale"], $at["scale_min"], $at["scale_max"],
              (at["weight"] ? $at["weight"] : 1), $at["join"] }' "$jobs"
}

echo id,arrival_s,kind,steps,scale,scale_min,scale_max,weight,done,on >"$work/jobs"
first=$(awk -F, 'NR == 2 { print $1; exit }' "$cluster") # jobs run on the type of this host
table | while read -r id kind steps scale least most weight join; do
    status=$(spot-run status --join "$join" 2>/dev/null) || continue
    now=$(printf '%s' "$status" | jq -r 'if .suspended then 0 else .D end')
    step=$(printf '%s' "$status" | jq .step)
    on=
    [ "$now" -ge "$least" ] && [ "$now" -le "$most" ] && on=$first scale=$now
    [ "$step" -lt "$steps" ] || continue
    echo "$id,0,$kind,$steps,$scale,$least,$most,$weight,$step,$on" >>"$work/jobs"
    printf '%s %s %s\n' "$id" "$join" "$(printf '%s' "$status" | jq .epoch)" >>"$work/told"
done
[ -s "$work/told" ] || exit 0

spot-plan share --jobs "$work/jobs" --throughput "$throughput" --cluster "$cluster" --switch 2s \
    --round 60s -o "$work/plan"
while read -r id join epoch; do
    # a job that has moved on since refuses (1), and the next turn makes a better plan
    jq --arg id "$id" --argjson epoch "$epoch" '([.run[] | select(.job == $id) | .workers] | first // 0) as $d
        | {schema: "spot.plan/1", epoch: $epoch, next: {D: $d, P: (if $d > 0 then 1 else 0 end)}}' "$work/plan" |
        spot-run replan --join "$join" - || [ $? -le 4 ]
done <"$work/told"
