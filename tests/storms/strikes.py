# SPDX-License-Identifier: MIT
"""What strikes a job. Each strike_NAME takes a random source of its own and returns what it hit, or None if there was nothing."""
import glob
import json
import os
import random
import shutil
import signal
import socket
import threading
import time

import relay

KILL, TERM, STOP, CONT = signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGCONT


def free_port():
    """A port below those that the system gives to connections of its own."""
    for port in random.SystemRandom().sample(range(20000, 30000), 200):
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(('127.0.0.1', port))
                return port
            except OSError:
                continue
    raise OSError('no free port')


class Strikes:
    def mark(self, cause, seconds=0.0):
        now = time.monotonic()
        self.watch.during(cause, now, now + seconds)

    def some(self, r, most=None):
        """A few of the living, but not the last of those who must stay."""
        living = [p for p in self.living() if STOP not in p.sent]
        spare = len(self.living()) - self.w.least
        n = min(r.randint(1, most or max(1, len(living))), spare, len(living))
        return r.sample(living, n) if n > 0 else []

    def names(self, hit):
        return [p.name for p in hit] or None

    def strike(self, hit, number, cause):
        for p in hit:
            p.send(number)
            if number == TERM:
                p.codes |= {75}
                if self.w.grace_s:
                    self.after(self.w.grace_s, lambda p=p: p.send(KILL))
        if hit:
            self.mark(cause)
            if len(self.living()) - len(hit) <= 0:
                self.mark('nobody', 0.7)
        return self.names(hit)

    # --- workers go

    def strike_kill(self, r):
        return self.strike(self.some(r, 1), KILL, 'kill')

    def strike_kill_some(self, r):
        return self.strike(self.some(r), KILL, 'kill')

    def strike_kill_domain(self, r):
        living = self.living()
        domain = r.choice(living).domain if living else None
        return self.strike([p for p in living if p.domain == domain][:max(0, len(living) - self.w.least)], KILL, 'kill')

    def strike_kill_young(self, r):
        """Dead within milliseconds of its start: while it joins, or before."""
        p = self.start_worker()
        self.mark('join')
        self.after(r.random() ** 3 * 0.1, lambda: self.strike([p], r.choice([KILL, KILL, TERM]), 'kill'))
        return p.name

    def strike_notice(self, r):
        return self.strike(self.some(r, 1), TERM, 'notice')

    def strike_notice_some(self, r):
        return self.strike(self.some(r), TERM, 'notice')

    def strike_notice_then_kill(self, r):
        hit = self.some(r, 2)
        for p in hit:
            self.after(r.random() ** 2 * 0.2, lambda p=p: self.strike([p], KILL, 'kill'))
        return self.strike(hit, TERM, 'notice')

    # --- workers and coordinator stand still

    def stand(self, hit, seconds, cause):
        for p in hit:
            p.send(STOP)
            p.codes |= {4} if p.role == 'worker' else set()  # set aside, or given up for good
            self.after(seconds, lambda p=p: self.wake(p))
        if hit:
            self.mark(cause, seconds + 1)
        return [self.names(hit), f'{seconds:.2f} s'] if hit else None

    def wake(self, p):
        p.send(CONT)
        p.sent.discard(STOP)

    def strike_stop_short(self, r):
        return self.stand(self.some(r, 2), self.w.lease_s * r.uniform(0.1, 0.8), 'worker stopped')

    def strike_stop_long(self, r):
        return self.stand(self.some(r, 2), self.w.lease_s * r.uniform(1.2, 3), 'worker stopped')

    def strike_stop_all(self, r):
        return self.stand(self.living(), self.w.lease_s * r.uniform(0.3, 2), 'worker stopped')

    def freeze(self, r, seconds):
        if not self.coordinator or not self.coordinator.alive() or STOP in self.coordinator.sent:
            return None
        self.stand([self.coordinator], seconds, 'coordinator stopped')
        if r.random() < 0.4:
            self.after(seconds * r.random(), lambda: self.strike(self.some(r), r.choice([KILL, TERM]), 'kill'))
        return f'{seconds:.2f} s'

    def strike_freeze_short(self, r):
        return self.freeze(r, self.w.lease_s * r.uniform(0.1, 0.8))

    def strike_freeze_long(self, r):
        return self.freeze(r, self.w.lease_s * r.uniform(1.2, 3))

    # --- the coordinator goes

    def behead(self, number=KILL):
        """End the coordinator; True if there was one. A stopped one goes on first, or it would not hear."""
        p = self.coordinator
        if not p or not p.alive() or (number == TERM and STOP in p.sent):
            return False
        p.send(number)
        p.codes |= {75} if number == TERM else set()
        self.mark('coordinator gone', 2.5)
        for w in self.workers:  # they may leave with it, or look for it in vain
            w.codes |= {4, 75}
        return True

    def dead(self):
        self.coordinator.popen.wait()

    def strike_behead(self, r):
        if not self.behead():
            return None
        self.dead()
        what = r.choice(['', '', '', 'torn', 'torn', 'cut', 'damage'])
        return [what, getattr(self, 'then_' + what)(r) if what else '']

    def then_torn(self, r):
        """A last line without its end."""
        with open(self.log, 'ab') as f:
            f.write(b'{"schema":"spot.event/1","event":"committed","time_s":'[:r.randint(1, 54)])

    def then_cut(self, r):
        """What a machine that lost its power had not yet written."""
        size = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        lost = min(r.choice([1, 100, 1000, 3000]), size - 200)
        if lost > 0:
            os.truncate(self.log, size - lost)
            self.cut = True
        return lost

    def then_damage(self, r):
        """A byte of the newest generation is another."""
        files = sorted(glob.glob(self.state + '/gen-*[0-9]/*'))
        if not files:
            return None
        newest = os.path.dirname(files[-1])
        path = r.choice([f for f in files if f.startswith(newest + '/')])
        with open(path, 'r+b') as f:
            at = r.randrange(max(1, os.path.getsize(path)))
            f.seek(at)
            was = f.read(1)
            f.seek(at)
            f.write(bytes([(was[0] if was else 0) ^ 0x10]))
        self.damaged = True
        return path

    def strike_behead_and_kill(self, r):
        return self.strike(self.some(r), KILL, 'kill') if self.behead() else None

    def strike_everything(self, r):
        if not self.behead():
            return None
        self.mark('nobody', 2)
        return self.strike([p for p in self.workers if p.alive()], KILL, 'kill')

    def strike_retire(self, r):
        return 'TERM' if self.behead(TERM) else None

    def strike_stop_job(self, r):
        if not self.coordinator or not self.coordinator.alive() or STOP in self.coordinator.sent:
            return None
        self.client(['stop', '-q', '--join-timeout', '5s'], {0, 1, 4})
        self.coordinator.codes |= {75}
        for w in self.workers:
            w.codes |= {4, 75}
        self.mark('coordinator gone', 4)
        return 'stop'

    def strike_crowded_disk(self, r):
        """The next coordinator may write so much and no more, the log with it."""
        if not self.behead():
            return None
        self.dead()
        size = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        blocks = size // 512 + r.randint(1, 200)
        self.room = f'-f {blocks}'
        return self.room

    # --- plans

    def strike_plan(self, r):
        plan = dict(self.w.plan(r), time_s=time.monotonic() - self.begun_s)
        self.mark('plan', 0.5)
        self.client(['replan'] + r.choice([[], [], ['--force']]), {0, 1, 4}, feed=json.dumps(plan).encode())
        return plan['next'], plan.get('place')

    def strike_plan_nonsense(self, r):
        doc = self.w.nonsense(r)
        self.client(['replan', '--force'], {1, 3, 4}, feed=doc)
        return doc[:60]

    def file_grid(self, r):
        plan = self.w.plan(r)['next']
        return dict(plan, D=min(plan['D'], self.w.batch // self.w.micro))

    def strike_plan_file(self, r):
        if not self.w.plan_file:
            return None
        if r.random() < 0.3:
            with open(self.folder + '/plan', 'wb') as f:
                f.write(self.w.nonsense(r))
            if self.coordinator and time.monotonic() - self.coordinator.born_s < 2:
                self.coordinator.codes |= {3}  # it may be the first that it reads
        else:
            self.write_plan(self.file_grid(r), time.monotonic() - self.begun_s)
        if self.coordinator and self.coordinator.alive() and r.random() < 0.5 and self.watch.step > 0:
            self.coordinator.send(signal.SIGHUP)
        self.mark('plan', 0.5)
        return 'file'

    def strike_suspend(self, r):
        """Keep the state and wait; then go on."""
        self.suspended = True
        pause_s = r.uniform(0.1, 1)
        self.mark('suspended', pause_s + 0.5)
        for wait_s, grid in ((0, {'D': 0, 'P': 0}), (pause_s, self.w.plan(r)['next'])):
            self.after(wait_s, lambda grid=grid: self.push(grid, time.monotonic() - self.begun_s, 3))
        return f'{pause_s:.2f} s'

    # --- workers come

    def strike_join(self, r):
        self.mark('join', 0.5)
        return self.start_worker().name

    def strike_join_some(self, r):
        return [self.strike_join(r) for _ in range(r.randint(2, 4))]

    def strike_twin(self, r):
        living = self.living()
        return self.start_worker(name=r.choice(living).name).name if living else None

    # --- strangers

    def dial(self, path=None):
        s = socket.socket(socket.AF_INET if self.w.tcp and not path else socket.AF_UNIX)
        s.settimeout(2)
        s.connect(('127.0.0.1', self.port) if self.w.tcp and not path else path or self.folder + '/job')
        return s

    def annoy(self, r, path=None):
        """Connect and say something, or nothing, for a while."""
        words = r.choice([b'', b'', b'\0' * 8, b'GET / HTTP/1.1\r\n\r\n', r.randbytes(200), b'\xff' * 70000, b'\x16\x03\x01\x02\x00\x01',
                          (64).to_bytes(4, 'little') + r.randbytes(30), (2 ** 31).to_bytes(4, 'little')])
        hold_s, drip = r.random() ** 2 * 3, r.random() < 0.3

        def visit():
            try:
                with self.dial(path) as s:
                    for i in range(0, min(len(words), 200) if drip else 0):
                        s.send(words[i:i + 1])
                        time.sleep(0.01)
                    s.send(b'' if drip else words)
                    time.sleep(hold_s)
            except OSError:
                pass

        threading.Thread(target=visit, daemon=True).start()

    def strike_stranger(self, r):
        n = r.choice([1, 1, 3, 20])
        for _ in range(n):
            self.annoy(r)
        self.mark('stranger', 3)
        return n

    def strike_stranger_at_worker(self, r):
        sockets = glob.glob(self.folder + '/job.*')
        for _ in range(3 if sockets else 0):
            self.annoy(r, r.choice(sockets))
        self.mark('stranger', 3)
        return 3 if sockets else None

    def strike_wrong_key(self, r):
        if not self.key:
            return None
        self.start_worker(key=self.other_key, patience_s=5).codes |= {1}
        return 'key'

    # --- limits and bad paths

    def limited(self, limit):
        p = self.start_worker(limit=limit)
        self.mark('limited', 25)
        self.after(26, lambda: p.send(KILL))
        return limit

    def strike_limit_files(self, r):
        return self.limited(f'-n {r.randint(4, 13)}')

    def strike_limit_size(self, r):
        return self.limited(f'-f {r.choice([0, 1, 8, 40])}')

    def strike_limit_memory(self, r):
        word = self.limited(f'-v {r.choice([12, 16, 24, 32, 64]) << 10}')
        # too small for its place, for the libraries of the program, or for what is small and cannot be refused
        self.workers[-1].codes |= {1, 127, -signal.SIGABRT}
        return word

    def strike_unreachable(self, r):
        """Its socket is swept away: it reaches others, others do not reach it."""
        for p in self.some(r, 1):
            path = f'{self.folder}/job.{p.popen.pid}'
            if os.path.exists(path):
                os.unlink(path)
                p.frail, p.codes = True, p.codes | {4}
                self.mark('unreachable', 25)
                return p.name
        return None

    def strike_bad_path(self, r):
        """A worker whose way to the coordinator is late, falls silent, or breaks again and again."""
        if self.w.tcp and not self.key:
            return None  # it would listen at an address that is none of the job's kind
        n = len(self.relays) + 1
        path = relay.Relay(f'{self.folder}/relay{n}', self.dial, r.choice([0, 0.001, 0.02, 0.1]))
        self.relays.append(path)
        self.start_worker(address=f'unix:{path.path}')
        at_s = 0
        for _ in range(r.randint(0, 4)):
            at_s += r.uniform(0.1, 1)
            quiet_s = self.w.lease_s * r.uniform(0.2, 2)
            self.after(at_s, r.choice([path.cut, lambda quiet_s=quiet_s: self.calm or path.mute(quiet_s)]))
        self.mark('bad path', 60)
        return f'late {path.late_s} s'

    # --- questions, and the state that goes

    def strike_status(self, r):
        self.client(['status', '--format', r.choice(['json', 'table'])], {0, 4})
        return 'status'

    def strike_export(self, r):
        self.serial += 1
        self.mark('question', 1)
        self.client(['export', '-q', '-o', f'{self.folder}/export{self.serial}'], {0, 1, 4, 75})
        return 'export'

    def strike_wipe(self, r):
        """Somebody deletes the directory of the state while the job runs."""
        shutil.rmtree(self.state, ignore_errors=True)
        self.damaged = True
        if self.coordinator and time.monotonic() - self.coordinator.born_s < 2:
            self.coordinator.codes |= {2, 4}  # it may not have begun
        return 'state'
