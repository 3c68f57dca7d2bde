#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Storms: small jobs of spot-run under random misfortune; the end must be that of the undisturbed run, bit for bit.

  storm.py --seed N [--verbose]           one storm
  storm.py --seeds FILE [--jobs N]        all of a file, one seed a line
  --short       half of the steps
  --keep DIR    where the folder of a storm that failed stays (build/storms); --keep-all: of every one

Needs spot-run on PATH and nothing but python3. What strikes is in weather.py, what a log must be in ledger.py. Exit status:
0, 1 if a storm failed, 2 usage."""
import argparse
import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # nothing of ours beside the sources
import sky  # noqa: E402
import weather  # noqa: E402

RUN = shutil.which('spot-run')


def corpus(root):
    """Text, tokens and validation data, the same on every machine."""
    r = random.Random(3)
    words = [''.join(r.choice('etaoinshrdlu') for _ in range(r.randint(1, 7))) for _ in range(200)]
    text = ' '.join(r.choice(words) for _ in range(9000)).encode()
    for name, data in (('text', text), ('val', text[:4000][::-1]),
                       ('tokens', b''.join(min(int(r.expovariate(0.02)), 299).to_bytes(2, 'little') for _ in range(30000)))):
        with open(f'{root}/{name}', 'wb') as f:
            f.write(data)


def job_options(w, root):
    """What the job is, for the storm and for its reference alike."""
    data = 'tokens' if '--tokens' in w.options else 'text'
    words = [f'{root}/val' if x == 'val' else x for x in w.options]
    return ['--data', f'{root}/{data}', *words, *weather.COMMON, '--shards', str(w.shards), '--micro-batch', str(w.micro),
            '--global-batch', str(w.batch), '--steps', str(w.steps)]


def reference(w, root):
    """Folder with log and weights of the undisturbed run of one worker; made once, whoever needs it first."""
    folder = f'{root}/reference-{w.model}-{w.steps}'
    with open(folder + '.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(folder):
            os.mkdir(folder + '.tmp')
            subprocess.run([RUN, 'train', '-q', *job_options(w, root), '--events', folder + '.tmp/log', '--save',
                            folder + '.tmp/w.safetensors'], check=True, stdin=subprocess.DEVNULL, timeout=300)
            os.rename(folder + '.tmp', folder)
    return folder


def one(seed, args):
    """Run one storm; prints its line, returns what it was."""
    w = weather.Weather(seed, args.short)
    folder = f'{args.root}/{seed}'
    os.makedirs(folder)
    storm = sky.Storm(RUN, w, folder, job_options(w, args.root), reference(w, args.root), args.verbose)
    try:
        faults = storm.run()
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):  # who gives up gives up whole
            signal.signal(number, signal.SIG_IGN)
        storm.sweep()
    told = {'seed': seed, 'faults': faults, 'counts': storm.counts, 'pauses': storm.pauses, 'seconds': round(storm.seconds, 1),
            'commits': storm.commits, 'again': storm.again, 'settled_s': storm.settled_s}
    grid = 'x'.join(map(str, w.grid)) if w.grid else 'any'
    print(f"seed {seed}: {'FAILED' if faults else 'ok'}, model {w.model}, grid {grid}, {storm.seconds:.1f} s, "
          f"{sum(storm.counts.values())} strikes, {storm.commits} commits, {storm.again} steps again", flush=True)
    if faults or args.keep_all:
        for fault in faults:
            print('  ' + fault)
        kept = f'{args.keep}/storm-{seed}'
        shutil.rmtree(kept, ignore_errors=True)
        os.makedirs(args.keep, exist_ok=True)
        shutil.copytree(folder, kept, ignore=lambda at, names: [n for n in names if not os.path.isdir(f'{at}/{n}')
                                                                 and not os.path.isfile(f'{at}/{n}')])
        shutil.copytree(storm.reference, kept + '/reference')
        print(f"  run it alone: {' '.join(['tests/storms/storm.py', '--seed', str(seed)] + ['--short'] * args.short)} --verbose\n"
              f'  what it left: {kept}', flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    return told


def many(seeds, args):
    """Each storm is a process of its own, so many at a time."""
    waiting, running, told = list(seeds), {}, []
    words = [sys.executable, os.path.abspath(__file__), '--root', args.root, '--keep', args.keep] + ['--short'] * args.short
    try:
        while waiting or running:
            while waiting and len(running) < args.jobs:
                seed = waiting.pop(0)
                running[seed] = subprocess.Popen(words + ['--seed', str(seed)])
            for seed, p in list(running.items()):
                if p.poll() is None:
                    continue
                del running[seed]
                try:
                    with open(f'{args.root}/{seed}.told') as f:
                        told.append(json.load(f))
                except OSError:
                    told.append({'seed': seed, 'faults': [f'the storm itself ended with {p.returncode}']})
                    print(f'seed {seed}: FAILED, the storm itself ended with {p.returncode}', flush=True)
            time.sleep(0.05)
    finally:
        for p in running.values():
            p.send_signal(signal.SIGTERM)
            p.wait()
    return told


def summary(told):
    """Closing lines: what the storms contained, and what they found."""
    failed = [str(t['seed']) for t in told if t['faults']]
    counts = {k: sum(t.get('counts', {}).get(k, 0) for t in told) for k in weather.COUNTS}
    print(', '.join(f'{n} {k}' for k, n in counts.items()))
    print(f"{sum(t.get('commits', 0) for t in told)} commits, {sum(t.get('again', 0) for t in told)} steps computed again")
    pauses = {}
    for t in told:
        for cause, (n, longer, longest) in t.get('pauses', {}).items():
            was = pauses.get(cause, (0, 0, 0))
            pauses[cause] = (was[0] + n, was[1] + longer, max(was[2], longest))
    print('pauses over 1 s by cause: ' + ', '.join(f'{c} {longer} of {n} (longest {longest:.2f} s)'
                                                   for c, (n, longer, longest) in sorted(pauses.items())))
    print(f"{len(told)} storms, {len(failed)} failed{': ' + ' '.join(failed) if failed else ''}")
    return 1 if failed else 0


def arguments():
    p = argparse.ArgumentParser(description='storms over small jobs of spot-run')
    p.add_argument('--seed', type=int, action='append', default=[])
    p.add_argument('--seeds', metavar='FILE')
    p.add_argument('--jobs', type=int, default=2)
    p.add_argument('--short', action='store_true')
    p.add_argument('--keep', metavar='DIR', default=os.path.abspath('build/storms'))
    p.add_argument('--keep-all', action='store_true')
    p.add_argument('--verbose', action='store_true')
    p.add_argument('--root', help=argparse.SUPPRESS)
    args = p.parse_args()
    if args.seeds:
        with open(args.seeds) as f:
            args.seed += [int(line) for line in f if line.strip() and not line.startswith('#')]
    if not args.seed or args.jobs < 1:
        p.error('--seed or --seeds, and --jobs of 1 at least')
    if not RUN:
        p.error('spot-run is not on PATH')
    args.keep = os.path.abspath(args.keep)
    return args


def main():
    args = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(75))
    if args.root:  # one of many
        told = one(args.seed[0], args)
        with open(f'{args.root}/{told["seed"]}.told', 'w') as f:
            json.dump(told, f)
        return 1 if told['faults'] else 0
    args.root = tempfile.mkdtemp(prefix='storms.')
    try:
        corpus(args.root)
        told = [one(args.seed[0], args)] if len(args.seed) == 1 else many(args.seed, args)
        return summary(told)
    finally:
        shutil.rmtree(args.root, ignore_errors=True)


if __name__ == '__main__':
    sys.exit(main())
