#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# spot-plan deadline and spot-replay deadline: the choice as a document, policies as rows, refusals.

bats_require_minimum_version 1.5.0

setup() {
    T=$BATS_TEST_TMPDIR
    set -o pipefail
    { echo time_s,zone,instance_type,available
      for i in $(seq 0 199); do echo "$((i * 600)),a,g,$((i / 9 % 3 > 0))"; done; } >"$T/t.csv"
}

plan() { spot-plan deadline --work 12h --deadline 16h --restart 12m --no-provenance "$@"; }
replay() { spot-replay deadline --trace "$T/t.csv" --work 12h --deadline 16h --restart 12m "$@"; }

@test "the plan is a mode, its cost and what else would cost" {
    plan | jq -e '.schema == "spot.plan/1" and .kind == "deadline" and .mode == "spot" and .hold_s == 600
        and all(.alternatives[]; .usd >= 0) and (.why | length) == 4'
    plan --no-has-spot | jq -e '.mode != "spot" and all(.alternatives[]; .mode != "spot")'
    plan --trace "$T/t.csv" | jq -e '.time_s == 199 * 600 and .expected.usd > 0'
    plan --deadline 12h20m 2>/dev/null || plan --deadline 44400 --no-has-spot | jq -e '.mode == "on-demand"'
    spot-predict --interval 600s "$T/t.csv" | plan --forecast - | jq -e '.hold_s == 600 and .mode == "spot"'
    run -0 --separate-stderr plan --explain
    [[ "$stderr" == *'usd expected in all, the least'* ]]
}

@test "a loop of plans is the policy that is replayed" {
    # the trace is known up to the job's start only, so no law is learnt on the way: 'spot' with a long --learn
    replay --policy spot --from 60000 --learn 1000h --steps |
        awk -F, 'NR > 1 && $4 == "spot" && $3 == 0 { bad = 1 } END { exit bad }'
    mode=$(awk -F, 'NR == 1 || $1 <= 60000' "$T/t.csv" >"$T/past.csv"; plan --trace "$T/past.csv" | jq -r .mode)
    [ "$(replay --policy spot --from 60000 --steps | awk -F, 'NR == 2 { print $4 }')" = "$mode" ]
}

@test "policies are rows with the columns scripts rely on, none late, none below the optimum" {
    replay >"$T/out"
    [ "$(head -1 "$T/out")" = policy,usd,finish_h,is_late,switches ]
    [ "$(wc -l <"$T/out")" = 8 ]
    awk -F, 'NR > 1 && $4 != 0 { bad = 1 } { usd[$1] = $2 }
        END { for (p in usd) if (p != "policy" && usd[p] < usd["offline"] - 1e-9) bad = 1; exit bad }' "$T/out"
    replay --policy list | grep -q '^uniform-progress '
    replay --policy greedy,offline --plot "$T/p.gp" >/dev/null && grep -q 'even pace' "$T/p.gp"
}

@test "what cannot be is refused" {
    run -1 --separate-stderr plan --deadline 12h
    [[ "$stderr" == *'a deadline of 12.3333 h would do, it is 12 h'* ]]
    run -1 plan --done 12h
    run -1 replay --deadline 12h
    run -2 plan --forecast x --trace y
    run -2 plan --now elsewhere
    run -2 replay --policy best
    run -2 spot-replay deadline --trace "$T/t.csv"
    run -3 --separate-stderr plan --trace <(printf 'time_s,available\n0,x\n')
    [[ "$stderr" == *:2:3:* ]]
    sed 's/,a,/,b,/;1d' "$T/t.csv" | cat "$T/t.csv" - >"$T/two.csv"
    run -2 --separate-stderr plan --trace "$T/two.csv"
    [[ "$stderr" == *'--zone names one'* ]]
    plan --trace "$T/two.csv" --zone b | jq -e .mode
}
