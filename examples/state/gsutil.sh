#!/bin/sh
# SPDX-License-Identifier: MIT
# Durable state in a bucket of Google Cloud Storage:
#   spot-run train ... --state-command 'sh examples/state/gsutil.sh gs://bucket/prefix'
set -eu
place=$1 verb=$2 key=$3
case $verb in
put) gsutil -q cp - "$place/$key" ;;
get) gsutil -q cat "$place/$key" ;;
list) # "  BYTES  TIME  gs://...", and a line of totals; that nothing matches is no failure
    out=$(gsutil ls -l "$place/$key**" 2>&1) || case $out in
    *"matched no objects"*) exit 0 ;;
    *) echo "$out" >&2 && exit 1 ;;
    esac
    echo "$out" | while read -r bytes _ name; do
        case $name in "$place/"*) echo "$bytes ${name#"$place/"}" ;; esac
    done
    ;;
delete) gsutil -q rm -f "$place/$key" ;;
*) echo "no verb $verb" >&2 && exit 2 ;;
esac
