# SPDX-License-Identifier: Apache-2.0
"""The figures to reach, and what a run has found for each."""
import statistics

from row_hold import percentile


class Goal:
    """`found(results)` gives all rounds' values, or None where the row was not run. `more`: the larger the better."""

    def __init__(self, name, unit, must, aim, found, more=False, middle=statistics.median):
        self.name, self.unit, self.must, self.aim = name, unit, must, aim
        self.found, self.more, self.middle = found, more, middle

    def verdict(self, value):
        for limit, word in ((self.aim, "aim"), (self.must, "must")):
            if value >= limit if self.more else value <= limit:
                return word
        return "no"


def pair_ratio(depth, new, threads, places):
    def found(results):
        for row in results.get("pairs", []):
            if (row["depth"], row["new_frames"], row["threads"], row["places"]) == (depth, new, threads, places):
                return row.get("ratios")
        return None
    return found


def server_slowdown(results):
    return results["server"]["slowdown"]["heaptap"] if "server" in results else None


def threads_ratio(results):
    return results["threads"]["ratios"] if "threads" in results else None


def program_ratio(name):
    def found(results):
        return results["programs"][name].get("ratios") if "programs" in results else None
    return found


def reports_of(results):
    """{program: the reports of its captures}"""
    rows = dict(results.get("programs", {}))
    if "server" in results:
        rows["server"] = results["server"]
    return {name: [r["report"] for r in row["rounds"]] for name, row in rows.items()}


def per_event(key, name):
    def found(results):
        reports = reports_of(results).get(name)
        return [r[key] / max(r["events"], 1) for r in reports] if reports else None
    return found


def culled_kb_per_s(results):
    return [results["days"]["culled"]["bytes_per_s"] / 1e3] if "days" in results else None


def culled_growth(results):
    """Of all processes of heaptap together, MiB per hour; None where the run was too short for a slope."""
    slopes = results["days"]["culled"]["slope_bytes_per_hour"] if "days" in results else {}
    ours = [slope for name, slope in slopes.items() if name.startswith("heaptap")]
    return [sum(ours) / 2**20] if ours and None not in ours else None


def daemon_mib(results):
    reports = reports_of(results)
    return [r["daemon_rss_bytes"] / 2**20 for each in reports.values() for r in each] or None


def daemon_ns(results):
    return [r["ns_per_event"] for r in results["daemon"]["as it is"]] if "daemon" in results else None


def held_ns(results):
    return [ns / 1e6 for ns in results["hold"]["held_ns"]] if "hold" in results else None


def first_event(name, cache):
    def found(results):
        return results["attach"][name][cache] if "attach" in results else None
    return found


def memory(part, unit):
    def found(results):
        return [r["heaptap"][part] / unit for r in results["memory"]["rounds"]] if "memory" in results else None
    return found


def detach(name):
    def found(results):
        return [a[2] for a in results["detach"][name]] if "detach" in results else None
    return found


def sampled_ns(results):
    return [r["added"] for r in results["paused"]["1 thread"]] if "paused" in results else None


def analyze(name, kind):
    def found(results):
        return results["analyze"][name][kind] if "analyze" in results else None
    return found


def page(value):
    """The page of a generated trace, where there was a browser."""
    def found(results):
        return [value(one) for one in results["page"]["rounds"]] if results.get("page") else None
    return found


def pair_goals():
    """Stacks that change, as the goals mean it, and the same stack again."""
    goals = []
    for name, depth, new, threads, must, aim in (
            ("20 frames, 3 new", 20, 3, 1, 7, 10), ("50 frames, 3 new", 50, 3, 1, 9, 12),
            ("5 frames, 3 new", 5, 3, 1, 4, 6), ("20 frames, 19 new", 20, 19, 1, 2, 3),
            ("2 threads, wall", 20, 3, 2, 8, 10)):
        for places, text in ((4, "other places"), (1, "same places")):
            goals.append(Goal(f"pair, {name}, from {text}", "x less", must, aim,
                              pair_ratio(depth, new, threads, places), more=True))
    return goals


