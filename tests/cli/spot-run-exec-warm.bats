#!/usr/bin/env bats
# SPDX-License-Identifier: MIT
# tier: jobs, lane: wait
# A trainer that waits for its round, as packaging/python/spot/hold.py does: here it is a shell script.

# shellcheck disable=SC2154 # background sets $pid

bats_require_minimum_version 1.5.0
load job
set -o pipefail # what feeds grep must succeed, too

setup() {
    job_setup
    mkdir ranks waits
    # waits/PID once it waits; ranks/RESTART.RANK: WORLD PID, once it has a round
    cat >trainer <<'END'
#!/bin/sh
if [ "$SPOT_HOLD" ]; then
    # shellcheck disable=SC2086
    set -- $SPOT_HOLD
    unset SPOT_HOLD
    exec 3<"$2"
    [ "$RANK" ] || : >"waits/$$"
    echo "$3" >"$1"
    said=
    while IFS= read -r line; do export "$line"; said=1; done <&3
    exec 3<&-
    [ "$said" ] || exit 0
fi
here=ranks/$TORCHELASTIC_RESTART_COUNT.$RANK
echo "$WORLD_SIZE $$" >"$here.tmp" && mv "$here.tmp" "$here"
while [ ! -e finish ]; do sleep 0.02; done
END
    chmod +x trainer
}
teardown() { job_teardown; }

coordinator() { # ARGUMENTS...: its id in $job
    background timeout 300 spot-run exec -q --listen unix:j --lease 20s --events log "$@" -- ./trainer 2>>job.err
    job=$pid
}

node() { # NAME ARGUMENTS...: its id in $pid
    local name=$1
    shift
    background spot-run exec --join unix:j --join-timeout 60s --name "$name" "$@" -- ./trainer >>"$name.out" 2>>"$name.err"
}

round() { # RESTART WORLD: all of its ranks have begun
    local rank
    for rank in $(seq 0 $(($2 - 1))); do
        eventually "[ -e ranks/$1.$rank ]"
        [ "$(cut -d ' ' -f 1 "ranks/$1.$rank")" -eq "$2" ]
    done
}

process() { # RESTART RANK
    cut -d ' ' -f 2 "ranks/$1.$2"
}

waiting() { # N: on so many nodes all that should wait does
    eventually 'spot-run status --join unix:j --format json | grep -q "\"warm\": '"$1"'\b"'
}

ends() { # STATUS PID
    wait "$2" && status=0 || status=$?
    [ "$status" -eq "$1" ] || { echo "$2 ended with $status, not $1" >&2 && false; }
}

