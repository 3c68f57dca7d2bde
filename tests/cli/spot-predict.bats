#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
bats_require_minimum_version 1.5.0
load errors

setup() {
    cd "$BATS_TEST_TMPDIR" || exit 1
    awk 'BEGIN { print "time_s,available"; for (i = 0; i < 120; i++)
        print i * 60 "," 4 + int(i / 7) % 5 - int(i / 11) % 3 }' >t.csv
    set -o pipefail # jq -e of nothing is 0
}

# Every distribution of the document sums to 1 and has cap + 1 entries.
sums_to_one() {
    jq -e 'all(.series[]; . as $s
        | all(.available[]; (.p | length == $s.cap + 1) and ((.p | add) - 1 | fabs < 1e-9))
          and ((.change | map(.p) | add) - 1 | fabs < 1e-9)
          and all(.change[]; .lost <= $s.now and $s.now - .lost + .gained <= $s.cap))' "$1"
}

@test "a forecast is a spot.forecast/1 whose distributions sum to 1" {
    spot-predict t.csv >f.json
    [ "$(jq -r .schema f.json)" = spot.forecast/1 ]
    [ "$(jq -r .made_by.inputs[0].name f.json)" = t.csv ]
    [ "$(jq '.series[0].available | length' f.json)" -eq 12 ]
    sums_to_one f.json
}

@test "the joint distribution nets out to the distribution of the first step" {
    spot-predict t.csv | jq -e '.series[0] | . as $s | reduce .change[] as $c
        ([range($s.cap + 1) | 0]; .[$s.now - $c.lost + $c.gained] += $c.p)
        | [., $s.available[0].p] | transpose | all(.[]; .[0] - .[1] | fabs < 1e-6)'
}

@test "equal inputs give equal bytes, from a file or a pipe" {
    spot-predict --no-provenance t.csv >a
    spot-predict --no-provenance t.csv >b
    spot-predict --no-provenance - <t.csv >c
    cmp a b
    cmp a c
}

@test "horizon and interval shape the document" {
    spot-predict --horizon 3 --interval 2m t.csv >f.json
    [ "$(jq '.series[0].available | length' f.json)" -eq 3 ]
    [ "$(jq .interval_s f.json)" -eq 120 ]
    [ "$(jq '.series[0].past_intervals' f.json)" -eq 61 ] # from 0 to 7080, and the row of 7140 between two
}

@test "models named by --model give distributions that sum to 1" {
    for model in arima@12 birthdeath context; do # of all: tests/unit/test_forecaster.c
        spot-predict --model "$model" t.csv >f.json
        sums_to_one f.json
    done
}

@test "200 zones of one file are series sorted by name" {
    awk 'BEGIN { print "time_s,zone,instance_type,available"; for (i = 0; i < 40; i++)
        for (z = 200; z > 0; z--) printf "%d,z%03d,a,%d\n", i * 60, z, (i * z) % 5 }' >z.csv
    spot-predict --horizon 2 z.csv >f.json
    [ "$(jq '.series | length' f.json)" -eq 200 ]
    [ "$(jq -r '.series[0].zone' f.json)" = z001 ]
    sums_to_one f.json
}

@test "the cap is --cap, else the requested column, else the maximum" {
    [ "$(spot-predict t.csv | jq '.series[0].cap')" -eq 8 ]
    [ "$(spot-predict --cap 20 t.csv | jq '.series[0].cap')" -eq 20 ]
    sed '1s/$/,requested/; 2,$s/$/,16/' t.csv >r.csv
    [ "$(spot-predict r.csv | jq '.series[0].cap')" -eq 16 ]
}

@test "counts above the cap are held to it, with a warning" {
    run --separate-stderr spot-predict --cap 3 t.csv
    [ "$status" -eq 0 ]
    [[ "$stderr" == *'above the cap and count as 3'* ]]
    printf '%s' "$output" >f.json
    sums_to_one f.json
}

# A trace of those rows has a forecast whose distributions are distributions.
forecast_of() {
    printf "time_s,available\n%b\n" "$1" | spot-predict >f.json
    sums_to_one f.json
}

