/* SPDX-License-Identifier: Apache-2.0
 *
 * The timeline as a drawing to keep: curves, times, marks and the selection.
 */
"use strict";

const TimelineSvg = (() => {
	const WIDTH = 1000, HEIGHT = 300, LEFT = 80, RIGHT = 20, TOP = 34, BOTTOM = 30, LINES = 4;

	/* Points of a curve; a value that is not known makes a gap. */
	function path(one, count, x, y) {
		let text = "", isOpen = false;
		for (let i = 0; i < count; i++) {
			const value = one.value(i);
			if (value === null) {
				isOpen = false;
				continue;
			}
			text += (isOpen ? "L" : "M") + x(i + 0.5).toFixed(1) + " " + y(value).toFixed(1);
			isOpen = true;
		}
		return text;
	}

	function drawAxes(drawing, model, x, y, most) {
		const quiet = Dom.colour("quiet"), line = Dom.colour("line");
		for (let i = 0; i <= LINES; i++) {
			const value = most * i / LINES, bucket = model.buckets * i / LINES;
			drawing.add("line", {x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value),
				stroke: line});
			drawing.add("text", {x: LEFT - 6, y: y(value) + 4, "text-anchor": "end", fill: quiet},
				Format.bytes(value));
			drawing.add("text", {x: x(bucket), y: HEIGHT - 10, "text-anchor": i ? i === LINES
				? "end" : "middle" : "start", fill: quiet}, Format.time(bucket * model.stepNs));
		}
	}

	function draw(app, series) {
		const {model} = app, {from, to} = app.state;
		const bytes = series.filter((one) => one.axis !== "y2");
		const values = (one) => Array.from({length: model.buckets}, (_, i) => one.value(i) || 0);
		const most = Math.max(1, ...bytes.map((one) => values(one)
			.reduce((top, value) => Math.max(top, value), 0)));
		const x = (bucket) => LEFT + bucket / Math.max(1, model.buckets) * (WIDTH - LEFT - RIGHT);
		const y = (value) => HEIGHT - BOTTOM - value / most * (HEIGHT - TOP - BOTTOM);
		const drawing = Save.drawing(WIDTH, HEIGHT, Dom.colour("card"));
		if (!Model.isWhole(model, from, to))
			drawing.add("rect", {x: x(from), width: x(to) - x(from), y: TOP,
				height: HEIGHT - TOP - BOTTOM, fill: Dom.colour("accent"), "fill-opacity": 0.18});
		drawAxes(drawing, model, x, y, most);
		let at = LEFT;
		for (const one of bytes) {
			drawing.add("path", {d: path(one, model.buckets, x, y), fill: "none",
				stroke: Dom.colour(one.colour || (one.isPart ? "rss" : one.key)),
				"stroke-width": one.isPart ? 1 : 1.8, "stroke-dasharray": one.isPart ? "5 3" : ""});
			drawing.add("text", {x: at, y: 20, fill: Dom.colour(one.colour || (one.isPart ? "rss" : one.key))}, one.name);
			at += one.name.length * 7 + 24;
		}
		for (const mark of model.facts.marks) {
			const place = x(mark.time_ns / model.stepNs);
			drawing.add("line", {x1: place, x2: place, y1: TOP, y2: HEIGHT - BOTTOM,
				stroke: Dom.colour("quiet"), "stroke-dasharray": "3 3"});
			drawing.add("text", {x: place + 3, y: TOP + 10, fill: Dom.colour("quiet")},
				(mark.text || "").slice(0, 40));
		}
		return drawing.text();
	}

	return {draw};
})();
