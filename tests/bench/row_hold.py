# SPDX-License-Identifier: Apache-2.0
"""How long a thread is held by attach and detach, in a process of 100 threads and 200 modules."""
import hashlib
import os
import statistics
import subprocess

from common import Capture, Program, built, is_short

THREADS, MODULES = 100, 200
ATTACHES = 20  # in each round
BUILD_ID = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0"


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def module_copies(folder):
    """Copies of one library, each with a build-id of its own: tables are kept by it."""
    with open(built("module.so"), "rb") as module:
        image = module.read()
    at = image.index(BUILD_ID) + len(BUILD_ID)
    paths = []
    for i in range(MODULES):
        paths.append(os.path.join(folder, f"module-{i}.so"))
        with open(paths[-1], "wb") as copy:
            copy.write(image[:at] + hashlib.sha1(str(i).encode()).digest() + image[at + 20:])
    return paths


def least():
    """What is held without heaptap: a thread that is stopped and let go, and one that makes one call meanwhile."""
    lines = subprocess.run([built("stop")], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    (stop, stop_p99), (call, call_p99) = ([float(word) for word in line.split()] for line in lines)
    print(f"hold: without heaptap, a thread that is stopped and let go: p50 {stop / 1e6:.3f} ms, p99 {stop_p99 / 1e6:.3f}; "
          f"that makes one mmap meanwhile: p50 {call / 1e6:.3f} ms, p99 {call_p99 / 1e6:.3f}", flush=True)
    return {"stop_p50_ns": stop, "stop_p99_ns": stop_p99, "call_p50_ns": call, "call_p99_ns": call_p99}


def run_hold(count, folder):
    attaches = 3 if is_short() else count * ATTACHES
    program = Program([built("many"), THREADS, *module_copies(folder)])
    env = {"XDG_CACHE_HOME": os.path.join(folder, "cache-hold")}
    Capture(program.pid, folder, env).stop()
    reports = [Capture(program.pid, folder, env).stop() for _ in range(attaches)]
    program.quit()
    held = [r["stop_ns"] for r in reports]
    row = {"attaches": attaches, "p50_ns": percentile(held, 0.5), "p99_ns": percentile(held, 0.99), "held_ns": held, "least": least(),
           "attach_ns": statistics.median(r["attach_ns"] for r in reports),
           "detach_ns": statistics.median(r["detach_ns"] for r in reports)}
    print(f"hold: {THREADS} threads and {MODULES} modules, longest hold of a thread in an attach and its detach: "
          f"p50 {row['p50_ns'] / 1e6:.3f} ms, p99 {row['p99_ns'] / 1e6:.3f} ms of {attaches} "
          f"({min(held) / 1e6:.3f}..{max(held) / 1e6:.3f}); attach {row['attach_ns'] / 1e6:.1f} ms, "
          f"detach {row['detach_ns'] / 1e6:.1f} ms", flush=True)
    return row
