/* SPDX-License-Identifier: Apache-2.0
 *
 * The boxes of a flame graph: layout, and drawing on a canvas and in an SVG.
 */
"use strict";

const Boxes = (() => {
	const ROW = 19, ROWS_MAX = 1500, LEAST_WIDTH = 0.4, FONT = "12px system-ui, sans-serif";

	function pathTo(tree, node) {
		const path = [];
		for (let at = node; at; at = tree.parent[at])
			path.push(at);
		return [0, ...path.reverse()];
	}

	/* Children that are wide enough, widest first. */
	function wideChildren(children, total, node, least) {
		const list = [];
		for (let i = children.first[node]; i < children.first[node + 1]; i++)
			if (total[children.child[i]] >= least && total[children.child[i]] > 0)
				list.push(children.child[i]);
		return list.sort((a, b) => total[b] - total[a] || a - b);
	}

	/* Gives the frames from the root to the zoomed one the whole width, and those below it
	 * their share. */
	function layOut(tree, children, total, zoom, width) {
		const path = pathTo(tree, zoom);
		const boxes = path.map((node, row) => ({node, row, x: 0, width}));
		const open = total[zoom] > 0 ? [boxes[boxes.length - 1]] : [];
		while (open.length) {
			const up = open.pop(), scale = up.width / total[up.node];
			let x = up.x;
			for (const child of wideChildren(children, total, up.node, LEAST_WIDTH / scale)) {
				const one = {node: child, row: up.row + 1, x, width: total[child] * scale};
				boxes.push(one);
				if (one.row < ROWS_MAX)
					open.push(one);
				x += one.width;
			}
		}
		return boxes;
	}

	/* As much of a name as fits. */
	function fit(app, name, room) {
		const short = room >= name.length ? name : app.names.shortOf(name);
		return room >= short.length ? short : room < 4 ? "" : short.slice(0, room - 1) + "\u2026";
	}

	function colours() {
		const frames = [];
		for (let i = 0; i < 8; i++)
			frames.push(Dom.colour("frame-" + i));
		return {frames, text: Dom.colour("frame-text"), found: Dom.colour("found"),
			card: Dom.colour("card"), quiet: Dom.colour("line"), accent: Dom.colour("accent")};
	}

	/* Colours stand for modules; shades distinguish adjacent boxes. */
	function look(app, tree, node, colour, found) {
		const call = tree.call[node], isMatch = found && call >= 0 && found[call];
		const frame = call < 0 ? -1 : app.names.functions.first[call];
		return {
			fill: isMatch ? colour.found : !node ? colour.quiet
				: colour.frames[frame < 0 ? 7 : app.model.frame.module[frame] % 8],
			alpha: found && !isMatch ? 0.35 : node && !isMatch ? 0.7 + call * 7 % 5 * 0.075 : 1,
			text: isMatch ? colour.card : colour.text,
			textAlpha: found && !isMatch ? 0.6 : 1,
		};
	}

	/* Gives each box its y; returns the height. */
	function stand(boxes, isFlame) {
		const rows = boxes.reduce((most, one) => Math.max(most, one.row), 0) + 1;
		for (const one of boxes)
			one.y = isFlame ? (rows - one.row - 1) * ROW : one.row * ROW;
		return rows * ROW;
	}

	function paint(app, canvas, boxes, {width, height, tree, nameOf, chosen}) {
		const context = Dom.paintOn(canvas, width, height);
		const colour = colours(), found = app.foundCalls();
		context.font = FONT;
		const letter = context.measureText("abcdefghijklmnopqrstuvwxyz_:").width / 28;
		for (const one of boxes) {
			const is = look(app, tree, one.node, colour, found);
			context.globalAlpha = is.alpha;
			context.fillStyle = is.fill;
			context.fillRect(one.x, one.y, Math.max(0.5, one.width - 0.7), ROW - 1);
			if (one.node === chosen && chosen) {
				context.globalAlpha = 1;
				context.strokeStyle = colour.accent;
				context.lineWidth = 2;
				context.strokeRect(one.x + 1, one.y + 1, Math.max(1, one.width - 2.7), ROW - 3);
			}
			if (one.width < 30)
				continue;
			context.globalAlpha = is.textAlpha;
			context.fillStyle = is.text;
			context.fillText(fit(app, nameOf(one.node), Math.floor((one.width - 8) / letter)),
				one.x + 4, one.y + ROW - 6);
		}
		context.globalAlpha = 1;
	}

	function svg(app, boxes, {width, height, tree, nameOf, describe}) {
		const colour = colours(), found = app.foundCalls();
		const drawing = Save.drawing(width, height, colour.card);
		for (const one of boxes) {
			const is = look(app, tree, one.node, colour, found);
			const group = drawing.add("g", {});
			drawing.add("title", {}, describe(one.node), group);
			drawing.add("rect", {x: one.x, y: one.y, width: Math.max(0.5, one.width - 0.7),
				height: ROW - 1, fill: is.fill, "fill-opacity": is.alpha}, undefined, group);
			const text = one.width < 30 ? "" : fit(app, nameOf(one.node), Math.floor((one.width - 8) / 6.6));
			if (text)
				drawing.add("text", {x: one.x + 4, y: one.y + ROW - 6, fill: is.text}, text, group);
		}
		return drawing.text();
	}

	return {ROW, FONT, pathTo, layOut, stand, fit, paint, svg};
})();
