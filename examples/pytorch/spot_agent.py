# SPDX-License-Identifier: MIT
"""What a rank asks of its agent under spot-run exec: samples of a step, the commit of a state.

  ask("samples", step=7, dataset_size=1000, global_batch=24)["samples"]
  ask("commit", step=7)  # what lies in SPOT_STATE_DIR; returns when all ranks have said so
"""
import json, os, socket

_lines = {}  # of each process: one that loads data may ask as well


def ask(op, **what):
    """The answer, a dictionary; RuntimeError where the agent refuses or is gone."""
    if os.getpid() not in _lines:
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(os.environ["SPOT_SOCKET"])
        _lines[os.getpid()] = peer.makefile("rw")
    lines = _lines[os.getpid()]
    said = {"rank": "RANK", "world": "WORLD_SIZE", "round": "TORCHELASTIC_RESTART_COUNT"}
    said = {key: int(os.environ[name]) for key, name in said.items()}
    lines.write(json.dumps({"op": op, **said, **what}) + "\n")
    lines.flush()
    answer = json.loads(lines.readline() or '{"error": "the agent is gone"}')
    if "error" in answer:
        raise RuntimeError(f"{op}: {answer['error']}")
    return answer
