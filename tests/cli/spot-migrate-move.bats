#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# Goal: send and recv move a file by every way, survive kill -9, and refuse strangers.
bats_require_minimum_version 1.5.0
load eventually

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    make_file '{"a":{"dtype":"F32","shape":[1000000],"data_offsets":[0,4000000]},"b":{"dtype":"BF16","shape":[25,41],"data_offsets":[4000000,4002050]}}' 4002050 >m
}

le64() { # NUMBER: eight bytes, little endian
    local n=$1 k=0
    while [ $k -lt 8 ]; do
        # shellcheck disable=SC2059
        printf "\\x$(printf %02x $((n & 255)))"
        n=$((n >> 8)) k=$((k + 1))
    done
}

make_file() { # JSON BYTES
    le64 ${#1}
    printf %s "$1"
    seq 1 10000000 | head -c "$2"
}

clean() { # nothing is left beside the file
    cmp m "$1"
    [ ! -e "$1.part" ]
    [ ! -e "$1.journal" ]
}

chosen() { # FILE: the address on its first line, once it is there
    eventually "grep -q . '$1'"
    sed -n '1s/^spot-migrate [a-z]*: listening on //p' "$1"
}

@test "port 0 is chosen by the system and told at once, to those who want to hear" {
    for key in "" "--key-file key"; do
        head -c 32 /dev/urandom >key
        chmod 600 key
        # shellcheck disable=SC2086
        spot-migrate send --listen 127.0.0.1:0 $key m 2>said &
        address=$(chosen said)
        [[ "$address" =~ ^127\.0\.0\.1:[1-9][0-9]*$ ]]
        # shellcheck disable=SC2086
        spot-migrate recv -o got --connect "$address" $key
        wait $!
        clean got
        [ "$(wc -l <said)" -eq 1 ]
        rm got
    done
    run spot-migrate recv -q -o got --listen '[::1]:0' --wait 0.1s
    [ "$status" -eq 4 ]
    [[ "$output" != *"listening"* ]]
}

@test "a one-way pipe moves a file, and its stream is a zst" {
    spot-migrate send m | spot-migrate recv -o got
    clean got
    spot-migrate send m | zstd -qt
}

@test "a Unix socket, whoever comes first" {
    spot-migrate recv -o got --listen unix:sock &
    spot-migrate send --connect unix:sock m
    wait $!
    clean got
    rm got
    spot-migrate send --listen unix:sock2 m &
    spot-migrate recv -o got --streams 3 --connect unix:sock2
    wait $!
    clean got
    [ ! -e sock ]
    [ ! -e sock2 ]
}

@test "a command's input and output, as under ssh" {
    spot-migrate send --via 'spot-migrate recv --duplex -o got' m
    clean got
    rm got
    spot-migrate recv -o got --via 'spot-migrate send --duplex m'
    clean got
}

@test "several holders of one file" {
    cp m m2
    spot-migrate send --listen unix:h1 --wait 60s m &
    spot-migrate send --listen unix:h2 --wait 60s m &
    spot-migrate recv -o got --connect unix:h1,unix:h2,unix:nobody
    clean got
    wait
}

has_read() { # BYTES: of its input, $pid
    eventually "[ \"\$(sed -n 's/^rchar: //p' /proc/$pid/io)\" -ge $1 ]"
}

# tier: check
@test "kill -9 of the receiver half-way leaves a part, and the next attempt the file" {
    mkfifo slow
    # a stream that stops in the middle keeps the receiver waiting
    spot-migrate send --codec raw --chunk 64KiB m >all.szt
    spot-migrate recv -o got <slow &
    pid=$!
    exec 7>slow
    head -c 2500000 all.szt >&7
    eventually '[ -s got.journal ]'
    has_read 2500000
    head -c 2600000 all.szt | tail -c 100000 >&7
    has_read 2600000
    kill -9 $pid
    exec 7>&-
    wait $pid || true
    [ ! -e got ]
    [ -e got.part ]
    run --separate-stderr spot-migrate recv -o got <all.szt
    [ "$status" -eq 0 ]
    clean got
}

@test "kill -9 of the sender, then again over a socket" {
    make_file '{"a":{"dtype":"F32","shape":[10000000],"data_offsets":[0,40000000]}}' 40000000 >m
    spot-migrate recv -o got --listen unix:sock --wait 60s &
    pid=$!
    spot-migrate send --codec raw --chunk 4KiB --streams 1 --connect unix:sock m &
    sender=$!
    eventually '[ -e got.part ]'
    kill -9 $sender || true
    wait $sender || true
    # the receiver may be quicker than the signal: then it has everything, and is gone
    if kill -0 $pid; then
        run spot-migrate send --codec raw --chunk 4KiB --connect unix:sock --wait 10s m
        [ "$status" -eq 0 ] || [ -e got ]
    fi
    wait $pid
    clean got
}

@test "a file is resumed from what the journal names" {
    spot-migrate send --codec raw --chunk 64KiB m | head -c 3000000 >cut.szt
    run spot-migrate recv -o got <cut.szt
    [ "$status" -eq 3 ]
    [ ! -e got ]
    # the stream ended without a sync: the journal may be empty, the part must not be believed
    spot-migrate send --via 'spot-migrate recv --duplex -o got' --chunk 64KiB m
    clean got
}

@test "an address off this machine needs a key file of mode 0600" {
    for c in "recv -o got --listen 0.0.0.0:0" "recv -o got --connect 192.0.2.1:9 --wait 0s" \
        "send --listen :0 m" "send --connect example.org:9 m"; do
        # shellcheck disable=SC2086
        run spot-migrate $c
        [ "$status" -eq 2 ]
        [[ "$output" == *"needs --key-file"* ]]
    done
    head -c 32 /dev/zero >key
    run -2 spot-migrate send --listen 127.0.0.1 m
    [[ "$output" == *"'127.0.0.1'"* ]]
    chmod 600 key
    run -2 spot-migrate send --listen 127.0.0.1:99999 --key-file key m
    [[ "$output" == *"'127.0.0.1:99999'"* ]]
    chmod 644 key
    run spot-migrate recv -o got --listen 0.0.0.0:0 --key-file key
    [ "$status" -eq 2 ]
    [[ "$output" == *"others may read it"* ]]
}

@test "TLS with a shared key moves a file; another key does not" {
    head -c 32 /dev/urandom >key
    head -c 32 /dev/urandom >wrong
    chmod 600 key wrong
    spot-migrate recv -o got --listen 127.0.0.1:0 --key-file key --wait 60s 2>said &
    pid=$!
    address=$(chosen said)
    run spot-migrate send --connect "$address" --key-file wrong --timeout 10s --wait 60s m
    [ "$status" -eq 4 ]
    [[ "$output" == *"TLS handshake"* ]]
    [ ! -e got ]
    spot-migrate send --connect "$address" --key-file key --wait 60s m
    wait $pid
    clean got
}

@test "a source that changes under a send or a pack is told, and no file comes of it" {
    local change why='m: (changed while it was read|ends early)'
    cp m old
    for change in 'truncate -s 5000000 m' 'truncate -s 1000000 m' \
        'printf changed | dd of=m bs=1 seek=2000000 conv=notrunc status=none'; do
        cp old m
        spot-migrate send -q --listen unix:sock m 2>said --wait 3s &
        pid=$!
        eventually '[ -S sock ]'
        eval "$change"
        run spot-migrate recv -q -o got --connect unix:sock
        [ "$status" -eq 3 ]
        [[ "$output" =~ $why ]]
        status=0
        wait $pid || status=$?
        [ "$status" -eq 3 ]
        [[ "$(cat said)" =~ ^"spot-migrate send: "$why$ ]]
        [ ! -e got ]
        rm -f got.part got.journal
        cp old m
        run ! bash -o pipefail -c "spot-migrate pack --codec raw --threads 1 m |
            { head -c 100000; sleep 0.2; $change; cat; } >stream"
        [[ "$output" =~ $why ]]
        run spot-migrate unpack -o u stream
        [ "$status" -eq 3 ]
    done
}

@test "a source that is replaced by another file is sent as it was" {
    spot-migrate send -q --listen unix:sock m &
    eventually '[ -S sock ]'
    cp m old
    make_file '{"a":{"dtype":"U8","shape":[10],"data_offsets":[0,10]}}' 10 >new
    mv new m
    spot-migrate recv -q -o got --connect unix:sock
    wait $!
    cmp old got
}

@test "strangers at the door, many and slow, do not keep a file from its receiver" {
    local fd fds=() i
    head -c 32 /dev/urandom >key
    chmod 600 key
    spot-migrate send --listen 127.0.0.1:0 --key-file key --timeout 10s m 2>said &
    pid=$!
    address=$(chosen said)
    for i in $(seq 200); do
        exec {fd}<>"/dev/tcp/127.0.0.1/${address##*:}"
        fds+=("$fd")
        case $((i % 4)) in
        1) printf 'GET / HTTP/1.1' >&"$fd" ;;
        2) printf '\x16\x03\x01\x02\x00\x01' >&"$fd" ;; # the start of a handshake
        3) printf 'S' >&"$fd" ;;
        esac
    done
    spot-migrate recv -q -o got --connect "$address" --key-file key --timeout 10s
    wait $pid # though most of them are still there
    clean got
    for fd in "${fds[@]}"; do
        exec {fd}>&-
    done
}

