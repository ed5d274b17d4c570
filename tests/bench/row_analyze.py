# SPDX-License-Identifier: Apache-2.0
"""heaptap report beside heaptrack_print: the same events, in our trace and in its heaptrack export."""
import json
import os
import statistics
import subprocess
import sys
import time

from common import HEAPTAP, is_short, spread, wait_until

REDIS_LOAD = ["-q", "-P", "16", "-c", "8", "-r", "100000", "-d", "100", "-t", "set,lpush,hset,zadd", "-n", "100000000"]
DB_BENCH = ["db_bench", "--benchmarks=fillrandom,readrandom", "--num=100000000", "--threads=2"]


def capture_of(pid, folder):
    """A trace of ten million events and more; a tenth of that in a short run."""
    trace = os.path.join(folder, "analyze.htap")
    done = subprocess.run([HEAPTAP, "attach", "-p", str(pid), "-o", trace, "-f", "-q", "--json", "-d",
                           "1s" if is_short() else "10s"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True, check=True)
    return trace, json.loads(done.stdout)["events"]


def redis(folder):
    socket = os.path.join(folder, "redis.sock")
    server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly",
                               "no", "--dir", folder], stdout=subprocess.DEVNULL)
    wait_until(lambda: os.path.exists(socket), "redis-server does not start")
    load = subprocess.Popen(["redis-benchmark", "-s", socket, *REDIS_LOAD], stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)
    found = capture_of(server.pid, folder)
    for process in (load, server):
        process.terminate()
        process.wait()
    return found


def db_bench(folder):
    data = os.path.join(folder, "db")
    process = subprocess.Popen([*DB_BENCH, f"--db={data}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: os.path.exists(data), "db_bench does not start")
    found = capture_of(process.pid, folder)
    process.terminate()
    process.wait()
    subprocess.run(["rm", "-rf", data], check=True)
    return found


def cost_of(argv):
    """CPU, wall time and peak memory of a command that prints to nowhere."""
    began = time.monotonic_ns()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"scripts/bench: {argv[0]} failed with {process.returncode}")
    return {"cpu_ns": (usage.ru_utime + usage.ru_stime) * 1e9, "wall_ns": time.monotonic_ns() - began,
            "peak_bytes": usage.ru_maxrss * 1024}


def run_analyze(count, folder):
    found = {}
    for name, record in (("redis-server", redis), ("db_bench", db_bench)):
        trace, events = record(folder)
        export = os.path.join(folder, f"heaptrack.{name}.1")
        subprocess.run([HEAPTAP, "export", trace, "--format", "heaptrack", "-f", "-o", export], check=True)
        rounds = [{"heaptap": cost_of([HEAPTAP, "report", trace]), "heaptrack": cost_of(["heaptrack_print", export])}
                  for _ in range(max(count, 3))]
        os.unlink(export)
        os.unlink(trace)
        ratio = [r["heaptrack"]["cpu_ns"] / r["heaptap"]["cpu_ns"] for r in rounds]
        wall = [r["heaptrack"]["wall_ns"] / r["heaptap"]["wall_ns"] for r in rounds]
        memory = [r["heaptrack"]["peak_bytes"] / r["heaptap"]["peak_bytes"] for r in rounds]
        per_event = statistics.median(r["heaptap"]["cpu_ns"] for r in rounds) / max(events, 1)
        print(f"{name}: {events / 1e6:.1f} M events, {per_event:.0f} ns each; heaptrack_print takes "
              f"{spread(ratio)} times the CPU, {spread(wall)} times the wall time, {spread(memory)} times the memory")
        found[name] = {"events": events, "rounds": rounds, "ratios": ratio, "wall_ratios": wall,
                       "memory_ratios": memory}
    return found
