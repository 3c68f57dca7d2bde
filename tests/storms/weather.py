# SPDX-License-Identifier: MIT
"""What may strike a job, and when: the settings and the schedule of a storm, as functions of its seed alone. Who is hit depends
on who is alive by then."""
import random

# name, weight in a calm mood, what it counts as in the summary
STRIKES = [
    ('kill', 14, 'kills'), ('kill_some', 5, 'kills'), ('kill_domain', 3, 'kills'), ('kill_young', 5, 'kills'),
    ('notice', 12, 'notices'), ('notice_some', 4, 'notices'), ('notice_then_kill', 4, 'notices'),
    ('stop_short', 5, 'stops'), ('stop_long', 5, 'stops'), ('stop_all', 1, 'stops'),
    ('freeze_short', 3, 'coordinator stops'), ('freeze_long', 3, 'coordinator stops'),
    ('behead', 5, 'coordinator deaths'), ('behead_and_kill', 2, 'coordinator deaths'), ('everything', 1, 'coordinator deaths'),
    ('retire', 2, 'coordinator deaths'), ('stop_job', 1, 'coordinator deaths'), ('crowded_disk', 1, 'coordinator deaths'),
    ('plan', 10, 'plans'), ('plan_nonsense', 4, 'plans'), ('plan_file', 3, 'plans'), ('suspend', 2, 'plans'),
    ('join', 8, 'joins'), ('join_some', 3, 'joins'), ('twin', 2, 'joins'),
    ('stranger', 5, 'strangers'), ('stranger_at_worker', 4, 'strangers'), ('wrong_key', 2, 'strangers'),
    ('limit_files', 3, 'limits'), ('limit_size', 2, 'limits'), ('limit_memory', 2, 'limits'),
    ('unreachable', 3, 'unreachable'), ('bad_path', 4, 'bad paths'),
    ('status', 3, 'questions'), ('export', 2, 'questions'),
    ('wipe', 1, 'state lost'),
]
COUNTS = list(dict.fromkeys(kind for _, _, kind in STRIKES))
COUNT_OF = {name: kind for name, _, kind in STRIKES}

COMMON = ['--lr', '0.003', '--seed', '11']
# options, steps, shards, layers, global batch, micro batch: a step takes some ms on one processor
MODELS = [
    (['--layers', '2', '--width', '32', '--heads', '4', '--seq', '16'], 320, 4, 2, 12, 1),
    (['--layers', '1', '--width', '16', '--heads', '2', '--seq', '8', '--tied'], 600, 2, 1, 16, 2),
    (['--layers', '2', '--width', '24', '--heads', '4', '--seq', '12', '--arch', 'llama', '--kv-heads', '2'], 350, 2, 2, 9, 1),
    (['--layers', '2', '--width', '16', '--heads', '4', '--seq', '8', '--device', 'portable', '--clip', '0'], 450, 1, 2, 7, 1),
    (['--layers', '1', '--width', '32', '--heads', '4', '--seq', '16', '--arch', 'llama', '--tied', '--lr-schedule',
      'cosine:warmup=50,min=0.0001'], 400, 4, 1, 15, 3),
    (['--layers', '2', '--width', '32', '--heads', '2', '--seq', '8', '--val-data', 'val', '--val-every', '60', '--val-batches',
      '2'], 350, 2, 2, 10, 1),
    (['--layers', '1', '--width', '24', '--heads', '3', '--seq', '10', '--tokens', 'u16', '--vocab', '300', '--beta1', '0',
      '--lr-schedule', 'linear', '--weight-decay', '0'], 450, 3, 1, 11, 1),
    (['--layers', '2', '--width', '16', '--heads', '2', '--seq', '16', '--arch', 'llama', '--kv-heads', '1', '--val-data', 'val',
      '--val-every', '101'], 400, 1, 2, 5, 1),
]


def grid(r, shards, layers):
    """A grid that this model can have: D, P, M."""
    return (r.choice([1, 1, 2, 2, 3, 4, 6]), r.choice([1, 1, 2, 2, 3]) if layers > 1 else r.choice([1, 1, 2]),
            r.choice([m for m in (1, 1, 1, 2, 3, 4) if shards % m == 0]))


