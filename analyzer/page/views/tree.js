/* SPDX-License-Identifier: Apache-2.0
 *
 * The call tree as rows that open and close: top-down, or from the allocating functions to their
 * callers.
 */
"use strict";

const TreeView = (() => {
	const CHILDREN = 40, SMALL = 0.001, TEXT_LINES = 200, TEXT_LEAST = 0.005, GREAT = 0.6;

	/* The tree below `top` as at most TEXT_LINES lines of text: nodes with TEXT_LEAST of the
	 * total or more. */
	function text(app, {total, own}, top) {
		const tree = app.tree(), lines = [], all = Math.abs(total[0]) || 1;
		const line = (node, depth) => [app.format(total[node]).padStart(10),
			Format.percent(Math.abs(total[node]), all).padStart(8),
			(own[node] ? app.format(own[node]) : "").padStart(10), "  " + "  ".repeat(depth) +
			(node ? app.names.functionName(tree.call[node]) : "all")].join(" ");
		const open = [[top, 0]];
		while (open.length && lines.length < TEXT_LINES) {
			const [node, depth] = open.pop();
			lines.push(line(node, Math.min(depth, 60)));
			open.push(...Stacks.sorted(app.children(), total, node)
				.filter((child) => Math.abs(total[child]) >= all * TEXT_LEAST)
				.map((child) => [child, depth + 1]).reverse());
		}
		if (open.length)
			lines.push("and more, which is left out here");
		return [app.state.metric.padStart(10), "share".padStart(8), "own".padStart(10),
			"  function"].join(" ") + "\n" + lines.join("\n") + "\n";
	}

	function create(app) {
		/* Open nodes, with the number of children that each shows, in the tree that `key`
		 * identifies. */
		let open = new Map(), key = "", active = 0, shown = [];

		/* Opens nodes from the root on, always the largest child, while it has GREAT of its
		 * caller's total. */
		function openGreatest(total) {
			open = new Map([[0, CHILDREN]]);
			for (let node = 0, depth = 0; depth < 40; depth++) {
				const list = Stacks.sorted(app.children(), total, node);
				open.set(node, CHILDREN);
				if (!list.length || total[list[0]] < total[node] * GREAT)
					break;
				node = list[0];
			}
		}

		/* The visible rows: {node, depth, children: their number}, or {of, more}: node `of`
		 * has `more` children that are not shown. */
		function rows(total) {
			const list = [], stack = [{node: 0, depth: 0}];
			while (stack.length) {
				const row = stack.pop();
				list.push(row);
				if (row.of !== undefined)
					continue;
				const below = Stacks.sorted(app.children(), total, row.node);
				row.children = below.length;
				let count = open.get(row.node) || 0;
				if (count === CHILDREN)
					count = Math.max(3, below.findLastIndex((child, i) => i < CHILDREN &&
						Math.abs(total[child]) >= Math.abs(total[0]) * SMALL) + 1);
				const next = below.slice(0, count).map((node) => ({node, depth: row.depth + 1}));
				if (count && below.length > count)
					next.push({of: row.node, more: below.length - count, depth: row.depth + 1});
				stack.push(...next.reverse());
			}
			return list;
		}

		function toggle(node, isOpen) {
			if (isOpen)
				open.set(node, open.get(node) || CHILDREN);
			else
				open.delete(node);
			active = node;
			app.render();
			focusActive();
		}

		function focusActive() {
			const row = document.querySelector("#tree tr[data-node='" + active + "']");
			if (row)
				row.focus();
		}

		function pressed(event) {
			const at = shown.findIndex((row) => row.node === active), row = shown[at];
			if (!row || event.ctrlKey || event.altKey || event.metaKey)
				return;
			const go = (to) => {
				active = to;
				for (const one of document.querySelectorAll("#tree tbody tr"))
					one.tabIndex = Number(one.dataset.node) === active ? 0 : -1;
				focusActive();
			};
			const next = (step) => {
				let to = at + step;
				while (shown[to] && shown[to].of !== undefined)
					to += step;
				return shown[to] ? shown[to].node : active;
			};
			const isOpen = open.has(active);
			const action = {
				ArrowDown: () => go(next(1)), ArrowUp: () => go(next(-1)),
				ArrowRight: () => isOpen ? go(next(1)) : row.children && toggle(active, true),
				ArrowLeft: () => isOpen && row.children ? toggle(active, false)
					: go(app.tree().parent[active]),
				Enter: () => app.openFunction(app.tree().call[active]),
			}[event.key];
			if (!action)
				return;
			event.preventDefault();
			event.stopPropagation();
			action();
		}

		function nameCell(row, found) {
			const call = app.tree().call[row.node], isOpen = open.has(row.node);
			const name = row.node ? app.names.functionName(call) : "all";
			const cell = Dom.element("td", {class: "name" + (found && call >= 0 && found[call]
				? " found" : "")},
			Dom.element("button", {type: "button", class: "twist", tabindex: "-1",
				"aria-label": isOpen ? "close" : "open", disabled: !row.children,
				onclick: () => toggle(row.node, !isOpen)},
			!row.children ? "\u00a0" : isOpen ? "\u25be" : "\u25b8"),
			row.node ? Dom.element("button", {type: "button", class: "link", tabindex: "-1",
				title: name + "\n" + app.names.functionWhere(call),
				onclick: () => app.openFunction(call)}, app.names.shortOf(name)) : name);
			cell.style.setProperty("--depth", Math.min(row.depth, 30));
			return cell;
		}

		/* A cell with the bound of a node's total; none: the figures are exact. */
		function boundCell(node, total) {
			const variances = app.treeVariances();
			return variances && Dom.element("td", {class: "number"},
				Format.bound(total[node], Model.bound(total[node], variances.total[node])));
		}

		function rowOf(row, {total, own}, found) {
			if (row.of !== undefined)
				return Dom.element("tr", {}, Dom.element("td", {colspan: app.treeVariances() ? "5" : "4"},
					Dom.element("button", {type: "button", onclick: () => {
						open.set(row.of, open.get(row.of) * 4);
						app.render();
					}}, "Show " + Format.count(row.more) + " smaller ones")));
			const number = (text) => Dom.element("td", {class: "number"}, text);
			return Dom.element("tr", {"data-node": String(row.node), tabindex: row.node === active
				? "0" : "-1", "aria-level": String(row.depth + 1), onfocus: () => {
				active = row.node;
			}, "aria-expanded": row.children ? String(open.has(row.node)) : undefined},
			nameCell(row, found), number(app.format(total[row.node])), boundCell(row.node, total),
			number(Format.percent(Math.abs(total[row.node]), Math.abs(total[0]))),
			Dom.element("td", {class: "number medium"}, own[row.node] ? app.format(own[row.node]) : ""));
		}

		function render(view) {
			const totals = app.totals(), {state} = app, found = app.foundCalls();
			const now = [state.direction, state.wrappers, state.recursion].join();
			if (now !== key) {
				key = now;
				active = 0;
				openGreatest(totals.total);
			}
			shown = rows(totals.total);
			const head = (text, kind) => Dom.element("th", {scope: "col", class: kind}, text);
			const table = Dom.element("table", {id: "tree", role: "treegrid"},
				Dom.element("thead", {}, Dom.element("tr", {}, head("Function"),
					head(state.metric, "number"),
					app.treeVariances() && head("\u00b1", "number"), head("Share", "number"),
					head(state.direction === "down" ? "Own" : "Chains that end here",
						"number medium"))),
				Dom.element("tbody", {}, ...shown.map((row) => rowOf(row, totals, found))));
			table.addEventListener("keydown", pressed);
			Dom.replace(view, Dom.element("div", {class: "bar"}, ...Controls.stacks(app),
				Dom.element("button", {type: "button", onclick: () => {
					openGreatest(totals.total);
					app.render();
				}}, "Open the largest"),
				Dom.element("button", {type: "button", onclick: () => {
					open = new Map([[0, CHILDREN]]);
					app.render();
				}}, "Close all")),
			Dom.element("div", {class: "scroll"}, table),
			Dom.element("p", {class: "hint"}, "Arrow keys walk, open and close; Enter shows the " +
				"function's callers."));
		}

		return {render, sum: () => app.totals().total[0],
			text: () => shown.length ? visible() : "",
			csv: () => Table.csv(rowsAsTable()),
			collapsed: () => Save.collapsed(app.down(), app.downTotals().own, app.names.functionName)};

		function rowsAsTable() {
			const {total, own} = app.totals(), {call} = app.tree();
			return {rows: () => shown.filter((row) => row.of === undefined), columns: [
				{key: "depth", value: (row) => row.depth},
				{key: "function", value: (row) => row.node ? app.names.functionName(call[row.node])
					: "all"},
				{key: app.state.metric, value: (row) => total[row.node]},
				{key: "own", value: (row) => own[row.node]}]};
		}

		function visible() {
			const {total} = app.totals(), {call} = app.tree();
			return shown.map((row) => row.of !== undefined
				? " ".repeat(20) + "  ".repeat(row.depth) + "and " + row.more + " smaller ones"
				: app.format(total[row.node]).padStart(10) + Format.percent(Math.abs(total[row.node]),
					Math.abs(total[0])).padStart(8) + "  " + "  ".repeat(row.depth) +
				(row.node ? app.names.functionName(call[row.node]) : "all")).join("\n") + "\n";
		}
	}

	return {create, text};
})();
