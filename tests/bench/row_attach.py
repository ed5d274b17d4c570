# SPDX-License-Identifier: Apache-2.0
"""How long attach and detach take, how long a thread is held, and the memory that the agent takes."""
import contextlib
import os
import shutil
import socket
import statistics
import subprocess
import sys
import threading
import time

from common import HEAPTAP, Capture, Program, agent_rss_bytes, built, heaptrack_env, median_of, spread, wait_until
from row_hold import percentile
from row_programs import NODE_SCRIPT

def attach_ms(pid, folder, cache):
    report = Capture(pid, folder, {"XDG_CACHE_HOME": cache}).stop()
    return report["attach_ns"] / 1e6, report["stop_ns"] / 1e6, report["detach_ns"] / 1e6


def first_event_ns(trace):
    """When the first event of a trace was recorded, by CLOCK_MONOTONIC."""
    clock, events = [], []
    dump = subprocess.run([HEAPTAP, "dump", trace], stdout=subprocess.PIPE, text=True, check=True).stdout
    for line in dump.splitlines():
        fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if line.startswith(("capture ", "sync ")):
            clock.append((int(fields["tsc"]), int(fields["mono_ns"])))
        elif line.startswith("event "):
            events.append(int(fields["tsc"]))
    if not events:
        sys.exit("scripts/bench: nothing was recorded; is the machine busy with something else?")
    (tsc, mono_ns), (last_tsc, last_ns) = clock[0], clock[-1]
    return mono_ns + (min(events) - tsc) * (last_ns - mono_ns) / (last_tsc - tsc)


def first_event_ms(pid, folder, cache):
    """From the command to the first event that is in the trace; the process must allocate all the time."""
    trace = os.path.join(folder, "trace.htap")
    start_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    subprocess.run([HEAPTAP, "attach", "-p", str(pid), "-d", "300ms", "-o", trace, "-f", "-q", "--symbolize", "later"],
                   stderr=subprocess.DEVNULL, env=dict(os.environ, XDG_CACHE_HOME=cache))
    return (first_event_ns(trace) - start_ns) / 1e6


def latency(name, pid, folder, count, work):
    cache = os.path.join(folder, "cache")
    rows = {"not cached": [], "cached": []}
    for _ in range(count):
        shutil.rmtree(cache, ignore_errors=True)
        for key in rows:
            with repeated(work):
                rows[key].append(first_event_ms(pid, folder, cache))
    text = ", ".join(f"{key} {statistics.median(rows[key]):.1f} ms ({spread(rows[key], '{:.1f}')})" for key in rows)
    print(f"attach: command to first recorded event, {name}: {text}", flush=True)
    return rows


@contextlib.contextmanager
def repeated(step):
    """Calls `step` again and again meanwhile."""
    begun, done = threading.Event(), threading.Event()

    def run():
        while not done.is_set():
            step()
            begun.set()

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait()
    yield
    done.set()
    thread.join()


def asker(path):
    """A client of redis-server that asks for little, every millisecond."""
    client = socket.socket(socket.AF_UNIX)
    client.connect(path)

    def ask():
        client.send(b"SET key value\r\n")
        client.recv(64)
        time.sleep(0.001)
    return ask


def run_attach(count, folder):
    rows = {}
    path = os.path.join(folder, "redis.sock")
    process = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", folder],
                               stdout=subprocess.DEVNULL)
    wait_until(lambda: os.path.exists(path), "redis-server does not start")
    rows["redis-server"] = latency("redis-server", process.pid, folder, count, asker(path))
    process.terminate()
    process.wait()
    program = Program(["node", NODE_SCRIPT])
    rows["node"] = latency("node", program.pid, folder, count, program.measure)
    program.quit()
    return rows


def run_detach(count, folder):
    rows = {}
    for name, argv in (("50 threads that wait", [built("pairs"), 20, 3, 50]),
                       ("50 threads that all compute", [built("server"), 50])):
        program = Program(argv)
        attaches = [attach_ms(program.pid, folder, folder) for _ in range(count)]
        program.quit()
        rows[name] = attaches
        took, held = [a[2] for a in attaches], [a[1] for a in attaches]
        print(f"detach: {name}: {statistics.median(took):.1f} ms ({spread(took, '{:.1f}')}); longest hold of a thread: "
              f"median {statistics.median(held):.3f} ms, p99 {percentile(held, 0.99):.3f} ms", flush=True)
    return rows


def rss_bytes(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmRSS:"))


def resident(threads, env):
    program = Program([built("growth"), "threads", threads], env)
    program.measure()
    program.measure()
    value = rss_bytes(program.pid)
    program.quit()
    return value


def agent_resident(threads, folder):
    program = Program([built("growth"), "threads", threads])
    capture = Capture(program.pid, folder)
    program.measure()
    program.measure()
    value = agent_rss_bytes(program.pid)[0]
    capture.stop()
    program.quit()
    return value


MEMORY_THREADS = (1, 8, 50)


def fixed_and_each(sizes):
    each = (sizes[50] - sizes[8]) / 42
    return {"fixed": sizes[1] - each, "each": each}


def run_memory(count, folder):
    """What is resident of the agent's own mappings; for heaptrack's library, what is more than without it."""
    rounds = []
    for _ in range(count):
        row = {"heaptap": fixed_and_each({n: agent_resident(n, folder) for n in MEMORY_THREADS})}
        if heaptrack_env():
            row["heaptrack"] = fixed_and_each(
                {n: resident(n, heaptrack_env()) - resident(n, None) for n in MEMORY_THREADS})
        rounds.append(row)
    text = ", ".join(f"{who} {median_of(rounds, who, 'fixed') / 2**20:.2f} MiB + "
                     f"{median_of(rounds, who, 'each') / 2**10:.0f} KiB per thread" for who in rounds[0])
    print(f"memory: added to the program: {text}", flush=True)
    return {who: {part: median_of(rounds, who, part) for part in ("fixed", "each")} for who in rounds[0]} | {
        "rounds": rounds}
