# SPDX-License-Identifier: MIT
"""A second process of the script waits in hold() while the first one works.

It takes its place when a new round begins, and os.environ gets RANK, WORLD_SIZE, MASTER_ADDR and
the others of that round. It is a copy of the first where that has one thread, else it is started:
so what stands above the call runs beside a rank that works. It may read LOCAL_RANK, but none of
the others, and should leave devices and shared files alone.
"""
import ctypes, os, signal, time


def _copy(hold):
    """The agent's child, as the one between ends."""
    between = os.getpid()
    if os.fork():
        os._exit(0)
    os.setsid()
    while os.getppid() == between:
        time.sleep(0.001)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # it goes when the agent does
    return f"{hold} {os.getpid()}"


def hold():
    """Wait until this process is a rank; without spot-run, nothing happens."""
    place = os.environ.pop("SPOT_HOLD", None)  # what this process starts does not wait as well
    while place:
        ask, answer, *said = place.split()
        with open(answer) as lines:  # before the question, since it goes when it is written
            with open(ask, "w") as to:
                to.write(" ".join(said) + "\n")
            told = dict(line.split("=", 1) for line in lines.read().splitlines())
        if not told:
            raise SystemExit(0)  # nobody needs this process any more
        place = told.pop("SPOT_HOLD_NEXT", None)
        child = os.fork() if place and len(os.listdir("/proc/self/task")) == 1 else -1
        if child == 0:
            place = _copy(place)
            continue
        if child > 0:
            os.waitpid(child, 0)
        os.environ.update(told)
        break
