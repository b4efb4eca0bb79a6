"""A script as one would run it, that also tries what an untrusted one might.

It computes something, then knocks on every wall and prints what happened. Each attempt is harmless where
it succeeds. Exit status 1 means that a wall was missing.
"""

import ctypes
import os
import socket
import sqlite3
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

LIBC = ctypes.CDLL(None, use_errno=True)


def pi_digits(count):
    """Machin's formula in integers."""
    unit = 10 ** (count + 10)

    def arctan_inverse(x):
        term = total = unit // x
        n, sign = 1, 1
        while term:
            term //= x * x
            n, sign = n + 2, -sign
            total += sign * (term // n)
        return total

    text = str(4 * (4 * arctan_inverse(5) - arctan_inverse(239)) // 10**10)
    return text[0] + "." + text[1:]


def primes_below(n):
    sieve = bytearray([1]) * n
    sieve[0:2] = b"\0\0"
    for i in range(2, int(n**0.5) + 1):
        if sieve[i]:
            sieve[i * i :: i] = bytes(len(range(i * i, n, i)))
    return sum(sieve)


def work():
    with ThreadPoolExecutor(2) as pool:
        pi = pool.submit(pi_digits, 60)
        primes = pool.submit(primes_below, 1_000_000)
        print("pi               ", pi.result())
        print("primes below 10^6", primes.result())
    db = sqlite3.connect("/tmp/words.db")
    with open(__file__, encoding="utf-8") as f:
        words = [(w,) for w in f.read().split() if w.isalpha()]
    db.execute("create table word (text)")
    db.executemany("insert into word values (?)", words)
    top = db.execute("select text, count(*) n from word group by text order by n desc, text limit 1").fetchone()
    print("commonest word   ", f"{top[0]!r}, {top[1]} times in this file (sqlite in /tmp)")
    child = subprocess.run(["uname", "-s"], capture_output=True, text=True, check=True)
    print("a child process  ", "uname says", child.stdout.strip())
    with open("pi.txt", "w", encoding="utf-8") as f:
        f.write(pi.result() + "\n")
    print("a file           ", "pi.txt, in a layer over the workspace")


def call(name, *args):
    """Calls a libc function and raises its errno."""
    if getattr(LIBC, name)(*args) < 0:
        errno = ctypes.get_errno()
        raise OSError(errno, os.strerror(errno))


def read(path):
    with open(path, "rb") as f:
        f.read(1)


def write(path):
    with open(path, "x", encoding="utf-8"):
        pass
    os.remove(path)


def reach_network():
    # 192.0.2.1 is an address of documentation (RFC 5737), and connecting UDP sends nothing.
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("192.0.2.1", 9))


def see_processes():
    """Anything but PID 1, this process and its children would be the host's."""
    mine = {1, os.getpid()}
    seen = {int(p) for p in os.listdir("/proc") if p.isdigit()} - mine
    if not seen:
        raise OSError(0, f"only {len(mine)} processes exist: PID 1 and this one")


def find_secret():
    if "DEMO_TOKEN" not in os.environ:
        names = sorted(os.environ)
        raise OSError(0, f"not among the {len(names)}: {' '.join(names[:6])}")


def find_disk():
    found = os.listdir("/dev")
    if not any(stat.S_ISBLK(os.stat("/dev/" + name).st_mode) for name in found):
        raise OSError(0, f"none among the {len(found)} entries of /dev")


def mount_tmpfs():
    os.makedirs("/tmp/mnt", exist_ok=True)
    call("mount", b"none", b"/tmp/mnt", b"tmpfs", 0, None)


ATTEMPTS = [
    ("read /etc/shadow", lambda: read("/etc/shadow")),
    ("look into ~/.ssh", lambda: os.listdir(os.path.expanduser("~/.ssh"))),
    ("write to /", lambda: write("/canary.txt")),
    ("write to /usr/bin", lambda: write("/usr/bin/canary")),
    ("reach the network", reach_network),
    ("see the host's processes", see_processes),
    ("find the caller's DEMO_TOKEN", find_secret),
    ("mount a file system", mount_tmpfs),
    ("make a user namespace", lambda: call("unshare", 0x10000000)),  # CLONE_NEWUSER
    ("trace its parent", lambda: call("ptrace", 16, os.getppid(), None, None)),  # PTRACE_ATTACH
    ("read PID 1's environment", lambda: read("/proc/1/environ")),
    ("become root", lambda: os.setuid(0)),
    ("find a disk", find_disk),
    ("set a kernel parameter", lambda: os.close(os.open("/proc/sys/kernel/hostname", os.O_WRONLY))),
]


def knock():
    print(f"{'it tried to':30} and was told")
    print(f"{'-' * 28:30} {'-' * 46}")
    open_walls = 0
    for what, attempt in ATTEMPTS:
        try:
            attempt()
            told, open_walls = "IT COULD", open_walls + 1
        except OSError as e:
            told = e.strerror
        print(f"{what:30} {told}")
    return open_walls


if __name__ == "__main__":
    print(f"python {sys.version.split()[0]} as uid {os.getuid()}, PID {os.getpid()} in {os.getcwd()}\n")
    work()
    print()
    sys.exit(1 if knock() else 0)
