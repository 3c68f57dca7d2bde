#!/bin/sh
# SPDX-License-Identifier: MIT
# Jobs of high priority and spot jobs on one cluster: policies compared over generated workloads, or over Alibaba's traces.
# usage: gfs.sh [SEED...]                  (spot-replay on PATH; 28 days on 128 workers each; POLICY, OPTIONS as of spot-replay share)
#        ALIBABA_2023=openb_pod_list_default.csv WORKERS=N gfs.sh    pods since day 115
#        ALIBABA_2026=job_info_df.csv MODEL=A10 WORKERS=N FROM=DAY DAYS=N gfs.sh
# Prints for each workload and policy: share of starts that were evicted, hours in the queue of spot jobs, hours to the end of spot and
# high-priority jobs, hours in the queue of the latter, allocation until the last arrival, worker hours lost by spot jobs; then the means.
set -eu
policies=${POLICY-spot,gfs,static-quota,evict-least,evict-newest}
options=${OPTIONS---round 5m --switch 40s --checkpoint 1h}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# High priority: arrivals vary by a third over the day and by a quarter on days 6 and 7; spot jobs arrive evenly.
generate() { # SEED
    awk -v seed="$1" -v end=$((28 * 86400)) 'function u() { return (state = state * 16807 % 2147483647) / 2147483647 }
    function normal() { return sqrt(-2 * log(u())) * cos(2 * pi * u()) }
    function scale(x) { return x < .6 ? 1 : x < .75 ? 2 : x < .9 ? 4 : 8 }
    function job(class, t, run) { printf "%s%05d,%.0f,second,%.0f,%d,%s\n", class, n++, t, run < 60 ? 60 : run, scale(u()), class }
    BEGIN { pi = atan2(0, -1); state = seed * 7919 + 12345; for (i = 0; i < 20; i++) u()
        print "id,arrival_s,kind,steps,scale,priority"
        for (t = 0; t < end; t -= log(u()) * 3600 / 12.5) { # thinned
            day = int(t / 86400) % 7
            if (t && u() < (1 - .33 * cos(2 * pi * (t / 86400 - 2 / 24))) / 1.33 * (day > 4 ? .75 : 1))
                job("high", t, 3600 * (u() < .8 ? exp(1.2 * normal()) : 8 * exp(.8 * normal()))) }
        for (t = 0; t < end; t -= log(u()) * 3600 / 5.5) if (t) job("spot", t, 5400 * exp(normal())) }'
}

alibaba_2023() {
    spot-replay import --from alibaba-2023 "$ALIBABA_2023" --origin 0 | awk -F, -v OFS=, 'NR == 1 || $2 >= 115 * 86400 { if (NR > 1) $2 -= 115 * 86400; print }'
}

alibaba_2026() { # the model is one pool
    awk -F, -v model="$MODEL" -v from="$FROM" -v days="$DAYS" -v most="$WORKERS" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; print "id,arrival_s,kind,steps,scale,user,priority"; next }
        { t = $at["submit_time"] - from * 86400; n = $at["gpu_request"] * $at["worker_num"]; n = n > int(n) ? int(n) + 1 : n }
        $at["gpu_model"] == model && t >= 0 && t < days * 86400 && n <= most {
            printf "%s,%.0f,second,%s,%d,%s,%s\n", $at["job_name"], t, $at["duration"], n, $at["organization"], $at["job_type"] == "Spot" ? "spot" : "high" }' "$ALIBABA_2026"
}

play() { # NAME WORKERS < jobs
    cat >"$tmp/jobs"
    printf 'instance_type,count\ngpu,%d\n' "$2" >"$tmp/cluster"
    # shellcheck disable=SC2086 # several options
    spot-replay share --jobs "$tmp/jobs" --cluster "$tmp/cluster" --policy "$policies" $options --format tsv |
        awk -F'\t' -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
            { print name, $1, $at["spot_evicted"], $at["spot_queue_h"], $at["spot_jct_mean_h"], $at["high_jct_mean_h"], $at["high_queue_h"], $at["allocation"], $at["spot_lost_h"] }'
}

{ if [ -n "${ALIBABA_2023-}" ]; then alibaba_2023 | play alibaba-2023 "$WORKERS"
  elif [ -n "${ALIBABA_2026-}" ]; then alibaba_2026 | play "alibaba-2026-$MODEL" "$WORKERS"
  else for seed; do generate "$seed" | play "$seed" 128; done; fi; } |
    awk 'BEGIN { print "workload policy evicted spot_queue_h spot_jct_h high_jct_h high_queue_h allocation spot_lost_h" }
        { print; if (!($2 in n)) order[++m] = $2; n[$2]++; for (k = 3; k <= NF; k++) sum[$2, k] += $k }
        END { for (i = 1; i <= m; i++) { row = "mean " order[i]; for (k = 3; k <= 9; k++) row = row sprintf(" %.4g", sum[order[i], k] / n[order[i]]); print row } }' | column -t