@test "a constant series is forecast to stay, and says that nothing ever changed" {
    forecast_of '0,5\n60,5\n120,5\n6000,5'
    jq -e '.series[0] | .past_intervals == 101 and .past_changes == 0 and .available[11].p[5] > 0.9' f.json
}

@test "two points have a forecast that says it rests on two" {
    forecast_of '0,5\n60,3'
    jq -e '.series[0] | .past_intervals == 2 and .past_changes == 1 and .now == 3' f.json
}

@test "one point has a forecast that says it rests on one" {
    forecast_of '0,7'
    jq -e '.series[0] | .past_intervals == 1 and .past_changes == 0 and .now == 7' f.json
}

@test "all zeros are forecast as none, for certain under a cap of 0" {
    forecast_of '0,0\n60,0\n600,0'
    jq -e '.series[0] | .cap == 0 and all(.available[]; .p == [1])' f.json
}

@test "a value holds over a gap" {
    printf 'time_s,available\n0,5\n60,4\n7200,4\n' | spot-predict >f.json
    [ "$(jq '.series[0].past_intervals' f.json)" -eq 121 ]
    sums_to_one f.json
}

@test "of two rows at one time the later counts" {
    printf 'time_s,available\n0,5\n60,4\n60,2\n120,2\n' | spot-predict --model last |
        jq -e '.series[0].now == 2'
}

@test "a count that is no whole number is refused with its place" {
    run --separate-stderr sh -c "printf 'time_s,available\n0,5\n60,4.5\n' | spot-predict"
    [ "$status" -eq 3 ]
    [[ "$stderr" == *'<stdin>:3:4:'* ]]
}

@test "300,000 rows take bounded memory" {
    (ulimit -v 300000; spot-predict --version) || skip "no limit on memory here"
    awk 'BEGIN { print "time_s,available"; for (i = 0; i < 300000; i++) print i * 60 "," int(i / 9) % 8 }' |
        (ulimit -v 300000; spot-predict --horizon 3) >f.json
    [ "$(jq '.series[0].past_intervals' f.json)" -eq 300000 ]
    sums_to_one f.json
}

@test "a trace that would be billions of intervals is refused" {
    run --separate-stderr sh -c "printf 'time_s,available\n0,5\n99999999999,4\n' | spot-predict --interval 1s"
    [ "$status" -eq 3 ]
    [[ "$stderr" == *--interval* ]]
}

@test "a count of thousands is forecast on a coarser grid" {
    awk 'BEGIN { print "time_s,available"; for (i = 0; i < 99; i++) print i * 60 "," 2500 + i % 7 * 50 }' |
        spot-predict --horizon 4 >f.json
    sums_to_one f.json
    jq -e '.series[0] | .available[0].mean > 2300 and .available[0].mean < 2900' f.json
}

@test "an unknown model is a usage error with a hint" {
    fails 2 usage spot-predict --model polo t.csv
}

@test "a missing file is a system error" {
    run spot-predict nowhere.csv
    [ "$status" -eq 4 ]
}

@test "a full disk is an error, not silence" {
    [ -c /dev/full ] || skip "no /dev/full"
    run sh -c 'spot-predict t.csv >/dev/full'
    [ "$status" -eq 4 ]
}

@test "csv and table hold a row per step" {
    [ "$(spot-predict --format csv t.csv | wc -l)" -eq 13 ]
    spot-predict --format csv t.csv >csv
    head -1 csv | grep -q '^zone,instance_type,time_s,now,cap,step,mean,p10,p50,p90,drop$'
    spot-predict --format table t.csv | grep p90
}

@test "a backtest has a row per step and one for all" {
    spot-predict --backtest --models last,pool --origins 20 --horizon 4 t.csv >b.csv
    head -1 b.csv | grep -q '^series,model,step,origins,mae,crps,brier_drop,cover80,us_per_origin$'
    [ "$(wc -l <b.csv)" -eq 11 ]
    [ "$(grep -c ',all,20,' b.csv)" -eq 2 ]
}

