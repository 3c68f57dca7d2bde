#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# spot-replay generate, import and describe of loads.

bats_require_minimum_version 1.5.0
load errors

setup() {
    top=$PWD
    cd "$BATS_TEST_TMPDIR"
    set -o pipefail # jq -e of nothing is 0
}

load() { spot-replay generate --kind load "$@"; }
about() { spot-replay describe --kind load "$@"; }

@test "equal options give equal requests, another seed others" {
    load --requests 500 --arrivals gamma --prompt-tokens lognormal:400:1 >a
    load --requests 500 --arrivals gamma --prompt-tokens lognormal:400:1 >b
    load --requests 500 --arrivals gamma --prompt-tokens lognormal:400:1 --seed 2 >c
    cmp a b
    run ! cmp -s a c
    [ "$(wc -l <a)" -eq 501 ]
    about a | jq -e '.requests == 500 and .output_tokens.max == 128'
}

@test "a load ends with its hours, its requests, or both" {
    load --hours 0.1 --rate 10 >a
    about a | jq -e '.end_s <= 360 and .requests > 3000'
    [ "$(load --hours 0.1 --rate 10 --requests 7 | wc -l)" -eq 8 ]
    load | about | jq -e '.end_s <= 43200 and .end_s > 43000'
    run -1 --separate-stderr load --hours 0.001 --rate 0.00001
    [[ "$stderr" == *'no request came within 3.6 s'* ]]
}

@test "SpotServe's own arrivals say what their CV is" {
    run -0 --separate-stderr load --arrivals spotserve --rate 0.35 --requests 20000
    [[ "$stderr" == *'calls CV 6: the gaps have a coefficient of variation of 0.0458'* ]]
    about - <<<"$output" | jq -e '.gap_cv > 0.045 and .gap_cv < 0.0465'
    run -0 --separate-stderr load --arrivals gamma --rate 0.35 --requests 50000
    [ -z "$stderr" ]
    about - <<<"$output" | jq -e '.gap_cv > 5.5 and .gap_cv < 6.5'
}

@test "lengths come from a recorded load, and fit the context" {
    printf 'time_s,prompt_tokens,output_tokens\n0,10,1\n1,20,2\n2,4000,3\n' >seen.csv
    load --lengths seen.csv --requests 300 | sed 1d | cut -d, -f2,3 | sort | uniq -c | awk '
        { if ($1 < 70) exit 1; n++ } END { exit n != 3 }'
    [ "$(load --lengths seen.csv --context 4000 --requests 300 | sed 1d | cut -d, -f2,3 | sort -u | xargs)" = '10,1 20,2' ]
    run -1 --separate-stderr load --prompt-tokens 4096 --context 4096
    [[ "$stderr" == *'none fits a context of 4096'* ]]
}

@test "options that would do nothing are refused" {
    for args in '--cap 3' '--events' '--arrivals poisson:2' '--arrivals on-off:3s:4s:5s' '--arrivals gamma:0' '--swing 2' '--swing .5:0s' '--rate 0' \
        '--lengths x --prompt-tokens 5' '--prompt-tokens lognormal:3' '--arrivals uniform' '--requests 0'; do
        # shellcheck disable=SC2086
        run -2 --separate-stderr load $args
        [ -z "$output" ]
    done
    fails 2 usage spot-replay generate --rate 3
    run -2 spot-replay describe --kind load --scale 2 "$top/examples/traces/demo.csv"
}

@test "wrong loads are refused with their place" {
    no() { # TEXT MESSAGE
        run -3 --separate-stderr about --context 100 - < <(printf "time_s,prompt_tokens,output_tokens\n$1")
        [[ "$stderr" == *"<stdin>:$2"* ]]
        [ -z "$output" ]
    }
    no '5,1,1\n3,1,1\n' '3:1: time_s: 3 is before the request above it, at 5'
    no '0,90,11\n' '2:3: prompt_tokens: 90 and output_tokens 11 are above the context, 100'
}

