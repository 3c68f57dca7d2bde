#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: check asan
# spot-replay import and describe: streams, exit codes, real files. Formats are golden tests.

bats_require_minimum_version 1.5.0
load errors

setup() {
    top=$PWD
    cd "$BATS_TEST_TMPDIR"
    printf '0,add,a\n60000,add,b\n90000,remove,a\n' >events.txt
    set -o pipefail # jq -e of nothing is 0
}

@test "public event files import to the published counts" {
    [ -d "$top/../shared/data/traces" ] || skip "no reference data here"
    for f in parcae/p3trace bamboo/g4dn-trace spotserve/g4dn; do
        awk -F, 'NR > 1 { printf "%d,%s,%s\r\n", $1 * 1000, $2, $3 }' \
            "$top/../shared/data/traces/$f.events.csv" |
            spot-replay import --from events --interval 60 | sed 1d | cut -d, -f2 >got
        sed 1d "$top/../shared/data/traces/$f.csv" | cut -d, -f4 | cmp - got
    done
}

@test "an imported trace is a trace" {
    spot-replay import --from events --zone z events.txt | spot-replay describe --format csv |
        grep -q '^z,,3,0,90,30,'
    spot-replay import --from events --events events.txt | spot-replay describe --format csv |
        grep -q '^,,3,0,90,30,'
}

@test "the trace of a run ends at the newest event of its log, whatever that is" {
    {
        for w in a b c; do echo "{\"event\":\"joined\",\"time_s\":0,\"name\":\"$w\"}"; done
        echo '{"event":"lost","time_s":600,"name":"a"}'
        echo '{"event":"joined","time_s":660,"name":"d"}'
        echo '{"event":"committed","time_s":36000.5,"step":9}'
    } >log.jsonl
    spot-replay import --from spot-event log.jsonl >steps.csv
    [ "$(tail -n 2 steps.csv | xargs)" = '660,3 36000.5,3' ]
    [ "$(spot-replay import --from spot-event --interval 60 log.jsonl | tail -n 1)" = 36000,3 ]
    [ "$(spot-replay import --from spot-event --interval 60 log.jsonl | wc -l)" -eq 602 ]
    [ "$(spot-replay import --from spot-event --steps --interval 60 log.jsonl | tail -n 1)" = 36000,3 ]
    [ "$(spot-replay import --from spot-event --events log.jsonl | tail -n 1)" = 660,add,d ]
    [ "$(spot-replay import --from spot-event --origin first --zone z log.jsonl | tail -n 1)" = 36000.5,3,z ]
    # nothing happened for ten hours: as if someone had written that row by hand
    risk() { spot-predict | jq '[.series[0].change[] | select(.lost > 0).p] | add'; }
    { head -n -1 steps.csv; echo 36000,3; } | risk >by-hand
    head -n -1 steps.csv | risk >cut
    risk <steps.csv | cmp - by-hand
    jq -es '.[0] < .[1] / 10' by-hand cut
}

@test "--merge adds once, however often it runs, and starts from nothing" {
    printf '{"SpotPriceHistory":[{"AvailabilityZone":"a","InstanceType":"g","ProductDescription":"Linux/UNIX","SpotPrice":"0.5","Timestamp":"2026-03-01T00:00:00Z"}]}' >one.json
    sed 's/00:00:00/01:00:00/; s/0.5/0.6/' one.json >two.json
    for f in one two one two two; do
        spot-replay import --from aws-price --origin unix --merge all.csv -o all.csv $f.json
    done
    [ "$(wc -l <all.csv)" -eq 3 ]
    spot-replay import --from aws-price --origin unix two.json one.json | cmp - all.csv
    spot-replay import --from events --events --merge nodes.csv -o nodes.csv events.txt
    spot-replay import --from events --events --merge nodes.csv -o nodes.csv events.txt
    [ "$(wc -l <nodes.csv)" -eq 4 ]
}

