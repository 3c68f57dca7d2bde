#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# packaging/python as a script sees it, without PyTorch: spot.exact is in spot-run-exec-recipes.bats, hold in spot-run-exec-warm.bats.

# shellcheck disable=SC2016,SC2154,SC2030,SC2031 # eventually evaluates; background sets $pid

bats_require_minimum_version 1.5.0
load job
set -o pipefail

setup() {
    job_setup
    package=$(readlink -f "$BATS_TEST_DIRNAME/../../packaging/python")
    export PYTHONPATH=$package PYTHONDONTWRITEBYTECODE=1
}
teardown() { job_teardown; }

@test "python: pip installs it from the tree, with no dependency" {
    has pip setuptools wheel || skip "no pip, setuptools and wheel here"
    cp -r "$package" tree
    timeout 100 env -u PYTHONPATH -u PYTHONDONTWRITEBYTECODE python3 -m pip install -q --no-index --no-build-isolation --target there ./tree
    cd there
    env PYTHONPATH="$PWD" python3 -c 'import sys, spot; assert spot.__file__.startswith(sys.argv[1]); spot.hold(); assert not spot.leaving()' "$PWD"
    [ "$(cat ./*.dist-info/METADATA | grep -c '^Requires-Dist')" -eq 0 ]
}

@test "python: ledger and commit through a round that fails, each sample once" {
    cat >train.py <<'END'
import os, sys, spot
rank, world, path = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ["SPOT_STATE_DIR"] + "/step"
spot.hold()
step = int(open(path).read()) if os.path.exists(path) else 0
while step < 30:
    mine = spot.ledger(step, 100, 12)
    step += 1
    print("used", step, *mine, flush=True)
    if step % 5 == 0:
        if rank == 0:
            with open(path + ".new", "w") as file:
                file.write(str(step))
            os.rename(path + ".new", path)
        spot.commit(step, all_ranks=True)
    if step == 17 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        sys.exit(1)
try:
    spot.ledger(3, 100, 12)
except RuntimeError as error:
    print("refused", error)
END
    timeout 100 spot-run exec -q --workers 1 --nproc-per-node 2 --events log train.py >out
    grep -q '\] refused samples: ' out
    # of the last time each step was done, all numbers of all ranks: 360 of an epoch of 100 each
    awk '$2 == "used" { line[$1 "," $3] = $0 } END { for (i in line) print line[i] }' out | cut -d ' ' -f 4- | tr ' ' '\n' | sort -n | uniq -c | awk '{ n += $1; if ($1 < 3 || $1 > 4) bad++ } END { exit !(n == 360 && NR == 100 && !bad) }'
    [ "$(spot-run ledger --check log | tail -n 1 | cut -d , -f 5,6)" = 0,0 ]
}

@test "python: leaving is told once a notice comes, and hold goes on" {
    cat >train.py <<'END'
import os, time, spot
spot.hold()
round = os.environ["TORCHELASTIC_RESTART_COUNT"]
step = int(open("ck").read()) if os.path.exists("ck") else 0
open(f"began.{round}.{step}", "w")
while not os.path.exists("finish"):
    time.sleep(0.01)
    step += 1
    if spot.leaving():
        with open("ck", "w") as file:
            file.write(str(step))
        open(f"left.{round}.{step}", "w")
        os._exit(0)
    open(f"going.{round}", "w")
END
    background timeout 100 spot-run exec -q --listen unix:j --nnodes 1 --checkpoint ck --events log train.py 2>job.err
    job=$pid
    for name in a b; do
        background spot-run exec -q --join unix:j --name $name --checkpoint ck train.py >>out 2>>$name.err
        eval "id_$name=$pid"
    done
    eventually '[ -e going.0 ]'
    seen log joined 2
    eval "kill -TERM \$id_$(jq -rs 'map(select(.event == "formed"))[-1].place[0]' log)"
    eventually '[ -e going.1 ]'
    left=$(echo left.0.*)
    [ -e "began.1.${left##*.}" ]
    : >finish
    wait "$job"
}

@test "python: what is asked of nobody fails by name" {
    run ! python3 -c 'import spot; spot.commit(1)'
    [[ "$output" == *SPOT_SOCKET* ]]
    run -0 python3 -c 'import spot; spot.hold(); print(spot.leaving())'
    [ "$output" = False ]
}
