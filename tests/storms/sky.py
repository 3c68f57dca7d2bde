# SPDX-License-Identifier: MIT
"""One storm: the processes of a job, what strikes them, and the judgement of what they leave."""
import heapq
import json
import os
import random
import signal
import subprocess
import time

import ledger
import pauses
import strikes
import weather

STILL_S = 90     # without a commit in calm weather: a hang, on a loaded machine too
LOOK_S = 25  # more than any client's --join-timeout: one that was asked too late may look for the job so long
PATIENCE_S = 400  # for the job to end once the weather is calm


class Process:
    """A process of the storm and what was done to it. `role`: coordinator, worker or client."""

    def __init__(self, popen, role, name):
        self.popen, self.role, self.name = popen, role, name
        self.sent, self.frail, self.codes, self.said = set(), False, {0}, None
        self.born_s, self.ended_s = time.monotonic(), None

    def alive(self):
        if self.ended_s is None and self.popen.poll() is not None:
            self.ended_s = time.monotonic()
        return self.ended_s is None

    def send(self, number):
        if self.alive():
            self.sent.add(number)
            self.popen.send_signal(number)

    def verdict(self):
        """A word if it ended as no document says it may."""
        code = self.popen.returncode
        with open(self.said, 'rb') as f:
            last = f.read()[-300:].decode(errors='replace').strip()
        if code in self.codes and (code != -signal.SIGABRT or 'out of memory' in last):
            return None
        if code < 0 and -code in self.sent and -code in (signal.SIGKILL, signal.SIGTERM):
            return None
        sent = sorted(map(int, self.sent))
        return f'{self.role} {self.name} ended with {code}, not {sorted(self.codes)} (sent: {sent}): {last}'


