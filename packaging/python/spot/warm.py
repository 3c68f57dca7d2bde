# SPDX-License-Identifier: MIT
"""Run a script that knows nothing of spot.hold() behind its imports, which then need no time in a new round.

  spot-run exec -- python3 -m spot.warm torch[,MODULE...] SCRIPT ARGUMENTS
  spot-run exec -- python3 -m spot.warm torch[,MODULE...] -m MODULE ARGUMENTS

The modules must neither begin threads nor touch a device. A process that holds them waits for the
next round, and the script begins in it. A module that is not there is left to the script.
"""
import importlib, os, runpy, sys
from . import hold


def main():
    if len(sys.argv) < 3 or (sys.argv[2] == "-m" and len(sys.argv) < 4):
        raise SystemExit("usage: python3 -m spot.warm MODULE[,MODULE...] SCRIPT|-m MODULE [ARGUMENTS]")
    modules, is_module = sys.argv[1].split(","), sys.argv[2] == "-m"
    sys.path.insert(0, "" if is_module else os.path.dirname(os.path.abspath(sys.argv[2])))
    sys.argv = sys.argv[3 if is_module else 2:]
    for name in modules:
        try:
            importlib.import_module(name)
        except ImportError as error:
            print(f"spot.warm: {error}", file=sys.stderr)
    hold()
    if is_module:
        runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")


main()
