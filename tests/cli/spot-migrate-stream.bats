#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: check asan
# Goal: pack and unpack are exact filters with the right exit status.
bats_require_minimum_version 1.5.0
load eventually

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    make_file '{"a":{"dtype":"F32","shape":[3000],"data_offsets":[0,12000]},"b":{"dtype":"BF16","shape":[25,41],"data_offsets":[12000,14050]},"e":{"dtype":"U8","shape":[0],"data_offsets":[14050,14050]}}' 14050 >m.safetensors
}

le64() { # NUMBER: eight bytes, little endian
    local n=$1 i
    for i in 1 2 3 4 5 6 7 8; do
        # shellcheck disable=SC2059
        printf "\\x$(printf %02x $((n & 255)))"
        n=$((n >> 8))
    done
}

make_file() { # JSON BYTES
    le64 ${#1}
    printf %s "$1"
    seq 1 100000 | head -c "$2"
}

@test "unpack gives back the very file, for every codec and any number of threads" {
    for codec in raw planes; do # more of it: tests/unit/test_codec.c, test_stream.c
        spot-migrate pack --codec $codec --chunk 4KiB --threads 1 m.safetensors >1.szt
        spot-migrate pack --codec $codec --chunk 4KiB --threads 3 <m.safetensors >2.szt
        zstd -qt 1.szt
        spot-migrate unpack --threads 1 <2.szt | cmp - m.safetensors
        spot-migrate unpack --threads 5 <2.szt | cmp - m.safetensors
        spot-migrate recv --threads 5 -o r 2.szt
        cmp r m.safetensors
        spot-migrate unpack -o u 1.szt
        cmp u m.safetensors
    done
}

@test "the first bad chunk is named, and what came before is written, by any number of threads" {
    spot-migrate pack --codec raw --chunk 1KiB m.safetensors >m.szt
    for at in 3000 6000 9000; do # three chunks are bad
        printf 'X' | dd of=m.szt bs=1 seek=$at conv=notrunc status=none
    done
    run -3 --separate-stderr bash -c 'spot-migrate unpack --threads 1 m.szt >one'
    first=$stderr
    for jobs in 2 8; do
        run -3 --separate-stderr bash -c "spot-migrate unpack --threads $jobs m.szt >many"
        [ "$stderr" = "$first" ]
        cmp one many
    done
}

@test "every dtype, also of less than a byte, no dimensions, no elements" {
    local json='' at=0 size
    for d in BOOL/1 U8/1 I8/1 F8_E4M3/1 F8_E5M2/1 F8_E8M0/1 F8_E4M3FNUZ/1 F8_E5M2FNUZ/1 I16/2 U16/2 F16/2 BF16/2 I32/4 U32/4 F32/4 C64/8 F64/8 I64/8 U64/8; do
        size=$((7 * ${d#*/}))
        json+="\"${d%/*}\":{\"dtype\":\"${d%/*}\",\"shape\":[7],\"data_offsets\":[$at,$((at + size))]},"
        at=$((at + size))
    done
    for d in F4/4 F6_E2M3/6 F6_E3M2/6; do # 300 elements in 150 and 225 bytes
        size=$((300 * ${d#*/} / 8))
        json+="\"${d%/*}\":{\"dtype\":\"${d%/*}\",\"shape\":[3,100],\"data_offsets\":[$at,$((at + size))]},"
        at=$((at + size))
    done
    json+="\"scalar\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[$at,$((at + 4))]},"
    at=$((at + 4))
    json+="\"none\":{\"dtype\":\"BF16\",\"shape\":[3,0,5],\"data_offsets\":[$at,$at]}"
    make_file "{$json}" $at >d.safetensors
    for codec in raw planes; do
        spot-migrate pack --codec $codec --chunk 64 d.safetensors | tee d.szt | zstd -qt
        spot-migrate unpack d.szt | cmp - d.safetensors
    done
    run -3 spot-migrate pack <(make_file '{"a":{"dtype":"F4","shape":[3],"data_offsets":[0,2]}}' 2)
    [[ "$output" == *"a: 12 bits, expected whole bytes"* ]]
}

@test "what is stored is plain zstd" {
    spot-migrate pack --codec raw --chunk 4KiB m.safetensors | zstd -dc | cmp - m.safetensors
}

@test "unpack is silent on success and exact on failure" {
    spot-migrate pack m.safetensors >m.szt
    run spot-migrate unpack -o u m.szt
    [ "$status" -eq 0 ]
    [ -z "$output" ]
    head -c -1 m.szt >cut.szt
    run spot-migrate unpack -o u cut.szt
    [ "$status" -eq 3 ]
    [[ "$output" == *"cut.szt:"* ]]
    cat m.szt m.szt >two.szt
    run spot-migrate unpack -o u two.szt
    [ "$status" -eq 3 ]
    run spot-migrate unpack -o u m.safetensors
    [ "$status" -eq 3 ]
    [[ "$output" == *"not a spot stream" ]]
    run spot-migrate unpack -o u /dev/null
    [ "$status" -eq 3 ]
}

@test "hostile headers are refused at once and in little memory" {
    local little='ulimit -v 400000'
    (eval "$little" && spot-migrate --version) >/dev/null 2>&1 || little=: # a sanitizer wants more
    one='{"a":{"dtype":"F32","shape":[%s],"data_offsets":[0,%s]}}'
    # shellcheck disable=SC2059
    for shape in 250000000000,1000000000000 4294967296,4294967296,0,0 18446744073709551615,8; do
        make_file "$(printf "$one" "${shape%,*}" "${shape##*,}")" 100 >bad
        for input in bad; do
            run bash -c "$little; timeout 60 spot-migrate pack $input >/dev/null"
            [ "$status" -eq 3 ]
        done
    done
    le64 1000000000000 >bad
    run bash -c "spot-migrate pack bad >/dev/null"
    [ "$status" -eq 3 ]
    [[ "$output" == *"bad: not a safetensors file"* ]]
    # a terabyte announced in a pipe: refused when the data ends, not allocated
    make_file "$(printf "$one" 250000000000 1000000000000)" 100 >bad
    run bash -c "$little; timeout 60 spot-migrate pack <bad >/dev/null"
    [ "$status" -eq 3 ]
}

@test "usage errors, missing files, full disks" {
    run spot-migrate pack --codec gzip m.safetensors
    [ "$status" -eq 2 ]
    run spot-migrate pack m.safetensors x
    [ "$status" -eq 2 ]
    run spot-migrate pakc
    [ "$status" -eq 2 ]
    [[ "$output" == *"'pack'"* ]]
    run spot-migrate pack nothing
    [ "$status" -eq 4 ]
    run spot-migrate pack .
    [ "$status" -eq 4 ]
    run bash -c 'spot-migrate pack m.safetensors >/dev/full'
    [ "$status" -eq 4 ]
    [[ "$output" == *"No space left on device"* ]]
    for c in pack unpack; do
        spot-migrate $c --help >help
        [ "$(wc -l <help)" -le 40 ]
    done
}

@test "a terminal is refused on either side" {
    command -v script >/dev/null || skip "needs script(1)"
    run script -qec "spot-migrate pack m.safetensors" /dev/null
    [ "$status" -eq 2 ]
    [[ "$output" == *"standard output is a terminal"* ]]
    run script -qec "spot-migrate unpack -o u" /dev/null
    [ "$status" -eq 2 ]
    [[ "$output" == *"standard input is a terminal"* ]]
}
@test "what is no stream and no file of weights is said with its name" {
    local top=$BATS_TEST_DIRNAME/../..
    : >"$BATS_TEST_TMPDIR/none"
    run -3 spot-migrate unpack "$top/examples/migrate/tiny.safetensors"
    [[ "$output" == *"tiny.safetensors:"* ]]
    run -3 spot-migrate pack -o "$BATS_TEST_TMPDIR/x" "$top/README.md"
    [[ "$output" == *"README.md:"* ]]
    run -3 spot-migrate pack -o "$BATS_TEST_TMPDIR/x" "$BATS_TEST_TMPDIR/none"
    [[ "$output" == *"none: empty"* ]]
    run -3 spot-migrate unpack "$BATS_TEST_TMPDIR/none"
    run -2 spot-migrate pack --format bogus "$top/examples/migrate/tiny.safetensors"
}

@test "metadata of any length, names of files in any letters" {
    make_file "{\"__metadata__\":{\"tags\":\"$(printf 'ab%.0s' {1..20000})\"},\"a\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]}}" 9 >long
    spot-migrate pack long | spot-migrate unpack | cmp - long
    local dir name
    dir=x$(printf 'é%.0s' {1..100}) name=$(printf 'é%.0s' {1..60}) # byte 255 is inside a character
    mkdir "$dir"
    cp m.safetensors "$dir/$name"
    spot-migrate pack "$dir/$name" | spot-migrate unpack | cmp - m.safetensors
    spot-migrate send --via 'spot-migrate recv --duplex -o got' "$dir/$name"
    cmp got m.safetensors
    cp m.safetensors $'a\377\nb'
    spot-migrate pack $'a\377\nb' >odd.szt
    head -c 1000 odd.szt | grep -aqF '"source":"a??b"'
}

@test "what is written through a link is beside its target, also what is received" {
    mkdir to
    for how in recv unpack; do
        ln -s "to/$how" link
        spot-migrate pack m.safetensors | spot-migrate $how -o link
        [ -L link ] && cmp "to/$how" m.safetensors
        rm link
    done
    [ "$(ls to | xargs)" = "recv unpack" ]
    mkdir open
    ln -s ../to/recv open/link
    chmod 0777 open
    spot-migrate pack m.safetensors >m.szt
    for how in recv unpack; do run -4 spot-migrate $how -o open/link <m.szt; done
    cmp to/recv m.safetensors
}

@test "a signal leaves no half of a file, and nothing is written through a link" {
    spot-migrate pack --codec raw m.safetensors >m.szt
    mkfifo slow
    timeout 60 spot-migrate unpack -o out slow & # which passes the signal on
    timeout=$!
    exec 7>slow
    head -c 9000 m.szt >&7
    pid=$(pgrep -P $timeout)
    eventually "[ -e out.tmp.$pid ]"
    kill -TERM $pid
    died=0
    wait $timeout || died=$?
    exec 7>&-
    [ $died -eq 143 ] # SIGHUP and SIGINT may be ignored where tests run
    [ "$(ls out* 2>/dev/null)" = "" ]
    echo precious >victim
    # the name is known: the number of the process is that of the shell before it
    sh -c 'ln -s victim "out.tmp.$$"; exec spot-migrate unpack -o out m.szt'
    [ "$(cat victim)" = precious ]
    [ ! -L out ]
    cmp out m.safetensors
}
