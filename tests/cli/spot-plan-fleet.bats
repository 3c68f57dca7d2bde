#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# spot-plan fleet: Melange's example as a document, quotas, and what it refuses.

bats_require_minimum_version 1.5.0

setup() {
    T=$BATS_TEST_TMPDIR
    set -o pipefail
}

fleet() { spot-plan fleet --kind serve --catalogue "${c:-examples/fleet/melange.csv}" --load "${l:-examples/fleet/melange.json}" --no-provenance "$@"; }

@test "the example costs what was published, and less without slices" {
    fleet --policy melange --slices 1 | jq -e '.kind == "fleet" and (.expected.usd_per_h - 6.70 | fabs) < 1e-9
        and [.buy[] | {instance_type, count, market}] == [{instance_type: "A10G", count: 3, market: "on-demand"},
            {instance_type: "A100-80GB", count: 1, market: "on-demand"}]'
    fleet --policy melange --slices 4 | jq -e '(.expected.usd_per_h - 5.69 | fabs) < 1e-9'
    fleet --rho 1 | jq -e '(.expected.usd_per_h - 4.68 | fabs) < 1e-9 and .gap == 0 and .bound == .expected.usd_per_h
        and ([.route[] | .share] | add - 4 | fabs) < 1e-9'
    fleet | jq -e '.expected.usd_per_h > 4.68'
    fleet --format table | grep -q '^ *A10G\|A100'
}

@test "quotas, zones and spot are those of the catalogue, and worth what they save" {
    printf 'instance_type,spot_usd_per_h,on_demand_usd_per_h,zone,quota\nA10G,.4,.3,a,1\nA100-80GB,1.2,3.67,a,9\n' >"$T/c"
    c=$T/c fleet --market spot | jq -e 'all(.buy[]; .market == "spot" and .zone == "a")'
    run -0 --separate-stderr env c="$T/c" bash -c "spot-plan fleet --catalogue $T/c --load examples/fleet/melange.json --explain -o $T/p"
    [[ "$stderr" == *'one more of the quota of A10G is worth'* ]]
}

@test "what cannot be answered is infeasible, and says what would do" {
    printf 'instance_type,on_demand_usd_per_h,quota\nA10G,1.01,2\nA100-80GB,3.67,0\n' >"$T/c"
    c=$T/c run -1 --separate-stderr fleet
    [[ "$stderr" == *'binding are those of A10G (2)'*'requests/s would do'* ]]
    jq '.buckets[1].per_s = {"A10G": 0}' examples/fleet/melange.json >"$T/l"
    l=$T/l run -1 --separate-stderr fleet
    [[ "$stderr" == *'bucket short-long: no instance type can serve it'* ]]
}

@test "bad catalogues and loads are refused with their place" {
    printf 'instance_type,on_demand_usd_per_h,quota\nA10G,1.01,-3\n' >"$T/c"
    c=$T/c run -3 --separate-stderr fleet
    [[ "$stderr" == *'/c:2:'*quota* ]]
    printf 'instance_type,on_demand_usd_per_h,quota\nA10G,-1,\n' >"$T/c"
    c=$T/c run -3 fleet
    printf 'instance_type,on_demand_usd_per_h\nA10G,\n' >"$T/c"
    c=$T/c run -3 --separate-stderr fleet
    [[ "$stderr" == *'no row has a price'* ]]
    jq '.buckets[0].per_s.A10G = -2' examples/fleet/melange.json >"$T/l"
    l=$T/l run -3 --separate-stderr fleet
    [[ "$stderr" == *'/buckets/0/per_s/A10G'* ]]
    jq '.buckets[2].rate_per_s = "x"' examples/fleet/melange.json >"$T/l"
    l=$T/l run -3 --separate-stderr fleet
    [[ "$stderr" == *'/buckets/2'* ]]
    run -2 fleet --slices 3
    run -2 fleet --policy melange
    run -2 fleet --rho 1.5
    { echo instance_type,on_demand_usd_per_h; seq 10000 | sed 's/.*/t&,1/'; } >"$T/c"
    c=$T/c run -3 --separate-stderr fleet
    [[ "$stderr" == *'more than 10000 offers'* ]]
}
