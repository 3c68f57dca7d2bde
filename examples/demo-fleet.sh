#!/bin/sh
# SPDX-License-Identifier: MIT
# A model served on machines that a controller buys, of zones that take them away: no request fails.
#
#   examples/demo-fleet.sh      SPOT_DEMO_SECONDS=80 SPOT_DEMO_STEPS=60 SPOT_DEMO_SEED=44 SPOT_DEMO_FROM=6960 SPOT_DEMO_GRACE=2
#
# A trace of three zones is drawn. fleet/cloud.sh plays it, a minute in a second, with processes as
# machines; `spot-run fleet` holds at them what is planned from a forecast of what was seen so far,
# and `spot-run serve` is in front. The closing table has what simulations of the same trace and the same requests say, too.
set -eu
fleet='' others=''
children() { echo "$others"; }
# shellcheck source=examples/demo-parts.sh
. "$(dirname "$0")/demo-parts.sh"
seconds=${SPOT_DEMO_SECONDS:-80} rate=8 batch=8 want=2 spot_usd=.3 usd=1
export CLOUD="$tmp/cloud" CLOUD_TRACE="$tmp/trace.csv" CLOUD_FROM="${SPOT_DEMO_FROM:-6960}" CLOUD_SPEED=60 CLOUD_GRACE="${SPOT_DEMO_GRACE:-2}"
export CLOUD_RUN="exec spot-run worker --quiet --join unix:$tmp/job --name \$SPOT_ID \${SPOT_ZONE:+--domain \$SPOT_ZONE} --machine \$SPOT_TYPE/\$SPOT_MARKET"
cloud=examples/fleet/cloud.sh

