# SPDX-License-Identifier: MIT
"""A bad path: a Unix socket that leads to another address late, in silence for a while, or with connections that break."""
import collections
import os
import select
import socket
import threading
import time


class Relay(threading.Thread):
    """path -> connect(): each byte arrives `late_s` after it was sent; `mute_s` stops all of it, `cut` breaks all of it."""

    def __init__(self, path, connect, late_s):
        super().__init__(daemon=True)
        self.path, self.connect, self.late_s = path, connect, late_s
        self.pairs, self.until_s, self.breaks, self.over = [], 0.0, False, False
        self.door = socket.socket(socket.AF_UNIX)
        self.door.bind(path)
        os.chmod(path, 0o600)
        self.door.listen(16)
        self.start()

    def mute(self, seconds):
        self.until_s = time.monotonic() + seconds

    def cut(self):
        self.breaks = True

    def close(self):
        self.over = True
        self.join(5)
        self.door.close()
        if os.path.exists(self.path):
            os.unlink(self.path)

    def run(self):
        while not self.over:
            if self.breaks:
                self.breaks = False
                for pair in list(self.pairs):
                    self.end(pair)
            quiet = time.monotonic() < self.until_s
            ends = [] if quiet else [s for p in self.pairs for s in p['ends'] if not p['closed'].get(s)]
            ready, _, _ = select.select([self.door] + ends, [], [], 0.002 if self.pairs else 0.05)
            for s in ready:
                if s is self.door:
                    self.enter()
                else:
                    self.hear(s)
            if not quiet:
                for pair in list(self.pairs):
                    self.pass_on(pair)
        for pair in list(self.pairs):
            self.end(pair)

    def enter(self):
        guest = self.door.accept()[0]
        try:
            host = self.connect()
        except OSError:
            guest.close()
            return
        for s in (guest, host):
            s.setblocking(False)
        self.pairs.append({'ends': (guest, host), 'closed': {}, 'queue': {guest: collections.deque(), host: collections.deque()}})

    def hear(self, s):
        for pair in self.pairs:
            if s in pair['ends']:
                to = pair['ends'][1 - pair['ends'].index(s)]
                try:
                    data = s.recv(65536)
                except BlockingIOError:
                    return
                except OSError:
                    data = b''
                if not data:
                    pair['closed'][s] = True
                pair['queue'][to].append([time.monotonic() + self.late_s, data])
                return

    def pass_on(self, pair):
        for to, queue in pair['queue'].items():
            while queue and queue[0][0] <= time.monotonic():
                data = queue[0][1]
                if not data:
                    self.end(pair)
                    return
                try:
                    sent = to.send(data)
                except BlockingIOError:
                    break
                except OSError:
                    self.end(pair)
                    return
                if sent < len(data):
                    queue[0][1] = data[sent:]
                    break
                queue.popleft()

    def end(self, pair):
        for s in pair['ends']:
            s.close()
        if pair in self.pairs:
            self.pairs.remove(pair)
