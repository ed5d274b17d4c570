/* SPDX-License-Identifier: Apache-2.0
 *
 * The application: a model, a selection, and all that views compute from both, once per selection.
 * Views read `app` and change its state with app.set.
 */
"use strict";

const App = (() => {
	/* Changes of these keys that follow each other within STEP_MS (letters of a search, moves
	 * of a selection) are one step of the browser's history. */
	const STEP_MS = 1200, SMALL = ["search", "from,to"];

	const SHOWN = ["allocations", "allocatedBytes", "frees", "freedBytes", "growthBytes", "peakBytes"];

	/* Caches the value of `make` until its key changes. */
	function memory() {
		const known = new Map();
		return (name, key, make) => {
			const text = JSON.stringify(key);
			if (!known.has(name) || known.get(name).text !== text)
				known.set(name, {text, value: make()});
			return known.get(name).value;
		};
	}

	/* Adds the functions that compute values from model and state. */
	function computed(app) {
		const remember = memory(), {model} = app;
		const window = () => [app.state.from, app.state.to];
		const filters = () => [app.state.focus, app.state.hide, app.state.thread];
		const shape = () => [app.state.wrappers, app.state.recursion];
		const options = () => ({showsWrappers: app.state.wrappers === "show",
			mergesRecursion: app.state.recursion === "merge"});

		const lineTree = () => remember("lineTree", app.state.wrappers, () => {
			const begin = app.begin();
			return {...model.tree, siteNode: Int32Array.from(model.site.node, (node) => begin[node])};
		});

		app.remember = remember;
		app.unit = () => Model.METRICS[app.state.metric].unit;
		app.format = (value) => Format.value(value, app.unit());
		app.sums = () => remember("sums", window(),
			() => Model.sumsOf(model, app.state.from, app.state.to));
		/* By site, whether the filters keep it; null: all sites. */
		app.isIn = () => remember("isIn", filters(),
			() => Stacks.sitesIn(model, app.names, app.state));
		app.values = () => remember("values", [...window(), ...filters(), app.state.metric],
			() => Model.valuesOf(model, app.sums(), app.state.metric, app.isIn()));
		app.total = () => remember("total", [...window(), ...filters()],
			() => Model.total(model, app.sums(), app.isIn(), SHOWN));
		/* The sum of the metric over the filtered chains. */
		app.sum = () => app.values().reduce((sum, value) => sum + value, 0);
		/* The bound of a sum of the metric over these sites, for people; "" where it is exact. */
		app.boundText = (value, sites) => {
			const variance = model.isSample ? app.sums().of(Model.VARIANCE + app.state.metric) : [];
			return Format.bound(value, Model.bound(value,
				sites.reduce((sum, site) => sum + (variance[site] || 0), 0)));
		};
		/* The bound of `value`, the sum of `metric` over the filtered chains, for
		 * people. */
		app.totalBoundText = (value, metric) => {
			const name = Model.VARIANCE + metric;
			return model.isSample ? Format.bound(value, Model.bound(value,
				Model.total(model, app.sums(), app.isIn(), [name])[name])) : "";
		};
		/* By site, the variance of the metric; null: the figures are exact. */
		app.variances = () => !model.isSample ? null : remember("variances", [...window(),
			...filters(), app.state.metric], () => {
			const isIn = app.isIn(), column = app.sums().of(Model.VARIANCE + app.state.metric);
			return column.map((variance, site) => isIn && !isIn[site] ? 0 : variance);
		});
		/* The node at which each of the model's chains begins on screen. */
		app.begin = () => remember("begin", app.state.wrappers,
			() => Stacks.beginOf(model, options().showsWrappers));
		/* Totals of the model's tree, whose frames are lines. */
		app.lineTotals = () => remember("lineTotals", [...window(), ...filters(), app.state.metric,
			app.state.wrappers], () => Stacks.inclusive(lineTree(), app.values()));
		app.lineVariances = () => app.variances() && remember("lineVariances", [...window(),
			...filters(), app.state.metric, app.state.wrappers],
		() => Stacks.inclusive(lineTree(), app.variances()));
		/* The chains that filters and search keep: the row of each site (-1: none) and the
		 * node of each row. */
		app.chains = () => remember("chains", [...filters(), app.state.wrappers, app.state.search],
			() => rowsOf(app));
		app.chainSums = () => remember("chainSums", [...window(), ...filters(), app.state.wrappers,
			app.state.search], () => sumsByRow(app.chains(), app.sums()));
		app.down = () => remember("down", shape(),
			() => Stacks.topDown(model, app.names.functions, options()));
		app.tree = () => app.state.direction === "down" ? app.down()
			: remember("up", shape(), () => Stacks.bottomUp(app.down()));
		app.children = () => remember("children " + app.state.direction, shape(),
			() => Stacks.childrenOf(app.tree()));
		/* Totals of the tree on screen. */
		app.totals = () => remember("totals " + app.state.direction,
			[...window(), ...filters(), ...shape(), app.state.metric],
			() => Stacks.inclusive(app.tree(), app.values()));
		app.downTotals = () => remember("totals down",
			[...window(), ...filters(), ...shape(), app.state.metric],
			() => Stacks.inclusive(app.down(), app.values()));
		/* Variances of app.totals and app.downTotals; null: the figures are exact. */
		app.treeVariances = () => app.variances() && remember("variances " + app.state.direction,
			[...window(), ...filters(), ...shape(), app.state.metric],
			() => Stacks.inclusive(app.tree(), app.variances()));
		app.downVariances = () => app.variances() && remember("variances down",
			[...window(), ...filters(), ...shape(), app.state.metric],
			() => Stacks.inclusive(app.down(), app.variances()));
		searching(app, remember);
	}

	function rowsOf(app) {
		const {site} = app.model, begin = app.begin(), isIn = app.isIn(), found = app.foundChains();
		const rowOf = new Int32Array(site.count).fill(-1), nodes = [];
		const rowOfNode = new Int32Array(app.model.tree.count).fill(-1);
		for (let i = 0; i < site.count; i++) {
			if ((isIn && !isIn[i]) || (found && !found[site.node[i]]))
				continue;
			const node = begin[site.node[i]];
			if (rowOfNode[node] < 0)
				rowOfNode[node] = nodes.push(node) - 1;
			rowOf[i] = rowOfNode[node];
		}
		return {rowOf, nodes};
	}

	/* Figures by row, computed on demand, and the rows with calls, live bytes or growth. */
	function sumsByRow({rowOf, nodes}, sums) {
		const known = new Map();
		function of(figure) {
			if (!known.has(figure)) {
				const column = new Float64Array(nodes.length), from = sums.of(figure);
				for (let site = 0; site < rowOf.length; site++)
					if (rowOf[site] >= 0)
						column[rowOf[site]] += from[site];
				known.set(figure, column);
			}
			return known.get(figure);
		}
		const calls = of("allocations"), live = of("liveBytes"), growth = of("growthBytes");
		const rows = [];
		for (let row = 0; row < nodes.length; row++)
			if (calls[row] || live[row] || growth[row])
				rows.push(row);
		return {of, rows};
	}

	function searching(app, remember) {
		const {model, names} = app;
		/* By frame, whether the search finds it; null: no search, or an invalid expression.
		 */
		app.found = () => remember("found", app.state.search, () => app.state.search
			? Stacks.framesThat(model, names, "/" + app.state.search + "/") : null);
		/* By function, whether the search finds one of its frames; null as app.found. */
		app.foundCalls = () => remember("foundCalls", app.state.search, () => {
			const found = app.found(), calls = new Uint8Array(names.functions.count);
			for (let i = 0; found && i < found.length; i++)
				if (found[i])
					calls[names.functions.ofFrame[i]] = 1;
			return found && calls;
		});
		/* By node of the model's tree, whether the search finds something in its chain. */
		app.foundChains = () => remember("foundChains", app.state.search, () => {
			const found = app.found();
			return found && Stacks.chainsWith(model, found);
		});
	}

	function create(model, render) {
		const metrics = Object.keys(Model.METRICS)
			.filter((name) => !(model.isSample && name === "temporary") &&
				(name !== "survivors" || model.facts.settle));
		const app = {model, metrics, names: Names.of(model), render};
		/* A page with a comparison opens on the comparison. */
		const isMissing = {diff: !model.facts.diff, trend: Folder.traces.length < 2};
		app.views = State.VIEWS.filter((name) => !isMissing[name]);
		app.first = model.facts.diff ? "diff" : "grows";
		app.read = () => {
			app.state = State.read(location.hash, model.buckets, metrics, app.views, app.first);
		};
		app.read();
		computed(app);

		let lastKind = "", lastTime = 0;
		/* Changes the state and redraws the views; the browser's Back button returns to the
		 * former state. */
		app.set = (change) => {
			const kind = Object.keys(change).join(), now = performance.now();
			const isStep = !SMALL.includes(kind) || kind !== lastKind || now - lastTime > STEP_MS;
			lastKind = kind;
			lastTime = now;
			if ("view" in change && change.view !== app.state.view)
				change = {sort: "", ...change};
			Object.assign(app.state, change);
			const address = State.write(app.state, model.buckets, app.first);
			if (address !== location.hash && (address !== "#" || location.hash))
				history[isStep ? "pushState" : "replaceState"](null, "", address);
			render();
		};
		app.restore = () => {
			app.read();
			lastKind = "";
			render();
		};
		/* Selects buckets [from, to). */
		app.select = (from, to) => app.set({from, to});
		/* Shows a chain of the model in the flame graph. */
		app.openChain = (node) => app.set({view: "flame", direction: "down",
			zoom: app.down().nodeOf[app.begin()[node]]});
		/* Shows a function: its callers, what it calls, its lines. */
		app.openFunction = (call) => call >= 0 && app.set({view: "functions", call});
		app.focusOn = (name) => app.set({focus: name, zoom: 0});
		app.hide = (name) => app.state.hide.includes(name) ||
			app.set({hide: [...app.state.hide, name], zoom: 0});
		return app;
	}

	return {create};
})();
