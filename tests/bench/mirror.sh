#!/bin/bash
# SPDX-License-Identifier: MIT
# What commits cost: a trainer on two nodes whose steps take a fixed amount of processor time, with a commit every ten steps; and
# how fast a large state is mirrored, beside a plain copy through a socket in the same run.
#   tests/bench/mirror.sh [STEPS [MB [LARGE-MB]]]
# Rows: seconds and processor seconds for the steps with no commit, with state files that are written and not committed, and with
# commits that are mirrored; then MB/s of the plain copy and of the mirror, three times each.
set -u
steps=${1:-200} mb=${2:-30} large=${3:-1000}
command -v python3 >/dev/null || { echo "skipped: no python3 here" && exit 0; }
top=$(mktemp -d)
cd "$top" || exit 1
trap 'rm -rf "$top"' EXIT
export HERE=$top MB=$mb STEPS=$steps

cat >trainer <<'END'
import hashlib, json, os, socket, time
mode, mb, steps = os.environ["MODE"], int(os.environ["MB"]), int(os.environ["STEPS"])
os.chdir(os.environ["SPOT_STATE_DIR"])
ask = socket.socket(socket.AF_UNIX)
ask.connect(os.environ["SPOT_SOCKET"])
lines = ask.makefile()
block = bytes(1 << 20)
state = bytearray(mb << 20)
def commit(step):
    for page in range(0, len(state), 4096):  # all of it is new
        state[page:page + 8] = (step * 2 + int(os.environ["RANK"])).to_bytes(8, "little")
    with open("state", "wb") as f:
        f.write(state)
    if mode == "mirror":
        ask.sendall(json.dumps({"op": "commit", "step": step, "rank": int(os.environ["RANK"])}).encode() + b"\n")
        answer = json.loads(lines.readline())
        assert answer.get("ok"), answer
begin = time.time()
for step in range(1, steps + 1):
    for _ in range(int(os.environ["WORK"])):
        hashlib.sha256(block).digest()
    if step % 10 == 0 and mode != "none":
        commit(step)
with open(f"{os.environ['HERE']}/{mode}.{os.environ['RANK']}", "w") as f:
    f.write(f"{time.time() - begin:.2f}\n")
END

run() { # MODE
    export MODE=$1
    spot-run exec -q --workers 2 --nnodes 2 --events "$1.log" -- python3 "$top/trainer" || exit 1
    echo "$1 $(cat "$1".0 "$1".1 | sort -n | tail -n 1)"
}

export WORK=${WORK:-60}
for mode in none write mirror; do
    cpu=$( { time -p run $mode >row; } 2>&1 | awk '/user|sys/ { s += $2 } END { print s }')
    echo "$(cat row) s, $cpu processor seconds"
done
echo "step $(awk -v n="$steps" '{ print $2 / n }' <(grep . row)) s with commits; $(grep -c committed mirror.log) commits, $(grep -c durable mirror.log) held twice"

cat >plain <<'END'
import os, socket, sys, threading, time
mb = int(sys.argv[1])
source, sink = sys.argv[2], sys.argv[3]
with open(source, "wb") as f:
    for _ in range(mb):
        f.write(os.urandom(1 << 20))
listener = socket.create_server(("127.0.0.1", 0))
def take():
    peer, _ = listener.accept()
    room = bytearray(1 << 20)
    with open(sink, "wb") as f:
        while n := peer.recv_into(room):
            f.write(memoryview(room)[:n])
thread = threading.Thread(target=take)
thread.start()
begin = time.time()
to = socket.create_connection(listener.getsockname())
room = bytearray(1 << 20)
with open(source, "rb") as f:
    while n := f.readinto(room):
        to.sendall(memoryview(room)[:n])
to.close()
thread.join()
print(f"plain {mb * 1.048576 / (time.time() - begin):.0f} MB/s")
END
cat >once <<'END'
#!/bin/sh
cd "$SPOT_STATE_DIR" || exit 1
head -c "${LARGE}M" /dev/urandom >large
spot-run commit -q --all-ranks --durable --step 1
END
chmod +x once
dir=$(mktemp -d /dev/shm/spot-bench-XXXXXX)
trap 'rm -rf "$top" "$dir"' EXIT
for _ in 1 2 3; do
    python3 plain "$large" "$dir/a" "$dir/b"
    rm -f "$dir"/*
    rm -f large.log
    LARGE=$large spot-run exec -q --workers 2 --nnodes 2 --events large.log -- ./once || exit 1
    jq -r 'select(.event == "durable") | "mirror \(.moved_byte / .lag_s / 1e6 | round) MB/s, both ways together"' large.log
done