# The controller first: what it launches while it ends is ended behind it.
end_first() {
    [ -z "$fleet" ] || kill "$fleet" 2>/dev/null || true
    [ -z "$fleet" ] || wait "$fleet" || true
    fleet=''
    for at in "$CLOUD"/machine/*/; do
        [ ! -d "$at" ] || SPOT_ID=$(basename "$at") $cloud terminate || true
    done
}

say 'three zones that lose machines often'
spot-replay generate --profile stormy --zones 3 --regions 3 --cap 4 --hours 9 --seed "${SPOT_DEMO_SEED:-44}" \
    --law loss_per_h=6,loss_mean=2,loss_all=.3,gain_per_h=12,shock_per_h=0 | sed '1s/$/,instance_type/; 1!s/$/,gpu/' >"$CLOUD_TRACE"
spot-replay describe --format table "$CLOUD_TRACE" >&2

say 'a small model learns the licence'
spot-run train --quiet --data LICENSE --layers 4 --width 128 --heads 4 --seq 256 --global-batch 8 \
    --steps "${SPOT_DEMO_STEPS:-60}" --save "$tmp/model" >"$tmp/train.jsonl"

replicas() {
    spot-run status --join "unix:$tmp/job" --format json 2>/dev/null | jq -r '.replicas // 0' || true
}
front() { # EVENTS
    rm -f "$tmp/job" "$tmp/http"
    spot-run serve --quiet --model "$tmp/model" --http "unix:$tmp/http" --listen "unix:$tmp/job" --kv-buddies --max-batch $batch \
        --grace 2s --lease 1s --events "$1" &
    others="$others $!"
}

say 'what one replica can do: the profile that the simulation goes by'
front "$tmp/loop.jsonl"
front=$!
spot-run worker --quiet --join "unix:$tmp/job" &
others="$others $!"
one=$!
until [ "$(replicas)" = 1 ]; do sleep 0.1; done
ask() { load "unix:$tmp/http" plain=1 "$@" >/dev/null; }
ask n=24 clients=$batch in=48 out=80
ask n=12 clients=$((batch / 2)) in=160 out=40
ask n=4 clients=1 in=48 out=80
kill "$one" "$front"
wait "$one" "$front" || true
jq -c 'select(.event == "request")' "$tmp/loop.jsonl" >"$tmp/loop"
spot-run profile --quiet --serve "$tmp/loop" --replicas 1 --max-batch $batch -o "$tmp/profile.json"
jq '.cost = { usd_per_h: 1 } | .serve.cells[] |= (.prefill_s = ([.prefill_s, 1e-6] | max) | .prefill_token_s = ([.prefill_token_s // 0, 1e-9] | max))' "$tmp/profile.json" >"$tmp/job.json"

say "a controller holds $want replicas; what it would do first"
cat >"$tmp/catalogue.csv" <<C
instance_type,zone,spot_usd_per_h,on_demand_usd_per_h
gpu,r1z1,$spot_usd,
gpu,r2z1,$spot_usd,
gpu,r3z1,$spot_usd,
gpu,,,$usd
C
hold() { # OPTION...
    exec spot-run fleet --quiet --state "$tmp/fleet" --catalogue "$tmp/catalogue.csv" --plan-command "$cloud seen |
            spot-predict --quiet --interval 60s --horizon 6 | tee $tmp/forecast.json |
            spot-plan fleet --quiet --kind replicas --n $want --availability .99 --catalogue $tmp/catalogue.csv --forecast - --cold-start 2m \
                --current \"\$SPOT_CURRENT\" \${SPOT_DIR:+--state \"\$SPOT_DIR/plan.state\"}" \
        --launch "$cloud launch" --list "$cloud list" --terminate "$cloud terminate" --drain "$cloud drain" --grace "${CLOUD_GRACE}s" "$@"
}
(hold --format table >&2)
rm -rf "$CLOUD"
front "$tmp/events.jsonl"
hold --yes --every 1s &
fleet=$!
asked=$(date +%s.%N)
$cloud play 2>"$tmp/play.log" &
others="$others $!"

# As long as that takes: at a load of 20 a plan may need seconds, and the trace takes machines away meanwhile.
tries=0
until [ "$(replicas)" -ge $want ] 2>/dev/null; do
    tries=$((tries + 1))
    kill -0 "$fleet" || { echo 'demo-fleet.sh: the controller has ended' >&2 && exit 1; }
    [ $tries -lt 900 ] || { echo "demo-fleet.sh: no $want replicas after 3 minutes" >&2 && tail -n 20 "$tmp/fleet/events.jsonl" >&2 && exit 1; }
    sleep 0.2
done

# from a launch to the first answer, in the trace's time
cold=$(date +%s.%N | awk -v asked="$asked" -v speed="$CLOUD_SPEED" '{ printf "%.0f", ($1 - asked) * speed + .5 }')

say "$((seconds * rate)) requests, $rate a second"
spot-replay generate --quiet --kind load --rate $rate --requests $((seconds * rate)) --prompt-tokens lognormal:40:.5 --output-tokens lognormal:80:.5 \
    --context 250 --seed 7 | cut -d , -f 1-3 >"$tmp/requests.csv"
load "unix:$tmp/http" "load=$tmp/requests.csv" clients=400 plain=1 >"$tmp/load" &
client=$!
others="$others $client"
looks=0
begin=$(date +%s.%N)
while kill -0 "$client" 2>/dev/null; do
    n=$(replicas)
    echo "${n:-0}" >>"$tmp/replicas"
    [ $((looks % 40)) -gt 0 ] || echo "${n:-0} replicas, $(find "$CLOUD/machine" -mindepth 1 -maxdepth 1 | wc -l) machines" >&2
    looks=$((looks + 1))
    sleep 0.25
done
failed=0
wait "$client" || failed=1
seen=$(date +%s.%N | awk -v end="$begin" -v begin="$(cat "$CLOUD/begin")" '{ print end - begin }')
held=$(date +%s.%N | awk -v begin="$(cat "$CLOUD/begin")" '{ print $1 - begin }')
end_first

say 'what came of it, and what simulations say of the same time: spot-replay fleet of machines, spot-replay serve of requests'
spot-run report --format json -o "$tmp/report.json" "$tmp/events.jsonl"
share() { # of the looks with so many replicas
    awk -v want=$want '$1 >= want { n++ } END { printf "%.3f", n / NR }' "$tmp/replicas"
}
cost() { # of all machines, in that of on demand
    awk -v want=$want -v spot=$spot_usd -v usd=$usd -v held="$held" \
        '{ sum += $3 * ($2 == "spot" ? spot : usd) } END { printf "%.3f", sum / (want * usd * held) }' "$CLOUD/ended"
}
spot-replay fleet --quiet --trace "$CLOUD_TRACE" --n $want --usd-per-h $spot_usd:$usd --cold-start "2m:${cold}s" \
    --availability .99 --policy on-demand,spothedge,spot --serving "$tmp/serving.csv" --steps >"$tmp/steps.csv"
replay() { # POLICY: availability of the steps since the first request, and cost of all that were played
    awk -F, -v policy="$1" -v from="$CLOUD_FROM" -v speed="$CLOUD_SPEED" -v seen="$seen" -v held="$held" '
        $2 + 0 < from || $2 + 0 >= from + speed * held { next }
        $1 == "on-demand" { dear += $8 }
        $1 == policy { usd += $8 }
        $1 == policy && $2 + 0 >= from + speed * seen { n++; served += $7 + 0 == 0 }
        END { printf "%.3f %.3f", served / n, usd / dear }' "$tmp/steps.csv"
}
# what serves by then, on the clock of the requests, and what they take on it
awk -F, -v from="$CLOUD_FROM" -v speed="$CLOUD_SPEED" -v seen="$seen" 'NR == 1 { print; next } { t = ($1 - from) / speed - seen }
    t <= 0 { n = $2; next }
    { if (!rows++) print "0," n; print t "," $2; n = $2 }
    END { print 1000000 "," n }' "$tmp/serving.csv" >"$tmp/there.csv"
awk -F, -v OFS=, 'NR == 2 { first = $1 } NR > 1 { $1 -= first } 1' "$tmp/requests.csv" >"$tmp/asked.csv"
spot-replay serve --quiet --job "$tmp/job.json" --trace "$tmp/there.csv" --load "$tmp/asked.csv" --policy rerouting --batching passes --load-time 0 \
    --grace "${CLOUD_GRACE}s" --format csv >"$tmp/serve.csv"
said() { # COLUMN of a time: ms
    awk -F, -v c="$1" 'NR == 1 { for (i = 1; i <= NF; i++) k[$i] = i } NR == 2 { printf "%.1f", 1000 * $k[c] }' "$tmp/serve.csv"
}
row() {
    printf '%-36s %9s %9s %9s\n' "$@"
}
of() { # KEY of the load
    tr ' ' '\n' <"$tmp/load" | sed -n "s/^$1=//p"
}
# the share of that time with as many as are wanted, by the moment
serving() {
    awk -F, -v from="$CLOUD_FROM" -v speed="$CLOUD_SPEED" -v seen="$seen" -v held="$held" -v want=$want 'NR == 1 { next }
        { begin = was > from + speed * seen ? was : from + speed * seen; end = $1 < from + speed * held ? $1 : from + speed * held
          if (end > begin) { all += end - begin; served += n >= want ? end - begin : 0 }
          was = $1; n = $2 }
        END { printf "%.3f", served / all }' "$tmp/serving.csv"
}
# shellcheck disable=SC2046 # two words each
set -- $(replay spot) $(replay spothedge)
row '' live simulated spothedge
row "share of time with $want replicas" "$(share)" "$(serving)" "$3"
row 'cost, on demand is 1' "$(cost)" "$2" "$4"
row 'machines launched' "$(cat "$CLOUD/number")" '' ''
row '  of them on demand' "$(grep -c on-demand "$CLOUD/ended" || true)" '' ''
row 'taken away' "$(grep -c '"taken away"' "$tmp/fleet/events.jsonl" || true)" '' ''
row 'requests' "$(of requests)" '' ''
row '  failed' "$(($(of broken) + $(of refused) + $(of wrong)))" '' ''
row '  moved to another replica' "$(jq .moves "$tmp/report.json")" '' ''
for q in 50 99; do
    row "time to first token, P$q ms" "$(of first_p$q)" "$(said ttft_p${q}_s)" ''
done
for q in 50 99; do
    row "whole request, P$q ms" "$(of whole_p$q)" "$(said e2e_p${q}_s)" ''
done
[ $failed = 0 ]