@test "every column of a backtest follows from the dump" {
    spot-predict --backtest --models pool --origins 20 --horizon 4 --dump d.jsonl t.csv >b.csv
    [ "$(wc -l <d.jsonl)" -eq 80 ]
    crps=$(awk -F, '$3 == "all" { print $6 }' b.csv)
    jq -s -e --argjson crps "$crps" '(map(. as $r | reduce range($r.p | length) as $k ({f: 0, s: 0};
        .f += $r.p[$k] | .s += (.f - (if $r.y <= $k then 1 else 0 end) | . * .)) | .s)
        | add / length) - $crps | fabs < 1e-9' d.jsonl
}

@test "no future row changes a forecast" {
    spot-predict --backtest --models pool --origins 3 --horizon 3 --cap 9 --dump d.jsonl t.csv >b.csv
    jq -c 'select(.step == 3) | [.origin_s, .p]' d.jsonl >want
    while read -r line; do
        at=$(jq '.[0]' <<<"$line")
        awk -F, -v at="$at" 'NR == 1 || $1 <= at' t.csv |
            spot-predict --horizon 3 --cap 9 >f.json
        jq -e --argjson want "$line" '[.series[0].available[2].p, $want[1]] | transpose
            | all(.[]; .[0] - .[1] | fabs < 1e-12)' f.json
    done <want
    [ "$(wc -l <want)" -eq 3 ]
}

@test "a trace too short to score is a negative answer" {
    head -20 t.csv >s.csv
    fails 1 infeasible spot-predict --backtest s.csv
}

@test "wider vectors give the same bytes" {
    for cap in 1 32 300; do
        spot-replay generate --cap $cap --hours 90 --seed 5 --no-provenance -o g.csv
        spot-predict --no-provenance g.csv >wide
        SPOT_SIMD=portable spot-predict --no-provenance g.csv | cmp - wide
    done
}

@test "calls that keep a state say what one call over everything says" {
    spot-predict --cap 9 --no-provenance t.csv >want
    for part in '2,40' '41,90' '91,$'; do
        { head -1 t.csv; sed -n "${part}p" t.csv; } |
            spot-predict --cap 9 --no-provenance --state s.bin >got
    done
    cmp want got
    for from in 31.7838 49.0157 17.3333 53.1; do # seconds that a double rounds, also in sums
        awk -F, -v OFS=, -v from=$from 'NR > 1 { $1 += from } NR < 22' t.csv >odd.csv
        spot-predict --cap 9 --no-provenance odd.csv >want
        for newest in 5 9 13; do
            rm -f s.bin
            head -n $newest odd.csv | spot-predict --cap 9 --state s.bin >got
            spot-predict --cap 9 --no-provenance --state s.bin odd.csv >got
            cmp want got
        done
    done
}

@test "outputs that are links are written where they lead, and not where others lead them" {
    mkdir to
    printf 'time_s,available\n0,3\n60,4\n120,3\n' >t.csv
    ln -s to/o o
    ln -s to/s s
    for _ in 1 2; do # there is nothing yet, and a file
        spot-predict -o o --state s t.csv
        [ -L o ] && [ -L s ] && [ -s to/s ]
        jq -e .schema to/o
    done
    ln -s to/gp p.gp
    spot-predict -o o --plot p.gp t.csv
    [ -L p.gp ] && [ -s to/gp ]
    mkdir open
    echo precious >victim
    ln -s ../victim open/o
    chmod 0777 open
    fails 4 system spot-predict -o open/o t.csv
    run ! spot-predict --state open/o -o out t.csv # which is not a state, either
    ln -s ../victim open/o.gp
    run -4 spot-predict --plot open/o.gp -o out t.csv
    [ "$(cat victim)" = precious ]
}

@test "a state that cannot be read is an error, and stays as it is" {
    mkdir dir
    fails 4 system spot-predict --state dir <<<$'time_s,available\n0,3'
    ln -s loop loop
    fails 4 system spot-predict --state loop <<<$'time_s,available\n0,3'
    [ -L loop ]
}