@test "an empty deadline is status 75, nobody is status 4, a read-only place is status 4" {
    for s in 0 0.000001s; do
        run spot-migrate send --deadline $s --via 'spot-migrate recv --duplex -o got 2>/dev/null' m
        [ "$status" -eq 75 ]
    done
    run spot-migrate send --connect unix:nobody --wait 0.1s m
    [ "$status" -eq 4 ]
    run spot-migrate recv -o got --listen unix:nobody --wait 0.1s
    [ "$status" -eq 4 ]
    run bash -c 'spot-migrate send m | spot-migrate recv -o /proc/got'
    [ "$status" -eq 4 ]
    run spot-migrate send --deadline 5s m
    [ "$status" -eq 2 ]
    run spot-migrate recv
    [ "$status" -eq 2 ]
    run spot-migrate send --duplex --listen unix:x m
    [ "$status" -eq 2 ]
    for c in send recv; do
        [ "$(spot-migrate $c --help | wc -l)" -le 40 ]
    done
}

@test "recv tells at once that it cannot write there, and is not found meanwhile" {
    for way in "--listen unix:r" "--connect unix:r --wait 50s" "" "--via cat"; do
        run -4 --separate-stderr timeout 120 spot-migrate recv -o none/such/file $way </dev/null
        [[ "$stderr" == "spot-migrate recv: cannot write 'none/such/file': No such file or directory" ]]
        [ ! -e r ]
    done
}

