#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# Goal: spot-run fleet comes to what a plan says through commands of the user, whatever they do, and buys nothing twice.

bats_require_minimum_version 1.5.0
load eventually
load errors
set -o pipefail

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    cloud=$BATS_TEST_DIRNAME/../../examples/fleet/cloud.sh
    tools=$(cd "$(dirname "$(command -v spot-run)")/../tests" && pwd)
    export CLOUD=$PWD/cloud CLOUD_TRACE=$PWD/trace.csv CLOUD_GRACE=0 SPOT_CLOUD="$cloud"
    printf '%s\n' time_s,available,zone 0,4,a 0,4,b >trace.csv
    printf '%s\n' instance_type,zone,spot_usd_per_h,on_demand_usd_per_h gpu,a,1, gpu,b,1, gpu,,,3 >catalogue.csv
    want 2 1
}

teardown() {
    [ -z "${pid-}" ] || kill -9 "$pid" 2>/dev/null || true
    [ -z "${server-}" ] || kill -9 "$server" 2>/dev/null || true
    for pid in $(cat cloud/machine/*/pid cloud/gone/*/pid 2>/dev/null); do
        ! grep -qzxF "BATS_TEST_TMPDIR=$BATS_TEST_TMPDIR" "/proc/$pid/environ" 2>/dev/null || kill -9 "$pid" || true
    done
}

# want A B: spot machines in zones a and b
want() {
    jq -nc --argjson a "$1" --argjson b "$2" '{schema: "spot.plan/1", kind: "fleet", buy: [
        {zone: "a", instance_type: "gpu", market: "spot", count: $a}, {zone: "b", instance_type: "gpu", market: "spot", count: $b}]}' >plan.next
    mv plan.next plan.json
}

common=(--plan-command 'cat plan.json' --launch '"$SPOT_CLOUD" launch' --terminate '"$SPOT_CLOUD" terminate'
    --list '"$SPOT_CLOUD" list' --state state --catalogue catalogue.csv)

# Machines outlive the command: descriptors of bats are not for them.
fleet() { timeout 120 spot-run fleet "${common[@]}" "$@" 3>&-; }

begin() { # OPTION...: turns until `stop`
    spot-run fleet "${common[@]}" --yes --every 0.1s "$@" 2>talk 3>&- &
    pid=$!
}

later() { # COMMAND...: to lives of it a day went by
    local -x SPOT_SKEW_S=86400 LD_PRELOAD=$tools/skew.so
    "$@"
}

stop() {
    kill -TERM "$pid" || cat talk
    wait "$pid" || { echo "status $?" && cat talk && return 1; }
    pid=
}

