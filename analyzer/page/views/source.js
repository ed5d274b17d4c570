/* SPDX-License-Identifier: Apache-2.0
 *
 * Source files and what their lines allocate. The text of a file is there if the page was made with
 * --embed-source.
 */
"use strict";

const Source = (() => {
	const FILES = 60;

	/* By file: own and total figures of its lines, largest first. */
	function filesOf(app) {
		const {tree, frame} = app.model, {own, total} = app.lineTotals(), files = new Map();
		const variances = app.lineVariances();
		const {key, outer} = app.remember("files", 0, () => {
			const keys = new Int32Array(tree.count);
			for (let i = 0; i < tree.count; i++)
				keys[i] = tree.frame[i] >= 0 && frame.file[tree.frame[i]] ? frame.file[tree.frame[i]]
					: -1;
			return {key: keys, outer: Stacks.outermost(tree, keys)};
		});
		const file = (one) => {
			if (!files.has(one))
				files.set(one, {file: one, own: 0, total: 0, variance: 0});
			return files.get(one);
		};
		let sum = 0;
		for (let node = 0; node < tree.count; node++) {
			sum += own[node];
			if (own[node] && key[node] > 0)
				file(key[node]).own += own[node];
		}
		for (const node of outer)
			if (total[node]) {
				file(key[node]).total += total[node];
				file(key[node]).variance += variances ? variances.total[node] : 0;
			}
		return {sum, files: [...files.values()].sort((a, b) => Math.abs(b.own) - Math.abs(a.own) ||
			Math.abs(b.total) - Math.abs(a.total))};
	}

	const pathOf = (app, file) => app.model.facts.strings[file - 1];

	/* {line, own, total, variance, text}: lines with figures, and the text around them if it is
	 * available. */
	function rowsOf(app, file, text) {
		const {frame} = app.model;
		const rows = new Map((text ? text.lines : []).map(([line, words]) =>
			[line, {line, own: 0, total: 0, variance: 0, text: words}]));
		for (const one of Functions.linesOf(app, "file", frame.file, file)) {
			const line = frame.line[one.frame];
			if (!rows.has(line))
				rows.set(line, {line, own: 0, total: 0, variance: 0, text: ""});
			rows.get(line).own += one.own;
			rows.get(line).total += one.total;
			rows.get(line).variance += one.variance;
		}
		return [...rows.values()].sort((a, b) => a.line - b.line);
	}

	function linesTable(app, file, text) {
		const rows = rowsOf(app, file, text), unit = app.unit();
		const figure = (key) => (row) => row[key] || null;
		const most = rows.reduce((top, row) => Math.max(top, Math.abs(row.total)), 0);
		return Table.make(app, {id: "source-lines", rows, isFixed: true, sort: "", columns: [
			{key: app.state.metric, title: app.state.metric, unit, value: figure("total")},
			...app.model.isSample ? [Table.bound("bound", figure("total"),
				(row) => Model.bound(row.total, row.variance))] : [],
			{key: "own", title: "Own", unit, hide: "medium", value: figure("own")},
			{key: "bar", title: "", unit: "text", isDrawn: true, hide: "medium",
				value: (row) => row.total,
				cell: (row) => row.total ? Dom.meter(row.total, most) : ""},
			{key: "line", title: "Line", unit: "blocks", value: (row) => row.line || null,
				cell: (row) => row.line ? String(row.line) : "?"},
			{key: "text", title: text ? "Text" : "", unit: "text", value: (row) => row.text,
				cell: (row) => Dom.element("code", {}, row.text)}]});
	}

	function chooser(app, files, file) {
		const select = Dom.element("select", {id: "source-file", "aria-label": "Source file",
			onchange: (event) => app.set({file: Number(event.target.value)})},
		...files.map((one) => Dom.element("option", {value: String(one.file),
			selected: one.file === file}, pathOf(app, one.file) + " \u2014 own " +
				app.format(one.own) + ", in all " + app.format(one.total) +
				Format.bound(one.total, Model.bound(one.total, one.variance)))));
		return select;
	}

	function create(app) {
		let table = null, sum = 0;

		function note(text, file) {
			if (text && text.problem)
				return text.problem;
			if (text)
				return (text.is_newer ? "This file was changed after the capture: lines may have " +
					"moved. " : "") + "Lines without figures are left out where they are far from " +
					"any that have them.";
			return file > 0 ? "This page was made without --embed-source: it has line numbers, " +
				"and no text." : "";
		}

		return {
			render(view) {
				const found = filesOf(app), {facts} = app.model;
				sum = found.sum;
				const files = found.files.slice(0, FILES);
				const wanted = app.state.file > 0 && app.state.file <= facts.strings.length
					? app.state.file : files.length ? files[0].file : -1;
				if (wanted < 0) {
					table = null;
					Dom.replace(view, Dom.element("h2", {}, "Source"), Dom.element("p", {},
						facts.totals.allocations ? "No chain here has a line: debug information " +
							"is missing. heaptap symbols prints what helps."
							: "The process allocated nothing."));
					return;
				}
				if (!files.some((one) => one.file === wanted))
					files.push({file: wanted, own: 0, total: 0, variance: 0});
				const text = (facts.sources || []).find((one) => one.path === pathOf(app, wanted));
				table = linesTable(app, wanted, text);
				Dom.replace(view, Dom.element("div", {class: "bar"}, chooser(app, files, wanted)),
					Dom.element("p", {class: "hint"}, note(text, wanted)), table.element);
			},
			sum: () => sum,
			text: () => table ? Table.text(table) : "",
			csv: () => table ? Table.csv(table) : "",
		};
	}

	return {create};
})();
