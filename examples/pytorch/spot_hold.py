# SPDX-License-Identifier: MIT
"""One line makes a trainer warm under spot-run exec: `import spot_hold`, behind all that takes long.

A second process of the script then waits here while the first one works. It takes its place when a
new round begins, and os.environ gets RANK, WORLD_SIZE, MASTER_ADDR and the others of that round.
It is a copy of the first where that has one thread, else it is started: so what stands above runs
beside a rank that works. It may read LOCAL_RANK, but none of the others, and should leave devices
and shared files alone. Without spot-run nothing happens here.
"""
import ctypes, os, signal, time

hold = os.environ.pop("SPOT_HOLD", None)  # what this process starts does not wait as well
while hold:
    ask, answer, *said = hold.split()
    with open(answer) as lines:  # before the question, since it goes when it is written
        with open(ask, "w") as to:
            to.write(" ".join(said) + "\n")
        told = dict(line.split("=", 1) for line in lines.read().splitlines())
    if not told:
        raise SystemExit(0)  # nobody needs this process any more
    hold = told.pop("SPOT_HOLD_NEXT", None)
    child = os.fork() if hold and len(os.listdir("/proc/self/task")) == 1 else -1
    if child == 0:  # the copy, for the next round: the agent's child, as the one between ends
        between = os.getpid()
        if os.fork():
            os._exit(0)
        os.setsid()
        while os.getppid() == between:
            time.sleep(0.001)
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # it goes when the agent does
        hold += f" {os.getpid()}"
        continue
    if child > 0:
        os.waitpid(child, 0)
    os.environ.update(told)
    break
