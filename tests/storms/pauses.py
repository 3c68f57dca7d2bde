# SPDX-License-Identifier: MIT
"""What a log tells while it grows, and for how long nothing was committed, by what was going on meanwhile."""
import json
import os
import statistics

# the first of these that was going on gives a pause its name: what may take its time before what may not
ORDER = ['suspended', 'nobody', 'coordinator stopped', 'coordinator gone', 'worker stopped', 'bad path', 'limited', 'unreachable',
         'question', 'stranger', 'notice', 'plan', 'join', 'kill']


class Watch:
    def __init__(self, path):
        self.path, self.offset, self.step = path, 0, 0
        self.commits, self.present, self.spans = [], {}, []

    def read(self, now):
        """Take note of whole lines that are new; a log that was cut is read on from its end."""
        try:
            with open(self.path, 'rb') as f:
                self.offset = min(self.offset, os.fstat(f.fileno()).st_size)
                f.seek(self.offset)
                data = f.read()
        except OSError:
            return
        for line in data[:data.rfind(b'\n') + 1].splitlines():
            self.offset += len(line) + 1
            try:
                e = json.loads(line)
            except ValueError:
                continue
            if e.get('event') == 'committed':
                self.step = e['step']
                self.commits.append(now)
            elif e.get('event') == 'rolled_back':
                self.step = e['to']
            elif e.get('event') == 'joined':
                self.present[e['member']] = e['name']
                self.during('join', now, now)
            elif e.get('event') in ('left', 'lost'):
                self.present.pop(e['member'], None)
            elif e.get('event') == 'resumed':
                self.present = {}
            elif e.get('event') == 'done':
                self.step = e['step']

    def during(self, cause, begin_s, end_s):
        self.spans.append((cause, begin_s, end_s))

    def causes(self):
        """{cause: (pauses, of these over 1 s beyond the median step, the longest in s)}; a pause is 50 ms at least."""
        gaps = [(b - a, a, b) for a, b in zip(self.commits, self.commits[1:])]
        median_s = statistics.median([g for g, _, _ in gaps]) if gaps else 0
        out = {}
        for gap_s, a, b in gaps:
            if gap_s - median_s < 0.05:
                continue
            going_on = {cause for cause, begin_s, end_s in self.spans if begin_s <= b and end_s >= a}
            cause = next((c for c in ORDER if c in going_on), 'nothing')
            n, longer, longest_s = out.get(cause, (0, 0, 0))
            out[cause] = (n + 1, longer + (gap_s - median_s > 1), max(longest_s, gap_s - median_s))
        return out
