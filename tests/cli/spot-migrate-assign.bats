#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: check asan
# Goal: assign answers line by line, proves each answer, and says exactly where input is wrong.
bats_require_minimum_version 1.5.0

@test "each line gets an answer, and an unsolvable one does not stop the run" {
    run --separate-stderr spot-migrate assign - <<<'{"cost":[[4,1],[2,null]]}
{"cost":[[null,1],[null,2]]}

{"cost":[[1,2,3],[3,1,2]],"maximize":true}'
    [ "$status" -eq 1 ]
    jq -e '.feasible and .cost == 3 and .assignment == [1, 0] and (.u + .v | add) == 3 and
           .u[0] + .v[1] == 1 and .u[1] + .v[0] == 2 and .u[0] + .v[0] <= 4' <<<"${lines[0]}"
    [ "${lines[1]}" = '{"feasible":false,"violator":{"rows":[0,1],"cols":[1]}}' ]
    [ "$(jq -c '[.cost, .assignment]' <<<"${lines[2]}")" = '[6,[2,0]]' ]
    [ "$stderr" = "spot-migrate assign: 1 of the problems cannot be solved" ]
}

@test "sums beyond 64 bits are exact" {
    run -0 spot-migrate assign - \
        <<<'{"cost":[[9223372036854775807,9223372036854775806],[9223372036854775807,9223372036854775807]]}'
    [[ "$output" = '{"feasible":true,"cost":18446744073709551613,"assignment":[1,0],'* ]]
}

@test "a wrong cell is refused with line, column and pointer" {
    run -3 spot-migrate assign - <<<'{"cost":[[1]]}
{"cost":[[1,"x"]]}'
    [ "${lines[1]}" = \
        'spot-migrate assign: <stdin>:2:13: /cost/0/1: expected null or an integer above -2^63' ]
    run -3 spot-migrate assign - <<<'{"cost":[[1,2],[3]]}'
    [[ "$output" = *'<stdin>:1:16: /cost/1: expected a row of 2 costs' ]]
    run -3 spot-migrate assign - <<<'{"cost":[[99999999999999999999]]}'
    [[ "$output" = *'<stdin>:1:'* ]]
    run -3 spot-migrate assign - <<<'{"costs":[]}'
    [[ "$output" = *"lacks the key 'cost'" ]]
}

@test "a key that is nearly a known one is doubted, once; others are ignored" {
    run -0 --separate-stderr spot-migrate assign - <<<'{"cost":[[1,2],[3,5]],"maximise":true,"name":"a"}
{"cost":[[1,2],[3,5]],"maximise":true}'
    [ "$stderr" = "spot-migrate assign: warning: <stdin>:1: the key 'maximise' is ignored; did you mean 'maximize'?" ]
    run -0 --separate-stderr spot-migrate assign - <<<'{"cost":[[1]],"maximize":false,"comment":"b"}'
    [ -z "$stderr" ]
}

@test "a byte order mark before the first line is skipped, and no other" {
    run -0 spot-migrate assign - < <(printf '\357\273\277{"cost":[[1]]}\n')
    run -3 spot-migrate assign - < <(printf '{"cost":[[1]]}\n\357\273\277{"cost":[[1]]}\n')
}

@test "the manual's example is what is printed" {
    page="$BATS_TEST_DIRNAME/../../docs/man/spot-migrate.1"
    run -0 spot-migrate assign - < <(grep '^{"cost":' "$page")
    [ "$output" = "$(grep '^{"feasible":' "$page")" ]
}

@test "empty sides have the empty answer" {
    run -0 spot-migrate assign - <<<'{"cost":[]}
{"cost":[[],[]]}'
    [ "${lines[0]}" = '{"feasible":true,"cost":0,"assignment":[],"u":[],"v":[]}' ]
    [ "${lines[1]}" = '{"feasible":true,"cost":0,"assignment":[-1,-1],"u":[0,0],"v":[]}' ]
}