nobody_waits() {
    local file
    for file in waits/*; do eventually "! kill -0 ${file#waits/}"; done
}

@test "survivors and the spare go on in processes that waited" {
    coordinator --nnodes 2:2
    node a
    seen log joined 1
    node b && b=$pid
    round 0 2
    node c
    waiting 3 # of the spare too
    kill -9 "$b"
    round 1 2
    for rank in 0 1; do [ -e "waits/$(process 1 $rank)" ]; done
    : >finish
    ends 0 "$job"
    nobody_waits
    [ "$(events log failed)" -eq 0 ]
}

@test "--cold: nobody waits, and nobody waits for that" {
    coordinator --nnodes 1:2
    node a
    round 0 1
    waiting 1
    node b --cold && b=$pid
    round 1 2
    kill -9 "$b"
    round 2 1
    : >finish
    ends 0 "$job"
    nobody_waits
}

# the same in Python, by spot.hold() itself: ran/PID by who does what takes long
by_copies() { # THREADS
    command -v python3 >/dev/null || skip "no python3"
    mkdir -p ran
    cat >trainer <<END
#!/usr/bin/env python3
import os, sys, threading, time
sys.path.insert(0, "$BATS_TEST_DIRNAME/../../packaging/python")
open(f"ran/{os.getpid()}", "w").close()
for _ in range($1 - 1):
    threading.Thread(target=time.sleep, args=(1e6,), daemon=True).start()
import spot
spot.hold()
if os.fork() == 0:
    time.sleep(1e6)  # a process of the rank, which goes with it
here = "ranks/" + os.environ["TORCHELASTIC_RESTART_COUNT"] + "." + os.environ["RANK"]
with open(here + ".tmp", "w") as out:
    print(os.environ["WORLD_SIZE"], os.getpid(), "SPOT_HOLD" in os.environ, "SPOT_HOLD_NEXT" in os.environ, file=out)
os.rename(here + ".tmp", here)
while not os.path.exists("finish"):
    time.sleep(0.02)
os._exit(0)
END
}

@test "a rank of one thread is copied where it waits: what stands above is done once on a node" {
    by_copies 1
    coordinator --nnodes 2:2 --max-restarts 9
    node a && a=$pid
    node b && b=$pid
    round 0 2
    waiting 2
    for i in 1 2 3; do # each kill after the first is followed by a pause
        kill -9 "$(process $((i - 1)) 0)"
        round "$i" 2
        waiting 2
    done
    [ "$(find ran -type f | wc -l)" -eq 2 ]
    [ "$(cut -d ' ' -f 2 ranks/* | sort -u | wc -l)" -eq 8 ]
    [ "$(cut -d ' ' -f 3,4 ranks/* | sort -u)" = "False False" ]
    kill -9 "$b" # and the copies of a node go with it
    node c
    round 4 2
    waiting 2
    for id in /proc/[0-9]*; do
        [ "$(readlink "$id/cwd")" != "$PWD" ] || ! tr '\0' ' ' <"$id/cmdline" | grep -q "^[^ ]*python3 ./trainer" || echo "${id#/proc/}"
    done >here 2>/dev/null
    [ "$(wc -l <here)" -eq 6 ] # two ranks, what they forked, two that wait
    : >finish
    ends 0 "$job"
    wait "$a"
    while read -r id; do eventually "! kill -0 $id"; done <here
}

@test "a rank of two threads is not copied: its twin is started" {
    by_copies 2
    coordinator --nnodes 1
    node a
    round 0 1
    waiting 1
    [ "$(find ran -type f | wc -l)" -eq 2 ]
    kill -9 "$(process 0 0)"
    round 1 1
    [ -e "ran/$(process 1 0)" ]
    : >finish
    ends 0 "$job"
}

@test "a script that is not changed waits behind its imports, by spot.warm" {
    command -v python3 >/dev/null || skip "no python3"
    mkdir ran lib
    echo 'import os; open(f"ran/{os.getpid()}", "w").close()' >lib/heavy.py
    cat >lib/plain.py <<'END'
import os, sys, time
import heavy
assert __name__ == "__main__" and sys.argv[1:] == ["--lr", "1"] and os.path.basename(sys.argv[0]) == "plain.py", sys.argv
here = "ranks/" + os.environ["TORCHELASTIC_RESTART_COUNT"] + "." + os.environ["RANK"]
with open(here + ".tmp", "w") as out:
    print(os.environ["WORLD_SIZE"], os.getpid(), file=out)
os.rename(here + ".tmp", here)
while not os.path.exists("finish"):
    time.sleep(0.02)
END
    printf '#!/bin/sh\nexec python3 -m spot.warm heavy,nothing_there lib/plain.py --lr 1\n' >trainer
    export PYTHONPATH=$BATS_TEST_DIRNAME/../../packaging/python
    coordinator --nnodes 1:2
    node a
    round 0 1
    waiting 1
    kill -9 "$(process 0 0)"
    round 1 1
    waiting 1
    [ "$(find ran -type f | wc -l)" -eq 1 ] # imported once
    node b
    round 2 2
    waiting 2
    [ "$(find ran -type f | wc -l)" -eq 2 ]
    grep -q nothing_there a.err
    : >finish
    ends 0 "$job"
}
