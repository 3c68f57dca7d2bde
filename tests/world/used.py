# SPDX-License-Identifier: MIT
"""What ranks say that they have used, counted sample by sample: an oracle that knows no permutation.

  used.py FILES... [--size N --batch G [--steps S]] [--events FILE --from T --to T]

FILES are NAME.ROUND.RANK of examples/pytorch (USED): a line for each step, `seconds step sample...`.
A round begins at the step of the state that it found; what was used for later steps before is not in
the state any more. With --size it fails unless in the end each step below S has used G samples, and
each epoch every sample once. With --events, lines `seconds kill|notice|join`, the object that is
printed also says how steps went on between T and T; with --pauses, of a system where ranks live on, a kill
and a notice by the longest time without a new step.
"""
import argparse, json, os, statistics, sys


def pieces(lines):
    """Lines of a rank, apart where it was begun anew: torchrun names several rounds alike."""
    piece = []
    for line in lines:
        if piece and (line[1] != piece[-1][1] + 1 or line[0] - piece[-1][0] > 3):
            yield piece
            piece = []
        piece.append(line)
    if piece:
        yield piece


def read(files):
    """[{rank: [(time, step, samples)]}] of rounds in their order; a line that a kill cut is none."""
    begun = []  # (name of the round, time, rank, lines)
    for name in filter(os.path.exists, files):  # a pattern without files is none
        _, key, rank = os.path.basename(name).rsplit(".", 2)
        with open(name) as file:
            words = [line.split() for line in file if line.endswith("\n")]
        lines = [(float(t), int(step), [int(s) for s in samples]) for t, step, *samples in words]
        begun += [(key, piece[0][0], int(rank), piece) for piece in pieces(lines)]
    rounds, key_of, begun_s = [], None, 0
    for key, at, rank, piece in sorted(begun, key=lambda b: b[:3]):
        if key != key_of or rank in rounds[-1] or at - begun_s > 5:  # ranks begin together
            rounds.append({})
            key_of, begun_s = key, at
        rounds[-1][rank] = piece
    return sorted(rounds, key=first_line)


def first_line(ranks):
    return min(lines[0][0] for lines in ranks.values())


def begin_of(ranks):
    return min(lines[0][1] for lines in ranks.values())


def end_of(ranks):
    """The first step that not all have done."""
    return min(lines[-1][1] for lines in ranks.values()) + 1


def surviving(rounds):
    """{step: samples in the order of ranks} of the state in the end, and the steps that it lacks."""
    state, skipped = {}, 0
    for ranks in rounds:
        begin = begin_of(ranks)
        skipped += max(0, begin - len(state))
        state = {step: samples for step, samples in state.items() if step < begin}
        for _, lines in sorted(ranks.items()):
            for _, step, samples in lines:
                if step < end_of(ranks):
                    state.setdefault(step, []).extend(samples)
    return state, skipped


def count(state, size):
    """Samples that some epoch lacks, and that it has too often."""
    order = [sample for step in sorted(state) for sample in state[step]]
    lost = repeated = 0
    for begin in range(0, len(order), size):
        epoch = order[begin:begin + size]
        kinds = len(set(epoch) & set(range(size)))
        repeated += len(epoch) - kinds
        lost += size - kinds if len(epoch) == size else 0
    return lost, repeated


def after_break(rounds, new, at):
    """Of the first round that began after a moment: the seconds until it did a step that nobody had
    done before, and how many steps it did once more."""
    later = [i for i, ranks in enumerate(rounds) if first_line(ranks) > at]
    if not later or not later[0]:
        return float("inf"), 0
    wait = min((t for t, i in new if i >= later[0]), default=float("inf")) - at
    return wait, max(0, end_of(rounds[later[0] - 1]) - begin_of(rounds[later[0]]))


def pause_after(new, at, until):
    """The longest time without a new step that ends after `at` and begins before `until`."""
    marks = [max((t for t, _ in new if t <= at), default=at)]
    marks += [t for t, _ in new if at < t <= until]
    marks += [min((t for t, _ in new if t > until), default=until)]
    return max(b - a for a, b in zip(marks, marks[1:]))


def seconds(x):
    return round(x, 2) if x != float("inf") else "never"


def story(rounds, events, begin, end, pauses):
    lines = sorted((t, step, i) for i, ranks in enumerate(rounds) for some in ranks.values()
                   for t, step, _ in some)
    new, most = [], -1  # when each step was done for the first time, in which round
    for t, step, i in lines:
        if step > most:
            most = step
            new.append((t, i))
    out = {"steps": sum(begin <= t <= end for t, _ in new), "seconds": round(end - begin, 3)}
    for kind in ("kill", "notice", "join"):
        moments = [at for at, what in events if what == kind]
        breaks = [after_break(rounds, new, at) for at in moments]
        waits = [wait for wait, _ in breaks]
        if kind == "join" or pauses:
            waits = [pause_after(new, at, at + 15) for at in moments]
        if waits:
            out[kind] = {"n": len(waits), "median_s": seconds(statistics.median(waits)),
                         "most_s": seconds(max(waits)), "again": max(again for _, again in breaks)}
    return out


def main():
    p = argparse.ArgumentParser()
    p.add_argument("files", nargs="+")
    for name in ("size", "batch", "steps"):
        p.add_argument("--" + name, type=int)
    p.add_argument("--events")
    p.add_argument("--pauses", action="store_true")
    p.add_argument("--from", dest="begin", type=float)
    p.add_argument("--to", dest="end", type=float)
    o = p.parse_args()
    rounds = read(o.files)
    state, skipped = surviving(rounds)
    out = {"rounds": len(rounds), "in_state": len(state), "skipped": skipped}
    wrong = False
    if o.size:
        out["lost"], out["repeated"] = count(state, o.size)
        out["odd"] = sum(len(samples) != o.batch for samples in state.values())
        wrong = skipped or out["lost"] or out["repeated"] or out["odd"] or (
            o.steps and sorted(state) != list(range(o.steps)))
    if o.events:
        with open(o.events) as file:
            events = [(float(at), kind) for at, kind in map(str.split, file)]
        out.update(story(rounds, events, o.begin, o.end, o.pauses))
    print(json.dumps(out))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
