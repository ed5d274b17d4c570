/* SPDX-License-Identifier: Apache-2.0
 *
 * The selected time by function: the largest allocating functions, stacked.
 */
"use strict";

const History = (() => {
	const LARGEST = 8;

	/* The allocating function, by site; -1: no stack, or filtered out. */
	function functionsOf(app) {
		const {model} = app, begin = app.begin(), isIn = app.isIn(), found = app.foundChains();
		const of = new Int32Array(model.site.count).fill(-1);
		for (let site = 0; site < of.length; site++) {
			const node = model.site.node[site], frame = model.tree.frame[begin[node]];
			if ((!isIn || isIn[site]) && (!found || found[node]) && begin[node] && frame >= 0)
				of[site] = app.names.functions.ofFrame[frame];
		}
		return of;
	}

	/* The largest functions, and the part number of each site; the last part is all others. */
	function partsOf(app) {
		const {model, state} = app, of = functionsOf(app), isIn = app.isIn();
		const found = app.foundChains(), sums = new Map();
		const weights = Model.weights(model, state.from, state.to, state.metric);
		of.forEach((call, site) => call >= 0 && sums.set(call, (sums.get(call) || 0) + weights[site]));
		const largest = [...sums].filter((one) => one[1] > 0).sort((a, b) => b[1] - a[1])
			.slice(0, LARGEST).map((one) => one[0]);
		const numberOf = new Map(largest.map((call, i) => [call, i]));
		const partOf = new Int32Array(of.length);
		for (let site = 0; site < of.length; site++)
			partOf[site] = (isIn && !isIn[site]) || (found && !found[model.site.node[site]]) ? -1
				: numberOf.get(of[site]) ?? largest.length;
		return {calls: largest, partOf};
	}

	const colourOf = (part, parts) => Dom.colour(part === parts ? "rate" : "part-" + part);

	/* {part, call, name, colour, values, value, highest} of each part with figures. */
	function rowsOf(app) {
		const {state, model} = app, {calls, partOf} = partsOf(app), values = app.values();
		const series = Model.history(model, state.from, state.to, state.metric, partOf,
			calls.length + 1);
		const sums = new Float64Array(calls.length + 1);
		partOf.forEach((part, site) => part >= 0 && (sums[part] += values[site]));
		return series.map((one, part) => ({part, call: part < calls.length ? calls[part] : -1,
			name: part < calls.length ? app.names.shortOf(app.names.functionName(calls[part]))
				: "all others", colour: colourOf(part, calls.length), values: one,
			value: sums[part], highest: one.reduce((top, value) => Math.max(top, value), 0)}))
			.filter((row) => row.value || row.values.some((value) => value));
	}

	const isRate = (app) => Boolean(Model.RATES[app.state.metric]);

	/* Rates are shown per second, whatever a bucket's length is. */
	function shownOf(app, value) {
		return isRate(app) ? value / (app.model.stepNs / 1e9) : value;
	}

	const textOf = (app, value) => app.format(value) + (isRate(app) ? "/s" : "");

	/* dygraphs stacks series from the last one. */
	function drawChart(app, rows, place, say) {
		const {state, model} = app, labels = rows.map((row, i) => i + 1 + ". " + row.name);
		const second = (bucket) => (state.from + bucket + 0.5) * model.stepNs / 1e9;
		const data = Array.from({length: state.to - state.from}, (_, bucket) =>
			[second(bucket), ...rows.map((row) => shownOf(app, row.values[bucket]))]);
		return new Dygraph(place, data, {
			labels: ["time", ...labels], colors: rows.map((row) => row.colour),
			/* Negative levels (below the start) cannot be stacked. */
			stackedGraph: !rows.some((row) => row.values.some((value) => value < 0)),
			fillAlpha: 0.75, strokeWidth: 1, interactionModel: {}, highlightCircleSize: 0,
			includeZero: true, xRangePad: 0, labelsKMG2: app.unit() === "bytes",
			gridLineColor: Dom.colour("line"), axisLineColor: Dom.colour("line"),
			highlightCallback: (event, x, points, bucket) => say(bucket),
			unhighlightCallback: () => say(-1),
			axes: {x: {axisLabelFormatter: Format.moment, drawGrid: false, axisLabelWidth: 70},
				y: {axisLabelFormatter: (value) => textOf(app, value), axisLabelWidth: 80}},
		});
	}

	function sayOf(app, rows, line) {
		return (bucket) => {
			if (bucket < 0) {
				line.textContent = "Point at the drawing for the figures of a moment.";
				return;
			}
			const time = (app.state.from + bucket + 0.5) * app.model.stepNs;
			line.textContent = ["At " + Format.time(time), ...rows.map((row) =>
				row.name + " " + textOf(app, shownOf(app, row.values[bucket])))].join(" \u00b7 ");
		};
	}

	function tableOf(app, rows) {
		const {metric} = app.state, unit = app.unit(), sum = rows.reduce((all, row) => all + row.value, 0);
		return Table.make(app, {id: "history", rows, isFixed: true, sort: "", columns: [
			{key: "name", title: "Function", unit: "text", value: (row) => row.name,
				cell: (row) => {
					const swatch = Dom.element("span", {class: "swatch"});
					swatch.style.background = row.colour;
					return Dom.element("div", {}, swatch, row.call < 0 ? row.name
						: Controls.link(app, row.call), row.call < 0 ? null
						: Dom.element("div", {class: "where"}, app.names.functionWhere(row.call)));
				}},
			{key: metric, title: metric, unit, value: (row) => row.value},
			{key: "share", title: "Share", unit: "share", hide: "medium",
				value: (row) => sum ? Math.abs(row.value / sum) : 0},
			...isRate(app) ? [] : [{key: "highest", title: "Highest", unit, hide: "medium",
				value: (row) => row.highest}],
			{key: "end", title: isRate(app) ? "Most per second" : "At the end", unit, hide: "wide",
				value: (row) => isRate(app) ? shownOf(app, row.highest)
					: row.values[row.values.length - 1]}]});
	}

	/* Each curve's upper and lower edge: a curve stands on those after it. */
	function edgesOf(app, rows) {
		const count = app.state.to - app.state.from, edges = new Array(rows.length);
		let below = new Float64Array(count);
		for (let at = rows.length - 1; at >= 0; at--) {
			const above = below.map((value, i) => value + shownOf(app, rows[at].values[i]));
			edges[at] = {above, below};
			below = above;
		}
		return edges;
	}

	function svgOf(app, rows) {
		const {from, to} = app.state, {stepNs} = app.model, count = to - from;
		const width = 1000, height = 360, left = 90, right = 230, top = 20, bottom = 30;
		const edges = edgesOf(app, rows);
		const most = edges.reduce((all, edge) => edge.above.reduce((a, b) => Math.max(a, b), all), 1);
		const x = (at) => left + at / Math.max(1, count - 1) * (width - left - right);
		const y = (value) => height - bottom - value / most * (height - top - bottom);
		const drawing = Save.drawing(width, height, Dom.colour("card"));
		const text = {fill: Dom.colour("quiet")};
		for (let i = 0; i <= 4; i++) {
			drawing.add("text", {...text, x: left - 6, y: y(most * i / 4) + 4,
				"text-anchor": "end"}, textOf(app, most * i / 4));
			drawing.add("text", {...text, x: x((count - 1) * i / 4), y: height - 10,
				"text-anchor": "middle"}, Format.time((from + count * i / 4) * stepNs));
		}
		edges.forEach(({above, below}, at) => {
			const point = (value, i) => x(i).toFixed(1) + " " + y(value).toFixed(1);
			const upper = Array.from(above, point), lower = Array.from(below, point).reverse();
			drawing.add("path", {d: "M" + [...upper, ...lower].join("L") + "Z",
				fill: rows[at].colour, "fill-opacity": 0.8});
			drawing.add("rect", {x: width - right + 14, y: top + at * 22, width: 12, height: 12,
				fill: rows[at].colour});
			drawing.add("text", {...text, x: width - right + 32, y: top + at * 22 + 11},
				rows[at].name.slice(0, 32));
		});
		return drawing.text();
	}

	/* The sum of the last bucket's levels, or of all buckets' rates; for a peak, of the
	 * values. */
	function sumOf(app, rows) {
		const {metric} = app.state;
		return rows.reduce((all, row) => all + (metric === "peak" ? row.value : isRate(app)
			? row.values.reduce((sum, value) => sum + value, 0)
			: row.values[row.values.length - 1]), 0);
	}

	const MEANING = {
		outstanding: "Bytes allocated in the selected time and not freed yet, at each moment.",
		survivors: "Bytes allocated up to each moment and never freed in the trace.",
		growth: "Bytes live at each moment, less those live when the selected time began.",
		live: "Bytes live at each moment, of those allocated in the capture.",
		peak: "Bytes live at each moment, of those allocated in the capture.",
		allocated: "Bytes allocated, each second.", calls: "Allocations, each second.",
		temporary: "Temporary allocations, each second.", freed: "Bytes freed, each second.",
	};

	function create(app) {
		let rows = [], table = null, graph = null;

		function render(view) {
			rows = rowsOf(app);
			table = tableOf(app, rows);
			const place = Dom.element("div", {id: "history-chart", role: "img",
				"aria-label": "Functions over time; the table has the figures"});
			const line = Dom.element("p", {class: "hint"}), say = sayOf(app, rows, line);
			Dom.replace(view, Dom.element("h2", {}, "Functions over time"),
				Dom.element("p", {class: "hint"}, MEANING[app.state.metric]), place, line,
				table.element);
			if (graph)
				graph.destroy();
			graph = rows.length ? drawChart(app, rows, place, say) : null;
			place.hidden = !rows.length;
			say(-1);
		}

		/* One line for each bucket. */
		function csv() {
			const name = (text) => "\"" + text.replace(/"/g, "\"\"") + "\"";
			const lines = [["time_s", ...rows.map((row) => name(row.name))].join(",")];
			for (let i = 0; i < app.state.to - app.state.from; i++)
				lines.push([(app.state.from + i) * app.model.stepNs / 1e9,
					...rows.map((row) => row.values[i])].join(","));
			return lines.join("\n") + "\n";
		}

		return {render, csv, resize: () => graph && graph.resize(),
			svg: () => svgOf(app, rows), sum: () => sumOf(app, rows), text: () => Table.text(table)};
	}

	return {create};
})();
