#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Workers on hosts that ssh reaches: see --help.
set -euo pipefail

help() {
    cat <<'END'
usage: workers.sh start --join HOST:PORT --key-file KEY HOSTS [-- WORKER-OPTIONS...]
       workers.sh stop|list HOSTS

HOSTS is a file with one host a line, as ssh takes it; # begins a comment. On each host `start`
puts the key and one worker there, unless one runs; `stop` gives it notice (SIGTERM) and waits
until it left; `list` tells. All hosts at once, one line each, in the order of the file.

  --job NAME    several jobs share a host: of which one it is (job)
  --dir DIR     on the hosts, relative to the home (.spot)

SSH is the command with its options (ssh -o BatchMode=yes). spot-run is found by the hosts' PATH.
Exit status: 0, 1 some host did not do it, 2 usage.
END
}

usage() {
    echo "workers.sh: $1" >&2
    echo "try 'workers.sh --help'" >&2
    exit 2
}

read -ra ssh <<<"${SSH:-ssh -o BatchMode=yes}"
do='' join='' key='' hosts='' job=job dir=.spot
while [ $# -gt 0 ]; do
    case $1 in
    --help)
        help
        exit 0
        ;;
    --join | --key-file | --job | --dir)
        [ $# -ge 2 ] || usage "$1 needs a value"
        case $1 in
        --join) join=$2 ;;
        --key-file) key=$2 ;;
        --job) job=$2 ;;
        --dir) dir=$2 ;;
        esac
        shift
        ;;
    --)
        shift
        break
        ;;
    -*) usage "unknown option '$1'" ;;
    start | stop | list)
        if [ -z "$do" ]; then do=$1; else hosts=$1; fi
        ;;
    *) hosts=$1 ;;
    esac
    shift
done
[ -n "$do" ] || usage "start, stop or list?"
[ -r "$hosts" ] || usage "expected a file of hosts, got '$hosts'"
[[ $job =~ ^[A-Za-z0-9._-]+$ ]] || usage "--job: expected a name of letters and digits, got '$job'"
if [ "$do" = start ]; then
    [ -n "$join" ] || usage "--join is missing"
    [ -r "$key" ] || usage "--key-file: cannot read '$key'"
fi

# What runs on a host, with these words before it: DO DIR JOB HOST [OPTIONS...]; the key on stdin. The
# worker's id is kept in a file, and is its own only as long as the process has its name.
remote=$(
    cat <<'END'
do=$1 dir=$2 job=$3 host=$4
shift 4
mkdir -p "$dir" && cd "$dir" || exit 1
pid=$(cat "$job.pid" 2>/dev/null) || pid=
runs() { [ -n "$pid" ] && kill -0 "$pid" 2>/dev/null && [ "$(cat "/proc/$pid/comm")" = spot-run ]; }
case $do in
start)
    if runs; then echo "$host: runs already ($pid)"; exit; fi
    command -v spot-run >/dev/null || { echo "$host: there is no spot-run in $PATH"; exit 1; }
    rm -f "$job.key"
    (umask 077 && cat >"$job.key") || exit 1
    nohup spot-run worker --name "$host" --domain "$host" --key-file "$job.key" "$@" </dev/null >>"$job.log" 2>&1 &
    echo $! >"$job.pid"
    echo "$host: started ($!)"
    ;;
stop)
    if ! runs; then rm -f "$job.pid" "$job.key"; echo "$host: none runs"; exit; fi
    kill -TERM "$pid"
    n=0
    while runs && [ $n -lt 60 ]; do sleep 1; n=$((n + 1)); done
    if runs; then echo "$host: still there after $n s ($pid)"; exit 1; fi
    rm -f "$job.pid" "$job.key"
    echo "$host: left"
    ;;
list) if runs; then echo "$host: runs ($pid)"; else echo "$host: none runs"; fi ;;
esac
END
)

# quoted WORD...: a line that any shell of the other side reads as these words
quoted() {
    local word line='' q="'\\''"
    for word; do line+=" '${word//\'/$q}'"; done
    echo "${line# }"
}

at() { # HOST OPTIONS...
    local host=$1 words
    shift
    words=$(quoted sh -c "$remote" sh "$do" "$dir" "$job" "$host" "$@")
    if [ "$do" = start ]; then
        "${ssh[@]}" "$host" "$words" <"$key"
    else
        "${ssh[@]}" "$host" "$words" </dev/null
    fi || { echo "$host: failed with status $?" >&2; return 1; }
}

T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
[ "$do" != start ] || set -- --join "$join" "$@"
pids=()
while read -r host _; do
    [[ $host != -* ]] || usage "expected a host, got '$host'"
    case $host in '' | '#'*) continue ;; esac
    at "$host" "$@" >"$T/${#pids[@]}" 2>&1 &
    pids+=($!)
done <"$hosts"
failed=0
for i in "${!pids[@]}"; do
    wait "${pids[i]}" || failed=1
    cat "$T/$i"
done
exit $failed