@test "a full disk is an error" {
    [ -w /dev/full ] || skip
    run -4 --separate-stderr sh -c 'echo "{\"cost\":[[1]]}" | spot-migrate assign - >/dev/full'
}

@test "of equal answers: most rows in place, then smallest by row, where no column is the last" {
    run -0 spot-migrate assign - <<<'{"cost":[[0],[-1],[-1],[1]]}
{"cost":[[0],[0],[0]]}
{"cost":[[9,9],[1,1],[1,1]]}
{"cost":[[1,1,1],[1,1,1]]}'
    [ "$(jq -sc 'map(.assignment)' <<<"$output")" = '[[-1,0,-1,-1],[0,-1,-1],[-1,1,0],[0,1]]' ]
}

@test "the largest cost first, with the proof that no matching does with cheaper ones" {
    run -0 spot-migrate assign --objective bottleneck - <<<'{"cost":[[1,9],[6,20]]}
{"cost":[[1,9],[6,20]],"maximize":true}
{"cost":[]}'
    [ "${lines[0]}" = '{"feasible":true,"bottleneck":9,"below":{"violator":{"rows":[0,1],"cols":[0]}},"cost":15,"assignment":[1,0],"u":[0,5],"v":[1,9]}' ]
    [ "$(jq -c '[.bottleneck, .cost, .assignment]' <<<"${lines[1]}")" = '[6,15,[1,0]]' ]
    [ "$(jq -c '[.bottleneck, .cost, .assignment]' <<<"${lines[2]}")" = '[null,0,[]]' ]
    run -2 spot-migrate assign --objective least - <<<'{"cost":[[1]]}'
    [ "${lines[0]}" = "spot-migrate assign: --objective must be sum or bottleneck, got 'least'" ]
}

@test "a line without an end is refused when it is too long, not when memory is full" {
    local little='ulimit -v 600000'
    (eval "$little" && spot-migrate --version) >/dev/null 2>&1 || little=: # a sanitizer wants more
    run -3 bash -c "$little; tr '\\0' x </dev/zero | spot-migrate assign -"
    [[ "$output" == *"<stdin>:1: a line of more than 67108864 bytes"* ]]
}

@test "a matrix of NumPy is a problem, several in one file are several, compressed or not" {
    matrix() { # CELL... of 2 x 2
        printf "\223NUMPY\1\0\74\0{'descr': '|i1', 'fortran_order': False, 'shape': (2, 2), }\n"
        printf '%b' "$@"
    }
    cd "$BATS_TEST_TMPDIR"
    { matrix '\4' '\1' '\2' '\3' && matrix '\377' '\0' '\0' '\377'; } >two.npy
    run -0 spot-migrate assign two.npy
    [ "$(jq -c '[.cost, .assignment]' <<<"$output" | paste -sd ' ')" = '[3,[1,0]] [-2,[0,1]]' ]
    gzip two.npy
    [ "$(spot-migrate assign two.npy.gz)" = "$output" ]
    run -3 spot-migrate assign - < <(matrix '\1' '\2')
    [[ "$output" == *"<stdin>: "* ]]
}

@test "the answer and its prices are the same with any instructions" {
    awk 'BEGIN { srand(5)
        for (k = 0; k < 2; k++) {
            printf "{\"cost\":["
            for (i = 0; i < 150; i++) {
                printf i ? ",[" : "["
                for (j = 0; j < 150; j++)
                    printf j ? ",%d" : "%d", k ? (i + 1) * (j + 1) : int(rand() * 1000000)
                printf "]"
            }
            print "]}"
        } }' >"$BATS_TEST_TMPDIR/long"
    run -0 spot-migrate assign "$BATS_TEST_TMPDIR/long"
    [ "${#lines[@]}" -eq 2 ]
    [ "$(SPOT_SIMD=portable spot-migrate assign "$BATS_TEST_TMPDIR/long")" = "$output" ]
}
