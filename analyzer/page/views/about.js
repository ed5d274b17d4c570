/* SPDX-License-Identifier: Apache-2.0
 *
 * About this capture: its target, its end, losses, and where memory grew.
 */
"use strict";

const About = (() => {
	function list(rows) {
		return Dom.element("dl", {class: "facts"}, ...rows.filter((row) => row).flatMap((row) => [
			Dom.element("dt", {}, row[0]), Dom.element("dd", {}, row[1])]));
	}

	const bytes = (value) => value === null || value === undefined ? "not known"
		: Format.bytes(value);

	/* A figure, with its bounds if they differ. */
	function range(heap, name) {
		const value = heap[name + "_bytes"], least = heap[name + "_least_bytes"];
		const most = heap[name + "_most_bytes"];
		if (value === null || least === most || most === null)
			return bytes(value);
		return bytes(value) + " (between " + bytes(least) + " and " + bytes(most) + ")";
	}

	function target(facts) {
		const {capture, window} = facts;
		return list([
			["Program", facts.target.exe || facts.target.comm || "unknown"],
			["PID", String(facts.target.pid)],
			["Kernel", facts.target.kernel || "unknown"],
			["Started", new Date(capture.start_unix_ns / 1e6).toISOString()],
			["Duration", Format.time(capture.duration_ns)],
			["Step of the timeline", Format.duration(window.bucket_ns)],
			["Recorded with", "heaptap " + (capture.heaptap_version || "unknown")],
			["Kind", capture.sample_bytes
				? "a sample, one block in about " + Format.bytes(capture.sample_bytes) +
					" allocated: figures are estimates; " +
					"19 of 20 true figures are within the bound \u00b1"
				: capture.cull_ns
					? "every allocation; of blocks that lived less than " +
						Format.duration(capture.cull_ns) + " only sums"
					: "every allocation"],
		]);
	}

	const ENDED = {duration: "the end of its duration", signal: "a signal", stop: "heaptap stop",
		target_exit: "the end of the process", target_exec: "exec: the process became another program",
		disk_full: "a full disk", error: "an error", running: "nothing yet: the capture still runs",
		forbidden: "the process, which forbade its threads the clock",
		truncated: "not known: the trace has no end"};

	/* Whether the trace does not say how the process was left: an old trace, or a killed
	 * capture. */
	function isUnknown(capture) {
		return capture.left.result === null && capture.ended !== "running";
	}

	function losses(facts) {
		const {capture} = facts;
		const none = (value, what) => value ? Format.count(value) + " " + what : "none";
		return list([
			["Ended by", ENDED[capture.ended] || capture.ended],
			["Trace file", capture.complete ? "complete" : capture.file],
			["How the process was left", capture.left.text +
				(["code", "differs"].includes(capture.left.result) || isUnknown(capture)
					? "; heaptap verify -p " + facts.target.pid + " checks it" : "")],
			["Events", Format.count(capture.events)],
			["Events lost", none(capture.dropped_events, "events")],
			["Stacks that were cut", none(capture.truncated_stacks, "stacks")],
			["Modules tapped late or not", none(capture.untapped, "modules")],
			["Calls that failed", none(capture.failed_calls, "calls")],
			facts.pauses.length ? ["Paused", facts.pauses.map((pause) => "from +" +
				Format.time(pause.begin_ns) + " to +" + Format.time(pause.end_ns)).join(", ") +
				": new allocations were not recorded"] : null,
			facts.settle ? ["Held after the capture", Format.time(facts.settle.end_ns -
				facts.settle.begin_ns) + " after it, " + Format.bytes(facts.totals.survivors_bytes) +
				" in " + Format.count(facts.totals.survivors_blocks) + " blocks were still held, of " +
				Format.bytes(facts.totals.outstanding_bytes) + " at its end"] : null,
			[facts.pauses.length ? "Blocks older than the capture, or of a pause"
				: "Blocks older than the capture",
				Format.count(facts.totals.before_frees) + " of them were freed in it"],
			facts.folded.nodes ? ["Folded frames", Format.count(facts.folded.nodes) +
				" frames that allocated less than " + bytes(facts.folded.least_bytes) +
				" are counted in their callers, so that this page stays small"] : null,
		]);
	}

	function memory(facts) {
		const {heap, rss} = facts, growth = rss.growth;
		const rows = [
			["Heap at the start", heap.known ? range(heap, "start") : "not known"],
			["Heap at its peak", range(heap, "peak")],
			["Heap at the end", range(heap, "end")],
			["RSS", bytes(rss.first_bytes) + " at the start, " + bytes(rss.last_bytes) +
				" at the end, at most " + bytes(rss.max_bytes)],
		];
		if (growth)
			rows.push(
				["RSS grew by", bytes(rss.growth_bytes)],
				["\u2003heap in use", bytes(growth.heap_bytes)],
				["\u2003free inside the allocator", bytes(growth.allocator_free_bytes)],
				["\u2003other anonymous memory", bytes(growth.other_anonymous_bytes)],
				["\u2003mapped files", bytes(growth.file_bytes)],
				["\u2003shared memory", bytes(growth.shared_bytes) + ", of which heaptap's own " +
					"at most " + bytes(growth.heaptap_bytes)]);
		return list(rows);
	}

	function create(app) {
		return {
			render(view) {
				const {facts} = app.model;
				Dom.replace(view,
					Dom.element("h3", {}, "Capture"), target(facts),
					Dom.element("h3", {}, "What is complete, and what was lost"),
					losses(facts));
				if (facts.warnings.length)
					view.append(Dom.element("h3", {}, "Warnings"), Dom.element("ul", {},
						...facts.warnings.map((text) => Dom.element("li", {}, text))));
				view.append(
					Dom.element("h3", {}, "Memory of the process, over the whole capture"),
					memory(facts),
					Dom.element("h3", {}, "Metrics"),
					list(facts.metrics.map((metric) => [metric[0], metric[2]])),
					Dom.element("h3", {}, "This page"),
					Dom.element("p", {}, "It holds all of its data and loads nothing. Its " +
						"charts are drawn by dygraphs:"),
					Dom.element("details", {}, Dom.element("summary", {}, "Licence of dygraphs"),
						Dom.by("licence").content.cloneNode(true)));
			},
		};
	}

	return {create};
})();
