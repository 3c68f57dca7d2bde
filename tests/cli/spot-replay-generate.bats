#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# spot-replay generate: equal options give equal bytes, in every form.

bats_require_minimum_version 1.5.0

setup() {
    top=$PWD
    cd "$BATS_TEST_TMPDIR"
}

gen() { spot-replay generate "$@"; }

@test "the sample traces are what their README says" {
    [ -f "$top/examples/traces/README.md" ]
    grep '^    spot-replay generate' "$top/examples/traces/README.md" >commands
    [ "$(wc -l <commands)" -eq "$(ls "$top"/examples/traces/*.csv | wc -l)" ]
    mkdir -p examples/traces
    sh -e ./commands
    for f in examples/traces/*.csv; do
        cmp "$f" "$top/$f"
    done
}

@test "another seed is another trace of the same shape" {
    gen --seed 1 --hours 2 >a
    gen --seed 1 --hours 2 >b
    gen --seed 2 --hours 2 >c
    cmp a b
    run ! cmp -s a c
    [ "$(cut -d, -f1,3 a)" = "$(cut -d, -f1,3 c)" ]
    [ "$(wc -l <a)" -eq 122 ]
}

@test "the node form counts to the count form" {
    for interval in 60s 15m; do
        gen --profile stormy --zones 2 --interval $interval --seed 3 >count.csv
        gen --profile stormy --zones 2 --interval $interval --seed 3 --events >node.csv
        awk -F, 'FNR == 1 { file++; next }
            file == 1 { n[$4] += $2 == "add" ? 1 : -1; at[$4, $1] = n[$4]; next }
            { if (($3, $1) in at) now[$3] = at[$3, $1]; if (now[$3] + 0 != $2) bad++; rows++ }
            END { exit bad || rows < 90 }' node.csv count.csv
    done
}

@test "--steps leaves out rows that repeat their value, and nothing else" {
    gen --zones 2 --seed 4 --hours 5 >grid.csv
    gen --zones 2 --seed 4 --hours 5 --steps >steps.csv
    awk -F, 'NR == 1 || $2 != last[$3] || $1 == 18000; { last[$3] = $2 }' grid.csv | cmp - steps.csv
    [ "$(wc -l <steps.csv)" -lt "$(wc -l <grid.csv)" ]
}

@test "zones are named by region, with a type if asked" {
    gen --zones 5 --regions 2 --hours 0.01 --interval 60 --instance-type 'a,b' >out
    [ "$(sed -n '1p' out)" = 'time_s,available,zone,instance_type' ]
    [ "$(cut -d, -f3- out | sed 1d | tr '\n' ' ')" = \
        'r1z1,"a,b" r1z2,"a,b" r1z3,"a,b" r2z1,"a,b" r2z2,"a,b" ' ]
}

@test "--law replaces single parameters and lists them" {
    gen --law loss_per_h=0,shock_per_h=0,gain_per_h=60 --hours 3 >out
    [ "$(sed 1d out | cut -d, -f2 | sort -u)" = 32 ]
    gen --law help | grep -q '^busy_share .*share of time'
    run --separate-stderr gen --law los_per_h=1
    [ "$status" -eq 2 ]
    [[ "$stderr" == *"--law"* ]]
    for bad in loss_per_h loss_per_h= loss_per_h=x loss_per_h=1x; do
        run --separate-stderr gen --law $bad
        [ "$status" -eq 2 ]
        [[ "$stderr" == *"--law"* ]]
    done
    for bad in loss_per_h=-1 tail=1 loss_all=1.5 burst=nan busy_share=inf; do
        run gen --law $bad
        [ "$status" -eq 2 ]
    done
}

@test "wrong usage is status 2" {
    for bad in '--profile mild' '--zones 0' '--cap 0' '--regions 2' '--format json' 'file.csv' \
        '--hours x' '--zonse 3'; do
        run gen $bad
        [ "$status" -eq 2 ]
    done
    run --separate-stderr gen --zonse 3
    [[ "$stderr" == *"'--zones'"* ]]
}

@test "lost output is an error, status 4" {
    run sh -c 'spot-replay generate >/dev/full'
    [ "$status" -eq 4 ]
    run sh -c 'spot-replay generate >&-'
    [ "$status" -eq 4 ]
    run gen -o no/such/dir/file.csv
    [ "$status" -eq 4 ]
    gen -o out.csv --hours 1
    [ "$(ls)" = out.csv ]
}

@test "--help fits a screen and tells of the examples" {
    gen --help >help
    [ "$(wc -l <help)" -le 45 ]
    grep -q 'examples:' help
}
