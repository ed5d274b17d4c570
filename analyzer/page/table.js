/* SPDX-License-Identifier: Apache-2.0
 *
 * A table that sorts by each column and shows its first rows; the same rows as text and as CSV.
 *
 * A column: {key, title, unit: "bytes" | "blocks" | "ns" | "text" | "share", value: (row) => number
 * or text, hide: class that hides it on small screens, cell: (row) => element instead of the text,
 * isDrawn: text and CSV leave the column out}.
 */
"use strict";

const Table = (() => {
	const FIRST_ROWS = 50;

	function textOf(column, row) {
		const value = column.value(row);
		if (value === null || value === undefined)
			return "";
		return {bytes: Format.bytes, blocks: Format.count, ns: Format.duration, text: String,
			share: (share) => Format.percent(share, 1)}[column.unit](value);
	}

	/* "key": largest first; "key-": smallest first; for texts the reverse. */
	function sortRows(rows, columns, sort) {
		const isTurned = sort.endsWith("-"), key = isTurned ? sort.slice(0, -1) : sort;
		const column = columns.find((one) => one.key === key);
		if (!column)
			return rows;
		const sign = isTurned ? 1 : -1;
		const compare = column.unit === "text"
			? (a, b) => -sign * String(column.value(a)).localeCompare(String(column.value(b)))
			: (a, b) => sign * ((column.value(a) ?? -Infinity) - (column.value(b) ?? -Infinity)) || 0;
		return rows.map((row) => row).sort(compare);
	}

	/* The first `count` rows of sortRows; does not sort the others. */
	function firstRows(rows, columns, sort, count) {
		const isTurned = sort.endsWith("-"), key = isTurned ? sort.slice(0, -1) : sort;
		const column = columns.find((one) => one.key === key);
		if (!column || column.unit === "text" || rows.length < count * 4)
			return sortRows(rows, columns, sort).slice(0, count);
		const sign = isTurned ? 1 : -1;
		const values = new Float64Array(rows.length);
		for (let i = 0; i < values.length; i++)
			values[i] = sign * (column.value(rows[i]) ?? -Infinity);
		const least = values.slice().sort()[count - 1];
		return sortRows(rows.filter((_, i) => values[i] <= least), columns, sort).slice(0, count);
	}

	/* A heading that sorts. */
	function heading(app, column, sort) {
		const is = sort === column.key ? 1 : sort === column.key + "-" ? -1 : 0;
		const isUp = column.unit === "text" ? is > 0 : is < 0;
		return Dom.element("th", {scope: "col",
			class: (column.unit === "text" ? "" : "number ") + (column.hide || ""),
			"aria-sort": is ? isUp ? "ascending" : "descending" : undefined},
		Dom.element("button", {type: "button", "data-sort": column.key,
			onclick: () => app.set({sort: is > 0 ? column.key + "-" : column.key})},
		column.title + (is ? isUp ? " \u2191" : " \u2193" : "")));
	}

	function cell(column, row) {
		return Dom.element("td", {class: (column.unit === "text" ? "name " : "number ") +
			(column.hide || "")}, column.cell ? column.cell(row) : textOf(column, row));
	}

	/* {id, caption, columns, rows, sort: usual order, isFixed: rows keep their order}.
	 * Returns the element, and for `text` and `csv` a function that gives all rows as they
	 * are shown. */
	function make(app, {id, caption, columns, rows, sort, isFixed}) {
		const now = app.state.sort && columns.some((one) =>
			one.key === app.state.sort.replace(/-$/, "")) ? app.state.sort : sort;
		const first = isFixed ? rows : firstRows(rows, columns, now, FIRST_ROWS);
		let sorted = isFixed ? rows : null;
		const all = () => sorted || (sorted = sortRows(rows, columns, now));
		const body = Dom.element("tbody", {});
		const more = Dom.element("button", {type: "button"}, "Show more");
		let shown = 0;
		const show = () => {
			const until = shown ? shown * 4 : FIRST_ROWS;
			body.append(...(shown ? all() : first).slice(shown, until).map((row) => Dom.element("tr", {},
				...columns.map((column) => cell(column, row)))));
			shown = Math.min(until, rows.length);
			more.hidden = shown === rows.length;
			more.textContent = "Show more of " + Format.count(rows.length);
		};
		more.addEventListener("click", show);
		show();
		const head = columns.map((column) => isFixed ? Dom.element("th", {scope: "col",
			class: (column.unit === "text" ? "" : "number ") + (column.hide || "")}, column.title)
			: heading(app, column, now));
		const element = Dom.element("div", {class: "scroll"}, Dom.element("table", {id},
			caption ? Dom.element("caption", {class: "hint"}, caption) : null,
			Dom.element("thead", {}, Dom.element("tr", {}, ...head)), body), more);
		return {element, columns, rows: all, count: rows.length};
	}

	/* The first FIRST_ROWS rows as text: columns as wide as their texts, names last. */
	function text({columns, rows: all}) {
		const list = all();
		const shown = [...columns.filter((one) => one.unit !== "text"),
			...columns.filter((one) => one.unit === "text")].filter((one) => !one.isDrawn);
		const rows = [shown.map((one) => one.title),
			...list.slice(0, FIRST_ROWS).map((row) => shown.map((one) => textOf(one, row)))];
		const width = shown.map((one, i) => Math.max(...rows.map((row) => row[i].length)));
		const lines = rows.map((row) => row.map((value, i) => shown[i].unit === "text" ? value
			: value.padStart(width[i])).join("  ").trimEnd());
		if (list.length > FIRST_ROWS)
			lines.push("and " + Format.count(list.length - FIRST_ROWS) + " more");
		return lines.join("\n") + "\n";
	}

	/* Numbers unformatted; text that a spreadsheet would evaluate is escaped. */
	function csv({columns, rows}) {
		const quote = (value) => {
			const words = value === null || value === undefined ? "" : String(value);
			const safe = typeof value === "string" && /^[=+\-@\t\r]/.test(words) ? "'" + words : words;
			return /[",\n\r]/.test(safe) ? '"' + safe.replace(/"/g, '""') + '"' : safe;
		};
		const shown = columns.filter((one) => !one.isDrawn);
		return [shown.map((one) => quote(one.key)), ...rows().map((row) =>
			shown.map((one) => quote(one.value(row))))].map((row) => row.join(",")).join("\n") + "\n";
	}

	/* A column of bounds at 95 %, as shares of their figures; empty where a figure is exact. */
	const bound = (key, value, half, hide = "") => ({key, title: "\u00b1", unit: "share", hide,
		value: (row) => value(row) && half(row) / Math.abs(value(row)) || null});

	return {make, sortRows, firstRows, text, csv, bound};
})();

if (typeof module !== "undefined")
	module.exports = Table;