machines() { # ZONE [MARKET]
    grep -lx "$1" cloud/machine/*/zone 2>/dev/null | xargs -r dirname | while read -r m; do grep -x "${2:-spot}" "$m/market"; done | wc -l
}

events() { jq -r .event state/events.jsonl; }

@test "without --yes fleet says what it would do and does nothing" {
    fleet >would.jsonl 2>talk
    jq -es 'map({action, count, zone, usd_per_h}) == [{action: "launch", count: 2, zone: "a", usd_per_h: 2},
        {action: "launch", count: 1, zone: "b", usd_per_h: 1}]' would.jsonl
    [ ! -e state ]
    [ "$(machines a)" -eq 0 ]
    touch state # what cannot be opened is no new fleet
    run -4 fleet
}

@test "fleet launches, replaces what is taken, follows the plan to nothing and back" {
    fleet --yes --once
    [ "$(machines a) $(machines b)" = "2 1" ]
    fleet --yes --once # it is as it should be
    [ "$(machines a) $(machines b)" = "2 1" ]
    in_a=$(dirname "$(grep -lx a cloud/machine/*/zone | head -n 1)")
    kill_own -9 "$(cat "$in_a/pid")"
    eventually '! kill -0 "$(cat "$in_a/pid")"'
    unlisted=$(dirname "$(grep -lx b cloud/machine/*/zone)")
    mv "$unlisted" cloud/aside
    fleet --yes --once
    [ "$(machines a) $(machines b)" = "2 0" ] # the list says that one is gone; to lack one once is a hiccup
    fleet --yes --once
    [ "$(machines a) $(machines b)" = "2 1" ] # twice is a loss, also to turns of one life each
    mv cloud/aside "$unlisted"
    fleet --yes --once
    [ "$(machines b)" -eq 1 ] # it was there after all: one too many
    begin
    want 0 0
    eventually '[ "$(machines a) $(machines b)" = "0 0" ]'
    for process in $(cat cloud/gone/*/pid); do eventually '! kill -0 "$process"'; done
    want 1 2
    eventually '[ "$(machines a) $(machines b)" = "1 2" ]'
    stop
    [ "$(cat cloud/number)" -eq 8 ]
    # what it saw is a trace
    spot-predict --interval 1s state/trace.csv --horizon 1 >/dev/null
}

@test "killed at any moment, again and again, fleet loses and doubles no machine" {
    export CLOUD_RUN='exec sleep 100000'
    for ((i = 0; i < 8; i++)); do
        begin
        read -rt "0.$((i * 5 + 10))" <> <(:) || true
        kill -9 "$pid"
        wait "$pid" || true
        eventually '[ ! -d state ] || flock -n state true' # a command on its way to exec holds the lock, too
    done
    begin
    eventually '[ "$(machines a) $(machines b)" = "2 1" ]'
    settled 'cat cloud/number'
    [ "$(cat cloud/number)" -eq 3 ]
    stop
}

@test "no capacity is bridged on demand within the bound of money, and machines of others stay" {
    printf '%s\n' time_s,available,zone 0,1,a 0,1,b >trace.csv
    SPOT_TOKEN=other-1 SPOT_ZONE=b SPOT_TYPE=gpu SPOT_MARKET=spot SPOT_N=1 "$cloud" launch 3>&-
    want 3 0
    begin --max-usd-per-h 5
    eventually '[ "$(machines a on-demand)" -eq 1 ]'
    eventually 'events | grep -qx held'
    [ "$(machines a)" -eq 1 ]
    stop # before the trace is written: a list that read half of it would take a machine
    printf '%s\n' time_s,available,zone 0,3,a 0,1,b >trace.csv
    fleet --yes --once --max-usd-per-h 5 # its pause is not over for a new life
    [ "$(machines a) $(machines a on-demand)" = "1 1" ]
    later begin --max-usd-per-h 5
    eventually '[ "$(machines a) $(machines a on-demand)" = "3 0" ]'
    stop
    [ "$(machines b)" -eq 1 ]
    ! grep -q other state/fleet.csv
}

@test "a launch that fails, hangs or prints rubbish is asked for again under its token" {
    for how in 'exit 1' 'sleep 1000' 'printf "no id\tat all\n"' 'yes'; do
        rm -rf state cloud tokens
        fleet --yes --once --limit 1s --launch "\"\$SPOT_CLOUD\" launch >/dev/null; echo \$SPOT_TOKEN >>tokens; $how" 2>talk
        fleet --yes --once --launch 'touch too-soon'
        [ ! -e too-soon ]
        later fleet --yes --once --launch 'echo $SPOT_TOKEN >>tokens; "$SPOT_CLOUD" launch' 2>talk
        [ "$(machines a) $(machines b)" = "2 1" ]
        [ "$(sort -u tokens | wc -l)" -eq 2 ]
    done
}

@test "lists that fail, hang, are empty or rubbish launch nothing" {
    for how in false 'sleep 1000' true 'echo id' 'printf "id,token,zone,instance_type,market,state\ni-1,fleet-00000000000000ab-1,a,gpu,spot,asleep\n"'; do
        rm -rf state
        run timeout 120 spot-run fleet "${common[@]}" --yes --once --limit 0.5s --name fleet-00000000000000ab --launch 'touch launched' --list "$how"
        [ "$status" -eq 3 ] || [ "$status" -eq 4 ]
    done
    [ ! -e launched ]
}

@test "a plan that fails or is another kind does nothing, and the last one stays" {
    echo '{"schema": "spot.plan/1", "kind": "share"}' >plan.json
    fails 3 data.value spot-run fleet "${common[@]}" --yes --once
    at --plan-command 1 35 /kind
    want 2 1
    begin
    eventually '[ "$(machines a) $(machines b)" = "2 1" ]'
    echo rubbish >plan.json
    eventually 'grep -q "last plan" talk'
    jq -nc '{schema: "spot.plan/1", kind: "fleet", buy: [range(5000) | {zone: "z\(.)", instance_type: "gpu", market: "spot", count: 0}]}' >many.json
    jq -nc '{schema: "spot.plan/1", kind: "fleet", buy: [{zone: "a\tb", instance_type: "gpu", market: "spot", count: 1}]}' >tab.json
    for bad in tab many; do # each row reads well; its market may not be
        n=$(grep -c "last plan" talk)
        cp $bad.json plan.next
        mv plan.next plan.json
        eventually '[ "$(grep -c "last plan" talk)" -ge $((n + 4)) ]'
        [ "$(machines a) $(machines b)" = "2 1" ]
    done
    stop
    [ "$(machines a) $(machines b)" = "2 1" ]
}

@test "a catalogue that cannot be read is not taken for the plan, which is in force" {
    begin
    eventually '[ "$(machines a) $(machines b)" = "2 1" ]'
    want 1 1
    echo rubbish >catalogue.csv
    eventually '[ "$(machines a) $(machines b)" = "1 1" ]'
    eventually 'grep -q prices talk'
    stop
    ! grep -q "last plan" talk
}

@test "a log that cannot be written is said once, at once, and machines are held all the same" {
    fleet --yes --once
    jq -nr '"x" * 8191' >>state/events.jsonl
    (trap '' XFSZ && ulimit -f 8 && exec spot-run fleet "${common[@]}" --yes --every 0.1s 2>talk 3>&-) &
    pid=$!
    want 1 1
    eventually '[ "$(machines a) $(machines b)" = "1 1" ]'
    eventually 'grep -q gap talk'
    want 2 2
    eventually '[ "$(machines a) $(machines b)" = "2 2" ]'
    kill -TERM "$pid"
    status=0
    wait "$pid" || status=$?
    pid=
    [ "$status" -eq 4 ]
    [ "$(grep -c gap talk)" -eq 1 ]
}

@test "a state that was changed is refused, and two fleets do not share one" {
    begin
    eventually '[ "$(machines a) $(machines b)" = "2 1" ]'
    run fleet --yes --once
    [ "$status" -eq 4 ]
    stop
    sed -i s/i-00001/i-00009/ state/fleet.csv
    fails 3 data.value spot-run fleet "${common[@]}" --yes --once
    at state/fleet.csv
}

@test "a lost state is taken up again by the identity in the tokens, and by nothing else" {
    SPOT_TOKEN=fleet-manager SPOT_ZONE=b SPOT_TYPE=gpu SPOT_MARKET=spot SPOT_N=1 "$cloud" launch 3>&-
    fleet --yes --once
    [ "$(machines a) $(machines b)" = "2 2" ]
    rm -rf state
    want 0 0
    fleet --yes --once # they are nobody's whom it knows
    [ "$(machines a) $(machines b)" = "2 2" ]
    whose=$(jq -r 'select(.event == "stranger") | .why' state/events.jsonl | grep -oE 'fleet-[0-9a-f]{16}')
    fails 3 data.value spot-run fleet "${common[@]}" --yes --once --name "$whose" # that state is of another
    at state/fleet.csv 2 15
    rm -rf state
    fleet --yes --once --name "$whose"
    [ "$(machines a) $(machines b)" = "0 1" ]
    want 1 0
    fleet --yes --once # the state has the identity
    [ "$(machines a) $(machines b)" = "1 1" ]
    grep -hrE "^$whose-[0-9]+\$" cloud/machine/*/token
}

