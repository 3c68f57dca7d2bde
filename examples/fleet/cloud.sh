#!/bin/sh
# SPDX-License-Identifier: MIT
# A cloud of processes for `spot-run fleet`, which takes machines away as a trace says. No money, no network.
#
#   spot-run fleet --launch 'cloud.sh launch' --terminate 'cloud.sh terminate' --drain 'cloud.sh drain' --list 'cloud.sh list' ...
#
#   CLOUD        directory of its state, made if it is not there
#   CLOUD_TRACE  CSV with time_s, available and zone, in this order: spot machines of each zone; from the first call on
#   CLOUD_FROM   seconds of the trace at the first call (default: 0)
#   CLOUD_SPEED  seconds of the trace in one of ours (default: 60)
#   CLOUD_GRACE  seconds from the notice, SIGTERM, to SIGKILL (default: 2)
#   CLOUD_RUN    command of a machine, with SPOT_ID, SPOT_ZONE, SPOT_TYPE and SPOT_MARKET
#
# `cloud.sh play` takes machines away on time without being asked; `list` does it, too. `seen` prints the trace so far. What each machine cost is in
# CLOUD/ended: id, market, seconds.
set -eu
# who asks may be killed; what a cloud was asked for it does to the end
[ "$*" != launch ] || exec setsid -w "$0" launch apart
cloud=${CLOUD:?} speed=${CLOUD_SPEED:-60} from=${CLOUD_FROM:-0} grace=${CLOUD_GRACE:-2}
mkdir -p "$cloud/machine"
exec 9>>"$cloud/lock"
flock 9
[ -s "$cloud/begin" ] || date +%s.%N >"$cloud/begin"

since() { # FILE: seconds since the time in it
    date +%s.%N | awk -v begin="$(cat "$1")" '{ print $1 - begin }'
}

seen() { # the trace so far
    awk -F, -v now="$(since "$cloud/begin")" -v speed="$speed" -v from="$from" \
        'NR == 1 || $1 <= from + now * speed' "${CLOUD_TRACE:?}"
}

offers() { # ZONE: spot machines that there may be
    seen | awk -F, -v zone="$1" 'NR > 1 && $3 == zone { n = $2 } END { print n + 0 }'
}

is() { # ID NAME: what was written of the machine
    cat "$cloud/machine/$1/$2" 2>/dev/null || true
}

of() { # NAME TEXT: machines of which this was written
    for m in "$cloud"/machine/*/; do
        m=$(basename "$m")
        [ "$m" = '*' ] || [ "$(is "$m" "$1")" != "$2" ] || echo "$m"
    done
}

spot_in() { # ZONE: its spot machines, oldest first
    for m in $(of zone "$1"); do
        [ "$(is "$m" market)" != spot ] || echo "$m"
    done
}

start() { # NUMBER
    id=i-$(printf %05d "$1") at=$cloud/machine/i-$(printf %05d "$1")
    mkdir -p "$at"
    for name in token zone type market; do
        eval "printf '%s\n' \"\$SPOT_$(echo $name | tr '[:lower:]' '[:upper:]')\"" >"$at/$name"
    done
    date +%s.%N >"$at/begin"
    SPOT_ID=$id setsid sh -c "${CLOUD_RUN:-exec sleep 1000000}" </dev/null >"$at/log" 2>&1 9>&- &
    echo $! >"$at/pid"
    echo "$1" >"$cloud/number"
}

leave() { # ID: a notice
    [ -s "$cloud/machine/$1/notice" ] || date +%s.%N >"$cloud/machine/$1/notice"
    kill -s TERM -- "-$(is "$1" pid)" 2>/dev/null || true
}

end() { # ID: it is gone, and paid
    kill -s KILL -- "-$(is "$1" pid)" 2>/dev/null || true
    echo "$1 $(is "$1" market) $(since "$cloud/machine/$1/begin")" >>"$cloud/ended"
    mkdir -p "$cloud/gone"
    touch "$cloud/machine/$1"
    mv "$cloud/machine/$1" "$cloud/gone/"
}

tend() { # what the trace takes, what its notice is over for, what ended by itself
    awk -F, 'NR > 1 { print $3 }' "${CLOUD_TRACE:?}" | sort -u | while read -r zone; do
        spot_in "$zone" | tail -n "+$(($(offers "$zone") + 1))" | while read -r m; do leave "$m"; done
    done
    for m in $(of none ''); do
        if ! kill -0 "$(is "$m" pid)" 2>/dev/null; then
            end "$m"
        elif [ -s "$cloud/machine/$m/notice" ] && since "$cloud/machine/$m/notice" | awk -v g="$grace" '{ exit $1 < g }'; then
            end "$m"
        fi
    done
}

case ${1-} in
launch)
    had=$(of token "$SPOT_TOKEN" | wc -l) # asked for again: no second time
    [ ! -d "$cloud/gone" ] || had=$((had + $(grep -lxF "$SPOT_TOKEN" "$cloud"/gone/*/token | wc -l)))
    room=$SPOT_N
    [ "$SPOT_MARKET" != spot ] || room=$(($(offers "$SPOT_ZONE") - $(spot_in "$SPOT_ZONE" | wc -l)))
    while [ "$had" -lt "$SPOT_N" ] && [ "$room" -gt 0 ]; do
        start $(($(cat "$cloud/number" 2>/dev/null || echo 0) + 1))
        had=$((had + 1)) room=$((room - 1))
    done
    of token "$SPOT_TOKEN"
    ;;
drain) leave "$SPOT_ID" ;;
terminate) [ ! -d "$cloud/machine/$SPOT_ID" ] || end "$SPOT_ID" ;;
list)
    tend
    echo id,token,zone,instance_type,market,state
    [ ! -d "$cloud/gone" ] || find "$cloud/gone" -mindepth 1 -maxdepth 1 -newermt '-60 seconds' | while read -r m; do # as clouds do, for a while
        echo "$(basename "$m"),$(cat "$m/token"),$(cat "$m/zone"),$(cat "$m/type"),$(cat "$m/market"),gone"
    done
    for m in $(of none ''); do
        state=running
        [ ! -s "$cloud/machine/$m/notice" ] || state=leaving
        echo "$m,$(is "$m" token),$(is "$m" zone),$(is "$m" type),$(is "$m" market),$state"
    done
    ;;
seen) seen ;;
play)
    trap 'exit 0' INT TERM # behind what it is at
    while :; do
        tend
        flock -u 9
        sleep .2
        flock 9
    done
    ;;
*)
    echo "usage: $0 launch|drain|terminate|list|play|seen" >&2
    exit 2
    ;;
esac
