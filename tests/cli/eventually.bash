# SPDX-License-Identifier: MIT
# shellcheck shell=bash

# in_tier TIER: it is among those that are run (tests/tally)
in_tier() { [[ " ${SPOT_TIER-} " == *" $1 "* ]]; }

# size WHOLE PART: rounds of something random, or cases: all of them in `make check-long`
size() { in_tier long && echo "$1" || echo "$2"; }

# has MODULE...: Python finds them; to import PyTorch takes seconds
has() { python3 -c 'import sys, importlib.util as u; sys.exit(not all(map(u.find_spec, sys.argv[1:])))' "$@" 2>/dev/null; }

# Wait until the shell text in $1 is true, at most 120 s, which only ends a test that fails. To ask takes processors from those who are asked, jq 20 ms:
# what takes long to come is asked for less often, and a look at a pipe that nobody writes is a rest without a process.
eventually() {
    local begin=$SECONDS rest=0.05 still
    exec {still}<> <(:)
    while [ $((SECONDS - begin)) -lt 120 ]; do
        eval "$1" 2>/dev/null && exec {still}>&- && return 0
        [ $((SECONDS - begin)) -lt 2 ] || rest=0.2
        read -rt $rest -u "$still" || true
    done
    exec {still}>&-
    echo "never: $1" >&2
    false
}

# Wait until what the shell text in $1 prints has been the same for thirty looks: of a process that was stopped, what
# was on its way to others has come about.
settled() {
    local settled_what=$1 was='' is n=0
    eventually 'is=$(eval "$settled_what"); [ "$is" = "$was" ] && n=$((n + 1)) || n=0; was=$is; [ $n -ge 30 ]'
}

# Wait until PID runs spot-run and has a handler for SIGNAL, a number
hears() { # PID SIGNAL
    eventually '[ "$(cat /proc/'"$1"'/comm)" = spot-run ] &&
        [ $((0x$(sed -n "s/^SigCgt:[[:blank:]]*//p" /proc/'"$1"'/status) >> ('"$2"' - 1) & 1)) = 1 ]'
}

# kill_own SIGNAL PID...: of those that this file's tests started; an id that was waited for may be another's by now
kill_own() {
    local signal=$1 id
    shift
    for id; do
        ! grep -qzxF "BATS_FILE_TMPDIR=$BATS_FILE_TMPDIR" "/proc/$id/environ" 2>/dev/null || kill "$signal" "$id" 2>/dev/null || true
    done
}