@test "turns of one life each, as of cron, end what was drained, after its grace" {
    export CLOUD_GRACE=1000
    drained=(--yes --once --drain 'touch told; "$SPOT_CLOUD" drain' --grace 1s)
    fleet "${drained[@]}"
    want 0 0
    fleet "${drained[@]}"
    [ "$(machines a) $(machines b)" = "2 1" ]
    [ -e told ]
    eventually 'fleet "${drained[@]}"; [ "$(machines a) $(machines b)" = "0 0" ]'
    [ "$(events | grep -cx drain)" -eq 3 ]
    want 1 0
    later fleet "${drained[@]}" # the time that went by between two turns is in the trace
    fleet "${drained[@]}"
    tail -n 1 state/trace.csv | awk -F, '{ exit !($1 >= 86400 && $1 < 100000 && $2 == "a" && $4 == 1) }'
}

@test "machines are drained before they are ended" {
    export CLOUD_GRACE=1000
    fleet --yes --once
    want 1 1
    begin --drain '"$SPOT_CLOUD" drain' --grace 0.2s
    eventually '[ "$(machines a)" -eq 1 ]'
    stop
    [ "$(events | grep -cx drain)" -eq 1 ]
}

@test "without --plan-command fleet plans itself, and decides what spot-replay fleet does of the same" {
    { echo time_s,zone,instance_type,available
      for i in $(seq 0 59); do for z in 1a 1b 2a; do echo "$((i * 300)),us-$z,gpu,$((i / (4 + ${z:0:1}) % 3 * (${#z} + (i / 7) % 2) / 2))"; done; done; } >offers.csv
    printf '%s\n' instance_type,spot_usd_per_h,on_demand_usd_per_h gpu,0.918,3.06 >catalogue.csv
    replay=(spot-replay fleet --quiet --trace offers.csv --policy spot --steps --n 2 --availability .99 --format tsv)
    "${replay[@]}" >steps
    for i in 5 17 30 44 58; do
        rm -rf state && mkdir -m 700 state
        awk -F, -v t=$((i * 300)) 'NR == 1 || $1 <= t' offers.csv >seen.csv
        # what ran after the last tick and is not lost by now
        awk -F'\t' -v i=$i 'NR == i + 1 { print $10 }' steps >state/plan.state
        awk -F'\t' -v i=$i 'NR == i + 1 { print $9; print $5 }' steps >ran
        tail -n 3 seen.csv | awk -F, 'NR == FNR { n = NR == 1 ? split($0, ran, " ") : n; if (NR == 2) od = $0; next }
            FNR == 1 { print "id,token,zone,instance_type,market,state" }
            { k = ran[FNR] < $4 ? ran[FNR] : $4
              for (j = 1; j <= k; j++) printf "i-%d-%d,fleet-00000000000000ab-%d,%s,gpu,spot,running\n", FNR, j, ++m, $2 }
            END { for (j = 1; j <= od; j++) printf "o-%d,fleet-00000000000000ab-%d,z,gpu,on-demand,running\n", j, ++m }' ran - >list.csv
        spot-run fleet --state state --offers 'cat seen.csv' --catalogue catalogue.csv --n 2 --availability .99 --every 300s --name fleet-00000000000000ab \
            --list 'cat list.csv' --launch true --terminate true --yes --once --quiet
        jq -r '[.buy as $b | ("us-1a", "us-1b", "us-2a") as $z | [$b[] | select(.market == "spot" and .zone == $z).count] | add // 0] +
            [[.buy[] | select(.market != "spot").count] | add // 0] | map(tostring) | "\(.[:-1] | join(" ")) \(.[-1])"' state/plan.json >decided
        awk -F'\t' -v i=$i 'NR == i + 2 { print $9, $5 }' steps | cmp - decided
        awk -F'\t' -v i=$i 'NR == i + 2 { print $10 }' steps | cmp - state/plan.state
    done
    [ "$(cut -f 9 steps | sort -u | wc -l)" -gt 4 ]
}

@test "probes and notices by zone change what a fleet buys, and probes that fail do not" {
    { echo time_s,zone,instance_type,available
      for i in $(seq 0 199); do for z in 1a 1b; do echo "$((i * 60)),us-$z,gpu,$(((i + 3 * ${#z}) / 2 % 8 > 0 ? 3 : 1))"; done; done; } >offers.csv
    { echo time_s,zone,instance_type,asked,granted
      for i in $(seq 0 5 199); do echo "$((i * 60)),us-1a,gpu,1,0"; echo "$((i * 60)),us-1b,gpu,1,1"; done; } >probes.csv
    for s in 0 30 120; do printf '%s\n' instance_type,zone,spot_usd_per_h,on_demand_usd_per_h,notice_s gpu,us-1a,.9,9,$s gpu,us-1b,.9,9,$s >c$s.csv; done
    turn() { # CATALOGUE OPTION...: ZONE=COUNT of each launch
        timeout 60 spot-run fleet --state none --list 'echo id,token,zone,instance_type,market,state' --launch true --terminate true --offers 'cat offers.csv' \
            --n 2 --availability .9995 --every 60s --cold-start 3m --catalogue "$@" --format jsonl 2>talk | jq -rs 'map("\(.zone)\(.market)=\(.count)") | join(" ")'
    }
    [ "$(turn c0.csv)" = "$(turn c0.csv --probes false)" ]
    grep -q 'probes failed: planned without' talk
    turn c0.csv >without
    turn c0.csv --probes 'cat probes.csv' >with
    run ! cmp -s with without
    run ! grep us-1aspot with # it says no
    # 30 s are less than a tick; with 120 s a replica must last for one
    turn c30.csv | cmp - without
    [ "$(cat without)" = 'us-1aspot=2 us-1bspot=2' ]
    [ "$(turn c120.csv)" = 'us-1aspot=1 us-1bspot=1' ]
}

@test "a load of request sizes is planned on mixed types, and followed by what the front has counted" {
    printf '%s\n' time_s,zone,instance_type,available 0,a,A10G,9 0,b,A10G,9 60,a,A10G,9 60,b,A10G,9 >offers.csv
    root=$BATS_TEST_DIRNAME/../..
    common=(--state state --offers 'cat offers.csv' --catalogue "$root/examples/fleet/melange.csv" --load "$root/examples/fleet/melange.json"
        --list 'echo id,token,zone,instance_type,market,state' --launch true --terminate true --yes)
    spot-run fleet "${common[@]}" --once
    jq -e '.kind == "fleet" and (.buy | length) > 0' state/plan.json
    jq -e '.schema == "spot.forecast/1"' state/forecast.json
    spot-run train -q --data "$root/LICENSE" --layers 1 --width 32 --heads 1 --seq 64 --global-batch 1 --steps 1 --save model >train.log
    spot-run serve -q --model model --http unix:h --listen unix:j --workers 1 3>&- &
    server=$!
    eventually 'curl -sf --unix-socket h http://x/health'
    rm -r state
    spot-run fleet "${common[@]}" --join unix:j --every 0.1s 2>talk 3>&- &
    pid=$!
    eventually '[ -s state/load.csv ]'
    for _ in 1 2 3; do curl -sf --unix-socket h http://x/v1/completions -d '{"prompt": "a", "max_tokens": 4}' >/dev/null; done
    eventually '[ "$(wc -l <state/load.csv)" -eq 4 ]' # its header, and those that came
    eventually 'jq -e ".time_s > 0" state/plan.json'
    kill "$server"
    stop
}

@test "no request, no machine: the first one wakes the fleet, waits and is answered" {
    [ -e "$tools/engine" ] || skip "make check builds engine"
    ldconfig -p | grep -q libcurl.so.4 || skip "no libcurl here"
    mkdir M
    head -c 32 /dev/urandom | od -An -v -tx1 | tr -d " \n" >key && chmod 600 key
    echo '{"spot_tokens": "bytes", "vocab_size": 257, "eos_token_id": 256, "max_position_embeddings": 4096}' >M/config.json
    printf '%s\n' time_s,zone,instance_type,available 0,a,gpu,4 0,b,gpu,4 60,a,gpu,4 60,b,gpu,4 >offers.csv
    echo '{"schema": "spot.demand/1", "buckets": [{"rate_per_s": 1, "per_s": {"gpu": 4}, "prompt_tokens": 10, "output_tokens": 10}]}' >demand
    export CLOUD_RUN="exec spot-run worker -q --join unix:$PWD/j --key-file $PWD/key --domain \$SPOT_ZONE --machine \$SPOT_TYPE/\$SPOT_MARKET --engine 'exec $tools/engine \$PORT' --engine-kind llama-server"
    front() {
        spot-run serve -q --dtype engine --model M --served-model-name M --http unix:h --listen unix:j --key-file key 2>>serve.err 3>&- &
        server=$!
        eventually 'spot-run status --join unix:j --key-file key >status'
    }
    front
    common=(--state state --offers 'cat offers.csv' --catalogue catalogue.csv --load demand --join unix:j --key-file key --launch '"$SPOT_CLOUD" launch'
        --terminate '"$SPOT_CLOUD" terminate' --list '"$SPOT_CLOUD" list')
    SPOT_TEST_FLEET_REST_S=2 begin
    eventually '[ -s cloud/number ] && [ "$(find cloud/machine -mindepth 1 -maxdepth 1 | wc -l)" = 0 ]'
    kill -9 "$server"
    wait "$server" || :
    front # has no route yet, and would refuse the first request
    eventually '[ "$(curl -s -o health -w "%{http_code}" --unix-socket h http://x/health)" = 200 ]'
    [ "$(find cloud/machine -mindepth 1 -maxdepth 1 | wc -l)" = 0 ]
    for round in 1 2; do
        eventually '[ -s cloud/number ] && [ "$(find cloud/machine -mindepth 1 -maxdepth 1 | wc -l)" = 0 ]'
        eventually '[ "$(spot-run status --join unix:j --key-file key | jq .replicas)" = 0 ]'
        before=$(cat cloud/number)
        [ "$(curl -s -o answer -w '%{http_code}' --max-time 100 --unix-socket h http://x/v1/completions \
            -d '{"model": "M", "prompt": "a", "max_tokens": 40, "ignore_eos": true}')" = 200 ]
        jq -e '.usage.completion_tokens == 40' answer
        [ "$(cat cloud/number)" -gt "$before" ]
    done
    curl -s --unix-socket h http://x/metrics | grep '^spot_serve_routed_total{bucket="0",instance_type="gpu",.* [1-9]'
    kill "$server"
    stop
}

@test "a page and metrics tell what is held, paid, forecast and why, and examples ask for nothing else" {
    cat >plan.sh <<'P'
cat trace.csv | sed '1s/$/,instance_type/; 1!s/$/,gpu/' | sed '$p; $s/^0/60/' | spot-predict -q --interval 60s >"$SPOT_DIR/forecast.json"
echo "$SPOT_CURRENT" >current
cat plan.json
P
    begin --metrics unix:page --max-usd-per-h 50 --plan-command 'sh plan.sh'
    ask() { curl -sf --unix-socket page "http://x$1"; }
    eventually '[ -S page ] && ask /status.json | jq -e ".running == 3"'
    grep -qE '^a/gpu=2\+0,b/gpu=1\+0,on-demand=0\+0$' current || eventually 'grep -q "a/gpu=2+0,b/gpu=1+0,on-demand=0+0" current'
    ask /status.json | jq -e '.wanted == 3 and .usd_per_h == 3 and .on_demand_usd_per_h == 9 and .max_usd_per_h == 50 and
        (.markets | map({zone, running}) == [{zone: "a", running: 2}, {zone: "b", running: 1}]) and
        ([.events[] | select(.event == "launch") | .why] | length == 2 and all(length > 0))'
    ask /history.json | jq -e '(.points | length) > 1 and (.series | map(.zone) | sort) == ["a", "b"] and (.series[0].fan | length) > 0'
    ask /metrics >metrics
    grep -qxF 'spot_fleet_machines{zone="a",instance_type="gpu",market="spot",state="running"} 2' metrics
    ask / >page.html
    grep -q 'nonce="[^@]' page.html
    in_b=$(dirname "$(grep -lx b cloud/machine/*/zone)")
    kill_own -9 "$(cat "$in_b/pid")"
    eventually 'ask /metrics >metrics; grep -q "event=\"gone\"} 1" metrics'
    eventually 'ask /status.json | jq -e ".running == 3"'
    ask /metrics >metrics
    stop
    # what dashboards and rules ask for is there
    root=$BATS_TEST_DIRNAME/../..
    jq -r '.panels[].targets[].expr' "$root/examples/fleet/grafana.json" | cat - "$root/examples/fleet/alerts.yaml" | grep -oE 'spot_fleet_[a-z_]+' | sort -u >asked
    sed -n 's/^# TYPE \([^ ]*\) .*/\1/p' metrics | sort >told
    [ -z "$(comm -23 asked told)" ]
}
