# SPDX-License-Identifier: MIT
"""Requests of a rank to its agent, at SPOT_SOCKET: a line of JSON, and a line back."""
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


def commit(step, all_ranks=False, **what):
    """What lies in SPOT_STATE_DIR of this node is the state of all at this step.

    With all_ranks every rank calls it, and each node's files are its part of the state. Returns
    when it is decided; durable=True also waits until a second node holds it.
    """
    return ask("commit", step=step, **({} if all_ranks else {"alone": True}), **what)


def ledger(step, dataset_size, global_batch, **what):
    """The samples of this rank at this step, as numbers below dataset_size."""
    return ask("samples", step=step, dataset_size=dataset_size, global_batch=global_batch,
               **what)["samples"]
