# SPDX-License-Identifier: MIT
# shellcheck shell=bash

# Wait until the shell text in $1 is true, at most 60 s.
eventually() {
    local end=$((SECONDS + 60))
    while [ "$SECONDS" -lt "$end" ]; do
        eval "$1" 2>/dev/null && return 0
        sleep 0.05
    done
    echo "never: $1" >&2
    false
}
