# SPDX-License-Identifier: Apache-2.0
"""What the rows of scripts/bench share: programs that measure when told to, and captures of them."""
import contextlib
import glob
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OUT = os.path.join(TOP, "out", "release")
HEAPTAP = os.path.join(OUT, "heaptap")
SYS_PPOLL = 271
ATTACH_LIMIT_S = 60
TICK_NS = 1e9 / os.sysconf("SC_CLK_TCK")


def is_short():
    """Whether only to see that everything works: figures mean little then."""
    return "HEAPTAP_BENCH_SHORT" in os.environ


def built(name):
    return os.path.join(OUT, "tests", "bench", name)


def heaptrack_env():
    """The environment that makes a program run under heaptrack, its output thrown away; None without heaptrack."""
    library = glob.glob("/usr/lib/heaptrack/libheaptrack_preload.so")
    return {"LD_PRELOAD": library[0], "DUMP_HEAPTRACK_OUTPUT": "/dev/null"} if library else None


class Program:
    """A program that prints "ready PID", then one line of numbers for each line "measure" that it reads."""

    def __init__(self, argv, env=None):
        self.process = subprocess.Popen([str(a) for a in argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=dict(os.environ, **(env or {})))
        self.pid = int(self.process.stdout.readline().split()[1])

    def measure(self):
        self.process.stdin.write("measure\n")
        self.process.stdin.flush()
        return [float(word) for word in self.process.stdout.readline().split()]

    def quit(self):
        self.process.stdin.write("quit\n")
        self.process.stdin.flush()
        self.process.wait()


def process_cpu_ns(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * TICK_NS


def agent_rss_bytes(pid):
    """Resident memory of the agent's image, and whether there is one."""
    total, ours, there = 0, False, False
    with open(f"/proc/{pid}/smaps") as smaps:
        for line in smaps:
            if "-" in line.split()[0]:
                ours = "memfd:heaptap" in line
                there = there or ours
            elif ours and line.startswith("Rss:"):
                total += int(line.split()[1]) * 1024
    return total, there


def tree_of(pid):
    """A process and its children."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            return [pid] + [int(word) for word in children.read().split()]
    except OSError:
        return [pid]


def tree_cpu_ns(pid):
    """CPU that a process and its children have had, each of one thread."""
    total = 0
    for each in tree_of(pid):
        with contextlib.suppress(OSError):
            with open(f"/proc/{each}/schedstat") as stat:
                total += int(stat.read().split()[0])
    return total


def tree_peak_bytes(pid):
    """The most memory that a process had, and each child of it; pages that they share count for each."""
    total = 0
    for each in tree_of(pid):
        with contextlib.suppress(OSError):
            with open(f"/proc/{each}/status") as status:
                total += sum(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))
    return total


class Capture:
    """heaptap attached to a running process, until stop()."""

    def __init__(self, pid, folder, env=None, options=()):
        self.pid = pid
        self.trace = os.path.join(folder, "trace.htap")
        self.process = subprocess.Popen([HEAPTAP, "attach", "-p", str(pid), "-o", self.trace, "-f", "-q", "--json",
                                         "--symbolize", "later", *options], stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, env=dict(os.environ, **(env or {})))
        self.settle()
        if not agent_rss_bytes(pid)[1]:
            sys.exit("scripts/bench: heaptap did not attach")
        self.begun_cpu_ns = tree_cpu_ns(self.process.pid)

    def is_recording(self):
        """Whether it waits for several things at once, as it does only while it records."""
        try:
            with open(f"/proc/{self.process.pid}/syscall") as call:
                words = call.read().split()
            return words[0] == str(SYS_PPOLL) and int(words[2], 16) >= 4
        except (OSError, IndexError):
            return False

    def has_ended(self):
        """Not poll(): what it has used is still to be asked."""
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def settle(self):
        """Until the attach is over."""
        end = time.monotonic() + ATTACH_LIMIT_S
        while not self.is_recording() and not self.has_ended():
            if time.monotonic() > end:
                sys.exit("scripts/bench: the attach does not end")
            time.sleep(0.01)

    def stop(self, keep=False):
        """Detaches; what `heaptap attach --json` says, with the daemon's CPU and peak memory."""
        ended_cpu_ns = 0 if self.has_ended() else tree_cpu_ns(self.process.pid)
        os.kill(self.process.pid, signal.SIGTERM)
        reader = threading.Thread(target=lambda: self.said.append(self.process.stdout.read()))
        self.said = []
        reader.start()
        peak, pid = 0, 0
        while pid == 0:
            peak = max(peak, tree_peak_bytes(self.process.pid))
            pid, status, usage = os.wait4(self.process.pid, os.WNOHANG)
            time.sleep(0.002)
        reader.join()
        code = self.process.returncode = os.waitstatus_to_exitcode(status)
        if code not in (0, 5, 7):
            sys.exit(f"scripts/bench: heaptap failed with {code}")
        report = json.loads(self.said[0])
        report["lossless"] = report["dropped_events"] == 0
        report["daemon_cpu_ns"] = (usage.ru_utime + usage.ru_stime) * 1e9
        report["daemon_capture_cpu_ns"] = (ended_cpu_ns or report["daemon_cpu_ns"]) - self.begun_cpu_ns
        report["daemon_rss_bytes"] = peak
        if not keep:
            os.unlink(self.trace)
        return report


def median_of(rounds, *path):
    def value(r):
        for key in path:
            r = r[key]
        return r
    return statistics.median(value(r) for r in rounds)


def ratios(rounds):
    """heaptrack's added cost over ours, round by round; a round is {"plain", "heaptap", "heaptrack"}."""
    return [(r["heaptrack"] - r["plain"]) / max(r["heaptap"] - r["plain"], r["plain"] * 1e-3) for r in rounds]


def spread(values, form="{:.2f}"):
    return f"{form.format(min(values))}..{form.format(max(values))}"


def wait_until(condition, what, limit_s=30):
    end = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"scripts/bench: {what}")
        time.sleep(0.01)
