#!/bin/bash
# SPDX-License-Identifier: MIT
# A live fleet beside its simulation, at a minute a second: spot-run fleet buys machines, which are processes, from examples/fleet/cloud.sh as
# a trace of zones says; spot-run serve is in front of them, and a chat load, drawn as well, comes to it. Then spot-replay fleet plays the same
# trace by the same rule, and spot-replay serve the same load on what that says to serve.
#
#   tests/fleet-live.sh [SECONDS of each] [SEED | TRACE.csv ...]     TICK=300 WANT=2 RATE=4 COLD=.8 GRACE=0 KEEP=DIR
#
# SEED: three zones are drawn. TRACE: counts of its zones, at most WANT + 2 of each. A turn is TICK seconds of the trace. A machine is a worker with an
# engine of tests/tool, 20 ms a token, 4 answers at once, which begins COLD seconds after its launch. What the simulations are told of the live run:
# how long a launch took from the begin of its turn to its first answer, in the mean, and the profile of a replica, fitted to a loop of before.
# Goals: availability within 1 point, cost within 3 %, P50 and P99 of whole requests within 15 and 30 %, no request failed.
set -euo pipefail
seconds=${1:-240} tick=${TICK:-300} want=${WANT:-2} rate=${RATE:-4} cold=${COLD:-.8} speed=60 batch=4 loops=${LOOPS:-10} spot_usd=.3 usd=1 phase=.3
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- 44 45 46
here=$(dirname "$(readlink -f "$0")")
PATH="$here/../build/release/bin:$here/../build/release/tests:$PATH"
cloud=$here/../examples/fleet/cloud.sh
engine=$(command -v engine)
tmp=$(mktemp -d)
pid=()
cleanup() {
    end_all 2>/dev/null
    rm -rf "$tmp"
}
trap cleanup EXIT
cd "$tmp"