@test "a newest row between two intervals is in the answer, with a state and without" {
    end=1015
    { awk -F, 'NR == 1 || $1 <= 960' t.csv; echo "$end,7"; } >cut.csv
    spot-predict --cap 9 --no-provenance cut.csv >want
    jq -e ".series[0] | .time_s == $end and .now == 7" want
    rm -f s.bin
    awk -F, 'NR == 1 || $1 <= 480' cut.csv | spot-predict --cap 9 --state s.bin >got
    awk -F, 'NR == 1 || $1 <= 985' cut.csv | spot-predict --cap 9 --state s.bin >got
    spot-predict --cap 9 --no-provenance --state s.bin cut.csv >got
    cmp want got
    # and is not kept: the interval that it began is seen whole later
    { cat cut.csv; awk -F, -v end=$end 'NR > 1 && $1 > end' t.csv; } >all.csv
    awk -F, 'NR == 1 || $1 > 960' all.csv |
        spot-predict --cap 9 --no-provenance --state s.bin | jq .series >got
    spot-predict --cap 9 --no-provenance all.csv | jq .series >want
    cmp want got
}

@test "a state of another model and a damaged one are refused" {
    spot-predict --state s.bin t.csv >f.json
    fails 3 data spot-predict --model markov --state s.bin t.csv
    byte=$(od -An -tu1 -j3000 -N1 s.bin)
    # shellcheck disable=SC2059 # the format is the byte
    printf "\\$(printf %o $((byte ^ 1)))" | dd of=s.bin bs=1 seek=3000 conv=notrunc status=none
    fails 3 data spot-predict --state s.bin t.csv
}

@test "zones of a region share a shock" {
    awk 'BEGIN { print "time_s,zone,available"; for (i = 0; i < 300; i++) { y = 4 - (i % 9 == 0)
        print i * 60 ",x-1a," y; print i * 60 ",x-1b," y; print i * 60 ",y-1a,3" } }' >z.csv
    spot-predict z.csv >f.json
    jq -e '.regions | length == 1 and .[0].region == "x-1" and .[0].zones == 2
        and .[0].loss_lift > 5
        and (.[0] | .shock_prob * .loss_lift + (1 - .shock_prob) * .calm_lift - 1 | fabs < 1e-9)' f.json
}

@test "a header with other separators is told so" {
    printf 'time_s;available\n0;3\n' >sep.csv
    fails 3 data.syntax spot-predict sep.csv
    at sep.csv 1 1
}

@test "figures are written as a script that names what it draws" {
    spot-predict --plot f.gp t.csv >f.json
    grep -q "'90 %'" f.gp
    spot-predict --backtest --models last,pool --origins 20 --plot b.gp t.csv >b.csv
    grep -q "'calibrated'" b.gp
    spot-predict --plot - -o doc t.csv >drawn
    spot-predict --plot - t.csv | cmp - drawn
    jq -e '.schema == "spot.forecast/1"' doc
    run -1 grep schema drawn
    run spot-predict --plot f.bmp t.csv
    [ "$status" -eq 2 ]
}

@test "load is forecast as arrivals per interval, with its daily cycle" {
    awk 'BEGIN { print "time_s,prompt_tokens,output_tokens"
        for (h = 0; h < 24 * 9; h++) { n = (h % 24 < 12) ? 4 : 30
            for (i = 0; i < n; i++) print h * 3600 + i * 100 + (h * 7 + i * 13) % 97 ",10,10" } }' >r.csv
    printf '%d,1,1\n' $((24 * 9 * 3600)) >>r.csv
    spot-predict --kind load --interval 1h --horizon 24 r.csv >f.json
    sums_to_one f.json
    jq -e '.series[0] | .instance_type == "requests" and .past_intervals == 216
        and (.available[5].mean | . > 3 and . < 8) and (.available[17].mean | . > 20 and . < 40)' f.json
}

