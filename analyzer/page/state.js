/* SPDX-License-Identifier: Apache-2.0
 *
 * The selection, and the address that encodes it. The address is hostile input.
 */
"use strict";

const State = (() => {
	const VIEWS = ["grows", "flame", "tree", "sites", "functions", "history", "threads", "sizes", "lifetimes",
		"modules", "source", "diff", "trend", "about"];
	const CHOICES = {view: VIEWS, change: ["all", "new", "grown", "shrunk", "gone", "same"], direction: ["down", "up"], shape: ["icicle", "flame"],
		wrappers: ["fold", "show"], recursion: ["show", "merge"]};

	/* The default state. `hide` is a list; thread, call and file are -1 if none is chosen. */
	function usual(buckets, first = "grows") {
		return {view: first, change: "all", from: 0, to: buckets, metric: "outstanding", search: "", focus: "",
			hide: [], thread: -1, wrappers: "fold", recursion: "show", direction: "down",
			shape: "icicle", sort: "", zoom: 0, call: -1, file: -1};
	}

	/* Not below 0, unless the default is -1 (nothing chosen). */
	function numberOf(text, normal) {
		const number = Math.floor(Number(text));
		return Number.isNaN(number) ? normal
			: Math.max(Math.min(normal, 0), Math.min(2 ** 31, number));
	}

	function read(hash, buckets, metrics, views = VIEWS, first = views[0]) {
		const state = usual(buckets, first), normal = usual(buckets, first);
		const given = new URLSearchParams(hash.replace(/^#/, ""));
		for (const [name, value] of given) {
			if (!Object.hasOwn(state, name))
				continue;
			const choices = {metric: metrics, view: views}[name] || CHOICES[name];
			if (name === "hide")
				state.hide.push(value);
			else if (typeof state[name] === "number")
				state[name] = numberOf(value, normal[name]);
			else if (!choices || choices.includes(value))
				state[name] = value;
		}
		state.to = Math.min(state.to, buckets);
		if (state.from >= state.to)
			Object.assign(state, {from: 0, to: buckets});
		return state;
	}

	/* The new buckets that cover the same time; `factor`: length of an old bucket in new
	 * ones. */
	function rescale({from, to}, factor) {
		return {from: Math.floor(from * factor), to: Math.max(1, Math.ceil(to * factor))};
	}

	function write(state, buckets, first) {
		const normal = usual(buckets, first), said = new URLSearchParams();
		for (const [name, value] of Object.entries(state))
			if (name === "hide")
				value.forEach((one) => said.append("hide", one));
			else if (value !== normal[name])
				said.set(name, value);
		return "#" + said;
	}

	return {VIEWS, CHOICES, usual, read, rescale, write};
})();

if (typeof module !== "undefined")
	module.exports = State;