@test "a load is no trace, and the message says so" {
    load --requests 3 >l
    fails 3 data spot-replay describe l
    run -3 --separate-stderr about "$top/examples/traces/demo.csv"
    [[ "$stderr" == *prompt_tokens* ]]
}

@test "describe has the same numbers in every form" {
    load --requests 2000 --arrivals on-off >l
    about --format csv l >row
    [ "$(wc -l <row)" -eq 2 ]
    about l | jq -r '"\(.requests),\(.start_s),\(.end_s),\(.rate_per_s),\(.gap_cv),"' >want
    grep -qF "$(cat want)" row
    about --format table l | grep -q '^    2000 '
    about --format md l | grep -q '^| prompt *| *512'
    about --from 100 --to 200 l | jq -e '.start_s >= 100 and .end_s <= 200'
    run -1 about --from 1e9 l
}

@test "describe draws rate and lengths" {
    load --requests 2000 --prompt-tokens lognormal:400:1 >l
    about --plot l.gp -o l.json l
    grep -q 'requests per s' l.gp
    grep -q 'share that is no longer' l.gp
    jq -e '.requests == 2000' l.json
    about --plot - l >drawn
    grep -q '2000 requests in' drawn
    grep -q 'longest hundredth' drawn
    # lines of lengths that are all the same stand beside the frame
    printf 'time_s,prompt_tokens,output_tokens\n0,512,128\n9,512,128\n' | about --plot - >drawn
    [ "$(sed -n '/ prompt *$/,/ output *$/p' drawn | grep -c '\*')" -ge 6 ]
    [ "$(sed -n '/ output *$/,$p' drawn | grep -c '\*')" -ge 6 ]
}

@test "request logs import as loads, sorted, from their first request on" {
    printf '{"id":"a","created":1700000003,"usage":{"prompt_tokens":9,"completion_tokens":12}}\n{"id":"b","created":1700000001,"usage":{"prompt_tokens":22,"completion_tokens":2}}\n{"error":{"code":500}}\n' >log
    run -0 --separate-stderr spot-replay import --from openai-log log
    [ "$(xargs <<<"$output")" = 'time_s,prompt_tokens,output_tokens,id 0,22,2,b 2,9,12,a' ]
    [[ "$stderr" == *'1 request without tokens'* ]]
    [ "$(spot-replay import -q --from openai-log --origin unix log | sed -n 2p)" = 1700000001,22,2,b ]
    printf 'when,in,out\n3,5,6\n1,5,6\n1,5,6\n' |
        spot-replay import --from burstgpt --columns time=when,prompt_tokens=in,output_tokens=out |
        xargs | grep -qx 'time_s,prompt_tokens,output_tokens 0,5,6 0,5,6 2,5,6'
    printf 'app,func,end_timestamp,duration\na,f,10.5,1.5\nb,g,9,0.5\n' |
        spot-replay import --from azure-functions --prompt-tokens 7 |
        xargs | grep -qx 'time_s,prompt_tokens,output_tokens 8.5,7,128 9,7,128'
    for args in '--zone z' '--events' '--merge x' '--interval 5'; do
        # shellcheck disable=SC2086
        run -2 spot-replay import --from mooncake $args log
    done
    run -2 spot-replay import --from burstgpt --columns time=a,time=b log
}

@test "recorded loads are what their sources say" {
    data="$top/../shared/data/traces/requests"
    [ -d "$data" ] || skip "no reference data here"
    about "$data/azure2023_conv.csv" | jq -e '.requests == 12340 and .gap_cv > 1.05 and .gap_cv < 1.1'
    about "$data/mooncake_synthetic.csv" | jq -e '.requests == 3993'
    awk -F, 'NR > 1 { printf "{\"timestamp\":%.0f,\"input_length\":%d,\"output_length\":%d}\n", $1 * 1000, $2, $3 }' \
        "$data/mooncake_synthetic.csv" | spot-replay import --from mooncake >again.csv
    awk -F, 'NR > 1 { printf "%.15g,%s,%s\n", $1, $2, $3; next } 1' "$data/mooncake_synthetic.csv" | cmp - again.csv
}
