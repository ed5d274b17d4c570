/* SPDX-License-Identifier: Apache-2.0
 *
 * The call tree as a flame graph on a canvas, and beside it the same as a table: what the shown
 * frame calls, or who calls it.
 */
"use strict";

const Flame = (() => {
	const ROW = 19, TABLE_ROWS = 25, ROWS_MAX = 1500, LEAST_WIDTH = 0.4;

	function create(app) {
		const {model} = app;
		const trees = {};
		let canvas = null, box = [], shown = null, focus = 0;

		function treeOf(direction) {
			if (!trees[direction])
				trees[direction] = direction === "up" ? Model.bottomUp(model)
					: Model.topDown(model);
			return trees[direction];
		}

		/* Tree, sums and children for the state; computed anew only where it changed. */
		function current() {
			const {direction, from, to, metric} = app.state;
			const key = [direction, from, to, metric].join();
			if (shown && shown.key === key)
				return shown;
			const tree = treeOf(direction);
			const values = app.values().map((value) => Math.max(0, value));
			const sums = Model.inclusive(tree, values);
			shown = {key, tree, ...sums, ...Model.childrenOf(tree, sums.total)};
			return shown;
		}

		function pathTo(tree, node) {
			const path = [];
			for (let at = node; at; at = tree.parent[at])
				path.unshift(at);
			return [0, ...path];
		}

		/* Boxes of the frames that are wide enough, from the root to the zoomed one over the
		 * whole width, then what lies below it. */
		function layOut(width) {
			const {tree, total, first, next} = current();
			const zoom = app.state.zoom < tree.count ? app.state.zoom : 0;
			const path = pathTo(tree, zoom);
			const boxes = path.map((node, row) => ({node, row, x: 0, width}));
			const open = [{node: zoom, row: path.length - 1, x: 0, width}];
			while (open.length) {
				const up = open.pop();
				let x = up.x;
				for (let child = first[up.node]; child >= 0; child = next[child]) {
					const wide = up.width * total[child] / total[up.node];
					if (wide < LEAST_WIDTH)
						break;
					const one = {node: child, row: up.row + 1, x, width: wide};
					boxes.push(one);
					if (one.row < ROWS_MAX)
						open.push(one);
					x += wide;
				}
			}
			return boxes;
		}

		/* As much of a name as fits. */
		function fit(context, name, width) {
			const room = Math.floor(width / context.letter);
			const short = room >= name.length ? name : Format.shortName(name);
			return room >= short.length ? short : room < 4 ? ""
				: short.slice(0, room - 1) + "\u2026";
		}

		function colours() {
			const frames = [];
			for (let i = 0; i < 8; i++)
				frames.push(Dom.colour("frame-" + i));
			return {frames, text: Dom.colour("frame-text"), found: Dom.colour("found"),
				card: Dom.colour("card"), quiet: Dom.colour("line"), accent: Dom.colour("accent")};
		}

		function drawBox(context, colour, one, y, matches) {
			const {tree} = current(), frame = tree.frame[one.node];
			const isMatch = matches && frame >= 0 && matches[frame];
			/* Colours are those of modules; shades tell neighbours apart. */
			context.globalAlpha = matches && !isMatch ? 0.35
				: one.node && !isMatch ? 0.7 + frame * 7 % 5 * 0.075 : 1;
			context.fillStyle = isMatch ? colour.found : !one.node ? colour.quiet
				: colour.frames[frame < 0 ? 7 : model.frame.module[frame] % 8];
			context.fillRect(one.x, y, Math.max(0.5, one.width - 0.7), ROW - 1);
			if (one.node === focus && focus) {
				context.strokeStyle = colour.accent;
				context.lineWidth = 2;
				context.strokeRect(one.x + 1, y + 1, Math.max(1, one.width - 2.7), ROW - 3);
			}
			const text = fit(context, name(one.node), one.width - 8);
			if (!text)
				return;
			context.globalAlpha = matches && !isMatch ? 0.6 : 1;
			context.fillStyle = isMatch ? colour.card : colour.text;
			context.fillText(text, one.x + 4, y + ROW - 6);
		}

		function name(node) {
			return node ? app.frameName(current().tree.frame[node])
				: "all, " + Format.value(current().total[0],
					Model.METRICS[app.state.metric].unit);
		}

		function draw() {
			const scroll = Dom.by("flame-scroll");
			const width = Math.max(200, scroll.clientWidth - 2);
			const boxes = layOut(width);
			const rows = boxes.reduce((most, one) => Math.max(most, one.row), 0) + 1;
			const height = rows * ROW;
			const context = Dom.paintOn(canvas, width, height);
			const colour = colours(), matches = app.matches();
			context.font = "12px system-ui, sans-serif";
			context.letter = context.measureText("abcdefghijklmnopqrstuvwxyz_:").width / 28;
			for (const one of boxes) {
				one.y = app.state.shape === "flame" ? height - (one.row + 1) * ROW
					: one.row * ROW;
				drawBox(context, colour, one, one.y, matches);
			}
			context.globalAlpha = 1;
			box = boxes;
			canvas.setAttribute("aria-label", "call tree, " + boxes.length +
				" frames; the table beside it has the same as text");
		}

		function describe(node) {
			const {tree, total, own} = current();
			const unit = Model.METRICS[app.state.metric].unit;
			const frame = tree.frame[node];
			const parts = [name(node)];
			if (node)
				parts.push(Format.value(total[node], unit) + " (" +
					Format.percent(total[node], total[0]) + ")");
			if (node && own[node])
				parts.push((app.state.direction === "up" ? "chains that begin here " : "own ") +
					Format.value(own[node], unit));
			if (frame >= 0 && app.frameWhere(frame))
				parts.push(app.frameWhere(frame));
			return parts.join(" \u00b7 ");
		}

		function tell(node) {
			Dom.by("flame-readout").textContent = describe(node);
		}

		function at(event) {
			const frame = canvas.getBoundingClientRect();
			const x = event.clientX - frame.left, y = event.clientY - frame.top;
			return box.find((one) => y >= one.y && y < one.y + ROW && x >= one.x &&
				x < one.x + one.width);
		}

		function zoomTo(node) {
			focus = node;
			app.set({zoom: node});
		}

		/* The neighbour of the frame in focus. */
		function walk(key) {
			const {tree, first, next} = current();
			const {parent} = tree;
			if (key === "ArrowUp")
				return parent[focus];
			if (key === "ArrowDown")
				return first[focus] >= 0 ? first[focus] : focus;
			if (key === "ArrowRight")
				return focus && next[focus] >= 0 ? next[focus] : focus;
			let left = focus ? first[parent[focus]] : 0;
			while (left !== focus && next[left] !== focus)
				left = next[left];
			return left;
		}

		function pressed(event) {
			const isUp = app.state.shape === "flame";
			const turned = {ArrowUp: "ArrowDown", ArrowDown: "ArrowUp"};
			const key = isUp && turned[event.key] || event.key;
			if (key === "Enter")
				zoomTo(focus);
			else if (key === "Escape")
				zoomTo(0);
			else if (key.startsWith("Arrow")) {
				focus = walk(key);
				draw();
				tell(focus);
			} else
				return;
			event.preventDefault();
		}

		function tableRow(node, unit, is) {
			const {tree, total} = current();
			const frame = tree.frame[node];
			return Dom.element("tr", {},
				Dom.element("td", {class: "name"},
					Dom.element("button", {class: "link", type: "button",
						title: name(node), onclick: () => zoomTo(node)},
					is + (node ? Format.shortName(name(node)) : "all")),
					Dom.element("div", {class: "where"}, frame >= 0
						? app.frameWhere(frame) : "")),
				Dom.element("td", {class: "number"}, Format.value(total[node], unit)),
				Dom.element("td", {class: "number"},
					Format.percent(total[node], total[0])));
		}

		function tableOf() {
			const {tree, first, next} = current();
			const unit = Model.METRICS[app.state.metric].unit;
			const zoom = app.state.zoom < tree.count ? app.state.zoom : 0;
			const rows = [];
			for (const up of pathTo(tree, zoom).slice(-4))
				rows.push(tableRow(up, unit, up === zoom ? "" : "\u2191\u00a0"));
			let left = 0;
			for (let child = first[zoom]; child >= 0; child = next[child])
				if (rows.length < TABLE_ROWS)
					rows.push(tableRow(child, unit, "\u2514\u00a0"));
				else
					left++;
			return Dom.element("div", {},
				Dom.element("table", {id: "flame-table"},
					Dom.element("caption", {class: "hint"}, app.state.direction === "up"
						? "The frame, and its callers" : "The frame, and what it calls"),
					Dom.element("thead", {}, Dom.element("tr", {},
						Dom.element("th", {scope: "col"}, "Function"),
						Dom.element("th", {scope: "col", class: "number"},
							app.state.metric),
						Dom.element("th", {scope: "col", class: "number"}, "Share"))),
					Dom.element("tbody", {}, ...rows)),
				left ? Dom.element("p", {class: "hint"}, "and " + left + " smaller ones") : "");
		}

		function choice(text, state, value, title) {
			return Dom.element("button", {type: "button", title,
				"aria-pressed": String(app.state[state] === value),
				onclick: () => app.set({[state]: value, zoom: state === "direction" ? 0
					: app.state.zoom})}, text);
		}

		function render(view) {
			canvas = Dom.element("canvas", {id: "flame", tabindex: "0", role: "img"});
			Dom.replace(view,
				Dom.element("div", {class: "bar"},
					Dom.element("span", {class: "quiet"}, "Begin with"),
					choice("outermost callers", "direction", "down",
						"main and thread functions at the root"),
					choice("allocating functions", "direction", "up",
						"what called the allocator at the root"),
					Dom.element("span", {class: "quiet"}, "grow"),
					choice("down", "shape", "icicle", "icicle: the root on top"),
					choice("up", "shape", "flame", "flame: the root at the bottom"),
					Dom.element("span", {class: "space"}),
					Dom.element("button", {type: "button", onclick: () => zoomTo(0)},
						"Reset zoom")),
				Dom.element("p", {id: "flame-readout", class: "hint"}),
				Dom.element("div", {id: "flame-grid"},
					Dom.element("div", {id: "flame-scroll"}, canvas),
					tableOf()));
			canvas.addEventListener("mousemove", (event) => {
				const one = at(event);
				canvas.title = one ? describe(one.node) : "";
				tell(one ? one.node : app.state.zoom);
			});
			canvas.addEventListener("click", (event) => {
				const one = at(event);
				if (one)
					zoomTo(one.node);
			});
			canvas.addEventListener("keydown", pressed);
			draw();
			tell(app.state.zoom < current().tree.count ? app.state.zoom : 0);
			if (app.state.shape === "flame")
				Dom.by("flame-scroll").scrollTop = 1e9;
		}

		return {
			render,
			resize: () => canvas && canvas.isConnected && draw(),
			/* What the search finds in the tree that is shown. */
			found() {
				const {tree, total} = current();
				const matches = app.matches();
				return matches ? {...Model.matched(tree, total, matches), all: total[0]} : null;
			},
			rootSum: () => current().total[0],
		};
	}

	return {create};
})();
