/* SPDX-License-Identifier: Apache-2.0
 *
 * The page around the views: loads the model, shows its target, and renders the open view when the
 * selection changes.
 */
"use strict";

(() => {
	const TITLES = {grows: "What grows", flame: "Flame graph", tree: "Tree", sites: "Sites",
		functions: "Functions", history: "Over time", threads: "Threads", sizes: "Sizes", lifetimes: "Lifetimes",
		modules: "Modules", source: "Source", diff: "Diff", trend: "Trend", about: "About"};
	let app, timeline, views, theme, shownWarnings = "";

	/* --- the target -------------------------------------------------------------------- */

	function showTarget() {
		const {target, capture} = app.model.facts;
		const name = target.comm || "unknown program";
		document.title = name + " - heaptap";
		Dom.by("title").textContent = name;
		Dom.by("subtitle").textContent = ["PID " + target.pid,
			Format.time(capture.duration_ns) + " from " +
				new Date(capture.start_unix_ns / 1e6).toLocaleString(),
			Format.count(capture.events) + " events",
			capture.sample_bytes ? "a sample: figures are estimates" : "",
			capture.cull_ns ? "only sums of blocks that lived less than " +
				Format.duration(capture.cull_ns) : ""]
			.filter((part) => part).join(" \u00b7 ");
	}

	function showNotices() {
		const warnings = Live.warningsOf(app.model.facts), text = warnings.join("\n");
		/* Warnings that the reader has opened stay open when a live model changes. */
		if (text === shownWarnings)
			return;
		shownWarnings = text;
		Dom.replace(Dom.by("notices"));
		if (!warnings.length)
			return;
		Dom.replace(Dom.by("notices"), Dom.element("details", {class: "notice"},
			Dom.element("summary", {}, warnings.length === 1 ? "1 warning: " + warnings[0]
				: warnings.length + " warnings, the first: " + warnings[0]),
			Dom.element("ul", {}, ...warnings.map((text) => Dom.element("li", {}, text)))));
	}

	/* Shows the figures of the selected time and the filtered chains. */
	function showFigures() {
		const total = app.total(), {from, to} = app.state;
		const peak = app.isIn() ? ["At the peak", total.peakBytes]
			: ["Peak", Model.peakOf(app.model, from, to).bytes];
		const figures = [
			["Outstanding", total.allocatedBytes - total.freedBytes, "outstanding"],
			["Growth", total.growthBytes, "growth"],
			[peak[0], peak[1], "peak"],
			["Allocated", total.allocatedBytes, "allocated"],
			["Calls", total.allocations, "calls"],
		];
		const text = (value, metric) => (metric === "growth" && value > 0 ? "+" : "") +
			Format.value(value, Model.METRICS[metric].unit) + app.totalBoundText(value, metric);
		Dom.replace(Dom.by("figures"), ...figures.map(([name, value, metric]) => Dom.element("div", {},
			Dom.element("dt", {}, name), Dom.element("dd", {}, text(value, metric)))));
	}

	/* --- search and filters ------------------------------------------------------------ */

	function showSearch() {
		const {search, metric} = app.state, said = Dom.by("search-result");
		Dom.replace(said);
		if (!search)
			return;
		if (!app.found()) {
			said.textContent = "This is not a regular expression.";
			return;
		}
		const {total} = app.downTotals();
		const found = Stacks.matched(app.down(), total, app.foundCalls());
		said.append((found.found === 1 ? "1 frame matches: "
			: Format.count(found.found) + " frames match: ") + app.format(found.sum) + " " +
			metric + ", " + (Format.percent(Math.abs(found.sum), Math.abs(total[0])) || "0 %") +
			" of all ");
		const button = (text, title, onclick) => Dom.element("button", {type: "button",
			class: "small", title, onclick}, text);
		said.append(button("Only these", "Keep only chains with a match",
			() => app.set({focus: "/" + search + "/", search: "", zoom: 0})),
		button("Hide these", "Drop chains with a match",
			() => app.set({hide: [...app.state.hide, "/" + search + "/"], search: "", zoom: 0})));
	}

	/* --- copies and files ------------------------------------------------------------ */

	/* The heading of copied text, which says what the table is about. */
	function heading() {
		const {from, to, metric} = app.state, {stepNs} = app.model;
		const filters = [...document.querySelectorAll("#filters .chip")]
			.map((chip) => chip.textContent.replace(" \u00d7", ""));
		return [document.title, TITLES[app.state.view] + ", " + metric + ", " +
			Format.time(from * stepNs) + " to " + Format.time(to * stepNs),
		...filters].join("\n") + "\n\n";
	}

	async function copy() {
		const view = views[app.state.view];
		const isDone = await Save.copy(heading() + view.text());
		Dom.by("save-result").textContent = isDone ? "Copied." : "";
	}

	function save(kind) {
		const view = views[app.state.view];
		Save.file([app.model.facts.target.comm || "heaptap", app.state.view, app.state.metric]
			.join("-"), kind, view[kind]());
	}

	function showSaves() {
		const view = views[app.state.view];
		for (const button of Dom.by("saves").querySelectorAll("button"))
			button.hidden = !view[button.dataset.kind];
		Dom.by("save-result").textContent = "";
	}

	/* --- rendering --------------------------------------------------------------------- */

	function render() {
		const {state} = app, main = Dom.by("view");
		for (const name of app.views)
			Dom.by("tab-" + name).setAttribute("aria-selected", String(name === state.view));
		main.setAttribute("aria-labelledby", "tab-" + state.view);
		Dom.by("metric").value = state.metric;
		if (Dom.by("search").value !== state.search)
			Dom.by("search").value = state.search;
		timeline.update();
		showFigures();
		Controls.showFilters(app, Dom.by("filters"));
		showSearch();
		views[state.view].render(main);
		showSaves();
	}

	function redraw() {
		timeline.draw();
		render();
	}

	/* --- controls ---------------------------------------------------------------------- */

	/* Reuses existing tabs, so that they keep the focus when the model changes. */
	function showTabs() {
		if (Dom.by("tabs").dataset.views === app.views.join())
			return;
		Dom.by("tabs").dataset.views = app.views.join();
		Dom.replace(Dom.by("tabs"), ...app.views.map((name) => Dom.element("button", {
			type: "button", id: "tab-" + name, role: "tab", "aria-controls": "view",
			onclick: () => app.set({view: name})}, TITLES[name])));
	}

	function listenToTabs() {
		Dom.by("tabs").addEventListener("keydown", (event) => {
			const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
			if (!step)
				return;
			const at = app.views.indexOf(app.state.view) + step + app.views.length;
			const name = app.views[at % app.views.length];
			app.set({view: name});
			Dom.by("tab-" + name).focus();
		});
	}

	function setMetric(metric) {
		app.set({metric, sort: ""});
	}

	function showControls() {
		listenToTabs();
		Dom.replace(Dom.by("metric"), ...app.metrics.map((name) =>
			Dom.element("option", {value: name}, name)));
		Dom.by("metric").addEventListener("change", (event) => setMetric(event.target.value));
		Dom.by("search").addEventListener("input", (event) =>
			app.set({search: event.target.value}));
		Dom.by("copy").addEventListener("click", copy);
		for (const button of Dom.by("saves").querySelectorAll("[data-kind]"))
			if (button.id !== "copy")
				button.addEventListener("click", () => save(button.dataset.kind));
		Dom.by("save-timeline").addEventListener("click", () => Save.file(
			(app.model.facts.target.comm || "heaptap") + "-timeline", "svg", timeline.svg()));
		Dom.by("theme").addEventListener("click", () => theme.next());
		Dom.by("keys").addEventListener("click", Keys.help);
	}

	function keyActions() {
		const act = {
			"/": () => Dom.by("search").select(), p: () => timeline.selectPeak(),
			w: () => app.select(0, app.model.buckets), c: copy, t: () => theme.next(),
			"[": () => timeline.step(-1, false), "]": () => timeline.step(1, false),
			"{": () => timeline.step(-1, true), "}": () => timeline.step(1, true),
			m: () => setMetric(app.metrics[(app.metrics.indexOf(app.state.metric) + 1) %
				app.metrics.length]),
			d: () => app.set({direction: app.state.direction === "down" ? "up" : "down", zoom: 0}),
		};
		app.views.slice(0, 10).forEach((name, i) => {
			act[String((i + 1) % 10)] = () => app.set({view: name});
		});
		return act;
	}

	/* --- start ------------------------------------------------------------------------- */

	function createViews() {
		return {grows: Suspects.create(app), flame: Flame.create(app), tree: TreeView.create(app),
			sites: Sites.create(app), functions: Functions.create(app), history: History.create(app),
			threads: Parts.create(app, "threads"), sizes: Parts.create(app, "sizes", "functions"),
			lifetimes: Lifetimes.create(app), modules: Groups.create(app),
			source: Source.create(app), diff: DiffView.create(app), trend: Trend.create(app),
			about: About.create(app)};
	}

	function display() {
		if (timeline)
			timeline.destroy();
		timeline = Timeline.create(app);
		views = createViews();
		showTabs();
		showTarget();
		showNotices();
		redraw();
	}

	/* Shows a new model: of a growing capture, or of another trace of the server. */
	function show(model) {
		app = App.create(model, render);
		display();
	}

	/* Keeps the selected time when the buckets of a longer capture become larger. */
	function follow(model) {
		const {state} = app, old = app.model;
		if (state.to - state.from < old.buckets && model.stepNs !== old.stepNs)
			app.set(State.rescale(state, old.stepNs / model.stepNs));
		show(model);
	}

	function start(model) {
		app = App.create(model, render);
		theme = Theme.start(() => timeline && redraw());
		showControls();
		Keys.listen(keyActions());
		display();
		performance.mark("shown"); /* for tests/bench */
		addEventListener("resize", () => {
			timeline.draw();
			timeline.update();
			if (views[app.state.view].resize)
				views[app.state.view].resize();
		});
		addEventListener("popstate", () => app.restore());
	}

	/* For tests: totals of buckets [from, to), and the sum of the view that is open. */
	window.heaptap = {
		sums: (from, to) => Model.report(app.model, from, to),
		viewSum: () => views[app.state.view].sum ? views[app.state.view].sum() : null,
		taken: (kind) => views[app.state.view][kind] ? views[app.state.view][kind]() : null,
		timelineSvg: () => timeline.svg(),
		get buckets() { return app.model.buckets; },
		get stepNs() { return app.model.stepNs; },
		state: () => ({...app.state}), model: () => app.model, show,
	};

	const data = Dom.by("data");
	Promise.all([Decode.load(data), Folder.ask(data)]).then(([model]) => start(model)).then(() => {
		Live.start(data, follow);
		Folder.start(data, show);
	}).catch((error) => {
		Dom.by("notices").append(Dom.element("p", {class: "notice", role: "alert"},
			"This page cannot be shown: " + error.message));
		throw error;
	});
})();
