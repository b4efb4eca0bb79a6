"""What ordinary Python programs lean on, with an output that is the same wherever it runs."""

import asyncio
import hashlib
import multiprocessing as mp
import os
import queue
import select
import shutil
import socket
import sqlite3
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.request
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from multiprocessing import shared_memory


def square(n):
    return n * n


def fill(name, n):
    block = shared_memory.SharedMemory(name=name)
    block.buf[n] = n + 1
    block.close()


def threads():
    results, lock = queue.Queue(), threading.Lock()
    total = [0]

    def count():
        for _ in range(1000):
            with lock:
                total[0] += 1
        results.put(1)

    workers = [threading.Thread(target=count) for _ in range(8)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    with ThreadPoolExecutor(4) as pool:
        print("threads", total[0], results.qsize(), list(pool.map(square, range(5))))


def processes():
    for method in ("fork", "spawn", "forkserver"):
        ctx = mp.get_context(method)
        with ctx.Pool(2) as pool:
            print("multiprocessing", method, pool.map(square, range(6)))
    with ProcessPoolExecutor(2) as pool:
        print("executor", sum(pool.map(square, range(10))))
    with mp.Manager() as manager:
        shared = manager.dict(a=1)
        shared["b"] = 2
        print("manager", sorted(shared.items()))
    block = shared_memory.SharedMemory(create=True, size=4)
    try:
        children = [mp.Process(target=fill, args=(block.name, n)) for n in range(4)]
        for c in children:
            c.start()
        for c in children:
            c.join()
        print("shared memory", bytes(block.buf[:4]).hex())
    finally:
        block.close()
        block.unlink()


def children():
    out = subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True, check=True)
    print("subprocess", out.stdout.strip())
    out = subprocess.run("printf 'b\\na\\n' | sort | tr '\\n' ,", shell=True, capture_output=True, text=True, check=True)
    print("shell", out.stdout)
    p = subprocess.Popen(["sleep", "60"], start_new_session=True)
    p.terminate()
    print("terminated", p.wait())
    try:
        subprocess.run(["sleep", "60"], timeout=0.2)
    except subprocess.TimeoutExpired:
        print("timeout", "expired")
    pid = os.fork()
    if pid == 0:
        os._exit(7)
    print("fork", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def database():
    db = sqlite3.connect("work.db")
    db.execute("pragma journal_mode=wal")
    with db:
        db.execute("create table n (v integer)")
        db.executemany("insert into n values (?)", [(i,) for i in range(100)])
    print("sqlite", db.execute("select sum(v) from n").fetchone()[0])
    db.close()


def network():
    class Hello(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"hello " + self.path.encode())

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Hello)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/loopback"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    print("http", opener.open(url, timeout=10).read().decode())
    server.shutdown()
    a, b = socket.socketpair()
    a.sendall(b"pair")
    print("unix", b.recv(4).decode())
    print("localhost", socket.gethostbyname("localhost"))
    context = ssl.create_default_context()
    print("ssl", context.verify_mode.name, ssl.OPENSSL_VERSION, len(context.get_ca_certs()) > 0)


def files():
    os.makedirs("a/b", exist_ok=True)
    with open("a/one", "w", encoding="utf-8") as f:
        f.write("one\n")
    os.rename("a/one", "a/b/two")
    os.link("a/b/two", "hard")
    os.symlink("a/b/two", "soft")
    os.chmod("hard", 0o640)
    os.utime("hard", (1, 1))
    shutil.copy2("hard", "copy")
    shutil.move("a/b", "moved")
    with tempfile.TemporaryDirectory() as d:
        script = os.path.join(d, "x.sh")
        with open(script, "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\necho ran from the temporary folder\n")
        os.chmod(script, 0o755)
        print("files", subprocess.check_output([script], text=True).strip())
    with open("/dev/urandom", "rb") as r, open("/dev/null", "wb") as n:
        n.write(r.read(16))
    print("home", os.path.expanduser("~") == os.environ["HOME"], os.access(os.environ["HOME"], os.W_OK))
    print("hash", hashlib.sha256(b"gobox").hexdigest()[:16])


async def coroutines():
    async def tick(n):
        await asyncio.sleep(0.01 * n)
        return n

    print("asyncio", await asyncio.gather(*(tick(n) for n in range(4))))
    p = await asyncio.create_subprocess_exec("echo", "from asyncio", stdout=asyncio.subprocess.PIPE)
    out, _ = await p.communicate()
    print("asyncio child", out.decode().strip())
    loop = asyncio.get_running_loop()
    print("to thread", await loop.run_in_executor(None, square, 9))


def main():
    threads()
    processes()
    children()
    database()
    network()
    files()
    asyncio.run(coroutines())
    r, w = os.pipe()
    poll = select.epoll()
    poll.register(r, select.EPOLLIN)
    os.write(w, b"x")
    print("epoll", len(poll.poll(1)))
    print("cpus", len(os.sched_getaffinity(0)))


if __name__ == "__main__":
    main()
