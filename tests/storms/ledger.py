# SPDX-License-Identifier: MIT
"""The books of a job: what docs/formats/event.md promises of a log, line by line, and what a log of a storm must share with
that of the undisturbed run. Knows nothing of how the job was treated, but whether lines were cut from its log."""
import json


def lines(path):
    """Every event of a log; raises ValueError with the line that is none."""
    with open(path, 'rb') as f:
        data = f.read()
    if data and not data.endswith(b'\n'):
        raise ValueError('the last line has no end')
    out = []
    for number, line in enumerate(data.split(b'\n')[:-1], 1):
        try:
            out.append(json.loads(line))
        except ValueError:
            raise ValueError(f'line {number} is no JSON: {line[:80]!r}') from None
        if out[-1].get('schema') != 'spot.event/1':
            raise ValueError(f'line {number} is no event: {line[:80]!r}')
    return out


class Reference:
    """The undisturbed run: loss, samples and validation of each step, and the hash of the end."""

    def __init__(self, path, steps, batch):
        self.steps, self.batch = steps, batch
        self.loss, self.validated, self.hash = {}, {}, None
        for e in lines(path):
            if e['event'] == 'committed':
                self.loss[e['step']] = e['loss_hex']
                assert e['samples'] == self.samples(e['step']), (path, e)
            elif e['event'] == 'validated':
                self.validated[e['step']] = e['loss_hex']
            elif e['event'] == 'done':
                self.hash = e['state_xxh3_128']
        assert sorted(self.loss) == list(range(1, steps + 1)) and self.hash, path

    def samples(self, step):
        """What the sampler promises: each sample number once, in order, a batch a step."""
        return list(range((step - 1) * self.batch, step * self.batch))


class Ledger:
    """Replays a log. `faults` is empty if every line can follow those above it and agrees with the reference."""

    def __init__(self, reference, microbatches, cut):
        self.ref, self.microbatches, self.cut = reference, microbatches, cut
        self.faults, self.last, self.begun = [], 0, None
        self.standing, self.void, self.gaps = {}, {}, set()
        self.members, self.noticed, self.place = {}, set(), None
        self.time_s, self.epoch, self.done = 0, 0, None
        self.count = {}

    def wrong(self, number, text):
        if len(self.faults) < 8:
            self.faults.append(f'log:{number}: {text}')

    def replay(self, events):
        for number, e in enumerate(events, 1):
            kind = e['event']
            self.count[kind] = self.count.get(kind, 0) + 1
            if e['time_s'] < self.time_s:
                self.wrong(number, f"time goes back to {e['time_s']}")
            if e['epoch'] < self.epoch:
                self.wrong(number, f"epoch goes back to {e['epoch']}")
            if self.done and kind != 'resumed':
                self.wrong(number, f'{kind} after done')
            self.time_s, self.epoch = e['time_s'], e['epoch']
            getattr(self, 'on_' + kind, self.on_other)(number, e)
        self.at_end()
        return self

    def jump(self, number, step, what):
        """The job stands at a step of which the log does not tell: right where lines were cut, wrong elsewhere."""
        for s in range(self.last + 1, step + 1):
            if s in self.void:
                self.standing[s] = self.void.pop(s)
            elif s not in self.standing:
                self.gaps.add(s)
                if not self.cut:
                    self.wrong(number, f'{what} at {step}: nobody logged {s}')
        self.last = step

    def on_step(self, number, e):
        self.begun = e['step']
        if self.begun != self.last + 1:
            self.wrong(number, f'step {self.begun} begun after {self.last}')

    def on_committed(self, number, e):
        s = e['step']
        if s != self.last + 1 or s in self.standing:
            self.wrong(number, f'step {s} committed after {self.last}')
        if self.begun != s:
            self.wrong(number, f'step {s} committed, but {self.begun} begun')
        if e['loss_hex'] != self.ref.loss.get(s):
            self.wrong(number, f"loss of step {s} is {e['loss_hex']}, not {self.ref.loss.get(s)}")
        if e['samples'] != self.ref.samples(s):
            self.wrong(number, f"samples of step {s} are {e['samples'][:4]}...")
        self.void.pop(s, None)
        self.gaps.discard(s)
        self.standing[s], self.last, self.begun = e, s, None

    def on_rolled_back(self, number, e):
        if e['from'] != self.last or not 0 <= e['to'] < e['from'] or e['step'] != e['to']:
            self.wrong(number, f"rolled back from {e['from']} to {e['to']} at {self.last}")
        for s in range(e['to'] + 1, self.last + 1):
            self.gaps.discard(s)
            if s in self.standing:
                self.void[s] = self.standing.pop(s)
        self.last, self.begun = e['to'], None

    def on_restored(self, number, e):
        if e['from'] != self.last or e['step'] <= self.last:
            self.wrong(number, f"restored {e['step']} from {e['from']} at {self.last}")
        self.jump(number, e['step'], 'restored')

    def on_resumed(self, number, e):
        if e['step'] < self.last:
            self.wrong(number, f"resumed at {e['step']}, below {self.last}")
        self.jump(number, e['step'], 'resumed')
        self.members, self.noticed, self.begun, self.done = {}, set(), None, None

    def on_joined(self, number, e):
        if e['member'] in self.members:
            self.wrong(number, f"member {e['member']} joined twice")
        self.members[e['member']] = e['name']
        self.counted(number, e)

    def on_left(self, number, e):
        if self.members.pop(e['member'], None) != e['name']:
            self.wrong(number, f"{e['event']}: no member {e['member']} of the name {e['name']}")
        self.counted(number, e)

    on_lost = on_left

    def counted(self, number, e):
        if e.get('members', len(self.members)) != len(self.members):
            self.wrong(number, f"{e['members']} members, not {len(self.members)}")

    def on_notice(self, number, e):
        if e['member'] not in self.members or e['member'] in self.noticed:
            self.wrong(number, f"a notice for member {e['member']}")
        self.noticed.add(e['member'])

    def on_formed(self, number, e):
        places = e['D'] * e['P'] * e.get('M', 1)
        if e['step'] != self.last:
            self.wrong(number, f"formed at {e['step']}, not {self.last}")
        if len(e['place']) != places or places > len(self.members):
            self.wrong(number, f"{len(e['place'])} names in {places} places of {len(self.members)} members")
        if not set(e['place']) <= set(self.members.values()):
            self.wrong(number, f"a place for {set(e['place']) - set(self.members.values())}, not members")
        if sum(e['shares']) != self.microbatches or min(e['shares']) < 1 or len(e['shares']) != e['D']:
            self.wrong(number, f"shares {e['shares']} of {self.microbatches} microbatches")

    def on_validated(self, number, e):
        if e['step'] != self.last or e['loss_hex'] != self.ref.validated.get(e['step']):
            self.wrong(number, f"validation of step {e['step']} at {self.last}: {e['loss_hex']}")

    def on_done(self, number, e):
        self.done = e
        if e['step'] != self.ref.steps or self.last != e['step']:
            self.wrong(number, f"done at {e['step']}, last {self.last}")
        if e['state_xxh3_128'] != self.ref.hash:
            self.wrong(number, 'the final state has another hash')

    def on_other(self, number, e):
        if e['event'] not in ('quiesce', 'migrate', 'durable'):
            self.wrong(number, f"an event {e['event']}")

    def at_end(self):
        if not self.done:
            self.faults.append('the log has no end: no done')
            return
        missing = [s for s in range(1, self.ref.steps + 1) if s not in self.standing and s not in self.gaps]
        if missing:
            self.faults.append(f'steps {missing[:5]} were committed in no history that stands')
