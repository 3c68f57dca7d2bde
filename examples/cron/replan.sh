#!/bin/sh
# SPDX-License-Identifier: MIT
# One turn of the autoscaler, for cron or a systemd timer: what was there, what will be there, what
# to run on it, tell the job. A turn that still runs when the next is due makes that one leave.
#
# After `make install PREFIX=/usr/local`, which cron must be told to look in, too:
#
#   PATH=/usr/local/bin:/usr/bin:/bin
#   */5 * * * *  /usr/local/share/doc/spot/examples/cron/replan.sh /var/lib/spot/job.json unix:/run/spot/job /var/lib/spot/events.jsonl
#
# With a STATE-FILE the forecast keeps there what it learned, so that a turn takes in what is
# new in the log and no more. Remove the file with the log, and after an update of spot. A job that
# has a key is asked with that of SPOT_KEY_FILE.
set -eu
[ $# -eq 3 ] || [ $# -eq 4 ] || {
    echo "usage: $0 JOB-DOCUMENT ADDRESS EVENTS-FILE [STATE-FILE]" >&2
    exit 2
}
job=$1 join=$2 events=$3 state=${4:+--state=$4} key=${SPOT_KEY_FILE:+--key-file=$SPOT_KEY_FILE}
exec 9>"$(dirname "$events")/replan.lock"
flock -n 9 || exit 0

status=$(spot-run status --join "$join" ${key:+"$key"})
epoch=$(printf '%s' "$status" | jq .epoch)
members=$(printf '%s' "$status" | jq '.members | length')
leaving=$(printf '%s' "$status" | jq '[.members[] | select(.leaving)] | length')
[ "$members" -gt "$leaving" ] || exit 0

# What runs, so that a change from it is charged, also when machines of it are lost already.
# Nothing does (0x0) before the first epoch and while a plan suspends the job; plans know no M.
current=$(printf '%s' "$status" | jq -r 'if .suspended or .M != 1 then "0x0" else "\(.D)x\(.P)" end')

# The plan names the epoch it was made for: if the job has moved on meanwhile, it is refused (1),
# and the next turn makes a better one. What it doubts about its speeds is for who reads cron's mail.
spot-replay import --from spot-event --quiet "$events" |
    spot-predict --interval 60s --horizon 6 --cap "$((members + 2))" --quiet ${state:+"$state"} |
    spot-plan train --job "$job" --forecast - --now "$members" --leaving "$leaving" \
        --current "$current" --epoch "$epoch" |
    spot-run replan --join "$join" ${key:+"$key"} -
