#!/bin/sh
# SPDX-License-Identifier: MIT
# Each family of results that others published or computed, and the command that reproduces it here.
# usage: goldens.sh [FAMILY...]    the tests are built; the data is at ../shared/data/golden/FAMILY
# A row each: family, source, what ran, and how it ended. Fails if a test fails; a family that is not there is named.
set -u
cd "$(dirname "$0")/.." || exit
failed=0 wanted=" $* "
while read -r family tests source; do
    case $wanted in "  " | *" $family "*) ;; *) continue ;; esac
    result=passed
    [ -e "../shared/data/golden/$family" ] || result='no data here'
    for test in $(echo "$tests" | tr , ' '); do
        [ "$result" = passed ] || continue
        "build/release/tests/$test" </dev/null >/dev/null 2>&1 || { result="$test failed" && failed=1; }
    done
    printf '%-10s %-70s %s: %s\n' "$family" "$source" "$tests" "$result"
done <<END
arima test_arima R's arima and statsmodels, exact maximum likelihood: fits and forecasts
bamboo test_bamboo_sim Bamboo (NSDI 2023), its released simulator: public and synthetic traces
gavel test_share,test_share_sim Gavel (OSDI 2020): allocations, objectives, summaries of its simulator
melange test_fleet Mélange (2024): counts and costs of its example, its solver's instances
migrate test_migration,test_assign assignments and reshardings, by scipy and by brute force
parcae test_train_sim,test_migrate_cost Parcae (NSDI 2024): decisions, throughputs, prices
skypilot test_fleet_sim,test_deadline SkyServe's SpotHedge and Uniform Progress (NSDI 2024): references, windows
spotdnn test_fleet spotDNN (IWQoS 2023): predictor, window search, cheapest plans
spotserve test_serve_plan SpotServe (ASPLOS 2024): choices of its solver; tables: tests/bench/serve.sh
varuna test_pipe_sim Varuna (EuroSys 2022): its simulator, static schedules
END
exit $failed