@test "load refuses what is no request trace, with the place" {
    no_request() { # ROWS MESSAGE
        # shellcheck disable=SC2059
        printf "$1" >no.csv
        run -3 --separate-stderr spot-predict --kind load no.csv
        [ -z "$output" ]
        [[ "$stderr" == *"no.csv:$2"* ]] || { echo "$stderr" >&2; return 1; }
    }
    local head='time_s,prompt_tokens,output_tokens\n'
    no_request "${head}1,1,1\n-3,1,1\n" "3:1: time_s: -3 is outside [0, 100000000000]"
    no_request 'time_s,available\n0,4\n' "1:"
    [[ "$stderr" == *prompt_tokens* ]]
    no_request 'time_s,prompt_tokens\n0,4\n' "1:"
    [[ "$stderr" == *output_tokens* ]]
}

@test "an option that would do nothing is refused by name" {
    nothing() { # MESSAGE ARGUMENTS...
        local text=$1
        shift
        run -2 --separate-stderr spot-predict "$@"
        [ -z "$output" ]
        [[ "$stderr" == *"$text"* ]] || { echo "$stderr" >&2; return 1; }
    }
    nothing "--origins has no effect without --backtest" --origins 5 t.csv
    nothing "--from has no effect without --backtest" --from 1h t.csv
    nothing "--dump has no effect without --backtest" --dump d t.csv
    nothing "--models has no effect without --backtest" t.csv --models pool
    nothing "--origins has no effect without --backtest" --backtest --origins 5 --no-backtest t.csv
    nothing "--model has no effect with --backtest" --backtest --model pool t.csv
    [ ! -e d ]
}

@test "the trace is not overwritten by an output" {
    cp t.csv before
    for name in output state plot; do
        ln -sf t.csv t.svg
        fails 2 usage spot-predict --$name t.svg t.csv
    done
    run -2 spot-predict --backtest --dump x -o x t.csv
    cmp t.csv before
}

@test "options may follow the trace" {
    spot-predict --no-provenance --horizon 2 --format csv t.csv >before
    spot-predict t.csv --no-provenance --horizon 2 --format csv >after
    cmp before after
    run spot-predict -- t.csv --format csv
    [ "$status" -eq 4 ]
    [[ "$output" == *"--format"* ]]
}

@test "a figure that cannot be written is named as the user named it" {
    run spot-predict --plot nowhere/x.svg t.csv
    [ "$status" -eq 4 ]
    [[ "$output" == *"'nowhere/x.svg'"* ]]
    [[ "$output" != *.tmp.* ]]
}

@test "an unknown model is answered with all of them, a drawing in text names each curve" {
    fails 2 usage spot-predict --model foo "$BATS_TEST_DIRNAME/../../examples/trace.csv"
    run -0 spot-predict --plot - --model last -o "$BATS_TEST_TMPDIR/f" "$BATS_TEST_DIRNAME/../../examples/trace.csv"
    for curve in '90 %' '50 %' median known; do
        [ "$(grep -cE "^ +$curve *$" <<<"$output")" -eq 2 ] # two series
    done
}

@test "a peak between two points is told, with the cap that would have it" {
    printf '%s\n' time_s,available 0,3 70,5 110,3 300,4 600,4 >"$BATS_TEST_TMPDIR/t.csv"
    run --separate-stderr spot-predict "$BATS_TEST_TMPDIR/t.csv"
    [ "$status" -eq 0 ]
    [ "$(jq '.series[0].cap' <<<"$output")" = 4 ]
    [[ "$stderr" == *"5 instances between two points"*"--cap 5"* ]]
    run --separate-stderr spot-predict --cap 5 "$BATS_TEST_TMPDIR/t.csv"
    [ -z "$stderr" ]
}

@test "a header that is nearly right is told the name, prices are called prices" {
    printf 'time,available\n0,1\n' >h.csv
    fails 3 data.syntax spot-predict h.csv
    at h.csv 1 1
    printf 'time_s,zone,instance_type,market,price_usd_per_h\n0,a,g,spot,0.5\n' >h.csv
    fails 3 data spot-predict h.csv
    printf 'time_s,available\n0,1e300\n' >h.csv
    fails 3 data.value spot-predict h.csv
    at h.csv 2 3
    printf 'time_s,available\n0,1048576\n60,1048576\n' >h.csv
    fails 3 data spot-predict h.csv
}

