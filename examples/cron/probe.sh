#!/bin/sh
# SPDX-License-Identifier: MIT
# One turn of asking a cloud where spot instances are to be had, for cron: the places whose answers
# are worth most are asked, with one of examples/clouds/*-probe.sh, and the best place to start is
# printed. A turn that still runs when the next is due makes that one leave.
#
#   PATH=/usr/local/bin:/usr/bin:/bin
#   */10 * * * *  .../examples/cron/probe.sh /var/lib/spot/probes.csv 3 .../examples/clouds/aws-probe.sh --apply --image ami-1
#
# PROBES-FILE has every place at least once, as after a call of the command for all of them:
#   aws-probe.sh --to probes.csv --zone us-east-1a --zone us-east-1b --type g5.xlarge --apply --image ami-1
set -eu
[ $# -ge 3 ] || {
    echo "usage: $0 PROBES-FILE N COMMAND..." >&2
    exit 2
}
probes=$1 n=$2
shift 2
exec 9>"$probes.lock"
flock -n 9 || exit 0

places=$(spot-predict --quiet --next-probes "$n" --format tsv "$probes")
printf '%s\n' "$places" | tail -n +2 | cut -f 2,3 |
    while IFS='	' read -r zone type; do
        "$@" --zone "$zone" --type "$type" --to "$probes" </dev/null || true # asked again next time
    done

# zone, type, probability to get one now that stays an hour, price
forecast=$(spot-predict --quiet "$probes")
printf '%s\n' "$forecast" | jq -r '[.series[] | select(.start)] | max_by(.start.granted * .start.stays_1h)
    | "\(.zone) \(.instance_type) \(.start.granted * .start.stays_1h * 100 | round / 100) \(.start.price_usd_per_h // "-")"'
