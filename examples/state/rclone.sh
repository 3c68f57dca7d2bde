#!/bin/sh
# SPDX-License-Identifier: MIT
# Durable state wherever rclone reaches:
#   spot-run train ... --state-command 'sh examples/state/rclone.sh remote:bucket/prefix'
set -eu
place=$1 verb=$2 key=$3
case $verb in
put) rclone rcat "$place/$key" ;;
get) rclone cat "$place/$key" ;;
list) # a directory that is not there yet has nothing in it
    out=$(rclone lsf -R --files-only --format sp --separator ' ' "$place" 2>&1) || case $out in
    *"directory not found"*) exit 0 ;;
    *) echo "$out" >&2 && exit 1 ;;
    esac
    echo "$out" | while read -r bytes name; do
        case $name in "$key"*) echo "$bytes $name" ;; esac
    done
    ;;
delete) rclone deletefile "$place/$key" 2>/dev/null || ! rclone lsf "$place/$key" >/dev/null 2>&1 ;;
*) echo "no verb $verb" >&2 && exit 2 ;;
esac
