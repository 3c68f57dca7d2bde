# SPDX-License-Identifier: MIT
"""One line makes a trainer warm under spot-run exec: `import spot_hold`, behind all that takes long.

A second process of the script then waits here while the first one works. It takes its place when a
new round begins, and os.environ gets RANK, WORLD_SIZE, MASTER_ADDR and the others of that round.
What stands above the import runs beside a rank that works: it may read LOCAL_RANK, but none of
these, and should leave the device and shared files alone. Without spot-run nothing happens here.
"""
import os

if "SPOT_HOLD" in os.environ:
    # taken out, so that what this process starts does not wait as well
    ask, answer, token = os.environ.pop("SPOT_HOLD").split()
    with open(answer) as lines:  # before the question, since it goes when it is written
        with open(ask, "w") as to:
            to.write(token + "\n")
        said = lines.read()
    if not said:
        raise SystemExit(0)  # nobody needs this process any more
    os.environ.update(line.split("=", 1) for line in said.splitlines())
