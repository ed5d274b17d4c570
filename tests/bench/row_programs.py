# SPDX-License-Identifier: Apache-2.0
"""What recording costs whole programs, and what their traces weigh."""
import os
import statistics
import subprocess
import time

from common import (Capture, Program, built, heaptrack_env, is_short, median_of, process_cpu_ns, ratios, spread,
                    wait_until)
from heaptrack_size import heaptrack_size

NODE_SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "churn.js")
DB_BENCH = ["db_bench", "--benchmarks=fillrandom,readrandom,overwrite", "--threads=2"]
REDIS_LOAD = ["-q", "-P", "16", "-c", "8", "-r", "100000", "-d", "100", "-t", "set,lpush,hset,sadd"]


def amount(long):
    return str(long // 10 if is_short() else long)


class Usage:
    """CPU that a program took for its work, and the report of the capture that went on meanwhile."""

    def __init__(self, cpu_ns, report=None):
        self.cpu_ns, self.report = cpu_ns, report


def server(folder, tap, env):
    """Eight threads, everything running: wall time per request."""
    program = Program([built("server"), 8], env)
    capture = Capture(program.pid, folder) if tap else None
    program.measure()
    wall_ns = statistics.median(program.measure()[1] for _ in range(3))
    report = capture.stop() if capture else None
    program.quit()
    return Usage(wall_ns, report)


def node(folder, tap, env):
    program = Program(["node", NODE_SCRIPT], env)
    capture = Capture(program.pid, folder) if tap else None
    program.measure()
    cpu_ns = sum(program.measure()[0] for _ in range(1 if is_short() else 10))
    report = capture.stop() if capture else None
    program.quit()
    return Usage(cpu_ns, report)


def redis(folder, tap, env):
    socket = os.path.join(folder, "redis.sock")
    process = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly",
                                "no", "--dir", folder], stdout=subprocess.DEVNULL, env=dict(os.environ, **(env or {})))
    wait_until(lambda: os.path.exists(socket), "redis-server does not start")
    capture = Capture(process.pid, folder) if tap else None
    before_ns = process_cpu_ns(process.pid)
    subprocess.run(["redis-benchmark", "-s", socket, *REDIS_LOAD, "-n", amount(400000)], stdout=subprocess.DEVNULL,
                   check=True)
    cpu_ns = process_cpu_ns(process.pid) - before_ns
    report = capture.stop() if capture else None
    process.terminate()
    process.wait()
    return Usage(cpu_ns, report)


def db_bench(folder, tap, env):
    data = os.path.join(folder, "db")
    process = subprocess.Popen([*DB_BENCH, f"--num={amount(150000)}", f"--db={data}"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=dict(os.environ, **(env or {})))
    capture = None
    if tap:
        time.sleep(0.05)
        capture = Capture(process.pid, folder)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    report = capture.stop() if capture else None
    subprocess.run(["rm", "-rf", data], check=True)
    return Usage((usage.ru_utime + usage.ru_stime) * 1e9, report)


PROGRAMS = [("redis-server", redis), ("node", node), ("db_bench", db_bench)]


def one_round(run, folder):
    plain, tapped = run(folder, False, None), run(folder, True, None)
    result = {"plain": plain.cpu_ns, "heaptap": tapped.cpu_ns, "report": tapped.report}
    if heaptrack_env():
        result["heaptrack"] = run(folder, False, heaptrack_env()).cpu_ns
    return result


def trace_text(rounds):
    weight = statistics.median(r["report"]["trace_bytes"] / max(r["report"]["events"], 1) for r in rounds)
    events = rounds[0]["report"]["events"]
    daemon = statistics.median(r["report"]["daemon_capture_cpu_ns"] / max(r["report"]["events"], 1) for r in rounds)
    rss = max(r["report"]["daemon_rss_bytes"] for r in rounds) / 2**20
    dropped = sum(r["report"]["dropped_events"] for r in rounds)
    return (f"{weight:.2f} bytes per event on disk, {events} events, {dropped} dropped; "
            f"daemon {daemon:.1f} ns of CPU per event, {rss:.0f} MiB")


def heaptrack_text(size):
    return f"; heaptrack {size['bytes'] / size['events']:.2f} of {size['events']}" if size else ""


def run_server(count, folder):
    rounds = [one_round(server, folder) for _ in range(count)]
    size = heaptrack_size(lambda env: server(folder, False, env), folder)
    slower = {who: [r[who] / r["plain"] for r in rounds] for who in ("heaptap", "heaptrack") if who in rounds[0]}
    text = ", ".join(f"{who} {statistics.median(slower[who]):.2f} x ({spread(slower[who])})" for who in slower)
    print(f"server: plain throughput over captured, 8 threads that never wait: {text}\n"
          f"        {trace_text(rounds)}{heaptrack_text(size)}", flush=True)
    return {"slowdown": slower, "heaptrack_size": size, "rounds": rounds}


def run_programs(count, folder):
    rows = {}
    for name, run in PROGRAMS:
        rounds = [one_round(run, folder) for _ in range(count)]
        plain = median_of(rounds, "plain")
        share = {who: statistics.median((r[who] - r["plain"]) / plain for r in rounds)
                 for who in ("heaptap", "heaptrack") if who in rounds[0]}
        line = f"{name}: CPU {plain / 1e9:.2f} s, added: " + ", ".join(f"{who} {share[who]:.1%}" for who in share)
        if "heaptrack" in share:
            line += f"; ratio {statistics.median(ratios(rounds)):.2f} ({spread(ratios(rounds))})"
        size = heaptrack_size(lambda env, run=run: run(folder, False, env), folder)
        print(f"{line}\n        {trace_text(rounds)}{heaptrack_text(size)}", flush=True)
        rows[name] = {"added_share": share, "ratios": ratios(rounds) if "heaptrack" in share else None,
                      "heaptrack_size": size, "rounds": rounds}
    return rows
