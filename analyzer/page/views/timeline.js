/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory over time, and the brush that selects a part of it. dygraphs draws; the brush is an
 * element of its own above the plot, so that pointer, touch and keys work alike.
 */
"use strict";

const Timeline = (() => {
	/* Parts of RSS, and swapped memory, which RSS lacks. */
	const MEMORY = [["anonymous", "anonymous"], ["file", "files"], ["shared", "shared memory"],
		["swap", "swapped out"]];
	const DASHES = {anonymous: [6, 3], file: [2, 3], shared: [8, 3, 2, 3], swap: [1, 4], limit: [4, 3]};

	/* Keys of curves: `hidden` ones are not drawn, `chosen` ones the reader has hidden or
	 * shown. Both are kept when the model changes. */
	const hidden = new Set(), chosen = new Set();

	const GROUP = [["cgroup", "cgroup", "its control group"],
		["cgroupLimit", "limit", "limit of the group"]];

	/* Label, colour, and bytes of bucket i; null: not known. */
	function seriesOf(model) {
		const line = model.timeline, s = model.stepNs / 1e9;
		const known = (column) => (i) => column[i] ? column[i] - 1 : null;
		/* The last step is shorter: it ends with the capture. */
		const isPart = (i) => (i + 1) * model.stepNs > model.facts.capture.duration_ns;
		const series = [
			{name: "allocated per second", key: "rate", axis: "y2",
				value: (i) => i && isPart(i) ? null : line.allocatedBytes[i] / s},
			{name: "live, allocated in the capture", key: "live",
				value: (i) => line.live[i]},
		];
		if (line.heap.some((value) => value))
			series.push({name: "whole heap", key: "heap", value: known(line.heap)});
		if (line.rss.some((value) => value))
			series.push({name: "RSS", key: "rss", value: known(line.rss)});
		const most = (column) => line[column].reduce((top, value) => Math.max(top, value - 1), 0);
		for (const [column, name] of MEMORY)
			if (most(column) > most("rss") / 20)
				series.push({name, key: column, isPart: true, value: known(line[column])});
		/* A control group that has far more than the process would flatten all other
		 * curves: its curves are hidden until the reader shows them. */
		for (const [column, key, name] of GROUP)
			if (most(column) > 0) {
				series.push({name, key, isPart: true, colour: "quiet", value: known(line[column])});
				if (!chosen.has(key) && most(column) > 2 * most("rss"))
					hidden.add(key);
			}
		return series;
	}

	/* Faults since the previous bucket; null: unknown. */
	function faultsAt(model, bucket) {
		const faults = model.timeline.majorFaults, before = bucket ? faults[bucket - 1] : 0;
		return faults[bucket] && before ? faults[bucket] - before : null;
	}

	function create(app) {
		const {model} = app, series = seriesOf(model);
		const brush = Dom.by("brush"), selection = Dom.by("selection"), cursor = Dom.by("cursor");
		let graph = null, anchor = -1, head = -1;

		const bucketStart = (bucket) => bucket * model.stepNs / 1e9;

		function rows() {
			const all = [];
			for (let i = 0; i < model.buckets; i++)
				all.push([(i + 0.5) * model.stepNs / 1e9,
					...series.map((one) => one.value(i))]);
			return all.length ? all : [[0, ...series.map(() => 0)]];
		}

		/* Shaded, below the curves. */
		function drawPauses(context, area, drawn) {
			for (const pause of model.facts.pauses) {
				const from = drawn.toDomXCoord(pause.begin_ns / 1e9);
				const to = drawn.toDomXCoord(pause.end_ns / 1e9);
				context.fillStyle = Dom.colour("line");
				context.fillRect(from, area.y, Math.max(1, to - from), area.h);
				context.fillStyle = Dom.colour("quiet");
				context.fillText("paused", from + 3, area.y + area.h - 4);
			}
		}

		function drawMarks(context, area, drawn) {
			context.strokeStyle = context.fillStyle = Dom.colour("quiet");
			context.setLineDash([3, 3]);
			for (const mark of model.facts.marks) {
				const x = drawn.toDomXCoord(mark.time_ns / 1e9);
				context.beginPath();
				context.moveTo(x, area.y);
				context.lineTo(x, area.y + area.h);
				context.stroke();
				context.fillText((mark.text || "").slice(0, 40), x + 3, area.y + 10);
			}
			context.setLineDash([]);
		}

		function options() {
			const own = {};
			for (const one of series)
				own[one.name] = {axis: one.axis || "y", color: Dom.colour(one.colour || (one.isPart ? "rss" : one.key)),
					fillGraph: one.key === "rate", strokeWidth: one.key === "rate"
						? 0.8 : one.isPart ? 1.1 : 1.8,
					strokePattern: one.isPart ? DASHES[one.key] : null,
					connectSeparatedPoints: true};
			const bytes = {axisLabelFormatter: (value) => Format.bytes(value)};
			return {
				labels: ["time", ...series.map((one) => one.name)],
				series: own,
				visibility: series.map((one) => !hidden.has(one.key)),
				interactionModel: {}, highlightCircleSize: 0,
				xRangePad: 0, includeZero: true, labelsKMG2: true,
				dateWindow: [0, Math.max(bucketStart(model.buckets), 1e-9)],
				gridLineColor: Dom.colour("line"), axisLineColor: Dom.colour("line"),
				underlayCallback: (context, area, drawn) => {
					drawPauses(context, area, drawn);
					drawMarks(context, area, drawn);
				},
				axes: {
					x: {axisLabelFormatter: Format.moment, drawGrid: false,
						axisLabelWidth: 70},
					y: {...bytes, axisLabelWidth: 62},
					y2: {drawAxis: innerWidth > 560, axisLabelFormatter: (value) => Format.bytes(value) + "/s",
						axisLabelWidth: 76, drawGrid: false, independentTicks: true},
				},
			};
		}

		function placeBrush() {
			const area = graph.getArea();
			brush.style.left = area.x + "px";
			brush.style.top = area.y + "px";
			brush.style.width = area.w + "px";
			brush.style.height = area.h + "px";
		}

		function bucketAt(event) {
			const box = brush.getBoundingClientRect();
			const part = (event.clientX - box.left) / Math.max(1, box.width);
			return Math.max(0, Math.min(model.buckets - 1, Math.floor(part * model.buckets)));
		}

		/* Positions at which buckets begin, in per cent of the plot. */
		const percent = (bucket) => bucket / Math.max(1, model.buckets) * 100 + "%";

		function showSelection(from, to) {
			selection.hidden = Model.isWhole(model, from, to);
			selection.style.left = percent(from);
			selection.style.width = percent(to - from);
		}

		function say(bucket) {
			const {from, to} = app.state;
			const parts = ["Selected: " + Format.time(from * model.stepNs) + " to " +
				Format.time(to * model.stepNs) + (Model.isWhole(model, from, to)
				? " (the whole capture)" : "")];
			if (bucket >= 0) {
				parts.push("at " + Format.time((bucket + 0.5) * model.stepNs) + ":");
				const faults = faultsAt(model, bucket);
				for (const one of series) {
					const value = one.value(bucket);
					if (value !== null)
						parts.push(one.name + " " + Format.bytes(value) +
							(one.key === "rate" ? "/s" : ""));
				}
				if (faults)
					parts.push("page faults that read the disk " + Format.count(faults));
			}
			Dom.by("readout").textContent = parts.join(" \u00b7 ");
		}

		function hover(event) {
			const bucket = bucketAt(event);
			cursor.hidden = false;
			cursor.style.left = percent(bucket + 0.5);
			say(bucket);
			if (anchor < 0)
				return;
			head = bucket;
			showSelection(Math.min(anchor, head), Math.max(anchor, head) + 1);
		}

		function finish() {
			if (anchor >= 0 && head !== anchor)
				app.select(Math.min(anchor, head), Math.max(anchor, head) + 1);
			else
				showSelection(app.state.from, app.state.to);
			anchor = -1;
		}

		function move(by, isEnd) {
			let {from, to} = app.state;
			if (!isEnd)
				by = Math.max(-from, Math.min(model.buckets - to, by));
			app.select(isEnd ? from : from + by,
				Math.max(from + 1, Math.min(model.buckets, to + by)));
		}

		/* A tenth of the capture around the highest total of what is selected. */
		function selectPeak() {
			const peak = Model.peakOf(model, app.state.from, app.state.to);
			const half = Math.max(1, Math.round(model.buckets / 20));
			app.select(Math.max(0, peak.bucket - half),
				Math.min(model.buckets, peak.bucket + half));
			say(peak.bucket);
		}

		/* Moves the selection or its end; if the whole capture is selected, selects its
		 * first half. */
		function step(direction, isEnd) {
			const {from, to} = app.state;
			if (Model.isWhole(model, from, to))
				app.select(0, Math.max(1, Math.floor(model.buckets / 2)));
			else
				move(direction * Math.max(1, Math.round(model.buckets / 50)), isEnd);
		}

		/* The curves as a table, for screen readers: at most 40 rows. */
		function showTable() {
			const place = Dom.by("timeline-table");
			const step = Math.max(1, Math.ceil(model.buckets / 40));
			const rows = Array.from({length: Math.ceil(model.buckets / step)}, (_, i) => i * step);
			for (const old of place.querySelectorAll("div"))
				old.remove();
			if (!place.open)
				return;
			place.append(Table.make(app, {id: "timeline-rows", rows, isFixed: true, sort: "",
				columns: [{key: "time", title: "Time", unit: "text",
					value: (i) => "+" + Format.time((i + 0.5) * model.stepNs)},
				...series.map((one) => ({key: one.key, title: one.name, unit: "bytes",
					value: (i) => one.value(i)})),
				{key: "faults", title: "page faults that read the disk", unit: "blocks",
					value: (i) => faultsAt(model, i)}]}).element);
		}

		function key(event) {
			const step = Math.max(1, Math.round(model.buckets / 50));
			const action = {
				ArrowLeft: () => move(-step, event.shiftKey),
				ArrowRight: () => move(step, event.shiftKey),
				Home: () => move(-app.state.from, false),
				End: () => move(model.buckets - app.state.to, false),
				Escape: () => app.select(0, model.buckets),
			}[event.key];
			if (!action || event.ctrlKey || event.altKey || event.metaKey)
				return;
			event.preventDefault();
			event.stopPropagation();
			action();
		}

		/* Handlers are properties, because a live page has many models: those of a newer
		 * model replace them. */
		brush.onpointerdown = (event) => {
			if (event.button)
				return;
			anchor = head = bucketAt(event);
			brush.setPointerCapture(event.pointerId);
		};
		brush.onpointermove = hover;
		brush.onpointerup = brush.onpointercancel = finish;
		brush.onpointerleave = () => {
			cursor.hidden = true;
			say(-1);
		};
		brush.ondblclick = () => app.select(0, model.buckets);
		brush.onkeydown = key;
		Dom.by("go-peak").onclick = selectPeak;
		Dom.by("go-whole").onclick = () => app.select(0, model.buckets);
		Dom.by("timeline-table").ontoggle = showTable;

		/* The legend of dygraphs writes style attributes, which the policy of the page
		 * forbids. */
		Dygraph.PLUGINS = Dygraph.PLUGINS.filter((one) => one !== Dygraph.Plugins.Legend);

		function draw() {
			if (graph)
				graph.destroy();
			graph = new Dygraph(Dom.by("chart"), rows(), options());
			graph.ready(placeBrush);
			placeBrush();
		}

		/* Shows or hides a curve. */
		function toggle(event, one) {
			const isHidden = !hidden.delete(one.key) && Boolean(hidden.add(one.key));
			chosen.add(one.key);
			event.currentTarget.setAttribute("aria-pressed", String(!isHidden));
			graph.setVisibility(series.indexOf(one), !isHidden);
		}

		Dom.replace(Dom.by("legend"), ...series.map((one) => Dom.element("button", {type: "button",
			"aria-pressed": String(!hidden.has(one.key)), title: "Show or hide this curve",
			onclick: (event) => toggle(event, one)},
		Dom.element("span", {class: "swatch swatch-" + one.key}), one.name)));
		return {
			draw, selectPeak, step, destroy: () => graph && graph.destroy(),
			svg: () => TimelineSvg.draw(app, series.filter((one) => !hidden.has(one.key))),
			update() {
				showSelection(app.state.from, app.state.to);
				say(-1);
			},
		};
	}

	return {create};
})();
