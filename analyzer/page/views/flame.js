/* SPDX-License-Identifier: Apache-2.0
 *
 * The call tree as a flame graph on a canvas, with a table beside it: the callees, or the callers,
 * of the chosen frame.
 */
"use strict";

const Flame = (() => {
	const TABLE_ROWS = 25;

	function create(app) {
		let canvas = null, boxes = [], height = 0, chosen = 0;

		/* A frame needs a width above 0: chains that shrank count as 0. */
		function drawn() {
			const {state} = app;
			if (state.metric !== "growth")
				return app.totals();
			return app.remember("drawn", [state.from, state.to, state.focus, state.hide, state.thread,
				state.direction, state.wrappers, state.recursion], () =>
				Stacks.inclusive(app.tree(), app.values().map((value) => Math.max(0, value))));
		}

		const zoomed = () => app.state.zoom < app.tree().count ? app.state.zoom : 0;

		function nameOf(node) {
			return node ? app.names.functionName(app.tree().call[node])
				: "all, " + app.format(drawn().total[0]) + boundText(drawn().total, 0);
		}

		/* The bound of a node's total, for people; "" where it is exact. */
		function boundText(total, node) {
			const variances = app.treeVariances();
			return variances ? Format.bound(total[node],
				Model.bound(total[node], variances.total[node])) : "";
		}

		function describe(node) {
			const {total, own} = drawn(), call = app.tree().call[node];
			const parts = [nameOf(node)];
			if (node)
				parts.push(app.format(total[node]) + boundText(total, node) + " (" +
					Format.percent(total[node], total[0]) + ")");
			if (node && own[node] && app.state.direction === "down")
				parts.push("own " + app.format(own[node]));
			if (app.names.functionWhere(call))
				parts.push(app.names.functionWhere(call));
			return parts.join(" \u00b7 ");
		}

		function tell(node) {
			Dom.by("flame-readout").textContent = describe(node);
		}

		const looks = (width) => ({width, height, tree: app.tree(), nameOf, describe, chosen});

		function draw() {
			const width = Math.max(200, Dom.by("flame-scroll").clientWidth - 2);
			boxes = Boxes.layOut(app.tree(), app.children(), drawn().total, zoomed(), width);
			height = Boxes.stand(boxes, app.state.shape === "flame");
			Boxes.paint(app, canvas, boxes, looks(width));
			canvas.setAttribute("aria-label", "call tree, " + boxes.length +
				" frames; the table beside it has the same as text");
		}

		function at(event) {
			const frame = canvas.getBoundingClientRect();
			const x = event.clientX - frame.left, y = event.clientY - frame.top;
			return boxes.find((one) => y >= one.y && y < one.y + Boxes.ROW && x >= one.x &&
				x < one.x + one.width);
		}

		function zoomTo(node) {
			chosen = node;
			app.set({zoom: node});
		}

		/* The neighbour of the chosen frame in the direction of the key. */
		function walk(key) {
			const {parent} = app.tree(), {total} = drawn();
			const below = (node) => Stacks.sorted(app.children(), total, node);
			if (key === "ArrowUp")
				return parent[chosen];
			if (key === "ArrowDown")
				return below(chosen)[0] || chosen;
			const beside = chosen ? below(parent[chosen]) : [0];
			return beside[beside.indexOf(chosen) + (key === "ArrowRight" ? 1 : -1)] || chosen;
		}

		function pressed(event) {
			const isUp = app.state.shape === "flame";
			const turned = {ArrowUp: "ArrowDown", ArrowDown: "ArrowUp"};
			const key = isUp && turned[event.key] || event.key;
			if (event.ctrlKey || event.altKey || event.metaKey)
				return;
			if (key === "Enter")
				zoomTo(chosen);
			else if (key === "Escape")
				zoomTo(0);
			else if (key.startsWith("Arrow")) {
				chosen = walk(key);
				draw();
				tell(chosen);
			} else
				return;
			event.preventDefault();
			event.stopPropagation();
		}

		function row(node, mark) {
			const {total} = drawn(), call = app.tree().call[node];
			return Dom.element("tr", {},
				Dom.element("td", {class: "name"},
					Dom.element("button", {class: "link", type: "button", title: nameOf(node),
						onclick: () => zoomTo(node)},
					mark + (node ? app.names.shortOf(nameOf(node)) : "all")),
					Dom.element("div", {class: "where"}, app.names.functionWhere(call))),
				Dom.element("td", {class: "number"}, app.format(total[node]) +
					boundText(total, node)),
				Dom.element("td", {class: "number"}, Format.percent(total[node], total[0])));
		}

		function actions() {
			const call = app.tree().call[zoomed()];
			return call < 0 ? null : Controls.ofFunction(app, call);
		}

		function table() {
			const zoom = zoomed(), below = Stacks.sorted(app.children(), drawn().total, zoom);
			const path = Boxes.pathTo(app.tree(), zoom).slice(-4);
			const shown = below.slice(0, TABLE_ROWS - path.length);
			return Dom.element("div", {}, actions(),
				Dom.element("table", {id: "flame-table"},
					Dom.element("caption", {class: "hint"}, app.state.direction === "up"
						? "The frame, and its callers" : "The frame, and what it calls"),
					Dom.element("thead", {}, Dom.element("tr", {},
						Dom.element("th", {scope: "col"}, "Function"),
						Dom.element("th", {scope: "col", class: "number"}, app.state.metric),
						Dom.element("th", {scope: "col", class: "number"}, "Share"))),
					Dom.element("tbody", {},
						...path.map((up) => row(up, up === zoom ? "" : "\u2191\u00a0")),
						...shown.map((child) => row(child, "\u2514\u00a0")))),
				below.length > shown.length ? Dom.element("p", {class: "hint"}, "and " +
					Format.count(below.length - shown.length) + " smaller ones") : null);
		}

		function listen() {
			canvas.addEventListener("mousemove", (event) => {
				const one = at(event);
				canvas.title = one ? describe(one.node) : "";
				tell(one ? one.node : zoomed());
			});
			canvas.addEventListener("click", (event) => {
				const one = at(event);
				if (one)
					zoomTo(one.node);
			});
			canvas.addEventListener("keydown", pressed);
		}

		function render(view) {
			canvas = Dom.element("canvas", {id: "flame", tabindex: "0", role: "img"});
			Dom.replace(view,
				Dom.element("div", {class: "bar"}, ...Controls.stacks(app),
					Dom.element("span", {class: "group"},
						Controls.choice(app, "Icicle", {shape: "icicle"}, "the root on top"),
						Controls.choice(app, "Flame", {shape: "flame"}, "the root at the bottom")),
					Dom.element("button", {type: "button", disabled: !zoomed(),
						onclick: () => zoomTo(0)}, "Reset zoom")),
				Dom.element("p", {id: "flame-readout", class: "hint"}),
				Dom.element("div", {id: "flame-grid"},
					Dom.element("div", {id: "flame-scroll"}, canvas), table()));
			if (drawn().total[0] !== app.sum())
				view.append(Dom.element("p", {class: "hint"}, "Chains that shrank, by " +
					app.format(drawn().total[0] - app.sum()) + " together, are not drawn."));
			listen();
			draw();
			tell(zoomed());
			if (app.state.shape === "flame")
				Dom.by("flame-scroll").scrollTop = 1e9;
		}

		return {
			render,
			resize: () => canvas && canvas.isConnected && draw(),
			sum: () => app.totals().total[0],
			text: () => TreeView.text(app, drawn(), zoomed()),
			collapsed: () => Save.collapsed(app.down(), app.downTotals().own, app.names.functionName),
			svg: () => Boxes.svg(app, boxes, looks(Math.max(...boxes.map((one) => one.width)))),
		};
	}

	return {create};
})();