@test "a listener that is told to stop takes its socket away" {
    for signal in INT TERM; do
        for what in "recv -o got" "send m"; do
            timeout --foreground -s $signal --preserve-status 1 spot-migrate $what --listen unix:s && status=0 || status=$?
            [ "$status" -gt 128 ]
            [ ! -e s ]
        done
    done
}

@test "a terabyte that is only announced takes no memory and no disk" {
    make_file '{"a":{"dtype":"U8","shape":[1000000000000],"data_offsets":[0,1000000000000]}}' 1000 >big
    truncate -s 1000000000085 big
    local little='ulimit -v 600000'
    (eval "$little" && spot-migrate --version) >/dev/null 2>&1 || little=: # a sanitizer wants more
    run bash -c "$little; timeout 60 spot-migrate send big | timeout 60 spot-migrate recv -o got"
    [ "$status" -ne 0 ]
    [ ! -e got ]
    [ ! -e got.part ] || [ "$(stat -c %b got.part)" -lt 100000 ]
}

@test "recv leaves alone what is no regular file" {
    spot-migrate send m >s.szt
    mkfifo f
    ln -s f link
    mkdir d
    for target in f link d; do
        run -4 --separate-stderr spot-migrate recv -o $target s.szt
        [ "$stderr" = "spot-migrate recv: cannot replace '${target/link/f}': not a regular file" ]
        run -4 --separate-stderr spot-migrate recv -o $target --listen unix:sock --wait 0s
        [ ! -e $target.part ]
        [ ! -e $target.journal ]
    done
    [ -p f ]
    [ -L link ]
}

@test "an option that would do nothing, or would overwrite an input, is refused" {
    run -2 spot-migrate send --timeout 3s m
    [[ "$output" == *"--timeout"* ]]
    run -2 spot-migrate recv -o got --listen unix:s --streams 2
    [[ "$output" == *"--streams"* ]]
    for c in "send --threads 2 --connect unix:s m" "send --threads 2 --duplex m" \
        "recv --threads 2 -o got --listen unix:s"; do
        # shellcheck disable=SC2086
        run -2 spot-migrate $c
        [[ "$output" == *"--threads"* ]]
    done
    head -c 32 /dev/urandom >key
    chmod 600 key
    for c in "send --listen unix:s m" "recv -o got --connect unix:a,unix:b"; do
        # shellcheck disable=SC2086
        run -2 spot-migrate $c --key-file key
        [[ "$output" == *"--key-file"* ]]
    done
    run -2 spot-migrate send --deadline 0 m
    [[ "$output" == *"--deadline"* ]]
    ln m same
    run -2 spot-migrate pack -o same m
    [[ "$output" == *"--output"* ]]
    cmp m same
}

@test "a link or a pipe beside the target is not written to" {
    spot-migrate send m >s.szt
    echo precious >victim
    for suffix in part journal; do
        ln -s victim got.$suffix
        run -4 --separate-stderr spot-migrate recv -o got s.szt
        [ "$stderr" = "spot-migrate recv: 'got.$suffix' is a symbolic link: remove it" ]
        rm got.*
        mkfifo got.$suffix
        run -4 --separate-stderr spot-migrate recv -o got s.szt
        [ "$stderr" = "spot-migrate recv: 'got.$suffix' is not a regular file: remove it" ]
        rm got.*
    done
    [ "$(cat victim)" = precious ]
    [ ! -e got ]
}

@test "no name and no address are mistakes of usage, and leave nothing" {
    spot-migrate send m >s.szt
    run -2 spot-migrate recv -o '' s.szt
    [[ "$output" == *"the name of an output file is empty"* ]]
    run -2 spot-migrate recv -o got --connect ,
    [[ "$output" == *"','"* ]]
    [ "$(ls -A)" = "$(printf 'm\ns.szt')" ]
}