GOALS = pair_goals() + [
    Goal("8-thread server, plain over captured", "x", 2.0, 1.5, server_slowdown),
    *[Goal(f"added CPU, {name}", "x less", 5, 7, program_ratio(name), more=True)
      for name in ("db_bench", "redis-server", "node")],
    Goal("CPU per pair, 8 threads over 1", "x", 1.2, 1.05, threads_ratio),
    Goal("paused, or sampling at 512 KiB, per pair", "ns", 4, 2, sampled_ns),
    Goal("hold, 100 threads, 200 modules, p50", "ms", 0.05, 0.02, held_ns),
    Goal("hold, the same, p99", "ms", 0.5, 0.25, held_ns, middle=lambda values: percentile(values, 0.99)),
    *[Goal(f"first event, {name}, {text}", "ms", must, aim, first_event(name, cache))
      for name, cache, text, must, aim in (
          ("redis-server", "cached", "tables cached", 60, 30), ("node", "cached", "tables cached", 150, 60),
          ("redis-server", "not cached", "tables not cached", 150, 80),
          ("node", "not cached", "tables not cached", 400, 200))],
    Goal("daemon CPU per event, one thread that only allocates", "ns", 25, 12, daemon_ns),
    *[Goal(f"daemon CPU per event, {name}", "ns", 25, 12, per_event("daemon_capture_cpu_ns", name))
      for name in ("server", "redis-server", "db_bench", "node")],
    Goal("daemon memory, the largest", "MiB", 64, 32, daemon_mib, middle=max),
    Goal("memory in the target, fixed", "MiB", 8, 4, memory("fixed", 2**20)),
    Goal("memory in the target, per thread", "KiB", 128, 64, memory("each", 2**10)),
    *[Goal(f"on disk per event, {name}", "bytes", 4, 1.9, per_event("trace_bytes", name))
      for name in ("db_bench", "node", "server")],
    Goal("on disk, redis-server at 20,000 commands/s, --cull 10s", "KB/s", 50, 10, culled_kb_per_s),
    Goal("memory of heaptap in the same, growth", "MiB/h", 8, 1, culled_growth),
    Goal("detach, 50 threads that wait", "ms", 100, 20, detach("50 threads that wait")),
    Goal("detach, 50 threads that all compute", "ms", 100, 20, detach("50 threads that all compute")),
    *[Goal(f"report, CPU of heaptrack_print over ours, {name}", "x", 1.5, 3, analyze(name, "ratios"), more=True)
      for name in ("redis-server", "db_bench")],
    Goal("page of 400,000 nodes, shown", "ms", 1000, 500, page(lambda one: one["shown_ms"])),
    Goal("the same, the slowest view follows a brush", "ms", 50, 20,
         page(lambda one: max(one["answer_ms"].values()))),
    *[Goal(f"report, memory of heaptrack_print over ours, {name}", "x", 1, 2, analyze(name, "memory_ratios"), more=True)
      for name in ("redis-server", "db_bench")],
]


def print_goals(results):
    """The table; as a list for the JSON file."""
    rows = []
    print("goals (of must and aim the better one that the median reaches)")
    print(f"{'what':<53} {'must':>6} {'aim':>6} {'found':>8} {'spread':>17}        reaches")
    for goal in GOALS:
        values = goal.found(results)
        row = {"name": goal.name, "unit": goal.unit, "must": goal.must, "aim": goal.aim}
        line = f"{goal.name:<53} {goal.must:>6} {goal.aim:>6}"
        if values:
            row.update(found=goal.middle(values), least=min(values), most=max(values))
            row["reaches"] = goal.verdict(row["found"])
            line += (f" {row['found']:>8.2f} {row['least']:>8.2f}..{row['most']:<7.2f} {goal.unit:<6} "
                     f"{row['reaches']}")
        else:
            row["reaches"] = "not measured"
            line += f" {'-':>8} {'':>17} {goal.unit:<6} {row['reaches']}"
        print(line)
        rows.append(row)
    return rows
