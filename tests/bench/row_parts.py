# SPDX-License-Identifier: Apache-2.0
"""What each part of the agent costs by itself, in nanoseconds and in instructions."""
import glob
import os
import re
import shutil
import statistics
import subprocess

from common import built, is_short, spread


def timed():
    """{part: (what it is, median ns)} of one run."""
    argv = [built("parts")] + (["-s"] if is_short() else [])
    lines = subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    return {name: (about, float(median)) for name, about, median, _, _ in (line.split("\t") for line in lines)}


def instructions(folder):
    """{part: instructions per operation}, counted by callgrind; empty without it."""
    if not shutil.which("valgrind"):
        return {}
    out = os.path.join(folder, "callgrind")
    run = subprocess.run(["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}",
                          built("parts")], stdout=subprocess.PIPE, text=True, check=True)
    times = {name: int(count) for name, _, count in (line.split("\t") for line in run.stdout.splitlines())}
    spent = {}
    for path in glob.glob(f"{out}.*"):
        with open(path) as dump:
            text = dump.read()
        name = re.search(r"^desc: Trigger: Client Request: (\w+) (.+)$", text, re.M)
        total = re.search(r"^summary: (\d+)", text, re.M)
        if name and total:
            spent[name.groups()] = int(total.group(1))
    return {name: (spent["part", name] - spent["base", name]) / times[name]
            for name in times if {("part", name), ("base", name)} <= set(spent)}


def run_parts(count, folder):
    print("parts: the agent's parts, and costs that no profiler avoids (CPU of the thread)")
    rounds = [timed() for _ in range(count)]
    counted = instructions(folder)
    print(f"{'part':>14} {'ns':>8} {'spread':>16} {'instructions':>12}  what")
    rows = {}
    for name, (about, _) in rounds[0].items():
        values = [r[name][1] for r in rounds]
        rows[name] = {"about": about, "ns": statistics.median(values), "rounds_ns": values,
                      "instructions": counted.get(name)}
        number = f"{counted[name]:.1f}" if name in counted else "-"
        print(f"{name:>14} {rows[name]['ns']:>8.1f} {spread(values, '{:.1f}'):>16} {number:>12}  {about}", flush=True)
    return rows
