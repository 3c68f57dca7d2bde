#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""browse.py URL SCREENSHOT: open a page in headless Chromium, and evaluate each line of standard input in it; each
value is printed as a line of JSON. At the end a picture is taken. Speaks the browser's own protocol over its
websocket, so that nothing has to be installed beside it."""
import base64, http.client, json, os, shutil, socket, struct, subprocess, sys, tempfile, time


class Socket:
    def __init__(self, port, path):
        self.s = socket.create_connection(('127.0.0.1', port), 60)
        self.s.sendall(('GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
                        'Sec-WebSocket-Key: %s\r\nSec-WebSocket-Version: 13\r\n\r\n'
                        % (path, base64.b64encode(os.urandom(16)).decode())).encode())
        head = b''
        while not head.endswith(b'\r\n\r\n'):
            head += self.s.recv(1)
        assert b' 101 ' in head, head
        self.n = 0

    def exactly(self, n):
        data = b''
        while len(data) < n:
            more = self.s.recv(n - len(data))
            assert more, 'the browser hung up'
            data += more
        return data

    def send(self, text):
        data, mask = text.encode(), os.urandom(4)
        size = struct.pack('>BB', 129, 128 | len(data)) if len(data) < 126 else struct.pack('>BBH', 129, 254, len(data))
        self.s.sendall(size + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data)))

    def message(self):
        whole = b''
        while True:
            first, n = self.exactly(2)
            if n == 126: n = struct.unpack('>H', self.exactly(2))[0]
            elif n == 127: n = struct.unpack('>Q', self.exactly(8))[0]
            whole += self.exactly(n)
            if first & 128: return json.loads(whole)

    def call(self, method, **params):
        self.n += 1
        self.send(json.dumps({'id': self.n, 'method': method, 'params': params}))
        while True:
            m = self.message()
            if m.get('id') == self.n:
                assert 'error' not in m, m
                return m['result']


def get(port, path):
    c = http.client.HTTPConnection('127.0.0.1', port, timeout=10)
    c.request('GET', path)
    return json.loads(c.getresponse().read())


def main(url, picture):
    home = tempfile.mkdtemp()
    browser = subprocess.Popen([shutil.which('chromium') or 'chromium', '--headless', '--no-sandbox', '--disable-gpu', '--window-size=1100,700',
                                '--remote-debugging-port=0', '--user-data-dir=' + home, url],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                port = int(open(home + '/DevToolsActivePort').readline())
                page = [p for p in get(port, '/json') if p['type'] == 'page'][0]
                break
            except (OSError, IndexError, ValueError):
                time.sleep(0.1)
        s = Socket(port, '/' + page['webSocketDebuggerUrl'].split('/', 3)[3])
        for line in sys.stdin:
            value = s.call('Runtime.evaluate', expression=line, awaitPromise=True, returnByValue=True)
            print(json.dumps(value['result'].get('value')), flush=True)
        with open(picture, 'wb') as f:
            f.write(base64.b64decode(s.call('Page.captureScreenshot')['data']))
    finally:
        browser.kill()
        browser.wait()
        shutil.rmtree(home, ignore_errors=True)


main(*sys.argv[1:])