end_all() {
    [ ${#pid[@]} -eq 0 ] || kill "${pid[@]}" 2>/dev/null || true
    wait
    pid=()
    for at in "${CLOUD:-none}"/machine/*/; do
        [ ! -d "$at" ] || SPOT_ID=$(basename "$at") "$cloud" terminate || true
    done
}
begin() {
    "$@" &
    pid+=($!)
}
at() { # TIME: sleeps until then
    sleep "$(date +%s.%N | awk -v t="$1" '{ print (t > $1 ? t - $1 : 0) }')"
}
plus() { awk -v a="$1" -v b="$2" 'BEGIN { printf "%.3f", a + b }'; }
wait_for() { # COMMAND
    for _ in $(seq 600); do
        ! "$@" >/dev/null 2>&1 || return 0
        sleep 0.1
    done
    echo "fleet-live.sh: $* was not so within a minute" >&2
    exit 1
}

front() { # LOG
    rm -f h j
    begin spot-run serve -q --dtype engine --model M --served-model-name model --http unix:h --listen unix:j --max-batch $batch --queue 4000 --linger 0s \
        --events "$1"
    wait_for test -S j
}
worker="spot-run worker -q --join unix:$tmp/j --engine 'exec $engine \$PORT kind=vllm ms=20' --engine-kind vllm"

# All busy with requests alike, then with short and long ones, then one at a time.
profile() {
    front loop.log
    begin sh -c "exec $worker"
    wait_for load unix:h n=1 clients=1 in=4 out=1 plain=1
    load unix:h n=$((4 * loops)) clients=$batch in=40 out=50 plain=1 >line
    load unix:h n="$loops" clients=$((batch / 2)) in=40 out=50 plain=1 >line &
    long=$!
    load unix:h n=$((2 * loops)) clients=$((batch / 2)) in=160 out=20 plain=1 >line.short
    wait $long
    load unix:h n="$loops" clients=1 in=160 out=50 plain=1 >line
    end_all
    jq -c 'select(.event == "request")' loop.log | tail -n +2 >loop
    spot-run profile -q --serve loop --replicas 1 --max-batch $batch --no-provenance -o fit.json
    # the engine reads a prompt in no time, however long
    jq '.cost = { usd_per_h: 1 } | .serve.cells[] |= (.prefill_s = ([.prefill_s, 1e-6] | max) | .prefill_token_s = ([.prefill_token_s // 0, 1e-9] | max))' fit.json >job.json
}

trace() { # SEED | FILE
    if [ -e "$1" ]; then
        awk -F, -v most=$((want + 2)) -v end=$((seconds * speed)) 'NR == 1 { for (i = 1; i <= NF; i++) k[$i] = i; print "time_s,available,zone,instance_type"; next }
            NR == 2 { first = $k["time_s"] }
            $k["time_s"] - first <= end { n = $k["available"]; zone = "zone" in k ? $k["zone"] : "a"
                print $k["time_s"] - first "," (n > most ? most : n) "," zone ",gpu" }' "$1"
    else
        spot-replay generate -q --profile stormy --zones 3 --regions 3 --cap $((want + 2)) --interval "${tick}s" --hours "$(awk "BEGIN { print $seconds * $speed / 3600 }")" \
            --seed "$1" --law loss_per_h=2,loss_mean=2,loss_all=.3,gain_per_h=4,shock_per_h=0 | sed '1s/$/,instance_type/; 1!s/$/,gpu/'
    fi
}

play() { # SEED | FILE
    rm -rf cloud fleet log* load.csv steps.csv plans
    export CLOUD=$tmp/cloud CLOUD_TRACE=$tmp/trace.csv CLOUD_SPEED=$speed CLOUD_GRACE=${GRACE:-0}
    export CLOUD_RUN="sleep $cold; exec $worker --name \$SPOT_ID \${SPOT_ZONE:+--domain \$SPOT_ZONE} --machine \$SPOT_TYPE/\$SPOT_MARKET"
    trace "$1" >trace.csv
    zones=$(awk -F, 'NR > 1 { print $3 }' trace.csv | sort -u)
    { echo instance_type,zone,spot_usd_per_h,on_demand_usd_per_h
      for zone in $zones; do echo "gpu,$zone,$spot_usd,"; done
      echo "gpu,,,$usd"; } >catalogue.csv
    lead=$((2 * tick / speed))
    spot-replay generate -q --kind load --rate "$rate" --requests $((rate * (seconds - lead) - 4)) --prompt-tokens lognormal:40:.5 \
        --output-tokens lognormal:40:.4 --seed 7 | awk -F, -v OFS=, -v lead=$lead 'NR == 1 { print "time_s,prompt_tokens,output_tokens"; next }
            NR == 2 { first = $1 } { print $1 - first + lead, ($2 > 200 ? 200 : $2), ($3 > 150 ? 150 : $3) }' >load.csv
    front log
    mkdir cloud
    zero=$(date +%s.%N)
    echo "$zero" >cloud/begin
    at "$(plus "$zero" $phase)"
    begin spot-run fleet -q --state fleet --yes --every $((tick / speed))s --catalogue catalogue.csv --plan-command "'$cloud' seen | spot-predict -q --interval ${tick}s --horizon 2 |
            spot-plan fleet -q --kind replicas --n ${want} --availability .99 --catalogue catalogue.csv --forecast - --cold-start ${tick}s \
                --current \"\$SPOT_CURRENT\" --state \"\$SPOT_DIR/plan.state\" | tee -a plans" \
        --launch "'$cloud' launch" --list "'$cloud' list" --terminate "'$cloud' terminate"
    begin "$cloud" play
    at "$(plus "$zero" $lead)"
    load unix:h load=load.csv clients=400 plain=1 >line || true
    at "$(plus "$zero" "$seconds")"
    end_all
    tell "$1"
    [ -z "${KEEP-}" ] || { mkdir -p "$KEEP" && cp -r . "$KEEP/$(basename "$1")"; }
}

# When machines came to serve and went, since the trace's begin: MACHINE COMES GOES.
lives() {
    jq -r 'select(.event == "joined" or .event == "lost" or .event == "left") | "\(.time_s) \(.event) \(.name)"' log |
        awk -v since="$(stat -c %.9W log | awk -v z="$zero" '{ print $1 - z }')" -v end="$seconds" '
            $2 == "joined" { came[$3] = $1 + since; next }
            { print $3, came[$3], $1 + since; delete came[$3] }
            END { for (k in came) print k, came[k], end }'
}

tell() {
    lives | sort >life
    # from the begin of the turn that launched it, in the trace's time
    for m in cloud/machine/*/ cloud/gone/*/; do
        [ ! -d "$m" ] || echo "$(basename "$m") $(cat "$m/begin")"
    done | sort | join - life | awk -v z="$zero" -v every=$((tick / speed)) -v speed=$speed '{ t = $2 - z; t -= t % every
        printf "%s %.1f\n", $1, ($3 - t) * speed }' >colds
    is=$(awk '{ n++; s += $2 } END { printf "%.0f", s / n }' colds)
    awk -v end="$seconds" -v want="$want" '{ t[++n] = $2 < end ? $2 : end; d[n] = 1; t[++n] = $3 < end ? $3 : end; d[n] = -1 }
        END { for (i = 1; i <= n; i++) for (k = i + 1; k <= n; k++) if (t[k] < t[i]) { x = t[i]; t[i] = t[k]; t[k] = x; x = d[i]; d[i] = d[k]; d[k] = x }
              for (i = 1; i <= n; i++) { if (up >= want) s += t[i] - was; up += d[i]; was = t[i] }
              if (up >= want) s += end - was; printf "%.4f", s / end }' life >availability
    awk -v want="$want" -v spot=$spot_usd -v usd=$usd -v held="$seconds" \
        '{ sum += $3 * ($2 == "spot" ? spot : usd) } END { printf "%.4f", sum / (want * usd * held) }' cloud/ended >cost
    spot-replay fleet -q --trace trace.csv --tick "${tick}s" --n "$want" --usd-per-h $spot_usd:$usd --cold-start "${tick}s:${is}s" --availability .99 --policy spot \
        --serving serving.csv --steps --format csv >steps.csv
    awk -F, -v end=$((seconds * speed)) -v want="$want" -v spot=$spot_usd -v usd=$usd 'NR == 1 { for (i = 1; i <= NF; i++) k[$i] = i; next }
        $k["time_s"] < end { n++; s += $k["spot"] * spot + $k["on_demand"] * usd }
        END { printf "%.4f", s / n / (want * usd) }' steps.csv >said.cost
    awk -F, -v end=$((seconds * speed)) -v want="$want" 'NR > 2 { s += n >= want ? (($1 < end ? $1 : end) - was) : 0 } NR > 1 { n = $2; was = $1 < end ? $1 : end }
        END { printf "%.4f", s / end }' serving.csv >said.availability
    awk -F, -v OFS=, -v speed=$speed 'NR > 1 { $1 /= speed } 1' serving.csv >there.csv
    echo "1000000,$want" >>there.csv
    spot-replay serve -q --job job.json --trace there.csv --load load.csv --policy rerouting --batching passes --load-time 0 --format csv >serve.csv
    jq -c 'select(.event == "request")' log >requests
    q() { jq -s "map(.e2e_s) | sort | .[(length * $1 | ceil) - 1]" requests; }
    said() { awk -F, -v c="$1" 'NR == 1 { for (i = 1; i <= NF; i++) k[$i] = i } NR == 2 { print $k[c] }' serve.csv; }
    row() { # WHAT LIVE SAID KIND
        awk -v what="$1" -v a="$2" -v b="$3" -v kind="$4" 'BEGIN { printf "%-34s %9.3f %9.3f %9.1f %s\n", what, a, b, kind == "points" ? 100 * (a - b) : 100 * (a / b - 1), kind }'
    }
    printf '\n%s: %s launches, %.0f s to serve (%.0f to %.0f), %s taken away\n%-34s %9s %9s %9s\n' "$1" "$(wc -l <colds)" "$is" "$(sort -k2g colds | head -n 1 | cut -d ' ' -f 2)" \
        "$(sort -k2g colds | tail -n 1 | cut -d ' ' -f 2)" "$(grep -c '"taken away"' fleet/events.jsonl || true)" '' live said off
    row "share of time with $want replicas" "$(cat availability)" "$(cat said.availability)" points
    row 'cost, on demand is 1' "$(cat cost)" "$(cat said.cost)" %
    row 'whole request, P50 s' "$(q .5)" "$(said e2e_p50_s)" %
    row 'whole request, P99 s' "$(q .99)" "$(said e2e_p99_s)" %
    sed -n 's/.*requests=\([0-9]*\).*broken=\([0-9]*\).*refused=\([0-9]*\).*wrong=\([0-9]*\).*/requests \1, failed \4, broken off \2, refused \3/p' line
    same
}

# Turns in which the plan was what the replay decided.
same() {
    jq -r '[(.buy | map(select(.market == "spot")) | group_by(.zone) | map("\(.[0].zone)=\(map(.count) | add)") | join(" ")),
        (.buy | map(select(.market != "spot").count) | add // 0 | tostring)] | join(" od=")' plans >live.decisions
    zones=$zones awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) k[$i] = i; n = split(ENVIRON["zones"], zone, "\n"); next }
        { split($k["zones"], c, " "); text = ""
          for (i = 1; i <= n; i++) if (c[i] > 0) text = text (text == "" ? "" : " ") zone[i] "=" c[i]
          print text " od=" $k["on_demand"] }' steps.csv >said.decisions
    echo "decisions alike: $(paste -d '|' live.decisions said.decisions | awk -F'|' '$1 != "" { all++; n += $1 == $2 } END { print n + 0 " of " all }')"
}

mkdir M
echo '{"spot_tokens": "bytes", "vocab_size": 257, "eos_token_id": 256, "max_position_embeddings": 4096}' >M/config.json
profile
for one; do play "$one"; done
