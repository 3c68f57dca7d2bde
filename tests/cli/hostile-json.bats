#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# Goal: no JSON document, whatever it consists of and under whichever key, makes a tool larger than
# ten times its bytes, or 64 MB; honest ones of 10 MB are read; a small compressed one stays small.
bats_require_minimum_version 1.5.0
load eventually

peak=$BATS_TEST_DIRNAME/../../build/release/tests/peak

setup() {
    cd "$BATS_TEST_TMPDIR" || exit
    cat >cluster.json <<<'{"schema":"spot.cluster/1","nodes":[{"name":"n0"}]}'
}

# SHAPE BYTES: what stands between the brackets, written once and again.
fill() {
    local unit=
    case $1 in
    numbers) unit='1,' ;;
    reals) unit='.1e0,' unit=0$unit ;;
    arrays) unit='[],' ;;
    nested) unit='[[[[[[[[]]]]]]]],' ;;
    deep) unit="$(printf '[%.0s' {1..60})$(printf ']%.0s' {1..60})," ;;
    objects) unit='{},' ;;
    members) unit='{"":1},' ;;
    strings) unit='"",' ;;
    escapes) unit='"\n",' ;;
    words) unit='null,' ;;
    keys) seq 1 "$2" | sed 's/.*/"&":1,/' | tr -d '\n' | head -c "$2" | sed 's/,[^,]*$/,/' && return ;;
    equal) unit='"a":1,' ;;
    long) head -c "$2" /dev/zero | tr '\0' a && return ;;
    esac
    yes "$unit" | tr -d '\n' | head -c $(($2 / ${#unit} * ${#unit}))
}

# KEY SHAPE BYTES: a document with that under the key. What stands between is made once for all keys.
hostile() {
    local middle=$BATS_FILE_TMPDIR/$2.$3
    [ -e "$middle" ] || fill "$2" "$3" >"$middle"
    case $2 in
    keys | equal) set -- "$1" '{' '"last":0}' ;;
    long) set -- "$1" '"' '"' ;;
    *) set -- "$1" '[' '0]' ;;
    esac
    printf '{"schema":"spot.layout/1","%s":%s' "$1" "$2"
    cat "$middle"
    printf '%s}' "$3"
}

# Whole sizes (`size`) in `make check-long`, and each shape under both keys. From 6.4 MB on it is the bytes of the document that
# count, so that 7 MB tell what more would.

# FILE COMMAND...: it ends by itself, and was never larger than the rule says.
within() {
    local n most rc=0
    n=$(stat -c %s "$1")
    most=$((n * 10 > 64000000 ? n * 10 : 64000000))
    shift
    timeout 120 "$peak" kib "$@" >out 2>err || rc=$?
    [ "$rc" -le 3 ] || { echo "exit $rc: $*" && cat err && return 1; }
    [ $(($(cat kib) * 1024)) -le "$most" ] || { echo "$(cat kib) KiB, $n bytes: $*" && return 1; }
}

shapes="numbers reals arrays nested deep objects members strings escapes words keys equal long"

@test "every shape under an unknown and a known key of a layout" {
    for shape in $shapes; do
        for mb in $(size '1 3 10' 7); do
            for key in $(in_tier long && echo zz place || { [ $((${#shape} % 2)) = 0 ] && echo zz || echo place; }); do
                hostile $key "$shape" "${mb}000000" >doc.json
                within doc.json spot-migrate plan --from doc.json --to doc.json --cluster cluster.json
            done
        done
    done
}

@test "the worst shapes, larger" {
    for shape in $(size "numbers nested objects keys long" "nested keys"); do
        hostile zz "$shape" "$(size 30000000 12000000)" >doc.json
        within doc.json spot-migrate plan --from doc.json --to doc.json --cluster cluster.json
    done
}

# under "SHAPES" KEY DOCUMENT COMMAND...: each of them under that key; all four in `make check-long`
under() {
    local shape key=$2 file=$3
    local shapes
    shapes=$(size "numbers nested members keys" "$1")
    shift 3
    for shape in $shapes; do
        hostile "$key" "$shape" "$(size 10000000 7000000)" >"$file"
        within "$file" "$@"
    done
}

@test "every tool that reads JSON, under a key that it knows" {
    mkdir weights
    under "numbers nested" cost doc.json spot-migrate assign doc.json
    under "members keys" nodes doc.json spot-migrate plan --from doc.json --to doc.json --cluster doc.json
    under "numbers keys" samples doc.json spot-plan train --job doc.json --forecast doc.json
    under "nested members" spot_advisor doc.json spot-replay import --from aws-advisor doc.json
    under "numbers members" members doc.json spot-run report doc.json
    under "nested keys" model tokenizer.json spot-run tokenize --tokenizer tokenizer.json doc.json
    under "nested members" n_layer weights/config.json spot-run export --load weights --save exported
}

@test "an honest layout of 10 MB is read" {
    jq -nc '{schema:"spot.layout/1",model:{layers:128,width:128,ffn:512,heads:4,vocab:512},
             grid:{D:128,P:128},components:[{name:"w",byte_per_param:2}],
             kv:[range(4096)|{name:("k" * 2500 + "\(.)"),d:(.%128),tokens:16}]}' >layout.json
    [ "$(stat -c %s layout.json)" -gt 10000000 ]
    echo '{"schema":"spot.layout/1"}' >to.json
    within layout.json spot-migrate plan --from layout.json --to to.json --cluster cluster.json
    grep -q 'to.json' err # the first of them was right
    run ! grep -q 'layout.json' err
}

@test "compressed documents count unpacked, and a bomb is refused early" {
    hostile zz numbers 10000000 >doc.json
    gzip -k doc.json && zstd -q doc.json
    within doc.json spot-migrate plan --from doc.json.gz --to doc.json --cluster cluster.json
    grep -q 'more than 6 MiB and 100 times its compressed size' err
    for packed in doc.json.gz doc.json.zst; do
        within $packed spot-migrate plan --from $packed --to doc.json --cluster cluster.json
        cp $packed tokenizer.json
        within $packed spot-run tokenize --tokenizer tokenizer.json doc.json
        grep -q 'more than 6 MiB and 100 times its compressed size' err
    done
}

@test "a compressed tokenizer is the same tokenizer" {
    cp "$BATS_TEST_DIRNAME"/../data/bpe/{tokenizer.json,text.txt} .
    spot-run tokenize -q --tokenizer tokenizer.json text.txt >plain
    for pack in 'gzip -c' 'zstd -qc'; do
        $pack tokenizer.json >packed.json
        spot-run tokenize -q --tokenizer packed.json text.txt | cmp - plain
    done
}
