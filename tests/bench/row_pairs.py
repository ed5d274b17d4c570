# SPDX-License-Identifier: Apache-2.0
"""What recording adds to a malloc+free pair, and what a pair costs when eight threads record."""
import statistics

from common import Capture, Program, built, heaptrack_env, median_of, ratios, spread

# Depth, new frames, threads, places from which the new ones are called: 1 gives the same stack again.
CONFIGS = [(5, 3, 1, 1), (20, 3, 1, 1), (20, 19, 1, 1), (50, 3, 1, 1), (20, 3, 2, 1),
           (5, 3, 1, 4), (20, 3, 1, 4), (20, 19, 1, 4), (50, 3, 1, 4), (20, 3, 2, 4)]
# Of each round.
TURNS = 5
# Written by the bench program: CPU of the thread, wall of all.
CPU, WALL = 0, 1


def settled(program, which):
    """The first pass makes slots, stacks and caches."""
    program.measure()
    return program.measure()[which]


def started(config, which, env=None):
    """The program after its first pass, which makes slots, stacks and caches."""
    program = Program([built("pairs"), *config], env)
    settled(program, which)
    return program


def in_turn(config, which, folder, turns):
    """The same program plain, tapped, and with heaptrack's library, each measured in turn: what else the machine does
    lasts longer than a turn."""
    programs = {"plain": started(config, which), "heaptap": started(config, which)}
    if heaptrack_env():
        programs["heaptrack"] = started(config, which, heaptrack_env())
    capture = Capture(programs["heaptap"].pid, folder)
    settled(programs["heaptap"], which)
    rounds = [{who: program.measure()[which] for who, program in programs.items()} for _ in range(turns)]
    report = capture.stop()
    for program in programs.values():
        program.quit()
    return [dict(r, lossless=report["lossless"]) for r in rounds]


def run_added(count, folder):
    print("pairs: added ns per malloc+free pair (CPU of the thread; for 2 threads: wall)")
    print(f"{'depth':>5} {'new':>4} {'places':>6} {'threads':>7} {'plain':>7} {'heaptap':>8} {'heaptrack':>9} "
          f"{'ratio':>6}  spread")
    rows = []
    for config in CONFIGS:
        which = CPU if config[2] == 1 else WALL
        rounds = in_turn(config, which, folder, count * TURNS)
        plain = median_of(rounds, "plain")
        row = {"depth": config[0], "new_frames": config[1], "threads": config[2], "places": config[3],
               "plain_ns": plain, "lossless": all(r["lossless"] for r in rounds),
               "heaptap_added_ns": statistics.median(r["heaptap"] - r["plain"] for r in rounds), "rounds": rounds}
        line = (f"{config[0]:>5} {config[1]:>4} {config[3]:>6} {config[2]:>7} {plain:>7.1f} "
                f"{row['heaptap_added_ns']:>8.1f}")
        if "heaptrack" in rounds[0]:
            row["heaptrack_added_ns"] = statistics.median(r["heaptrack"] - r["plain"] for r in rounds)
            row["ratios"] = ratios(rounds)
            row["ratio"] = statistics.median(row["ratios"])
            line += f" {row['heaptrack_added_ns']:>9.1f} {row['ratio']:>6.2f}  {spread(row['ratios'])}"
        print(line, flush=True)
        rows.append(row)
    return rows


def run_threads(count, folder):
    """Thread CPU per pair with 8 threads over that with 1: there is no lock and no shared line to wait for."""
    rounds = []
    for _ in range(count):
        one, eight = (in_turn((20, 3, threads, 1), CPU, folder, 1)[0] for threads in (1, 8))
        rounds.append({"one": one, "eight": eight,
                       "ratio": {who: eight[who] / one[who] for who in one if who != "lossless"}})
    text = ", ".join(f"{who} {median_of(rounds, 'ratio', who):.2f} ({spread([r['ratio'][who] for r in rounds])})"
                     for who in rounds[0]["ratio"])
    print(f"threads: CPU of a thread per pair, 8 threads over 1: {text}; "
          f"heaptap {median_of(rounds, 'one', 'heaptap'):.1f} and {median_of(rounds, 'eight', 'heaptap'):.1f} ns",
          flush=True)
    return {"ratios": [r["ratio"]["heaptap"] for r in rounds], "rounds": rounds}


def sampled_round(config, folder):
    """Plain, sampled, plain again: the less of the two is what a busy machine has disturbed less."""
    program = Program([built("pairs"), *config])
    plain = settled(program, CPU)
    capture = Capture(program.pid, folder, options=("--sample", "512K"))
    sampled = settled(program, CPU)
    report = capture.stop()
    plain = min(plain, settled(program, CPU))
    program.quit()
    return {"plain": plain, "sampled": sampled, "added": sampled - plain, "samples": report["events"]}


def run_sampled(count, folder):
    """Hooks in place that record next to nothing."""
    rows = {}
    for name, config in (("1 thread", (5, 3, 1, 1)), ("2 threads", (5, 3, 2, 1))):
        rounds = rows[name] = [sampled_round(config, folder) for _ in range(count)]
        added = [r["added"] for r in rounds]
        print(f"paused: sampling at 512 KiB, {name}: {statistics.median(added):.1f} ns added per pair "
              f"({spread(added)}) to {median_of(rounds, 'plain'):.1f}", flush=True)
    return rows
