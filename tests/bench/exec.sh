#!/bin/bash
# SPDX-License-Identifier: MIT
# examples/pytorch/ddp.py (2.6 M parameters, a commit every 10 steps) on four nodes of one rank: under spot-run exec, warm and
# --cold; a script that knows nothing of it (tests/world/plain_ddp.py) with --checkpoint, each node in a directory of its own, cold and by spot.warm; beside
# it torchrun, and torchft where it is installed. Undisturbed, and with a change every so often: nodes are killed, get a notice, and join;
# one kill takes a node along with the coordinator, which is then begun anew. Skips without PyTorch.
#   tests/bench/exec.sh [SECONDS [EVERY]]        SYSTEMS='warm cold plain plain-warm torchrun torchft'
# A row: steps a second undisturbed (in a third of the time) and with changes, the share, seconds to the first step that nobody had done
# before after a kill and after a notice and in how many steps at most were done again, the longest pause around a join; each median,
# most. Then the samples that the state lacks and has twice, by tests/world/used.py.
# torchrun has its store, and torchft its lighthouse, in a process of its own that nobody kills, and times of a second: the best
# that they can do here. The last line is the load of the machine before each system, which all of it depends on.
set -u
seconds=${1:-180} every=${2:-20}
python3 -W ignore -c 'import torch' 2>/dev/null || { echo "skipped: no PyTorch here" && exit 0; }
here=$(readlink -f "$(dirname "$0")/../..")
ddp=$here/examples/pytorch/ddp.py plain=$here/tests/world/plain_ddp.py n_started=0
unchanged=(python3 -m spot.warm "torch,torch._dynamo" "$plain" 1000000) # the optimizer imports the second
top=$(mktemp -d)
cd "$top" || exit 1
export OMP_NUM_THREADS=1 PYTHONWARNINGS=ignore TORCH_CPP_LOG_LEVEL=ERROR HIDDEN=${HIDDEN:-1584} EVERY=10
export PYTHONPATH=$here/packaging/python${PYTHONPATH:+:$PYTHONPATH}
export PAUSE=${PAUSE:-0} USED='{HERE}/used/used.{TORCHELASTIC_RESTART_COUNT}-{MASTER_PORT}.{RANK}'
declare -A root_of=()
# a machine that is gone: these processes and all below them at once
vanish() { # PID...
    local pid all=$* at=$*
    while at=$(for pid in $at; do pgrep -P "$pid"; done) && [ "$at" ]; do all="$all $at"; done
    # shellcheck disable=SC2086  # words
    kill -KILL $all 2>/dev/null
}
cleanup() {
    [ ${#root_of[*]} = 0 ] || vanish "${root_of[@]}"
    root_of=()
    wait 2>/dev/null
}
trap 'cleanup; rm -rf "$top"' EXIT

coordinator() { # SYSTEM: or the store of torchrun, the lighthouse of torchft
    local checkpoint=() command=(python3 "$ddp" 1000000 out)
    [[ $1 != plain* ]] || checkpoint=(--checkpoint ckpt.pt) command=("${unchanged[@]}")
    [ "$1" != plain ] || command=(python3 "$plain" 1000000)
    if [ "$1" = torchft ]; then
        python3 -c 'import time; from torchft._torchft import LighthouseServer as L
server = L(bind="127.0.0.1:29432", min_replicas=1, join_timeout_ms=1000, quorum_tick_ms=100, heartbeat_timeout_ms=2000)
time.sleep(1e6)' >/dev/null 2>>err &
    elif [ "$1" = torchrun ]; then
        python3 -c 'import time; from torch.distributed import TCPStore
store = TCPStore("127.0.0.1", 29431, is_master=True, wait_for_workers=False)
time.sleep(1e6)' 2>>err &
    else
        spot-run exec -q --listen unix:j --nnodes 1:4 --lease 2s --max-restarts 100 --events "log$RANDOM" "${checkpoint[@]}" -- "${command[@]}" 2>>err &
    fi
    root_of[job]=$!
}

node() { # SYSTEM NAME
    local command=(spot-run exec -q --join "unix:$PWD/j" --join-timeout 60s --name "$2") at=.
    [[ $1 = *warm ]] || command+=(--cold)
    if [[ $1 = plain* ]]; then
        at=node-$2 command+=(--checkpoint ckpt.pt --)
        [ "$1" = plain ] && command+=(python3 "$plain" 1000000) || command+=("${unchanged[@]}")
        mkdir -p "$at"
    else
        command+=(-- python3 "$ddp" 1000000 out)
    fi
    [ "$1" != torchft ] || command=(env NODE="$2" TORCHELASTIC_RESTART_COUNT=0 MASTER_PORT=$((++n_started)) RANK=0
        TORCHFT_LIGHTHOUSE=http://127.0.0.1:29432 python3 "$here/tests/world/torchft_ddp.py" 1000000)
    [ "$1" != torchrun ] || command=(python3 -m torch.distributed.run --nnodes 1:4 --nproc-per-node 1 --rdzv-backend c10d
        --rdzv-endpoint 127.0.0.1:29431 --rdzv-id bench --max-restarts 1000
        --rdzv-conf 'is_host=0,last_call_timeout=1,keep_alive_interval=1,keep_alive_max_attempt=2,close_timeout=1' "$ddp" 1000000 out)
    (cd "$at" && exec "${command[@]}") >>out.txt 2>>err &
    root_of[$2]=$!
}

# the newest step that somebody has used samples for
newest() { cat used/* 2>/dev/null | awk '$2 > n { n = $2 } END { print n + 0 }'; }

past() { # STEP: until it is done, two minutes at most
    for _ in $(seq 600); do
        [ "$(newest)" -lt "$1" ] || return 0
        sleep 0.2
    done
    return 1
}

event() { echo "$EPOCHREALTIME $1" >>events; }

# kinds in turn; between them the node comes back
change() { # SYSTEM NUMBER
    local name
    case $(($2 % 6)) in
    0) name=b && event kill && vanish "${root_of[b]}" ;;
    2) name=c && event notice && kill -TERM "${root_of[c]}" ;;
    4) # torchrun keeps its store, and with it nobody to lead
        name=a && event kill
        if [[ $1 = torch* ]]; then vanish "${root_of[a]}"; else vanish "${root_of[a]}" "${root_of[job]}" && coordinator "$1"; fi
        ;;
    *) event join && node "$1" "$gone" ;;
    esac
    gone=${name-}
}

play() { # SYSTEM calm|storm: a JSON object
    local begin n=0 length=$seconds name args=()
    [ "$2" = storm ] || length=$(((seconds + 2) / 3))
    mkdir "$1-$2" && cd "$1-$2" && mkdir used out && : >events
    export HERE=$PWD
    coordinator "$1"
    [[ $1 != torch* ]] || sleep 5
    for name in a b c d; do node "$1" "$name"; done
    if past 20; then
        [[ $1 != *warm ]] || sleep 10 # all have twins
        begin=$EPOCHREALTIME
        while sleep "$every" && awk -v a="$begin" -v b="$EPOCHREALTIME" -v s="$length" 'BEGIN { exit b - a >= s - 0.5 }'; do
            [ "$2" != storm ] || change "$1" $((n++))
        done
        args=(--events events --from "$begin" --to "$EPOCHREALTIME")
        [ "$1" != torchft ] || args+=(--pauses) # it has no rounds
    fi
    cleanup
    python3 "$here/tests/world/used.py" used/* --size 1000 --batch 24 "${args[@]}"
    cd ..
}

cell() { # JSON KIND
    jq -r --arg kind "$2" '.[$kind] // empty | "\(.median_s), \(.most_s) (\(.again))"' <<<"$1"
}

printf '%-9s %7s %7s %6s  %-20s %-20s %-20s %s\n' system calm storm share 'kill, s (again)' 'notice, s (again)' 'join, s (again)' 'lost, twice'
for system in ${SYSTEMS:-warm cold plain plain-warm torchrun torchft}; do
    if [ "$system" = torchft ] && ! python3 -W ignore -c 'import torchft' 2>/dev/null; then
        echo 'torchft: skipped, it is not here'
        continue
    fi
    loads="${loads-} $system $(cut -d ' ' -f 1 /proc/loadavg)"
    calm=$(play "$system" calm)
    storm=$(play "$system" storm)
    rate='if .seconds then .steps / .seconds else 0 end'
    printf '%-9s %7.1f %7.1f %6.2f  %-20s %-20s %-20s %s\n' "$system" "$(jq "$rate" <<<"$calm")" "$(jq "$rate" <<<"$storm")" \
        "$(jq -n --argjson a "$storm" --argjson b "$calm" "(\$a | $rate) / ([\$b | $rate, 1e-9] | max)")" \
        "$(cell "$storm" kill)" "$(cell "$storm" notice)" "$(cell "$storm" join)" \
        "$(jq -r '"\(.lost), \(.repeated)\(if .skipped > 0 or .odd > 0 then "; \(.skipped) steps left out, \(.odd) incomplete" else "" end)"' <<<"$storm")"
done
echo "load:$loads"