@test "an import that brings nothing, or is too old, does not pass for new" {
    price() { printf '{"SpotPriceHistory":[{"AvailabilityZone":"a","InstanceType":"g","ProductDescription":"Linux/UNIX","SpotPrice":"0.5","Timestamp":"%s"}]}' "$1"; }
    import() { spot-replay import --from aws-price --origin unix --merge all.csv -o all.csv "$@"; }
    echo '{"SpotPriceHistory":[]}' >none.json
    price 2026-03-01T00:00:00Z >old.json
    price "$(date -u -d '-30 min' +%FT%TZ)" >new.json
    fails 3 data spot-replay import --from aws-price none.json
    import old.json
    cp all.csv before
    run -0 --separate-stderr import none.json
    [[ "$stderr" == *"nothing new"* ]]
    fails 3 data spot-replay import --from aws-price --origin unix --merge all.csv -o all.csv --max-age 1h none.json
    cmp all.csv before
    import --max-age 1h new.json
    import --max-age 1h none.json
    [ "$(wc -l <all.csv)" -eq 3 ]
    fails 3 data spot-replay import --from aws-price --origin unix --merge all.csv -o all.csv --max-age 10m none.json
    fails 2 usage spot-replay import --from events --max-age 1h events.txt
}

@test "wrong usage is status 2" {
    for bad in '' '--from bamboo' '--from events --polarity up' '--from skypilot --events' \
        '--from events --polarity unavailable' '--from count-log --merge x' \
        '--from events --origin soon' '--from events --format json' '--from events --cap 0' \
        '--from events --merge x' '--from aws-price --interval 60'; do
        run sh -c "echo '{\"SpotPriceHistory\":[]}' | spot-replay import $bad"
        [ "$status" -eq 2 ]
    done
}

@test "wrong input is status 3 and names file, line and column" {
    printf '0,add,a\n5,add\n' >bad.txt
    run --separate-stderr spot-replay import --from events --strict events.txt bad.txt
    [ "$status" -eq 3 ]
    [ "$stderr" = "spot-replay import: bad.txt:2:1: expected 3 fields, got 2" ]
    [ -z "$output" ]
    printf '[1,2]\n' >bad.json
    run --separate-stderr spot-replay import --from skypilot bad.json
    [ "$status" -eq 3 ]
    [ "$stderr" = "spot-replay import: bad.json:1:1: expected an object" ]
    fails 3 data.missing spot-replay import --from spotserve </dev/null
    at "<stdin>"
}

# A row that cannot be read, in the middle of the lines of a file; the rest is imported as if it were not there.
spoilt() { # FORMAT BAD FILE [option...]
    local format=$1 bad=$2 file=$3
    shift 3
    { head -n 2 "$file"; printf '%s\n' "$bad"; sed 1,2d "$file"; } >spoilt
    spot-replay import --from "$format" "$@" "$file" >whole
    run --separate-stderr spot-replay import --from "$format" "$@" spoilt
    [ "$status" -eq 0 ] && [ "$output" = "$(cat whole)" ]
    [[ "$stderr" == *"warning: left out: spoilt:3"*"; --strict refuses it" ]] || { echo "$stderr"; false; }
    run -3 --separate-stderr spot-replay import --from "$format" --strict "$@" spoilt
    [[ "$stderr" == *"import: spoilt:3"* ]]
    printf '%s\n' "$bad" "$bad" "$bad" >spoilt # nothing of it can be read: it is something else
    [ "$format" = csv ] || run -3 spot-replay import --from "$format" "$@" spoilt
}

