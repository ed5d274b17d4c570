/* SPDX-License-Identifier: Apache-2.0
 *
 * A page over several traces: a bar chooses the shown trace and the one to compare it with.
 */
"use strict";

const Folder = (() => {
	/* Parts of the address that are valid only for the former model. */
	const NUMBERS = ["from", "to", "zoom", "call", "file", "thread"];
	let traces = [], source, show, loaded = "", wanted = 0;

	const nameOf = ({path}) => path.replace(/.*\//, "");

	function label(trace, i) {
		const {target, capture} = trace;
		return [i + 1 + ". " + nameOf(trace), target.comm || "unknown program",
			new Date(capture.start_unix_ns / 1e6).toLocaleTimeString(),
			Format.time(capture.duration_ns)].join(" \u00b7 ");
	}

	/* The numbers of the trace and of the one it is compared with; -1: none. */
	function chosen() {
		const {trace, base} = Server.chosen(), of = (text, none) =>
			text !== null && traces[Number(text)] ? Number(text) : none;
		return {trace: of(trace, 0), base: of(base, -1)};
	}

	/* --- another trace ----------------------------------------------------------------- */

	function told(text) {
		Dom.by("folder-state").textContent = text;
	}

	/* The last choice wins, even if the answer to an earlier one arrives later. */
	async function load() {
		const mine = ++wanted;
		loaded = location.search;
		showChoice();
		told("Loading\u2026");
		try {
			const model = await Decode.load(source);
			if (mine !== wanted)
				return;
			show(model);
			told("");
		} catch (error) {
			if (mine === wanted)
				told("This trace cannot be shown: " + error.message);
		}
	}

	function choose({trace, base}) {
		const now = chosen(), next = {trace: trace ?? now.trace, base: base ?? now.base};
		if (next.base === next.trace)
			next.base = -1;
		if (next.trace === now.trace && next.base === now.base)
			return;
		const hash = new URLSearchParams(location.hash.slice(1));
		NUMBERS.forEach((name) => hash.delete(name));
		if (next.base >= 0 && now.base < 0)
			hash.set("view", "diff");
		else if (next.base < 0 && hash.get("view") === "diff")
			hash.delete("view");
		history.pushState(null, "", Server.search(next) + "#" + hash);
		load();
	}

	/* --- the bar ----------------------------------------------------------------------- */

	function list(id, title, first, change) {
		return Dom.element("label", {}, title + " ", Dom.element("select", {id,
			onchange: (event) => change(Number(event.target.value))},
		...first, ...traces.map((trace, i) =>
			Dom.element("option", {value: i, title: trace.path}, label(trace, i)))));
	}

	function step(id, text, title, by) {
		return Dom.element("button", {type: "button", id, title,
			onclick: () => choose({trace: chosen().trace + by})}, text);
	}

	function showBar() {
		Dom.by("notices").before(Dom.element("section", {class: "card bar", id: "folder",
			"aria-label": "Traces"},
		Dom.element("span", {class: "group"},
			step("folder-previous", "\u2039", "The trace before", -1),
			step("folder-next", "\u203a", "The next trace", 1)),
		list("folder-trace", "Trace", [], (trace) => choose({trace})),
		list("folder-base", "compared with",
			[Dom.element("option", {value: -1}, "none")], (base) => choose({base})),
		Dom.element("span", {id: "folder-state", class: "quiet", role: "status"})));
	}

	function showChoice() {
		const {trace, base} = chosen();
		Dom.by("folder-trace").value = trace;
		Dom.by("folder-base").value = base;
		for (const option of Dom.by("folder-base").options)
			option.disabled = Number(option.value) === trace;
		Dom.by("folder-previous").disabled = trace === 0;
		Dom.by("folder-next").disabled = trace === traces.length - 1;
	}

	/* --- start ------------------------------------------------------------------------- */

	/* Fetches the list of traces. A page without a server, or of a live capture, has one trace.
	 */
	async function ask(element) {
		if (!element.dataset.source || element.dataset.live)
			return;
		const answer = await Server.get("/api/v1/traces");
		if (answer.ok)
			traces = (await answer.json()).traces;
	}

	/* `showModel` shows another model. */
	function start(element, showModel) {
		source = element;
		show = showModel;
		loaded = location.search;
		if (traces.length < 2)
			return;
		showBar();
		showChoice();
		addEventListener("popstate", () => location.search !== loaded && load());
	}

	return {ask, start, choose, chosen, nameOf, get traces() { return traces; }};
})();
