#!/bin/bash
# SPDX-License-Identifier: MIT
# gaps.sh [WORKERS] - how long a stream waits beside the worst that other clients can ask (tests/tool/gaps.c):
# a tiny model with a vocabulary of 128,000 tokens, so that what is measured is the server's loop.
set -euo pipefail

workers=${1:-2}
tmp=$(mktemp -d)
server=
trap '[ -z "$server" ] || { kill "$server" || true; wait "$server" || true; } 2>/dev/null; rm -rf "$tmp"' EXIT
cd "$tmp"
mkdir tokenizer
gaps vocabulary >tokenizer/tokenizer.json
seq -f "line %.0f of a text that says little" 2000 >text
spot-run train -q --data text --tokenizer tokenizer --layers 1 --width 16 --heads 2 --seq 512 --steps 1 --save model >/dev/null
spot-run serve -q --model model --http "unix:$tmp/http" --listen "unix:$tmp/j" --workers "$workers" >log 2>&1 &
server=$!
for _ in $(seq 600); do
    [ -S http ] && curl -sf --unix-socket http http://localhost/health >/dev/null && break
    sleep .1
done
gaps "unix:$tmp/http" model