@test "a row of somebody's log that cannot be read is left out, counted and said" {
    spoilt events 5,start,b events.txt
    printf '[0,"add",{"nodes":["a"]}]\n[5,"add",{"nodes":["b"]}]\n[9000,"remove",{"nodes":["a"]}]\n' >f
    spoilt spotserve '[7,"add",{"nodes":["c",7]}]' f
    printf '2021-12-11, 23:59:30, 55\n2021-12-12, 00:00:00, 5\n2021-12-12, 00:00:30, 6\n' >f
    spoilt count-log '2021-02-30, 00:00:00, 5' f
    printf 't,n\n0,1\n60,2\n120,1\n' >f
    spoilt csv '60' f --columns time=t,available=n
    printf 'TIMESTAMP,ContextTokens,GeneratedTokens\n0,1,1\n1,2,3\n' >f
    spoilt azure-llm '1,two,3' f
    printf 'Timestamp,Request tokens,Response tokens\n0,1,1\n1,2,3\n' >f
    spoilt burstgpt '1,"2,3' f
    printf '{"timestamp":%d,"input_length":1,"output_length":1}\n' 0 1 2 >f
    spoilt mooncake '{"timestamp":1,"input_length":1,"outp' f
    printf '{"created":%d,"usage":{"prompt_tokens":1,"completion_tokens":1}}\n' 0 1 2 >f
    spoilt openai-log '{"created":"now","usage":{}}' f
    printf 'app,func,end_timestamp,duration\na,f,1,1\na,f,2,1\n' >f
    spoilt azure-functions 'a,f,3' f
    { printf 'HashOwner,HashApp,HashFunction,Trigger'; printf ',%s' $(seq 1440); echo
      for i in 1 2; do printf 'o,a,f,h'; printf ',0%.0s' $(seq 1439); echo ,2; done; } >f
    spoilt azure-functions "$(printf 'o,a,f,h'; printf ',3%.0s' $(seq 1439); echo ,x)" f # none of its 4,317 calls
    printf 'JobID|User|Submit|Elapsed|AllocTRES\n1|u|0|01:00|node=1\n2|u|0|01:00|node=1\n' >f
    spoilt sacct '3|u|Unknown|01:00|node=1' f
    printf 'submit_time,run_time_s,gpus\n0,1,1\n1,2,3\n' >f
    spoilt philly-csv '1,2,three' f
    printf 'a\tc\td\tr\t0\t9\t1\t1\t-1\t%d\n' 0 1 2 >f
    spoilt gavel "$(printf 'a\tc')" f
    # what has not the form of rows has items
    printf '{"metadata":{"gap_seconds":60},"data":[1,null,2]}' >f.json
    run --separate-stderr spot-replay import --from skypilot f.json
    [ "$status" -eq 0 ] && [ "$(sed 1d <<<"$output" | cut -d, -f1,2 | xargs)" = '0,1 120,2' ]
    run -3 spot-replay import --from skypilot --strict f.json
    jq -n '{SpotPriceHistory: [{AvailabilityZone: "a", InstanceType: "g", ProductDescription: "Linux/UNIX", Timestamp: "2026-03-01T00:00:00Z"} + ({SpotPrice: "0.5"}, {SpotPrice: "free"}, {})]}' >f.json
    run --separate-stderr spot-replay import --from aws-price f.json
    [ "$status" -eq 0 ] && [ "${#lines[@]}" -eq 2 ]
    [[ "$stderr" == *"/SpotPriceHistory/1/SpotPrice:"* ]]
    # a machine that comes twice says nothing new
    printf '0,add,a\n5000,add,a\n9000,remove,a\n' >f
    run --separate-stderr spot-replay import --from events --events f
    [ "$status" -eq 0 ] && [ "${lines[*]}" = "time_s,event,node 0,add,a 9,remove,a" ]
    [[ "$stderr" == *"f:2:1:"* ]]
}

@test "the log of a run that still writes is read up to its last whole line, blank lines passed over" {
    printf '{"event":"joined","time_s":0,"name":"a"}\n\n{"event":"joined","time_s":60,"name":"b"}\n' >whole
    for cut in '{"event":"lost","time_s":90,"name":"b"}' '{"event":"lost","ti' '{'; do
        { cat whole; printf '%s' "$cut"; } >torn
        spot-replay import --from spot-event torn | cmp - <(spot-replay import --from spot-event whole)
    done
    { cat torn; echo; cat whole; } >bad # half a line within our own log is a fault of ours
    fails 3 data.syntax spot-replay import --from spot-event bad
    at bad 4 2
}

