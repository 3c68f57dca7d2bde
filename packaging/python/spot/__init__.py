# SPDX-License-Identifier: MIT
"""What a training script may ask of `spot-run exec`; all of it is optional.

  spot.hold()              start faster: called behind the imports, before the process group begins
  spot.leaving()           is it time to save and exit? the same answer on all ranks
  spot.commit(step)        what lies in SPOT_STATE_DIR is a commit (with --checkpoint: is not needed)
  spot.ledger(step, ...)   the samples of a step, each once an epoch, whoever comes and goes
  spot.ask(op, ...)        any other request
  spot.exact               sums of gradients that do not depend on the number of ranks

Outside spot-run, hold and leaving do nothing and the others fail. No dependency but the standard library;
spot.exact needs torch.
"""
from .agent import ask, commit, ledger
from .hold import hold
from .notice import leaving

__all__ = ["ask", "commit", "hold", "leaving", "ledger"]
