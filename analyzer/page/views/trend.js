/* SPDX-License-Identifier: Apache-2.0
 *
 * All traces of a server side by side: what each has in total, and the sites that changed most from
 * the first to the last. The figures are the analyzer's, of the whole captures.
 */
"use strict";

const Trend = (() => {
	const SITES = 200;
	/* By metric: the answer of the server, or the promise of it. The traces do not change. */
	const known = new Map();

	async function load(metric) {
		const answer = await Server.get("/api/v1/trend", {metric, limit: SITES});
		const trend = await answer.json();
		if (!answer.ok)
			throw new Error(trend.error);
		return trend;
	}

	const figuresOf = (one) => one.per_minute || one.value;
	const figureOf = (trace) => trace.per_minute ?? trace.value;
	/* Bounds at 95 %; none: no trace is a sample. */
	const boundsOf = (one) => one.per_minute_bound95 ?? one.value_bound95;

	function rowsOf(trend) {
		return trend.sites.map((site) => {
			const values = figuresOf(site), bounds = boundsOf(site) || [0];
			return {values, change: site.change, first: values[0], last: values[values.length - 1],
				firstBound: bounds[0], lastBound: bounds[bounds.length - 1],
				deltaBound: site.difference_bound95 || 0,
				chain: site.stack.map((name) => name || "unknown"), where: site.file
					? site.file + (site.line ? ":" + site.line : "") : ""};
		}).filter((row) => row.values.some((value) => value));
	}

	function found(app, rows) {
		if (!app.state.search || !app.found())
			return rows;
		const expression = new RegExp(app.state.search, "i");
		return rows.filter((row) => expression.test(row.chain.join("\n") + "\n" + row.where));
	}

	/* A bar for each trace; bars of values below 0 are under the zero line. */
	function bars(values, label) {
		const canvas = Dom.element("canvas", {class: "spark", role: "img", "aria-label": label});
		const width = 132, height = 34, context = Dom.paintOn(canvas, width, height);
		const most = Math.max(0, ...values), least = Math.min(0, ...values);
		const scale = (height - 2) / (most - least || 1), step = width / values.length;
		const zero = 1 + most * scale, room = Math.max(1, Math.min(20, step - 2));
		values.forEach((value, i) => {
			context.fillStyle = Dom.colour(value < 0 ? "rss" : "live");
			context.fillRect(i * step, zero, room, -value * scale);
		});
		context.fillStyle = Dom.colour("line");
		context.fillRect(0, zero, width, 1);
		return canvas;
	}

	/* --- the traces -------------------------------------------------------------------- */

	function traceRow(app, trace, i, most) {
		const isShown = Folder.chosen().trace === i, value = figureOf(trace);
		return Dom.element("tr", {"aria-current": isShown ? "true" : undefined},
			Dom.element("th", {scope: "row"}, String(i + 1)),
			Dom.element("td", {class: "name"}, isShown ? Folder.nameOf(trace)
				: Dom.element("button", {class: "link", type: "button",
					title: "Show " + trace.path, onclick: () => Folder.choose({trace: i})},
				Folder.nameOf(trace)),
			Dom.element("div", {class: "where"}, (trace.comm || "unknown") + ", PID " + trace.pid +
				(isShown ? " \u00b7 shown in the other views" : ""))),
			Dom.element("td", {class: "medium"}, new Date(trace.start_unix_ns / 1e6).toLocaleString()),
			Dom.element("td", {class: "number"}, Format.time(trace.to_ns - trace.from_ns)),
			Dom.element("td", {class: "number"}, app.format(value) +
				Format.bound(value, boundsOf(trace) || 0)),
			Dom.element("td", {class: "medium"}, Dom.meter(value, most)));
	}

	function tracesTable(app, trend, each) {
		const head = (text, kind) => Dom.element("th", {scope: "col", class: kind}, text);
		const most = Math.max(1, ...trend.traces.map((trace) => Math.abs(figureOf(trace))));
		return Dom.element("div", {class: "scroll"}, Dom.element("table", {id: "trend-traces"},
			Dom.element("thead", {}, Dom.element("tr", {}, head(""), head("Trace"),
				head("Start", "medium"), head("Length", "number"),
				head(app.state.metric + each, "number"), head("", "medium"))),
			Dom.element("tbody", {}, ...trend.traces.map((trace, i) =>
				traceRow(app, trace, i, most)))));
	}

	/* --- the sites --------------------------------------------------------------------- */

	const signed = (app, value) => (value > 0 ? "+" : "") + app.format(value);

	function nameCell(app, row) {
		const short = row.chain.map(app.names.shortOf);
		return Dom.element("div", {}, Dom.element("span", {title: row.chain.join("\n")}, short[0]),
			Dom.element("div", {class: "where"}, [row.where, short.length > 1 ? "called by " +
				short.slice(1, 4).join(" \u2190 ") : ""].filter((part) => part).join(" \u00b7 ")));
	}

	function columnsOf(app, each, isSample) {
		const unit = app.unit();
		const bounds = (...column) => isSample ? [Table.bound(...column)] : [];
		return [
			{key: "name", title: "Function and callers", unit: "text",
				value: (row) => row.chain[0], cell: (row) => nameCell(app, row)},
			{key: "change", title: "Change", unit: "text", hide: "medium", value: (row) => row.change},
			{key: "bars", title: "Trend", unit: "text", isDrawn: true, value: () => "",
				cell: (row) => bars(row.values, row.values.map(app.format).join(", "))},
			{key: "first", title: "First" + each, unit, hide: "medium", value: (row) => row.first},
			...bounds("first_bound", (row) => row.first, (row) => row.firstBound, "medium"),
			{key: "last", title: "Last" + each, unit, hide: "medium", value: (row) => row.last},
			...bounds("last_bound", (row) => row.last, (row) => row.lastBound, "medium"),
			{key: "delta", title: "Difference" + each, unit, value: (row) => row.last - row.first,
				cell: (row) => Dom.element("span", {class: row.change === "same" ? ""
					: row.last > row.first ? "more" : "less"}, signed(app, row.last - row.first))},
			...bounds("delta_bound", (row) => row.last - row.first, (row) => row.deltaBound),
		];
	}

	/* --- the view ---------------------------------------------------------------------- */

	function create(app) {
		let table = null;

		function draw(view, trend) {
			const rows = found(app, app.remember("trend rows", app.state.metric, () => rowsOf(trend)));
			const isEach = trend.traces.some((trace) => "per_minute" in trace);
			const each = isEach ? " / min" : "", more = trend.sites_total - trend.sites.length;
			/* The analyzer's order is by what counts as a change. */
			table = Table.make(app, {id: "trend", rows, sort: "",
				columns: columnsOf(app, each, trend.traces.some(boundsOf))});
			Dom.replace(view, tracesTable(app, trend, each),
				Dom.element("p", {class: "hint"}, "Sites are matched by the functions and files of " +
					"their call chains, over whole captures: the time selected above and the filters " +
					"do not count here. What is new or has grown comes first."),
				table.element, Dom.element("p", {class: "hint"}, more > 0
					? Format.count(more) + " further sites changed less." : ""));
		}

		async function wait(view, metric) {
			try {
				known.set(metric, await known.get(metric));
			} catch (error) {
				known.delete(metric);
				Dom.replace(view, Dom.element("p", {class: "notice", role: "alert"},
					"The trend cannot be shown: " + error.message));
				return;
			}
			if (app.state.view === "trend" && app.state.metric === metric)
				draw(view, known.get(metric));
		}

		function render(view) {
			const {metric} = app.state;
			if (!known.has(metric))
				known.set(metric, load(metric));
			if (known.get(metric) instanceof Promise) {
				table = null;
				Dom.replace(view, Dom.element("p", {class: "quiet"}, "Loading\u2026"));
				wait(view, metric);
			} else
				draw(view, known.get(metric));
		}

		return {
			render,
			text: () => table ? Table.text(table) : "",
			csv: () => table ? Table.csv(table) : "",
		};
	}

	/* Without several traces the page has no such view. */
	return {create: (app) => Folder.traces.length > 1 ? create(app) : null};
})();