@test "pages that are all there are not missed, in any order and of any region" {
    page() { jq -n --arg z "$2" --arg t "$3" '{SpotPriceHistory: [{AvailabilityZone: $z, InstanceType: "g", ProductDescription: "Linux/UNIX", SpotPrice: "0.5", Timestamp: "2026-03-01T00:00:00Z"}], NextToken: $t}' >"$1"; }
    page 1 us-east-1a x
    page 2 us-east-1b y
    page 3 us-east-1a ''
    page 4 eu-west-1a z
    import() { run --separate-stderr spot-replay import --from aws-price "$@"; [ "$status" -eq 0 ]; }
    import 1 2 3; [ -z "$stderr" ]
    import 3 1 2; [ -z "$stderr" ]
    import 1 2; [[ "$stderr" == *"more pages follow; they are missing here: of us-east-1" ]]
    import 1 2 3 4; [[ "$stderr" == *"of eu-west-1" ]]
    jq '.SpotPriceHistory = []' 3 >5 # the last page may have no rows
    import 1 2 5; [ -z "$stderr" ]
    items() { jq -n --arg t "$2" '{Items: [], NextPageLink: ($t | if . == "" then null else . end)}' >"$1"; }
    items 1 http://next; items 2 ''
    run --separate-stderr spot-replay import --from azure-price 1 2; [[ "$stderr" != *pages* ]]
    run --separate-stderr spot-replay import --from azure-price 1; [[ "$stderr" == *pages* ]]
    jq -n '{skus: [], nextPageToken: "x"}' >1; jq -n '{skus: [], nextPageToken: ""}' >2
    run --separate-stderr spot-replay import --from gcp-price 1 2; [[ "$stderr" != *pages* ]]
    run --separate-stderr spot-replay import --from gcp-price 1; [[ "$stderr" == *pages* ]]
}

@test "jobs that are imported twice are jobs that a plan can read" {
    printf 'JobID|User|Submit|Elapsed|AllocTRES\n1|u|0|01:00|gres/gpu:a100=2,node=1\n2|u|0|01:00|node=1\n' >one
    sed 's/|01:00|node/|02:00|node/' one >two # of a job that still ran
    spot-replay import --from sacct one one | cmp - <(spot-replay import --from sacct one)
    run --separate-stderr spot-replay import --from sacct one two
    [ "$output" = "$(spot-replay import --from sacct two)" ]
    [[ "$stderr" == *"1 record contradicted by a later one of the same job"* ]]
    [ "$(sed -n 2p <<<"$output" | cut -d, -f5)" = 2 ]
}