class Storm(strikes.Strikes):
    def __init__(self, run, w, folder, job, reference, verbose):
        self.program, self.w, self.folder, self.job, self.reference, self.verbose = run, w, folder, job, reference, verbose
        self.state, self.log, self.saved = folder + '/state', folder + '/log', folder + '/w.safetensors'
        os.mkdir(folder + '/tmp')
        os.mkdir(folder + '/err')
        self.processes, self.workers, self.relays, self.later, self.faults = [], [], [], [], []
        self.coordinator, self.restart_s, self.order, self.serial = None, 0.0, 0, 0
        self.calm, self.damaged, self.cut, self.room = False, False, False, None
        self.suspended = False
        self.counts, self.begun_s, self.seconds, self.commits, self.again, self.settled_s = {}, 0.0, 0.0, 0, 0, 0.0
        self.watch = pauses.Watch(self.log)
        self.pauses = {}
        self.key = self.make_key('key') if w.keyed else None
        self.other_key = self.make_key('other') if w.keyed else None
        self.port = strikes.free_port() if w.tcp else None
        self.address = f'127.0.0.1:{self.port}' if w.tcp else f'unix:{folder}/job'

    def make_key(self, name):
        path = f'{self.folder}/{name}.key'
        with open(path, 'wb') as f:
            f.write(os.urandom(32))
        os.chmod(path, 0o600)
        return path

    def say(self, *words):
        if self.verbose:
            print(f'{time.monotonic() - self.begun_s:8.3f} step {self.watch.step}:', *words, flush=True)

    # --- processes

    def start(self, role, name, words, limit=None, feed=None):
        command = [self.program, *words]
        if limit:  # in the shell, which the program replaces: its id is that of the process
            command = ['sh', '-c', f'ulimit {limit}; exec "$@"', 'sh', *command]
        self.serial += 1
        said = f'{self.folder}/err/{role}-{name}-{self.serial}' if '-f' not in (limit or '') else os.devnull
        with open(said, 'wb') as err:
            p = Process(subprocess.Popen(command, stdin=subprocess.PIPE if feed is not None else subprocess.DEVNULL, stdout=err,
                                         stderr=err, env=dict(os.environ, TMPDIR=self.folder + '/tmp',
                                                   SPOT_TEST_BUDDIES=str(int(self.w.buddies))), start_new_session=True),
                        role, name)
        p.said = said
        if feed is not None:
            try:
                p.popen.stdin.write(feed)
                p.popen.stdin.close()
            except OSError:
                pass
        self.processes.append(p)
        return p

    def keyed(self, key=None):
        return ['--key-file', key or self.key] if self.key else []

    def start_coordinator(self):
        os.makedirs(self.state, exist_ok=True)
        words = ['train', '-q', *self.job, '--listen', self.address, '--events', self.log, '--save', self.saved, '--state',
                 self.state, '--resume', *self.w.job, *self.keyed()]
        if self.w.plan_file:  # one that can be read, or it would not begin
            self.write_plan(self.file_grid(random.Random(self.serial)), time.monotonic() - self.begun_s)
            words += ['--plan', self.folder + '/plan']
        words += ['--grid', 'x'.join(map(str, self.w.grid))] if self.w.grid else []
        limit, self.room = self.room, None
        self.coordinator = self.start('coordinator', 'train', words, limit)
        self.coordinator.codes = {0, 4} if limit else {0}
        self.coordinator.codes |= {3} if self.damaged else set()  # no generation is sound: a second try begins anew
        self.restart_s = None

    def start_worker(self, name=None, limit=None, address=None, key=None, patience_s=20):
        self.order += 1
        slot = self.order % 12
        r = random.Random(f'{self.order} worker')
        words = ['worker', '--join', address or self.address, '--name', name or f'w{slot}.{self.order}', '--join-timeout',
                 f'{patience_s}s', *self.keyed(key)]
        words += ['--domain', f'z{slot % self.w.domains}'] if self.w.domains else []
        words += r.choice([[], [], [], ['--threads', '2'], ['--recompute', 'mlp'], ['--recompute', 'layer']])
        p = self.start('worker', words[4], words, limit)
        p.codes, p.frail = {0, 75}, bool(limit or address or key)
        p.domain = slot % self.w.domains if self.w.domains else self.order
        if p.frail or self.coordinator is None:
            p.codes |= {4}
        self.workers.append(p)
        return p

    def living(self):
        """Workers that nothing but the weather can end, oldest first."""
        return [p for p in self.workers if p.alive() and not p.frail]

    def client(self, words, codes, feed=None):
        p = self.start('client', words[0], words + ['--join', self.address, *self.keyed()], feed=feed)
        p.codes = codes
        return p

    def after(self, seconds, act):
        heapq.heappush(self.later, (time.monotonic() + seconds, len(self.processes) + id(act), act))

    # --- the course of a storm

    def run(self):
        self.begun_s = time.monotonic()
        self.start_coordinator()
        todo = list(self.w.strikes)
        calm_s = None
        while True:
            now = time.monotonic()
            self.watch.read(now)
            if self.attend_coordinator(now):
                break
            while self.later and self.later[0][0] <= now:
                heapq.heappop(self.later)[2]()
            if calm_s is None:
                calm_s = self.blow(todo, now)
            elif now > calm_s + PATIENCE_S or now > max(self.watch.commits[-1:] + [calm_s]) + STILL_S:
                self.hang()
                break
            self.populate(now)
            time.sleep(0.004)
        self.seconds = time.monotonic() - self.begun_s
        self.settled_s = round(time.monotonic() - (calm_s or time.monotonic()), 2)
        self.farewell()
        self.judge()
        return self.faults

    def blow(self, todo, now):
        """Strike what is due; the time at which the weather turned calm, if it did."""
        at_s = now - self.begun_s
        while todo and todo[0][0] <= at_s:
            _, name, seed = todo.pop(0)
            struck = getattr(self, 'strike_' + name)(random.Random(seed))
            if struck is not None:
                self.counts[weather.COUNT_OF[name]] = self.counts.get(weather.COUNT_OF[name], 0) + 1
                self.say(name, struck)
        if todo and self.watch.step < 0.97 * self.w.steps:
            return None
        self.clear()
        return now

    def clear(self):
        """The weather turns calm: who was stopped goes on, bad paths mend, the last plan is one to run on."""
        self.say('calm')
        self.calm = True
        for p in self.processes:
            if p.alive() and signal.SIGSTOP in p.sent:
                p.send(signal.SIGCONT)
        for relay in self.relays:
            relay.late_s, relay.until_s = 0, 0
        self.after(0 if self.suspended or self.w.ends_small else 2, self.go_small)

    def go_small(self):
        """What is left to do is done soonest by one, where processors are few. A plan from the storm may come late."""
        self.push({'D': 1, 'P': 1, 'M': 1, 'B': self.w.micro}, 4e9, 20)
        self.after(10, self.go_small)

    def attend_coordinator(self, now):
        """True when the job is done. One that ended otherwise is started again, as a supervisor would."""
        if self.coordinator and not self.coordinator.alive():
            code = self.coordinator.popen.returncode
            self.say('coordinator ended with', code)
            if code == 0:
                return True
            word = self.coordinator.verdict()
            if word:
                self.faults.append(word)
            self.coordinator = None
            self.restart_s = now if self.calm else now + random.Random(self.serial).choice([0, 0.02, 0.2, self.w.lease_s * 1.5])
            if len(self.faults) > 5:
                return True
        if self.coordinator is None and now >= self.restart_s:
            self.start_coordinator()
        return False

    def populate(self, now):
        """The cloud gives new machines for those it took, not at once, and never leaves the job without any for good."""
        wanted = max(self.w.workers, 1) if self.calm or self.watch.step == 0 else self.w.workers
        living = self.living()
        wait_s = 0.1 if self.calm or len(living) < self.w.least else 0.6
        newest_s = max((p.born_s for p in self.workers), default=0)
        if len(living) < wanted and (now - newest_s > wait_s or len(self.workers) < self.w.workers):
            self.start_worker()

    def hang(self):
        self.faults.append(f'no end in calm weather, at step {self.watch.step} of {self.w.steps}')
        with open(self.folder + '/status', 'wb') as f:
            try:
                subprocess.run([self.program, 'status', '--join', self.address, '--format', 'json', *self.keyed()], stdout=f,
                               stderr=f, stdin=subprocess.DEVNULL, timeout=20)
            except subprocess.TimeoutExpired:
                f.write(b'no answer within 20 s\n')
        self.list_processes()

    def list_processes(self):
        with open(self.folder + '/processes', 'a') as f:
            for p in self.processes:
                if p.alive():
                    try:
                        with open(f'/proc/{p.popen.pid}/wchan') as g:
                            where = g.read()
                    except OSError:
                        where = '?'
                    f.write(f'{p.role} {p.name} pid {p.popen.pid} at {where}: {" ".join(p.popen.args)}\n')

    def farewell(self):
        """The job is over: everybody goes by itself who was in it; who still looks for it is told to go."""
        self.watch.read(time.monotonic())
        for p in self.processes:
            if p.alive() and signal.SIGSTOP in p.sent:
                p.send(signal.SIGCONT)
        self.await_all(1.5)
        members = set(self.watch.present.values())
        for p in self.processes:  # who had no part in the end of it looks for the job until told to go
            if p.alive() and p.role == 'worker' and (p.frail or p.name not in members):
                p.codes = p.codes | {4, 75}
                p.send(signal.SIGTERM)
        self.await_all(LOOK_S)
        for p in self.processes:
            if p.alive():
                self.faults.append(f'{p.role} {p.name} (pid {p.popen.pid}) does not end after the job')
                self.list_processes()
                p.send(signal.SIGTERM)
        self.await_all(25)
        for p in self.processes:
            if p.alive():
                self.faults.append(f'{p.role} {p.name} (pid {p.popen.pid}) does not end when told to')
                p.send(signal.SIGKILL)
                p.popen.wait()
        for relay in self.relays:
            relay.close()

    def await_all(self, seconds):
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s and any(p.alive() for p in self.processes):
            time.sleep(0.02)

    def sweep(self):
        """Nothing of this storm lives on, whatever became of it."""
        for p in self.processes:
            if p.alive():
                p.popen.kill()
                p.popen.wait()
        for relay in self.relays:
            relay.close()

    # --- judgement

    def judge(self):
        for p in self.processes:
            if p.role != 'coordinator' and p.verdict():
                self.faults.append(p.verdict())
        try:
            events = ledger.lines(self.log)
        except (OSError, ValueError) as e:
            self.faults.append(f'log: {e}')
            return
        ref = ledger.Reference(self.reference + '/log', self.w.steps, self.w.batch)
        books = ledger.Ledger(ref, self.w.batch // self.w.micro, self.cut).replay(events)
        self.faults += books.faults
        self.commits = books.count.get('committed', 0)
        self.again = self.commits - len(books.standing)
        self.judge_weights()
        self.judge_report(books)
        self.judge_leftovers()
        self.pauses = self.watch.causes()

    def judge_weights(self):
        try:
            with open(self.saved, 'rb') as a, open(self.reference + '/w.safetensors', 'rb') as b:
                if a.read() != b.read():
                    self.faults.append('the saved weights differ from those of the undisturbed run')
        except OSError as e:
            self.faults.append(f'saved weights: {e}')

    def judge_report(self, books):
        beside = [] if books.gaps else ['--reference', self.reference + '/log']  # of what was cut nobody can say that it is equal
        run = subprocess.run([self.program, 'report', '--format', 'json', *beside, self.log],
                             capture_output=True, text=True, timeout=60, check=False)
        if run.returncode != 0:
            self.faults.append(f'report ended with {run.returncode}: {run.stderr.strip()[:300]}')
        if not run.stdout:
            return
        told = json.loads(run.stdout)
        want = {'samples_lost': 0, 'samples_repeated': 0, 'steps': len(books.standing), 'done': True,
                'notices': books.count.get('notice', 0), 'joins': books.count.get('joined', 0),
                'coordinator_restarts': books.count.get('resumed', 0), 'epochs': books.count.get('formed', 0)}
        if not books.gaps:
            want.update(steps_recomputed=self.again, reference_equal_steps=self.w.steps, reference_equal_weights=True)
        for k, v in want.items():
            if told.get(k) != v:
                self.faults.append(f'report tells {k} {told.get(k)}, the log {v}')

    def judge_leftovers(self):
        # of one that was killed behind a bad path nobody else knows where it listened
        dead = {p.popen.pid for p in self.processes if p.popen.returncode == -signal.SIGKILL}
        left = [n for n in os.listdir(self.folder) if n.startswith('job')
                or n.startswith('relay') and int(n.partition('.')[2] or 0) not in dead]
        left += ['tmp/' + n for n in os.listdir(self.folder + '/tmp')]
        state = os.listdir(self.state) if os.path.isdir(self.state) else []
        sound = [n for n in state if n.startswith('gen-') and n[4:].isdigit()]
        left += ['state/' + n for n in state if n not in sound + ['job.json'] and not (self.damaged and n.endswith('.bad'))]
        if len(sound) > 2:
            left += ['state/' + n for n in sorted(sound)]
        known = {'log', 'state', 'tmp', 'err', 'plan', 'w.safetensors', 'key.key', 'other.key', 'status', 'processes'}
        left += [n for n in os.listdir(self.folder) if n not in known and not n.startswith(('job', 'relay', 'export'))]
        if left:
            self.faults.append(f'left over: {" ".join(left[:6])} ({len(left)})')
        mine = str(self.folder).encode()
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                with open(f'/proc/{pid}/cmdline', 'rb') as f:
                    words = f.read()
            except OSError:
                continue
            if mine + b'/' in words and b'spot-run' in words:
                self.faults.append(f'left running: {pid} {words.replace(bytes(1), b" ").decode()[:200]}')
                os.kill(int(pid), signal.SIGKILL)

    def push(self, grid, time_s, patience_s):
        plan = {'schema': 'spot.plan/1', 'job': 'storm', 'time_s': time_s, 'next': grid}
        self.client(['replan', '--force', '--join-timeout', f'{patience_s}s'], {0, 1, 4}, feed=json.dumps(plan).encode())

    def write_plan(self, grid, time_s):
        plan = {'schema': 'spot.plan/1', 'job': 'storm', 'time_s': time_s, 'next': grid}
        with open(self.folder + '/plan.new', 'w') as f:
            json.dump(plan, f)
        os.replace(self.folder + '/plan.new', self.folder + '/plan')

