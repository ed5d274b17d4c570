# SPDX-License-Identifier: Apache-2.0
"""A long capture of a busy server with --cull, beside one without: bytes on disk, and whether memory grows."""
import os
import random
import socket
import subprocess
import time

from common import Capture, is_short, tree_of, wait_until

CULL_S = 10
KEYS = 20000
BATCH = 200
BATCHES_PER_S = 100
LOOK_S = 5
SETTLED_S = 60  # memory is compared from here on: every key is there, the tables have their size
MINUTES = float(os.environ.get("HEAPTAP_BENCH_MINUTES", "5"))


def commands(seed):
    """Batches of commands that replace keys by values of other sizes, and make lists that are taken again."""
    rng = random.Random(seed)
    batches = []
    for _ in range(500):
        words = []
        for _ in range(BATCH // 2):
            key, value = b"key:%d" % rng.randrange(KEYS), b"v" * rng.randrange(1, 400)
            words.append(b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(key), key, len(value), value))
            key = b"counter:%d" % rng.randrange(100)
            words.append(b"*2\r\n$4\r\nINCR\r\n$%d\r\n%s\r\n" % (len(key), key))
        batches.append(b"".join(words))
    return batches


class Server:
    def __init__(self, folder, name, options):
        self.folder = os.path.join(folder, name)
        os.mkdir(self.folder)
        path = os.path.join(self.folder, "socket")
        self.process = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", path, "--save", "",
                                         "--appendonly", "no", "--dir", self.folder], stdout=subprocess.DEVNULL)
        self.connection = socket.socket(socket.AF_UNIX)
        wait_until(lambda: self.connection.connect_ex(path) == 0, "redis-server does not start")
        self.capture = Capture(self.process.pid, self.folder, options=options)
        self.looks = []

    def send(self, batch):
        self.connection.sendall(batch)
        got = 0
        while got < BATCH:
            got += self.connection.recv(1 << 16).count(b"\n")

    def look(self, second):
        """Resident memory by process name."""
        found = {"target": rss_bytes(self.process.pid)}
        for pid in tree_of(self.capture.process.pid):
            found[name_of(pid)] = rss_bytes(pid)
        found.update(second=second, trace=written_bytes(self.folder))
        self.looks.append(found)

    def stop(self):
        report = self.capture.stop(keep=True)
        os.unlink(self.capture.trace)
        return report

    def end(self):
        """Whatever has happened."""
        for process in (self.capture.process, self.process):
            if process.poll() is None:
                process.terminate()
                process.wait()


def written_bytes(folder):
    """A trace is written beside its name until it is complete."""
    with os.scandir(folder) as entries:
        return sum(entry.stat().st_size for entry in entries if entry.is_file())


def rss_bytes(pid):
    try:
        with open(f"/proc/{pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm") as comm:
            return comm.read().strip()
    except OSError:
        return "ended"


def slope_per_hour(looks, key):
    """Least squares over the looks after the first minute; None where they are too few."""
    points = [(look["second"], look[key]) for look in looks if look["second"] >= SETTLED_S and key in look]
    if len(points) < 12:
        return None
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    over = sum((x - mean_x) * (y - mean_y) for x, y in points)
    return over / sum((x - mean_x) ** 2 for x, _ in points) * 3600


def load(servers, seconds):
    batches, begun, sent, looked = commands(1), time.monotonic(), 0, 0
    while (now := time.monotonic() - begun) < seconds:
        if now >= looked:
            for server in servers:
                server.look(now)
            looked += LOOK_S
        if sent > now * BATCHES_PER_S:
            time.sleep(0.002)
            continue
        for server in servers:
            server.send(batches[sent % len(batches)])
        sent += 1
    return sent * BATCH / seconds


def summary(server, seconds):
    report = server.stop()
    settled = [look for look in server.looks if look["second"] >= SETTLED_S] or server.looks[-2:]
    keys = sorted({key for look in settled for key in look} - {"second", "trace"})
    written = settled[-1]["trace"] - settled[0]["trace"]
    return {"events_per_s": report["events"] / seconds, "dropped_events": report["dropped_events"],
            "bytes_per_s": written / max(settled[-1]["second"] - settled[0]["second"], 1),
            "rss_bytes": {key: settled[-1].get(key, 0) for key in keys},
            "rss_first_bytes": {key: settled[0].get(key, 0) for key in keys},
            "slope_bytes_per_hour": {key: slope_per_hour(server.looks, key) for key in keys},
            "looks": server.looks}


def run_days(_, folder):
    seconds = 20 if is_short() else MINUTES * 60
    servers = [Server(folder, "culled", ["--cull", f"{CULL_S}s"]), Server(folder, "full", [])]
    try:
        rate = load(servers, seconds)
        culled, full = (summary(server, seconds) for server in servers)
    finally:
        for server in servers:
            server.end()
    print(f"days: {rate:.0f} commands/s to redis-server for {seconds / 60:.0f} min; --cull {CULL_S}s beside all events")
    print(f"{'':>16} {'events/s':>10} {'KB/s':>8} {'dropped':>8}")
    for name, row in (("culled", culled), ("full", full)):
        print(f"{name:>16} {row['events_per_s']:>10.0f} {row['bytes_per_s'] / 1e3:>8.1f} {row['dropped_events']:>8}")
    print(f"{'memory, culled':>16} {'MiB':>10} {'at first':>8} {'MiB/h':>8}")
    for key, slope in culled["slope_bytes_per_hour"].items():
        shown = "" if slope is None else f"{slope / 2**20:.2f}"
        print(f"{key:>16} {culled['rss_bytes'][key] / 2**20:>10.1f} {culled['rss_first_bytes'][key] / 2**20:>8.1f} {shown:>8}")
    return {"minutes": seconds / 60, "commands_per_s": rate, "culled": culled, "full": full,
            "ratio": full["bytes_per_s"] / max(culled["bytes_per_s"], 1)}
