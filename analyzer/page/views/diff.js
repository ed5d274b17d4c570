/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes from an older trace: the analyzer's comparison of both whole captures, as a table
 * and as a flame graph: red for more, blue for less.
 */
"use strict";

const DiffView = (() => {
	/* --- figures ----------------------------------------------------------------------- */

	const signed = (app, value) => (value > 0 ? "+" : "") + app.format(value);

	function percentText(before, after) {
		return before > 0 ? (after >= before ? "+" : "") +
			Math.round((after - before) / before * 100) + " %" : "";
	}

	/* The bound of a figure at 95 %; 0: it is exact. */
	const oldBound = (row) => Model.bound(row.old, row.oldVariance);
	const newBound = (row) => Model.bound(row.new, row.newVariance);
	/* The samples of two captures are independent: the variances of both add up. */
	const deltaBound = (row) => Math.hypot(oldBound(row), newBound(row));

	/* {chain: names from the innermost, where, change, old, new, oldVariance, newVariance},
	 * largest change first. */
	function rowsOf(diff, metric) {
		const figures = diff.metrics[metric];
		return diff.sites.map(([chain, file, line], i) => ({
			chain: chain.map((name) => diff.names[name]),
			where: file ? file + (line ? ":" + line : "") : "",
			change: diff.changes[figures.change[i]], old: figures.old[i], new: figures.new[i],
			oldVariance: figures.old_variance ? figures.old_variance[i] : 0,
			newVariance: figures.new_variance ? figures.new_variance[i] : 0,
		})).filter((row) => row.old || row.new).sort((a, b) =>
			Math.abs(b.new - b.old) - Math.abs(a.new - a.old) || b.new - a.new);
	}

	/* The rows of the chosen kind that match the search. */
	function chosen(app, rows) {
		const {change, search} = app.state;
		let isFound = () => true;
		if (search && app.found()) {
			const expression = new RegExp(search, "i");
			isFound = (row) => expression.test(row.chain.join("\n") + "\n" + row.where);
		}
		return rows.filter((row) => (change === "all" || row.change === change) && isFound(row));
	}

	/* --- the two traces ---------------------------------------------------------------- */

	function tracesTable(app, diff, figures) {
		const unit = figures.per_minute ? app.state.metric + " per minute" : app.state.metric;
		const spread = figures.total_variance || [0, 0];
		const amount = (i) => app.format(figures.total[i]) +
			Format.bound(figures.total[i], Model.bound(figures.total[i], spread[i]));
		const row = (name, trace, value) => Dom.element("tr", {},
			Dom.element("th", {scope: "row"}, name), Dom.element("td", {}, trace.path || ""),
			Dom.element("td", {class: "medium"}, (trace.comm || "unknown") + ", PID " + trace.pid),
			Dom.element("td", {class: "medium"}, new Date(trace.start_unix_ns / 1e6).toLocaleString()),
			Dom.element("td", {class: "number"}, Format.time(trace.to_ns - trace.from_ns)),
			Dom.element("td", {class: "number"}, value));
		const head = (text, hide) => Dom.element("th", {scope: "col", class: hide}, text);
		return Dom.element("div", {class: "scroll"}, Dom.element("table", {id: "diff-traces"},
			Dom.element("thead", {}, Dom.element("tr", {}, head(""), head("Trace"),
				head("Process", "medium"), head("Start", "medium"), head("Length", "number"),
				head(unit, "number"))),
			Dom.element("tbody", {}, row("Old", diff.traces[0], amount(0)),
				row("New", diff.traces[1], amount(1)))));
	}

	/* --- flame graph ------------------------------------------------------------------- */

	/* Chains by name from the outermost; each is as wide as the larger of its two figures. */
	function treeOf(rows) {
		const parent = [0], name = ["all"], known = new Map(), siteNode = [];
		for (const row of rows) {
			let at = 0;
			for (let i = row.chain.length - 1; i >= 0; i--) {
				const key = at + "\n" + row.chain[i];
				if (!known.has(key)) {
					known.set(key, parent.length);
					parent.push(at);
					name.push(row.chain[i]);
				}
				at = known.get(key);
			}
			siteNode.push(at);
		}
		const tree = {parent, count: parent.length, siteNode, name};
		const sum = (value) => Stacks.inclusive(tree, rows.map(value)).total;
		return {tree, children: Stacks.childrenOf(tree), old: sum((row) => row.old),
			new: sum((row) => row.new), oldVariance: sum((row) => row.oldVariance),
			newVariance: sum((row) => row.newVariance),
			width: sum((row) => Math.max(0, row.old, row.new))};
	}

	function look(flame, node) {
		const change = flame.new[node] - flame.old[node];
		const share = Math.min(1, Math.abs(change) / (flame.width[node] || 1));
		return {fill: Dom.colour(!share ? "line" : change > 0 ? "more" : "less"),
			alpha: share ? 0.12 + share * 0.5 : 1};
	}

	function describe(app, flame, node) {
		const before = flame.old[node], after = flame.new[node];
		const row = {old: before, new: after, oldVariance: flame.oldVariance[node],
			newVariance: flame.newVariance[node]};
		return [flame.tree.name[node], app.format(before) + Format.bound(before, oldBound(row)) +
			" \u2192 " + app.format(after) + Format.bound(after, newBound(row)),
			signed(app, after - before) + Format.bound(after - before, deltaBound(row)) +
			(percentText(before, after) &&
				" (" + percentText(before, after) + ")")].join(" \u00b7 ");
	}

	const label = (app, flame, node, room) => Boxes.fit(app, flame.tree.name[node] + " " +
		signed(app, flame.new[node] - flame.old[node]), room);

	function paint(app, canvas, flame, boxes, width, height) {
		const context = Dom.paintOn(canvas, width, height);
		context.font = Boxes.FONT;
		for (const one of boxes) {
			const is = look(flame, one.node);
			context.globalAlpha = is.alpha;
			context.fillStyle = is.fill;
			context.fillRect(one.x, one.y, Math.max(0.5, one.width - 0.7), Boxes.ROW - 1);
			context.globalAlpha = 1;
			context.fillStyle = Dom.colour("frame-text");
			if (one.width >= 30)
				context.fillText(label(app, flame, one.node, Math.floor((one.width - 8) / 6.6)),
					one.x + 4, one.y + Boxes.ROW - 6);
		}
	}

	function svgOf(app, {flame, boxes, width, height}) {
		const drawing = Save.drawing(width, height, Dom.colour("card"));
		for (const one of boxes) {
			const is = look(flame, one.node), group = drawing.add("g", {});
			drawing.add("title", {}, describe(app, flame, one.node), group);
			drawing.add("rect", {x: one.x, y: one.y, width: Math.max(0.5, one.width - 0.7),
				height: Boxes.ROW - 1, fill: is.fill, "fill-opacity": is.alpha}, undefined, group);
			if (one.width >= 30)
				drawing.add("text", {x: one.x + 4, y: one.y + Boxes.ROW - 6,
					fill: Dom.colour("frame-text")},
				label(app, flame, one.node, Math.floor((one.width - 8) / 6.6)), group);
		}
		return drawing.text();
	}

	/* --- table ------------------------------------------------------------------------- */

	function nameCell(app, row) {
		const short = row.chain.map(app.names.shortOf);
		return Dom.element("div", {}, Dom.element("span", {title: row.chain.join("\n")}, short[0]),
			Dom.element("div", {class: "where"}, [row.where, short.length > 1 ? "called by " +
				short.slice(1, 4).join(" \u2190 ") : ""].filter((part) => part).join(" \u00b7 ")));
	}

	function columnsOf(app, figures) {
		const unit = app.unit(), each = figures.per_minute ? " / min" : "";
		const bounds = (...column) => figures.total_variance ? [Table.bound(...column)] : [];
		return [
			{key: "change", title: "Change", unit: "text", value: (row) => row.change},
			{key: "delta", title: "Difference" + each, unit, value: (row) => row.new - row.old,
				cell: (row) => Dom.element("span", {class: row.change === "same" ? ""
					: row.new > row.old ? "more" : "less"}, signed(app, row.new - row.old))},
			...bounds("delta_bound", (row) => row.new - row.old, deltaBound),
			{key: "old", title: "Old" + each, unit, hide: "medium", value: (row) => row.old},
			...bounds("old_bound", (row) => row.old, oldBound, "medium"),
			{key: "new", title: "New" + each, unit, hide: "medium", value: (row) => row.new},
			...bounds("new_bound", (row) => row.new, newBound, "medium"),
			{key: "name", title: "Function and callers", unit: "text",
				value: (row) => row.chain[0], cell: (row) => nameCell(app, row)},
		];
	}

	function kinds(app, rows) {
		const count = (change) => rows.filter((row) => row.change === change).length;
		return Dom.element("span", {class: "group"}, ...State.CHOICES.change.map((change) =>
			Controls.choice(app, change[0].toUpperCase() + change.slice(1) + " " +
				Format.count(change === "all" ? rows.length : count(change)), {change}, "")));
	}

	function othersText(app, diff, figures) {
		const more = diff.sites_total - diff.sites.length;
		if (!more || figures.others[0] === null)
			return "";
		return Format.count(more) + " further sites have together " +
			app.format(figures.others[0]) + " in the old trace and " +
			app.format(figures.others[1]) + " in the new one.";
	}

	function create(app) {
		const {diff} = app.model.facts;
		let table = null, drawn = null, rows = [], zoom = 0, zoomOf = "";

		function draw() {
			const canvas = Dom.by("diff-flame"), width = Math.max(200, table.element.clientWidth);
			const flame = app.remember("diff flame", [app.state.metric, app.state.change,
				app.state.search], () => treeOf(chosen(app, rows)));
			if (zoomOf !== app.state.metric + app.state.change + app.state.search)
				zoom = 0;
			zoomOf = app.state.metric + app.state.change + app.state.search;
			const boxes = Boxes.layOut(flame.tree, flame.children, flame.width, zoom, width);
			const height = Boxes.stand(boxes, false);
			const tell = (node) => {
				Dom.by("diff-readout").textContent = describe(app, flame, node);
			};
			const at = (event) => boxes.find((one) => event.offsetY >= one.y &&
				event.offsetY < one.y + Boxes.ROW && event.offsetX >= one.x &&
				event.offsetX < one.x + one.width);
			paint(app, canvas, flame, boxes, width, height);
			canvas.setAttribute("aria-label", "call tree by difference, " + boxes.length +
				" frames; the table below has the same as text");
			canvas.onmousemove = (event) => tell(at(event) ? at(event).node : zoom);
			canvas.onclick = (event) => {
				zoom = at(event) ? at(event).node : 0;
				draw();
			};
			tell(zoom);
			drawn = {flame, boxes, width, height};
		}

		function render(view) {
			const figures = diff.metrics[app.state.metric];
			rows = app.remember("diff rows", app.state.metric, () => rowsOf(diff, app.state.metric));
			table = Table.make(app, {id: "diff", rows: chosen(app, rows), sort: "",
				columns: columnsOf(app, figures)});
			Dom.replace(view, tracesTable(app, diff, figures),
				Dom.element("p", {class: "hint"}, "Sites are matched by the functions and files " +
					"of their call chains, over both whole captures: the time selected above and " +
					"the filters do not count here."),
				Dom.element("div", {class: "bar"}, kinds(app, rows)),
				Dom.element("p", {class: "hint"}, "A frame is as wide as the larger of its two " +
					"figures, ", Dom.element("span", {class: "more"}, "red where it grew"), ", ",
				Dom.element("span", {class: "less"}, "blue where it shrank"),
				"; a click zooms, a click on \u201call\u201d resets."),
				Dom.element("p", {id: "diff-readout", class: "hint"}),
				Dom.element("canvas", {id: "diff-flame", role: "img"}), table.element,
				Dom.element("p", {class: "hint"}, othersText(app, diff, figures)));
			draw();
		}

		return {
			render,
			resize: () => Dom.by("diff-flame") && draw(),
			/* The new trace's sum over all sites. */
			sum: () => diff.metrics[app.state.metric].others[1] +
				rows.reduce((sum, row) => sum + row.new, 0),
			text: () => Table.text(table),
			csv: () => Table.csv(table),
			svg: () => svgOf(app, drawn),
		};
	}

	/* Without a comparison the page has no such view. */
	return {create: (app) => app.model.facts.diff ? create(app) : null};
})();
