/* SPDX-License-Identifier: Apache-2.0
 *
 * Buttons of several views: choices, actions on a function, and the active filters.
 */
"use strict";

const Controls = (() => {
	/* A button that sets a part of the state and shows if it is set. */
	function choice(app, text, change, title) {
		const is = Object.entries(change).every(([name, value]) => app.state[name] === value);
		const isTree = "direction" in change || "wrappers" in change || "recursion" in change;
		return Dom.element("button", {type: "button", title, "aria-pressed": String(is),
			onclick: () => app.set(isTree ? {...change, zoom: 0} : change)}, text);
	}

	function toggle(app, text, name, on, off, title) {
		const is = app.state[name] === on;
		return Dom.element("button", {type: "button", title, "aria-pressed": String(is),
			onclick: () => app.set({[name]: is ? off : on, zoom: 0})}, text);
	}

	/* Buttons that choose how chains are shown. */
	function stacks(app) {
		return [
			Dom.element("span", {class: "group"},
				choice(app, "Top-down", {direction: "down"},
					"main and thread functions at the root"),
				choice(app, "Bottom-up", {direction: "up"},
					"what called the allocator at the root")),
			toggle(app, "Merge recursion", "recursion", "merge", "show",
				"A call of a function that is running already goes on from there"),
			toggle(app, "Fold wrappers", "wrappers", "fold", "show",
				"Leaves out operator new, the standard library and other functions that only " +
				"pass an allocation on"),
		];
	}

	function ofFunction(app, call) {
		const name = app.names.functionName(call);
		const button = (text, title, onclick) => Dom.element("button", {type: "button", title,
			onclick}, text);
		return Dom.element("div", {class: "bar actions"},
			app.state.view === "functions" ? null : button("Callers", "Who calls it, what it calls, " +
				"and its lines", () => app.openFunction(call)),
			button("Only this", "Keep only chains through " + name, () => app.focusOn(name)),
			button("Hide", "Drop chains through " + name, () => app.hide(name)));
	}

	/* A function's name as a link to its view. */
	function link(app, call, text) {
		const name = app.names.functionName(call);
		return call < 0 ? text || name : Dom.element("button", {class: "link", type: "button",
			title: name, onclick: () => app.openFunction(call)}, text || app.names.shortOf(name));
	}

	/* The active filters, each with a button that removes it. */
	function showFilters(app, place) {
		const {state} = app, chips = [];
		const chip = (text, title, without) => chips.push(Dom.element("button", {type: "button",
			class: "chip", title: title + " \u2014 click to take this away",
			onclick: () => app.set({...without, zoom: 0})}, text + " \u00d7"));
		const short = (text) => text.startsWith("/") && text.endsWith("/") ? text
			: app.names.shortOf(text);
		if (state.focus)
			chip("only through " + short(state.focus), state.focus, {focus: ""});
		state.hide.forEach((text) => chip("without " + short(text), text,
			{hide: state.hide.filter((other) => other !== text)}));
		if (state.thread >= 0)
			chip("thread " + app.names.threadName(state.thread), "one thread", {thread: -1});
		if (chips.length) {
			const all = Model.total(app.model, app.sums());
			const part = app.total().allocatedBytes;
			chips.push(Dom.element("span", {class: "quiet"}, "these chains allocated " +
				Format.bytes(part) + ", " + (Format.percent(part, all.allocatedBytes) || "0 %") +
				" of all"));
		}
		Dom.replace(place, ...chips);
	}

	return {choice, toggle, stacks, ofFunction, link, showFilters};
})();
