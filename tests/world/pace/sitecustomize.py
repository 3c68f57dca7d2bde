# SPDX-License-Identifier: MIT
"""On PYTHONPATH: who prints a step rests for PAUSE seconds, until the file HERE/hurry is there."""
import builtins, os, time

_print = builtins.print


def _slowly(*what, **how):
    _print(*what, **how)
    if what[:1] == ("step",) and not os.path.exists(os.environ.get("HERE", "") + "/hurry"):
        time.sleep(float(os.environ.get("PAUSE", 0)))


builtins.print = _slowly
