/* SPDX-License-Identifier: Apache-2.0
 *
 * All functions; and one function with its callers, callees and lines.
 */
"use strict";

const Functions = (() => {
	/* Figures of lines, {frame, own, total, variance: of total}, of one function or file. A
	 * chain counts once for each line. `kind`: "function" or "file"; `of`: the function or file
	 * of each frame; `wanted`: the one to list. */
	function linesOf(app, kind, of, wanted) {
		const {frame, parent, count} = app.model.tree, {own, total} = app.lineTotals();
		const variances = app.lineVariances();
		const {keyOf, outer} = app.remember("lines of " + kind, wanted, () => {
			const keys = new Int32Array(count);
			for (let i = 0; i < count; i++)
				keys[i] = frame[i] >= 0 && of[frame[i]] === wanted ? frame[i] : -1;
			return {keyOf: keys, outer: Stacks.outermost({count, parent}, keys)};
		});
		const lines = new Map();
		const line = (one) => {
			if (!lines.has(one))
				lines.set(one, {frame: one, own: 0, total: 0, variance: 0});
			return lines.get(one);
		};
		for (let node = 0; node < count; node++)
			if (keyOf[node] >= 0 && own[node])
				line(keyOf[node]).own += own[node];
		for (const node of outer)
			if (total[node]) {
				line(keyOf[node]).total += total[node];
				line(keyOf[node]).variance += variances ? variances.total[node] : 0;
			}
		return [...lines.values()];
	}

	/* The column of bounds for the column `value`; none: the figures are exact. */
	const boundOf = (app, value) => !app.model.isSample ? []
		: [Table.bound("bound", value, (row) => Model.bound(value(row), row.variance))];

	/* `variances`: a map like `map`. */
	function sideTable(app, id, title, map, none, all, variances) {
		const rows = [...map].map(([key, value]) => ({key, value, variance: variances.get(key) || 0}));
		if (none.value)
			rows.push({key: -2, ...none});
		return Table.make(app, {id, caption: title, rows, sort: app.state.metric, columns: [
			{key: "name", title: "Function", unit: "text", value: (row) => row.text ||
				app.names.functionName(row.key),
			cell: (row) => row.text ? Dom.element("i", {}, row.text) : Dom.element("div", {},
				Controls.link(app, row.key),
				Dom.element("div", {class: "where"}, app.names.functionWhere(row.key)))},
			{key: app.state.metric, title: app.state.metric, unit: app.unit(),
				value: (row) => row.value},
			...boundOf(app, (row) => row.value),
			{key: "share", title: "Share", unit: "share",
				value: (row) => all ? Math.abs(row.value / all) : 0}]});
	}

	function lineTable(app, call, all) {
		const {functions} = app.names, {frame} = app.model;
		const rows = linesOf(app, "function", functions.ofFrame, call).filter((row) => frame.line[row.frame]);
		return !rows.length ? null : Table.make(app, {id: "lines", caption: "Its lines", rows,
			sort: "total", columns: [
				{key: "name", title: "Line", unit: "text",
					value: (row) => app.names.fileOf(row.frame) + ":" + frame.line[row.frame],
					cell: (row) => Dom.element("button", {type: "button", class: "link",
						onclick: () => app.set({view: "source", file: frame.file[row.frame]})},
					app.names.fileOf(row.frame) + ":" + frame.line[row.frame])},
				{key: "total", title: app.state.metric, unit: app.unit(),
					value: (row) => row.total},
				...boundOf(app, (row) => row.total),
				{key: "own", title: "Own", unit: app.unit(), hide: "medium",
					value: (row) => row.own},
				{key: "share", title: "Share", unit: "share",
					value: (row) => all ? Math.abs(row.total / all) : 0}]});
	}

	function create(app) {
		let tables = [], sum = 0;

		function showList(view) {
			const table = Groups.tableOf(app, "functions");
			tables = [table];
			Dom.replace(view, Dom.element("h2", {}, Format.count(table.count) + " functions"),
				Dom.element("p", {class: "hint"}, "Own: what the function itself requested. " +
					"Total: with what it calls. Choose one to see its callers."), table.element);
		}

		function showOne(view, call) {
			const {own} = app.downTotals(), is = Stacks.around(app.down(), own, call);
			const name = app.names.functionName(call), all = is.total;
			const variances = app.downVariances();
			const spread = Stacks.around(app.down(), variances ? variances.own : [], call);
			const callers = sideTable(app, "callers", "Who calls it", is.callers,
				{value: is.outermost, variance: spread.outermost,
					text: "nothing: the chain ends here"}, all, spread.callers);
			const callees = sideTable(app, "callees", "What it calls", is.callees,
				{value: is.own, variance: spread.own, text: "itself: what it requested"}, all,
				spread.callees);
			const amount = (value, variance) => app.format(value) +
				Format.bound(value, Model.bound(value, variance));
			const lines = lineTable(app, call, all);
			tables = [callers, callees, ...lines ? [lines] : []];
			Dom.replace(view,
				Dom.element("div", {class: "bar"},
					Dom.element("button", {type: "button", onclick: () => app.set({call: -1})},
						"\u2190 All functions"),
					Dom.element("span", {class: "space"}), Controls.ofFunction(app, call)),
				Dom.element("h2", {class: "wrap"}, name),
				Dom.element("p", {class: "quiet"}, [app.names.functionWhere(call),
					amount(all, spread.total) + " " + app.state.metric + ", " +
					(Format.percent(Math.abs(all), Math.abs(sum)) || "0 %") + " of all",
					"own " + amount(is.own, spread.own)].filter((part) => part).join(" \u00b7 ")),
				Dom.element("div", {class: "two"}, callers.element, callees.element),
				lines ? lines.element : "");
		}

		return {
			render(view) {
				const {call} = app.state;
				sum = app.sum();
				if (call >= 0 && call < app.names.functions.count)
					showOne(view, call);
				else
					showList(view);
			},
			sum: () => app.downTotals().total[0],
			text: () => tables.map(Table.text).join("\n"),
			csv: () => Table.csv(tables[0]),
		};
	}

	return {create, linesOf};
})();
