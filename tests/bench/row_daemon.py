# SPDX-License-Identifier: Apache-2.0
"""Whether the daemon keeps up with a thread that does nothing but allocate, and what that takes it."""
import statistics
import time

from common import Capture, Program, built, is_short, spread

PASSES = 8
PASS_EVENTS = 1800000


def one_round(folder, options):
    program = Program([built("pairs"), 5, 0, 1])
    capture = Capture(program.pid, folder, options=options)
    program.measure()
    start = time.monotonic()
    passes = 1 if is_short() else PASSES
    for _ in range(passes):
        program.measure()
    seconds = time.monotonic() - start
    report = capture.stop()
    program.quit()
    report["events_per_second"] = passes * PASS_EVENTS / seconds
    report["ns_per_event"] = report["daemon_capture_cpu_ns"] / max(report["events"], 1)
    return report


def run_daemon(count, folder):
    rows = {}
    for name, options in (("as it is", ()), ("--lossless", ("--lossless",))):
        rounds = rows[name] = [one_round(folder, options) for _ in range(count)]
        cost = [r["ns_per_event"] for r in rounds]
        print(f"daemon: one thread that only allocates, {name}: "
              f"{statistics.median(r['events_per_second'] for r in rounds) / 1e6:.1f} M events/s, "
              f"{statistics.median(cost):.1f} ns of CPU per event ({spread(cost, '{:.1f}')}), "
              f"{max(r['daemon_rss_bytes'] for r in rounds) / 2**20:.0f} MiB, "
              f"{sum(r['dropped_events'] for r in rounds)} dropped", flush=True)
    return rows
