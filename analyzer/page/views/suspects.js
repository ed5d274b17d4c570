/* SPDX-License-Identifier: Apache-2.0
 *
 * The list "What grows": the sites that the analyzer classified, growing ones first. Class and sentence apply
 * to the whole capture, amounts to the selected time.
 */
"use strict";

const Suspects = (() => {
	const GROWING = 8, OTHERS = 5, MORE = 40, GROWN = 0.02, AT_ONCE = 0.05;

	function groupsOf(app) {
		const {model} = app, of = new Map(), begin = Stacks.beginOf(model, false);
		const groups = model.facts.suspects.filter((one) => one.nodes.length).map((suspect) => {
			const group = {...suspect, node: suspect.nodes[0], sites: []};
			suspect.nodes.forEach((node) => of.set(node, group));
			return group;
		});
		for (let site = 0; site < model.site.count; site++) {
			const group = of.get(begin[model.site.node[site]]);
			if (group)
				group.sites.push(site);
		}
		for (const group of groups)
			group.live = Model.liveSeries(model, group.sites);
		return groups;
	}

	/* The thread with most of the group's total, and its share. */
	function threadText(app, group) {
		const {model} = app, values = app.values(), by = new Map();
		let sum = 0;
		for (const site of group.sites) {
			const value = Math.max(0, values[site]), thread = model.site.thread[site];
			sum += value;
			by.set(thread, (by.get(thread) || 0) + value);
		}
		const list = [...by].sort((a, b) => b[1] - a[1]);
		if (!list.length || !sum)
			return "";
		const share = list[0][1] === sum ? "" : " (" + Format.percent(list[0][1], sum) + ")";
		const more = list.length > 1 ? ", " + (list.length - 1) + " more" : "";
		return "thread " + app.names.threadName(list[0][0]) + share + more;
	}

	/* When the live bytes of a group began to grow. A group that grows evenly from the start
	 * has GROWN of its maximum after GROWN of the time. */
	function sinceText(app, group) {
		const most = Math.max(...group.live), at = group.live.findIndex((live) => live > most * GROWN);
		return at <= group.live.length * AT_ONCE ? "since the start of the capture"
			: "since +" + Format.time(at * app.model.stepNs);
	}

	function factsText(app, group, grows) {
		return [sinceText(app, group), threadText(app, group),
			grows ? Math.round(group.confidence * 100) + " % sure that it grows" : "",
			group.nodes.length > 1 ? "reached by " + group.nodes.length + " call chains" : ""]
			.filter((part) => part).join(" \u00b7 ");
	}

	function card(app, group) {
		const {names, state} = app, grows = group.class === "growing";
		const values = app.values(), frame = app.model.tree.frame[group.node];
		const amount = group.sites.reduce((sum, site) => sum + values[site], 0);
		const call = group.node && frame >= 0 ? names.functions.ofFrame[frame] : -1;
		const amounts = Dom.element("div", {class: "amount"}), script = names.scriptText(group.node);
		if (grows)
			amounts.append(Dom.element("b", {}, "+" +
				Format.bytes(group.slope_bytes_per_s * 60) + "/min"), Dom.element("br"));
		amounts.append(app.format(amount) + app.boundText(amount, group.sites) + " " + state.metric);
		return Dom.element("article", {class: "suspect"},
			Dom.element("div", {class: "what"},
				Dom.element("span", {class: "badge " + (grows ? "growing" : "")}, group.class),
				Dom.element("button", {class: "link name", type: "button",
					title: names.nodeName(group.node) + "\nShows this chain in the flame graph",
					onclick: () => app.openChain(group.node)}, names.shortName(group.node)),
				script ? Dom.element("div", {class: "script"}, script) : null,
				Dom.element("div", {class: "where"}, names.callersText(group.node, true)),
				Dom.element("div", {}, group.text),
				Dom.element("div", {class: "where"}, factsText(app, group, grows)),
				grows && call >= 0 ? Controls.ofFunction(app, call) : null),
			amounts,
			Dom.sparkline(group.live, state.from, state.to, "live bytes over the whole capture, " +
				"at most " + Format.bytes(Math.max(0, ...group.live))));
	}

	/* The group with most live bytes at the end. */
	function largestOf(groups) {
		const end = (group) => group.live[group.live.length - 1];
		return groups.reduce((most, group) => !most || end(group) > end(most) ? group : most, null);
	}

	const PARTS = [["heap_bytes", "heap"], ["allocator_free_bytes", "free inside the allocator"],
		["other_anonymous_bytes", "other anonymous memory"], ["file_bytes", "mapped files"],
		["shared_bytes", "shared memory"]];

	/* Largest first; leaves out parts below 1 % of the largest. */
	function rssText(rss) {
		if (!rss.first_bytes)
			return "";
		const parts = PARTS.map(([key, name]) => [rss.growth && rss.growth[key], name])
			.filter(([bytes]) => bytes).sort((a, b) => Math.abs(b[0]) - Math.abs(a[0]));
		const told = parts.filter(([bytes]) => Math.abs(bytes) >= Math.abs(parts[0][0]) / 100)
			.map(([bytes, name]) => name + " " + (bytes > 0 ? "+" : "") + Format.bytes(bytes));
		if (Format.bytes(rss.first_bytes) === Format.bytes(rss.last_bytes))
			return "RSS stayed at " + Format.bytes(rss.last_bytes) + ". ";
		return "RSS went from " + Format.bytes(rss.first_bytes) + " to " +
			Format.bytes(rss.last_bytes) + (told.length ? ": " + told.join(", ") : "") + ". ";
	}

	function slopeOf(growing) {
		return growing.reduce((sum, group) => sum + group.slope_bytes_per_s, 0);
	}

	/* Growing sites that explain less than 1 % of the heap's growth are not the answer. */
	function isLittle({heap, capture}, growing) {
		return heap.known && growing.length > 0 &&
			slopeOf(growing) * capture.duration_ns / 1e9 < heap.growth_bytes / 100;
	}

	function growthText(facts, growing) {
		const rate = Format.bytes(slopeOf(growing) * 60) + " a minute. ";
		if (!facts.totals.allocations)
			return "The process allocated nothing. ";
		if (!growing.length)
			return "No site grows over the whole capture. ";
		if (isLittle(facts, growing))
			return "Little grows steadily: " + (growing.length === 1 ? "1 site, by "
				: growing.length + " sites, together by ") + rate;
		return (growing.length === 1 ? "1 site grows, by " : growing.length +
			" sites grow, together by ") + rate;
	}

	/* "Of 3.0 MiB outstanding at the end, 1.0 MiB were still held 5 min later. " */
	function settleText(facts) {
		const {settle, totals} = facts;
		return settle ? "Of " + Format.bytes(totals.outstanding_bytes) +
			" outstanding at the end, " + Format.bytes(totals.survivors_bytes) +
			" were still held " + Format.time(settle.end_ns - settle.begin_ns) + " later. " : "";
	}

	/* One sentence on all growing sites; then RSS, what was still held, and the heap before the
	 * window. */
	function headline(app, groups) {
		const growing = groups.filter((group) => group.class === "growing");
		const {heap, capture, rss} = app.model.facts;
		const before = heap.known && heap.start_bytes !== null ? "The heap had " +
			Format.bytes(heap.start_bytes) + " when the capture began: what allocated that is not " +
			"in it. " : "";
		const exact = capture.sample_bytes
			? "Figures are estimates from a sample, with bounds at 95 %."
			: app.model.facts.pauses.length ? "Allocations were recorded, but not in pauses."
			: "Every allocation was recorded.";
		const largest = largestOf(groups);
		const held = largest && largest.class !== "growing" ? app.names.shortName(largest.node) +
			" holds most, " + Format.bytes(largest.live[largest.live.length - 1]) + ": " +
			largest.class + ". " : "";
		return Dom.element("p", {id: "headline"},
			Dom.element("b", {}, growthText(app.model.facts, growing)),
			rssText(rss) + settleText(app.model.facts) + held + before + exact);
	}

	function asText(app, groups) {
		return groups.map((group) => [group.class.padEnd(9), app.names.nodeName(group.node),
			"\n          ", app.names.callersText(group.node), "\n          ", group.text,
			"\n          ", factsText(app, group, group.class === "growing")].join(" "))
			.join("\n\n") + "\n";
	}

	function create(app) {
		let shown = [];
		const isOpen = new Set();

		/* Cards with curves are slow, so they are made when the reader opens them. */
		function more(groups, text) {
			const details = Dom.element("details", {open: isOpen.has(text)},
				Dom.element("summary", {}, groups.length + " " + text));
			const fill = () => {
				isOpen[details.open ? "add" : "delete"](text);
				if (details.open && details.childElementCount === 1)
					details.append(...groups.map((group) => card(app, group)));
			};
			details.addEventListener("toggle", fill);
			fill();
			return details;
		}

		return {
			render(view) {
				const groups = app.remember("groups", 0, () => groupsOf(app));
				const found = app.foundChains(), isIn = app.isIn();
				shown = groups.filter((group) => (!found || group.sites.some((site) =>
					found[app.model.site.node[site]])) && (!isIn ||
					group.sites.some((site) => isIn[site])));
				const growing = shown.filter((group) => group.class === "growing");
				const others = shown.filter((group) => group.class !== "growing");
				const grown = growing.slice(0, GROWING).map((group) => card(app, group));
				if (growing.length > GROWING)
					grown.push(more(growing.slice(GROWING, MORE), "more that grow"));
				const held = others.slice(0, OTHERS).map((group) => card(app, group));
				if (others.length > OTHERS)
					held.push(more(others.slice(OTHERS, MORE), "more"));
				const heldFirst = !growing.length || isLittle(app.model.facts, growing);
				if (held.length)
					held.unshift(Dom.element("h3", {}, heldFirst
						? "What held most memory at the end" : "The largest others"));
				if (heldFirst && grown.length)
					grown.unshift(Dom.element("h3", {}, "What grows a little"));
				Dom.replace(view, Dom.element("h2", {}, "What grows"), headline(app, groups),
					...(heldFirst ? [...held, ...grown] : [...grown, ...held]));
				view.append(Dom.element("p", {class: "hint"},
					"Class, rate and sentence are of the whole capture; amounts are of the " +
					"selected time. Curves show live bytes over the whole capture. Next: choose " +
					"a name to see the chain in the flame graph, or Callers."));
			},
			/* Suspects are only some of the sites, so this view has no sum of its own.
			 */
			sum: () => app.sum(),
			text: () => asText(app, shown),
		};
	}

	return {rssText, growthText, sinceText, create};
})();

if (typeof module !== "undefined")
	module.exports = Suspects;