class Weather:
    """Settings of the job and the list of (time in s, strike, seed of its own) for one seed."""

    def __init__(self, seed, short):
        r = random.Random(f'storm {seed}')
        self.model = r.randrange(len(MODELS))
        self.options, self.steps, self.shards, self.layers, self.batch, self.micro = MODELS[self.model]
        self.steps = self.steps // 2 if short else self.steps
        self.grid = r.choice([None] + [self.fit(grid(r, self.shards, self.layers)) for _ in range(5)])
        self.lease_s = r.choice([0.5, 0.5, 1.0, 2.0])
        self.keyed = r.random() < 0.25
        self.tcp = r.random() < (0.5 if self.keyed else 0.15)
        self.domains = r.choice([0, 0, 1, 2, 3])
        self.grace_s = r.choice([None, None, 0.3, 1.0])
        self.plan_file = r.random() < 0.25
        self.local = r.choice([0] * 6 + [1, 2])
        self.workers = r.randint(1, 7)
        self.least = min(self.workers, r.choice([0, 1, 1, 2]))
        self.job = ['--lease', f'{self.lease_s}s', '--durable-every',
                    r.choice(['0.05s', '0.2s', '1s', '3s'])]
        self.buddies = r.random() >= 0.3
        self.job += ['--shares', r.choice(['measured', '1,4', '2,1,1'])] if r.random() < 0.3 else []
        self.job += ['--grace', f'{self.grace_s}s'] if self.grace_s else []
        self.job += ['--workers', str(self.local)] if self.local else []
        self.ends_small = r.random() < 0.5
        self.length_s = r.uniform(1.5, 2.5) if short else r.uniform(3, 7)
        self.strikes = self.schedule(r)

    def fit(self, wanted):
        """More pipelines than microbatches are a mistake, which a coordinator refuses when it starts."""
        return (min(wanted[0], self.batch // self.micro),) + wanted[1:]

    def schedule(self, r):
        """Exponential waits, with bursts; each storm has a mood of its own, so that some are nothing but beheadings."""
        weights = [w * r.choice([0, 0.3, 1, 1, 1, 4]) for _, w, _ in STRIKES]
        weights = weights if sum(weights) else [w for _, w, _ in STRIKES]
        mean_s, out, t = r.choice([0.1, 0.2, 0.35, 0.6]), [], r.uniform(0, 0.6)
        while t < self.length_s:
            out.append((t, r.choices([n for n, _, _ in STRIKES], weights)[0], r.random()))
            t += 0 if r.random() < 0.15 else r.expovariate(1 / mean_s)
        return out

    def plan(self, r):
        """A plan that can be followed, more or less: with places for some, for nobody, for those who are not there."""
        d, p, m = grid(r, self.shards, self.layers)
        out = {'schema': 'spot.plan/1', 'job': 'storm', 'next': {'D': d, 'P': p, 'M': m, 'B': self.micro}}
        if r.random() < 0.3:
            out['place'] = [{'node': f'w{r.randrange(12)}.{i}', 'd': i, 'p': 0, 'm': 0} for i in range(r.randint(1, d))]
        return out

    def nonsense(self, r):
        """A plan that nobody can follow."""
        return r.choice([
            b'', b'{', b'[]', b'null', b'{"schema":"spot.plan/2"}', b'\xff' * 4096, b'{"schema":"spot.plan/1"}' * 3,
            b'{"schema":"spot.plan/1","job":"s","next":{"D":-1,"P":1}}', b'{"schema":"spot.plan/1","job":"s","next":{"D":4096,"P":2}}',
            b'{"schema":"spot.plan/1","job":"s","next":{"D":1,"P":1,"M":5}}', b'{"schema":"spot.plan/1","job":"s","next":{"D":1e300,"P":1}}',
            b'{"schema":"spot.plan/1","job":"s","next":{"D":1,"P":1},"place":[{"node":"a","d":0,"p":0},{"node":"a","d":0,"p":0}]}',
            b'{"schema":"spot.plan/1","job":"s","next":{"D":1,"P":1},"place":[{"node":"a","d":7,"p":0,"m":0}]}',
            b'{"schema":"spot.plan/1","job":"s","epoch":-1,"next":{"D":1,"P":1}}', b'{"schema":"spot.plan/1","job":"s","next":{"D":0,"P":3}}',
            b'{"schema":"spot.plan/1","job":"s","next":{"D":1,"P":900}}', b'[' * 100000])
