#!/bin/sh
# SPDX-License-Identifier: MIT
# Durable state in a directory, as the simplest store behind --state-command:
#   spot-run train ... --state-command 'sh examples/state/directory.sh /mnt/share/job'
set -eu
dir=$1 verb=$2 key=$3
case $key in */*) parent=$dir/${key%/*} ;; *) parent=$dir ;; esac
case $verb in
put)
    [ -d "$parent" ] || mkdir -p "$parent"
    trap 'rm -f "$dir/$key.put.$$"' EXIT
    rm -f "$dir/$key.put.$$"
    set -C # a file that is new, whatever lies there in a directory that others may write
    cat >"$dir/$key.put.$$"
    mv "$dir/$key.put.$$" "$dir/$key"
    trap - EXIT
    ;;
get) cat "$dir/$key" ;;
list)
    [ -d "$dir" ] || exit 0
    cd "$dir"
    find . -type f ! -name '*.put.*' -exec wc -c {} + | sed -n 's|^ *\([0-9]*\) \./|\1 |p' |
        while read -r bytes name; do
            case $name in "$key"*) echo "$bytes $name" ;; esac
        done
    ;;
delete)
    rm -f "$dir/$key" "$dir/$key".put.* # and what puts that were killed have left
    rmdir "$parent" 2>/dev/null || true
    ;;
*) echo "no verb $verb" >&2 && exit 2 ;;
esac
