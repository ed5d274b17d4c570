/* SPDX-License-Identifier: Apache-2.0
 *
 * The page: decodes its data, holds what is selected, keeps it in the address, and renders the view
 * that is open. Views read `app` and change it by app.set, app.select and app.open.
 */
"use strict";

(() => {
	const VIEWS = [
		["grows", "What grows"], ["flame", "Flame graph"], ["sites", "Sites"],
		["threads", "Threads"], ["sizes", "Sizes"], ["about", "About this capture"],
	];
	const CHOICES = {
		view: VIEWS.map((view) => view[0]), direction: ["down", "up"], shape: ["icicle", "flame"],
		metric: Object.keys(Model.METRICS),
	};

	function load() {
		const data = Dom.by("data");
		const packed = Model.bytesOfBase64(data.textContent.trim());
		return Model.decode(packed, Number(data.dataset.bytes));
	}

	/* --- names ------------------------------------------------------------------------- */

	function names(model) {
		const {frame, tree} = model, {strings, modules} = model.facts;
		const base = (path) => path.slice(path.lastIndexOf("/") + 1);

		function frameName(index) {
			return index < 0 ? "(other)" : strings[frame.name[index]];
		}

		function frameWhere(index) {
			const parts = [];
			if (frame.file[index])
				parts.push(strings[frame.file[index] - 1] +
					(frame.line[index] ? ":" + frame.line[index] : ""));
			if (frame.module[index])
				parts.push(base(modules[frame.module[index] - 1][0] || ""));
			return parts.join(" in ");
		}

		function nodeName(node) {
			return node ? frameName(tree.frame[node]) : "(no stack)";
		}

		const shortName = (node) => node ? Format.shortName(nodeName(node)) : "(no stack)";

		/* The function of the user's script that a chain of a runtime's code comes from. */
		function scriptText(node) {
			for (let at = node; at; at = tree.parent[at]) {
				const index = tree.frame[at];
				const path = index < 0 || frame.module[index] || !frame.file[index] ? ""
					: strings[frame.file[index] - 1];
				if (path.startsWith("/"))
					return at === node ? "" : "from " + frameName(index) + ", " +
						base(path) + ":" + frame.line[index];
			}
			return "";
		}

		/* Where a node is, and the next functions that lead there. */
		function callersText(node) {
			const callers = [];
			let last = shortName(node);
			for (let at = tree.parent[node]; node && at && callers.length < 3; at = tree.parent[at]) {
				if (shortName(at) !== last)
					callers.push(shortName(at));
				last = shortName(at);
			}
			const where = node && tree.frame[node] >= 0 ? frameWhere(tree.frame[node]) : "";
			return [where, scriptText(node),
				callers.length ? "called by " + callers.join(" \u2190 ") : ""]
				.filter((part) => part).join(" \u00b7 ");
		}

		return {frameName, frameWhere, nodeName, shortName, callersText};
	}

	/* --- state in the address ---------------------------------------------------------- */

	function defaults(model) {
		return {view: "grows", from: 0, to: model.buckets, metric: "outstanding", search: "",
			direction: "down", shape: "icicle", sort: "outstanding", zoom: 0};
	}

	function readState(model) {
		const state = defaults(model);
		const given = new URLSearchParams(location.hash.slice(1));
		for (const [name, value] of given) {
			if (!Object.hasOwn(state, name))
				continue;
			if (typeof state[name] === "number")
				state[name] = Math.max(0, Math.floor(Number(value)) || 0);
			else if (!CHOICES[name] || CHOICES[name].includes(value))
				state[name] = value;
		}
		state.to = Math.min(state.to, model.buckets);
		if (state.from >= state.to)
			Object.assign(state, {from: 0, to: model.buckets});
		return state;
	}

	function writeState(model, state) {
		const usual = defaults(model), said = new URLSearchParams();
		for (const [name, value] of Object.entries(state))
			if (value !== usual[name])
				said.set(name, value);
		history.replaceState(null, "", "#" + said);
	}

	/* --- the application --------------------------------------------------------------- */

	const model = load();
	const known = {};
	const app = {model, state: readState(model), ...names(model)};

	/* The value of `make`, made again only when the key is another. */
	function remember(name, key, make) {
		if (!known[name] || known[name].key !== key)
			known[name] = {key, value: make()};
		return known[name].value;
	}

	app.sums = () => remember("sums", app.state.from + "," + app.state.to,
		() => Model.sumsOf(model, app.state.from, app.state.to));
	app.values = () => remember("values", [app.state.from, app.state.to, app.state.metric].join(),
		() => Model.valuesOf(model, app.sums(), app.state.metric));

	/* By frame, whether the search finds it; null: there is none. */
	app.matches = () => remember("matches", app.state.search, () => {
		if (!app.state.search)
			return null;
		let expression;
		try {
			expression = new RegExp(app.state.search, "i");
		} catch (error) {
			return null;
		}
		const found = new Uint8Array(model.frame.count);
		for (let i = 0; i < found.length; i++)
			found[i] = expression.test(app.frameName(i) + "\n" + app.frameWhere(i)) ? 1 : 0;
		return found;
	});

	/* Whether a node's chain has a frame that the search finds; null: there is none. */
	app.matchesNode = () => {
		const found = app.matches();
		if (!found)
			return null;
		const isIn = remember("nodes", app.state.search, () => {
			const nodes = new Uint8Array(model.tree.count);
			for (let i = 1; i < nodes.length; i++)
				nodes[i] = nodes[model.tree.parent[i]] ||
					(model.tree.frame[i] >= 0 && found[model.tree.frame[i]]) ? 1 : 0;
			return nodes;
		});
		return (node) => isIn[node] === 1;
	};

	app.set = (change) => {
		Object.assign(app.state, change);
		app.render();
	};
	/* Selects buckets [from, to). */
	app.select = (from, to) => app.set({from, to});
	/* Shows a node of the tree of callers in the flame graph. */
	app.open = (node) => app.set({view: "flame", direction: "down", zoom: node});

	const timeline = Timeline.create(app);
	const flame = Flame.create(app);
	const views = {
		grows: Suspects.create(app), flame, sites: Sites.create(app),
		threads: Parts.create(app, "threads", "modules"),
		sizes: Parts.create(app, "sizes", "functions"), about: About.create(app),
	};

	function showFigures() {
		const totals = Model.report(model, app.state.from, app.state.to);
		const growth = totals.growth_bytes;
		const figures = [
			["Outstanding", Format.bytes(totals.outstanding_bytes)],
			["Growth", (growth > 0 ? "+" : "") + Format.bytes(growth)],
			["Peak", Format.bytes(totals.peak_bytes)],
			["Allocated", Format.bytes(totals.allocated_bytes)],
			["Calls", Format.count(totals.allocations)],
		];
		Dom.replace(Dom.by("figures"), ...figures.map(([name, value]) => Dom.element("div", {},
			Dom.element("dt", {}, name), Dom.element("dd", {}, value))));
	}

	function showSearch() {
		const said = Dom.by("search-result");
		let isBad = false;
		try {
			RegExp(app.state.search);
		} catch (error) {
			isBad = true;
		}
		said.textContent = "";
		if (isBad)
			said.textContent = "This is not a regular expression.";
		else if (app.state.search) {
			const found = flame.found(), unit = Model.METRICS[app.state.metric].unit;
			said.textContent = Format.count(found.found) + " frames match: " +
				Format.value(found.sum, unit) + " " + app.state.metric + ", " +
				(Format.percent(found.sum, found.all) || "0 %") + " of all";
		}
	}

	app.render = () => {
		const {state} = app;
		writeState(model, state);
		for (const [name] of VIEWS)
			Dom.by("tab-" + name).setAttribute("aria-selected", String(name === state.view));
		Dom.by("view").setAttribute("aria-labelledby", "tab-" + state.view);
		Dom.by("metric").value = state.metric;
		if (Dom.by("search").value !== state.search)
			Dom.by("search").value = state.search;
		timeline.update();
		showFigures();
		showSearch();
		views[state.view].render(Dom.by("view"));
	};

	function showTarget() {
		const {target, capture} = model.facts;
		const name = target.comm || "unknown program";
		document.title = name + " - heaptap";
		Dom.by("title").textContent = name;
		Dom.by("subtitle").textContent = ["PID " + target.pid,
			Format.time(capture.duration_ns) + " from " +
				new Date(capture.start_unix_ns / 1e6).toLocaleString(),
			Format.count(capture.events) + " events",
			capture.sample_bytes ? "a sample: figures are estimates" : ""]
			.filter((part) => part).join(" \u00b7 ");
	}

	function showNotices() {
		const {warnings} = model.facts;
		if (!warnings.length)
			return;
		Dom.by("notices").append(Dom.element("details", {class: "notice"},
			Dom.element("summary", {}, warnings.length === 1 ? "1 warning: " + warnings[0]
				: warnings.length + " warnings, the first: " + warnings[0]),
			Dom.element("ul", {}, ...warnings.map((text) => Dom.element("li", {}, text)))));
	}

	function showControls() {
		Dom.replace(Dom.by("tabs"), ...VIEWS.map(([name, title]) => Dom.element("button", {
			type: "button", id: "tab-" + name, role: "tab", "aria-controls": "view",
			onclick: () => app.set({view: name})}, title)));
		Dom.by("tabs").addEventListener("keydown", (event) => {
			const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
			if (!step)
				return;
			const at = CHOICES.view.indexOf(app.state.view) + step;
			const name = CHOICES.view[(at + VIEWS.length) % VIEWS.length];
			app.set({view: name});
			Dom.by("tab-" + name).focus();
		});
		Dom.replace(Dom.by("metric"), ...CHOICES.metric
			.filter((name) => !(model.isSample && name === "temporary"))
			.map((name) => Dom.element("option", {value: name}, name)));
		Dom.by("metric").addEventListener("change", (event) =>
			app.set({metric: event.target.value, sort: event.target.value}));
		Dom.by("search").addEventListener("input", (event) => {
			app.set({search: event.target.value});
		});
	}

	/* dygraphs and canvases take colours and sizes when they draw. */
	function redraw() {
		timeline.draw();
		app.render();
	}

	showTarget();
	showNotices();
	showControls();
	redraw();
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
	addEventListener("resize", () => {
		timeline.draw();
		timeline.update();
		flame.resize();
	});
	addEventListener("hashchange", () => {
		app.state = readState(model);
		app.render();
	});

	/* For tests: the totals of buckets [from, to), and the root's sum of the flame graph. */
	window.heaptap = {
		sums: (from, to) => Model.report(model, from, to),
		buckets: model.buckets, stepNs: model.stepNs, rootSum: flame.rootSum,
		state: () => ({...app.state}),
	};
})();
