#!/bin/sh
# SPDX-License-Identifier: MIT
# What the demonstrations share, which read this first: titles, a folder, and an end that leaves nothing.
# They define children(), the processes to end; tmp is theirs.
cd "$(dirname "$0")/.." || exit
PATH=$PWD/build/release/bin:$PWD/build/release/tests:$PATH
tmp=$(mktemp -d) # a socket's path must be short

end_first() { :; } # what must not outlive the children, or begin others

finish() {
    status=$?
    trap - EXIT
    trap '' INT TERM
    end_first
    for pid in $(children); do
        kill "$pid" 2>/dev/null || true
    done
    wait
    rm -rf "$tmp"
    exit $status
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say() {
    printf '\n== %s\n' "$*" >&2
}

# A folder for what is made: one that the user names must be empty, or of a demonstration.
take_folder() { # DEFAULT [NAMED]
    out=${2:-$1}
    mkdir -p "$out"
    [ -z "${2-}" ] || [ -e "$out/.spot-demo" ] || [ -z "$(ls -A "$out")" ] || {
        echo "$(basename "$0"): '$out' has something else in it, which would be replaced: name another folder" >&2
        exit 2
    }
    : >"$out/.spot-demo"
}

# What every Debian machine has to read.
write_text() { # FILE
    cat /usr/share/common-licenses/* >"$1" 2>/dev/null || true
    [ -s "$1" ] || cat LICENSE README.md docs/*.md >"$1"
}