@test "lost output is status 4, for import and describe" {
    for what in 'import --from events events.txt' 'describe trace.csv'; do
        printf 'time_s,available\n0,1\n9,2\n' >trace.csv
        run sh -c "spot-replay $what >/dev/full"
        [ "$status" -eq 4 ]
        run sh -c "spot-replay $what >&-"
        [ "$status" -eq 4 ]
        sub=${what%% *}
        run spot-replay $sub -o no/such/file ${what#* }
        [ "$status" -eq 4 ]
    done
    run spot-replay import --from events none.txt
    [ "$status" -eq 4 ]
    run spot-replay describe --plot no/such/dir.svg trace.csv
    [ "$status" -eq 4 ]
    # a failed import leaves an older result alone
    spot-replay import --from events -o kept.csv events.txt
    cp kept.csv copy.csv
    run sh -c 'echo bad | spot-replay import --from events -o kept.csv'
    [ "$status" -eq 3 ]
    cmp kept.csv copy.csv
}

@test "describe draws svg, png, pdf and text" {
    spot-replay generate --zones 2 --hours 2 -o trace.csv
    for f in f.svg f.png f.pdf; do
        spot-replay describe --plot $f --format csv trace.csv >/dev/null
        [ -s $f ]
    done
    grep -q '<svg' f.svg
    spot-replay describe --plot - trace.csv >drawn
    grep -q 'time (h)' drawn
    run -1 grep mean drawn
    spot-replay describe --plot - -o doc --format json trace.csv | cmp - drawn
    jq -e .schema doc
    # before any work is done for it, in every tool
    for tool in 'spot-replay describe' 'spot-predict' 'spot-migrate plan --from a --to' 'spot-run report'; do
        run $tool none.csv --plot f.jpeg
        [ "$status" -eq 2 ]
        [[ "$output" == *"'f.jpeg'"* ]]
    done
}

@test "a series without a name has none in a picture" {
    printf 'time_s,available\n0,3\n60,2\n120,2\n' >trace.csv
    spot-replay describe --plot one.gp --format csv trace.csv >/dev/null
    grep -q "^plot .* notitle" one.gp
    spot-predict --model last --plot fan.gp trace.csv >/dev/null
    run -1 grep -E "'-'|'-:" one.gp fan.gp
    grep -q "^set title 'instances: 2 now" fan.gp
}

@test "describe gives each of many zones a panel" {
    spot-replay describe --plot six.gp --format csv "$top/examples/traces/zones.csv" >zones
    n=$(sed 1d zones | wc -l)
    [ "$n" -gt 3 ]
    [ "$(grep -c '^plot \$s0 with fillsteps' six.gp)" -eq "$n" ]
    # no marks within a panel, where the area would leave some of them to be seen
    grep -q '^set tics nomirror out$' six.gp
    grep -q '^set xtics scale 0$' six.gp
    # the grey area is the mean of the counts: at the first moment, that of the first rows
    want=$(awk -F, 'NR > 1 && !($3 in seen) { seen[$3]; sum += $2; n++ } END { printf "%.6g", sum / n }' \
        "$top/examples/traces/zones.csv")
    [ "$(sed -n '/^\$s0 <</,/^EOD/p' six.gp | sed -n 2p | awk '{ printf "%.6g", $2 }')" = "$want" ]
}

@test "describe refuses wrong usage and empty windows" {
    printf 'time_s,available\n0,1\n9,2\n' >trace.csv
    run spot-replay describe trace.csv trace.csv
    [ "$status" -eq 2 ]
    run spot-replay describe --format xml trace.csv
    [ "$status" -eq 2 ]
    run spot-replay describe --from 100 trace.csv
    [ "$status" -eq 1 ]
    run spot-replay describe none.csv
    [ "$status" -eq 4 ]
}

@test "spot-replay lists its commands and mends typing" {
    spot-replay --help | grep 'generate'
    spot-replay --version | grep '^spot-replay '
    run spot-replay
    [ "$status" -eq 2 ]
    fails 2 usage.unknown spot-replay generat
    for c in generate describe import live; do
        [ "$(spot-replay $c --help | wc -l)" -le 45 ]
    done
}

@test "events --interval ends with the interval that holds the last event" {
    run -0 spot-replay import --from events --interval 60 <<<"90000,add,node1"
    [ "$(tail -n 2 <<<"$output" | cut -d, -f 1 | xargs)" = "60 120" ]
    [[ "$(tail -n 1 <<<"$output")" == *,1 ]]
}

@test "text drawings give each series its own, under its name; numbers the wrong way are said so" {
    run -0 spot-replay describe --plot - "$BATS_TEST_DIRNAME/../../examples/traces/zones.csv"
    local zone
    for zone in $(cut -d, -f 3 "$BATS_TEST_DIRNAME/../../examples/traces/zones.csv" | sed 1d | sort -u); do
        [ "$(grep -c "$zone" <<<"$output")" -eq 1 ]
    done
    fails 2 usage spot-replay describe --from 5h --to 1h "$BATS_TEST_DIRNAME/../../examples/trace.csv"
    fails 3 data.syntax spot-replay describe "$BATS_TEST_DIRNAME/../../examples/jobs/demo.json"
    at "$BATS_TEST_DIRNAME/../../examples/jobs/demo.json" 1 1
}

@test "a grid over a lifetime is refused before it takes memory" {
    printf '0,add,a\n60000,add,c\n1000000000000,add,b\n' >far.txt
    fails 3 data spot-replay import --from events --interval 60s far.txt
}

@test "a CSV of anybody is a trace, by the names of its columns" {
    cat >any.csv <<'EOF'
az,Timestamp,note,count,kind
z1,2026-03-01T01:00:00+01:00,x,3,a100
z1,2026-03-01 00:10:00,"a, b",5,a100
z2,2026-03-01T00:20:00.5Z,,0,h100
EOF
    spot-replay import --from csv --columns time=Timestamp,available=count,zone=az,instance_type=kind any.csv >got
    cmp got - <<'EOF'
time_s,available,zone,instance_type
0,3,z1,a100
600,5,z1,a100
1200.5,0,z2,h100
EOF
    import() { spot-replay import --from csv --columns time=Timestamp,available=count "$@"; }
    import --zone q --origin unix --timezone=-01:00 any.csv | grep -qx 1772327400,5,q
    [ "$(import --zone q --polarity unavailable --cap 8 any.csv | sed -n 2p)" = 0,5,q ]
    printf 't,n\n100,1\n160.5,2\n' >plain.csv
    [ "$(spot-replay import --from csv --columns time=t,available=n --origin 0 plain.csv | xargs)" = 'time_s,available 100,1 160.5,2' ]
    run -2 --separate-stderr import --columns time=Timestamp,count=n any.csv
    [[ $stderr == *"--columns"* ]]
    fails 2 usage spot-replay import --from csv any.csv
    run -2 --separate-stderr import --timezone Berlin any.csv
    fails 3 data.value spot-replay import --from csv --columns time=Timestamp,available=kind any.csv
    at any.csv 2 34
    fails 3 data.value spot-replay import --from csv --columns time=note,available=count any.csv
    at any.csv 2 30
    fails 3 data.syntax spot-replay import --from csv --columns time=Time,available=count any.csv
    at any.csv 1 1
}

@test "gzip and zstd are read as what they stand for, wherever a CSV or JSON document is read" {
    spot-replay import --from events --zone z events.txt >plain.csv
    printf '{"metadata":{"gap_seconds":60},"data":[1,2,3]}' >sky.json
    echo '{"event":"joined","time_s":0,"name":"a"}' >log.jsonl
    spot-replay import --from skypilot --zone z sky.json >sky.csv
    spot-replay import --from spot-event log.jsonl >log.csv
    echo '{"cost":[[4,1],[2,7]]}' >cost.jsonl
    spot-migrate assign cost.jsonl >cost
    for pack in 'gzip -c' 'zstd -qc'; do
        $pack events.txt | spot-replay import --from events --zone z - | cmp - plain.csv
        $pack sky.json >packed.json
        spot-replay import --from skypilot --zone z packed.json | cmp - sky.csv
        $pack log.jsonl | spot-replay import --from spot-event - | cmp - log.csv
        $pack cost.jsonl | spot-migrate assign - | cmp - cost
        # the provenance is that of the text
        [ "$($pack plain.csv | spot-predict | jq -c .made_by)" = "$(spot-predict <plain.csv | jq -c .made_by)" ]
        # one after the other are one
        { head -n 2 plain.csv | $pack; sed 1,2d plain.csv | $pack; } | spot-replay describe --format csv >got
        spot-replay describe --format csv <plain.csv | cmp - got
        # a byte at a time, cut short, damaged
        $pack plain.csv | dd bs=1 status=none | spot-replay describe --format csv | cmp - got
        $pack plain.csv | head -c -3 >cut
        fails 3 data spot-replay describe cut
    done
}

@test "a small input that stands for a huge one is refused" {
    { echo time_s,available; (yes 1,1 || true) | head -n 18000000; } | zstd -qc1 >bomb # 72 MB
    [ "$(stat -c %s bomb)" -lt 1000000 ]
    fails 3 data spot-replay describe bomb
    { printf '{"a":"'; head -c 7000000 /dev/zero | tr '\0' a; printf '"}'; } | zstd -qc1 >bomb
    fails 3 data spot-replay import --from skypilot bomb
    # a window of 128 MiB
    printf 'time_s,available\n0,1\n' | zstd -qc --long=27 >wide
    fails 3 data spot-replay describe wide
    printf 'time_s,available\n0,1\n' | zstd -qc --long=25 | spot-replay describe
}
