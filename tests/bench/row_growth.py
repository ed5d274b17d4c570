# SPDX-License-Identifier: Apache-2.0
"""How cost and memory grow with threads, stacks, depth, live blocks and the length of a capture."""
import os
import statistics
import subprocess
import sys

from common import HEAPTAP, Capture, Program, agent_rss_bytes, built, is_short, median_of, spread

CURVES = {"threads": [1, 10, 100, 1000],
          "stacks": [10, 100, 1000, 10000, 100000, 1000000],
          "depth": [5, 10, 20, 50, 100, 200, 500],
          "blocks": [10, 1000, 100000, 1000000, 10000000],
          "length": [1, 4, 16]}
SHORT = {"threads": [1, 100], "stacks": [10, 10000], "depth": [5, 500], "blocks": [10, 100000], "length": [1, 2]}
# More than the agent has room for (depth: than it keeps), once: what it lost, or left away, is counted.
LIMITS = {"threads": 2500, "stacks": 1200000, "depth": 2000}
ON_REQUEST = {"blocks": [50000000]}
WHAT = {"threads": "threads, four awake at a time",
        "stacks": "distinct stacks, each pair from another one",
        "depth": "frames, 3 of them new, from four places",
        "blocks": "live blocks, one freed and another allocated",
        "length": "passes of 1.8 million events, one capture"}
ROUNDS_MAX = 3


def program_of(curve, size):
    if curve == "depth":
        return Program([built("pairs"), size, 3, 1, 4])
    if curve == "length":
        return Program([built("pairs"), 20, 3, 1, 4])
    return Program([built("growth"), curve, size])


def analysis(trace):
    """CPU and peak memory of the report of a trace."""
    process = subprocess.Popen([HEAPTAP, "report", "--json", "--limit", "1", trace], stdout=subprocess.DEVNULL)
    peak, pid = 0, 0
    while pid == 0:
        try:
            with open(f"/proc/{process.pid}/status") as status:
                peak = max([peak] + [int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:")])
        except OSError:
            pass
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"scripts/bench: heaptap report failed with {process.returncode}")
    return (usage.ru_utime + usage.ru_stime) * 1e9, peak


def plain_ns(curve, size):
    """The second pass: the first one makes what the program works on."""
    program = program_of(curve, size)
    program.measure()
    value = program.measure()[0]
    program.quit()
    return value


def tapped(curve, size, folder, analysed):
    program = program_of(curve, size)
    capture = Capture(program.pid, folder)
    passes = [program.measure() for _ in range(size + 1 if curve == "length" else 2)]
    agent_bytes = agent_rss_bytes(program.pid)[0]
    report = capture.stop(keep=True)
    program.quit()
    cpu_ns, peak = analysis(capture.trace) if analysed else (0, 0)
    events = max(report["events"], 1)
    found = {"first_ns": passes[0][0], "settled_ns": passes[-1][0], "agent_bytes": agent_bytes,
             "daemon_ns_per_event": report["daemon_capture_cpu_ns"] / events,
             "daemon_rss_bytes": report["daemon_rss_bytes"], "bytes_per_event": report["trace_bytes"] / events,
             "report_ns_per_event": cpu_ns / events, "report_rss_bytes": peak,
             "attach_ns": report["attach_ns"], "detach_ns": report["detach_ns"],
             "events": report["events"], "dropped_events": report["dropped_events"],
             "truncated_stacks": report["truncated_stacks"]}
    os.unlink(capture.trace)
    return found


def one_round(curve, size, folder, analysed):
    plain = plain_ns(curve, size)
    return dict(tapped(curve, size, folder, analysed), plain_ns=plain)


def measured(curve, size, count, folder, analysed):
    """The report, which may take longer than all the rest, is timed in the first round only."""
    rounds = [one_round(curve, size, folder, analysed and i == 0) for i in range(count)]
    row = {key: median_of(rounds, key) for key in rounds[0]}
    row.update({key: rounds[0][key] for key in rounds[0] if key.startswith("report_")})
    added = [r["settled_ns"] - r["plain_ns"] for r in rounds]
    row.update(size=size, added_ns=statistics.median(added), added_spread_ns=[min(added), max(added)], rounds=rounds)
    return row


def print_row(row, note=""):
    report = f"{row['report_ns_per_event']:>7.1f} {row['report_rss_bytes'] / 2**20:>7.1f}"
    print(f"{row['size']:>9} {row['plain_ns']:>7.1f} {row['first_ns']:>7.1f} {row['added_ns']:>7.1f} "
          f"{spread(row['added_spread_ns'], '{:.1f}'):>14} {row['agent_bytes'] / 2**20:>7.2f} "
          f"{row['daemon_ns_per_event']:>7.1f} {row['daemon_rss_bytes'] / 2**20:>7.1f} {row['bytes_per_event']:>6.2f} "
          f"{report if row['report_rss_bytes'] else '':>15} {row['attach_ns'] / 1e6:>7.1f} "
          f"{row['detach_ns'] / 1e6:>7.1f} {row['events']:>10.0f} {row['dropped_events']:>9.0f} "
          f"{row['truncated_stacks']:>9.0f}{note}", flush=True)


def run_curve(curve, sizes, limit, count, folder):
    print(f"growth: {WHAT[curve]}")
    print(f"{curve:>9} {'plain':>7} {'first':>7} {'added':>7} {'spread':>14} {'agent':>7} {'daemon':>15} {'disk':>6} "
          f"{'report':>15} {'attach':>7} {'detach':>7} {'events':>10} {'dropped':>9} {'cut':>9}")
    print(f"{'':>9} {'ns':>7} {'ns':>7} {'ns':>7} {'ns':>14} {'MiB':>7} {'ns/ev':>7} {'MiB':>7} {'B/ev':>6} "
          f"{'ns/ev':>7} {'MiB':>7} {'ms':>7} {'ms':>7}")
    rows = []
    for size in sizes:
        rows.append(measured(curve, size, count, folder, True))
        print_row(rows[-1])
    if limit:
        rows.append(dict(measured(curve, limit, 1, folder, False), beyond=True))
        print_row(rows[-1], "  beyond the limit")
    return rows


def run_growth(count, folder):
    count = min(count, ROUNDS_MAX)
    curves = SHORT if is_short() else CURVES
    return {curve: run_curve(curve, sizes, LIMITS.get(curve), count, folder)
            for curve, sizes in curves.items()}


def run_growth_large(_, folder):
    return {curve: run_curve(curve, sizes, None, 1, folder) for curve, sizes in ON_REQUEST.items()}