@test "a trace of two rows a lifetime apart is refused before it takes memory" {
    printf 'time_s,available,zone\n0,3,a\n1000000000,4,a\n' >far.csv
    fails 3 data spot-predict far.csv
    run -0 --separate-stderr timeout 60 spot-predict --interval 100000s --model last far.csv
    printf 'time_s,prompt_tokens,output_tokens\n1000000000,1,1\n' >far.csv
    fails 3 data.value spot-predict --kind load far.csv
    at far.csv 2 1
}

@test "NAME@HISTORY is how many changes a model sees: the newest rows alone tell it the same" {
    { head -1 t.csv; tail -n 11 t.csv; } >tail.csv
    for model in empirical knn birthdeath; do
        available() { spot-predict --cap 9 --no-provenance --model "$@" | jq -c '.series[0].available'; }
        [ "$(available $model@10 t.csv)" = "$(available $model@10 tail.csv)" ]
        [ "$(available $model@10 t.csv)" != "$(available $model t.csv)" ]
    done
}

@test "probes tell where one can be had, alone, beside counts and through a pipe" {
    probes=$BATS_TEST_DIRNAME/../../examples/clouds/probes.csv
    spot-predict --no-provenance "$probes" >f.json
    sums_to_one f.json
    jq -e '[.series[] | .start | .granted, .stays_1h, .stays[] | . >= 0 and . <= 1] | all' f.json
    # the newest answers were yes two hours ago, no, yes
    jq -e '[.series[].start.granted] | .[0] > .5 and .[1] < .5 and .[2] > .[0]' f.json
    spot-predict --no-provenance - <"$probes" >g.json
    spot-predict --no-provenance <(cat "$probes") >h.json
    cmp f.json g.json
    cmp f.json h.json
}

@test "a series with counts is forecast by them, whatever was probed" {
    probes=$BATS_TEST_DIRNAME/../../examples/clouds/probes.csv
    { echo time_s,zone,instance_type,available; awk 'BEGIN { for (i = 0; i < 200; i++)
        print i * 180 ",us-east-1a,p3.2xlarge," 3 + int(i / 9) % 4 }'; } >c.csv
    spot-predict c.csv | jq '.series[] | [.zone, .available, .change]' >without
    spot-predict "$probes" c.csv >with.json
    jq '.series[] | [.zone, .available, .change]' with.json >with
    cmp with without
    jq -e '.series[0].start.probes > 45' with.json
}

@test "what a provider says of interruptions is a prior of how long one stays" {
    grep -v us-west "$BATS_TEST_DIRNAME/../../examples/clouds/probes.csv" | sed -n 1,20p >p.csv
    echo zone,instance_type,os,interrupted_min_share,interrupted_max_share,savings_share,hazard_per_h >often.csv
    sed p often.csv >seldom.csv
    echo us-east-1a,p3.2xlarge,Linux,.2,1,.7,.0006 | tee -a often.csv >/dev/null
    echo us-east-1b,p3.2xlarge,Linux,0,.05,.7,.00003 >>often.csv
    sed -i 1d seldom.csv
    echo us-east-1a,p3.2xlarge,Linux,0,.05,.7,.00003 >>seldom.csv
    echo us-east-1b,p3.2xlarge,Linux,.2,1,.7,.0006 >>seldom.csv
    often=$(spot-predict p.csv often.csv | jq '.series[0].start.stays_1h')
    seldom=$(spot-predict p.csv seldom.csv | jq '.series[0].start.stays_1h')
    awk -v a="$often" -v b="$seldom" 'BEGIN { exit !(a < b) }'
    fails 2 usage spot-predict often.csv
    fails 2 usage spot-predict p.csv p.csv
}

@test "the places whose answers are worth most come first, and dear answers are left out" {
    probes=$BATS_TEST_DIRNAME/../../examples/clouds/probes.csv
    spot-predict -q --next-probes 3 --hour-usd 4 --format jsonl "$probes" >n
    [ "$(wc -l <n)" -ge 1 ]
    jq -se '[.[].worth_usd] | . == (sort | reverse) and all(. > 0)' n
    spot-predict -q --next-probes 3 --hour-usd 4 --probe-usd 100 --format jsonl "$probes" >none
    [ ! -s none ]
}
