/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys that work everywhere except in text fields.
 */
"use strict";

const Keys = (() => {
	const LIST = [
		["/", "search"], ["?", "this list"], ["1 \u2026 9, 0", "a view, in the order of the tabs"],
		["p", "select the time around the peak"], ["w", "select the whole capture"],
		["[ and ]", "move the selected time; the whole capture is halved first"],
		["{ and }", "move its end"], ["m", "next metric"], ["d", "turn chains: top-down, bottom-up"],
		["c", "copy what is seen as text"], ["t", "colours: light, dark, as the system"],
		["Arrow keys", "in the timeline move the selection, with Shift its end; in trees and flame " +
			"graphs walk"],
		["Enter", "zooms in a flame graph; in a tree shows a function's callers"],
		["Escape", "resets zoom or selection; leaves the search"],
	];

	function help() {
		Dom.dialog("Keys", Dom.element("dl", {class: "facts"}, ...LIST.flatMap(([key, text]) =>
			[Dom.element("dt", {}, ...key.split(/( and |, | \u2026 )/).map((part, i) =>
				i % 2 ? part : Dom.element("kbd", {}, part))), Dom.element("dd", {}, text)])));
	}

	const isWritten = (element) => element.matches("input, select, textarea, dialog *");

	/* `act`: what keys do, by key. */
	function listen(act) {
		document.addEventListener("keydown", (event) => {
			if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented)
				return;
			if (event.target instanceof Element && isWritten(event.target)) {
				if (event.key === "Escape" && event.target.id === "search")
					event.target.blur();
				return;
			}
			const action = event.key === "?" ? help : act[event.key];
			if (!action)
				return;
			event.preventDefault();
			action();
		});
	}

	return {help, listen};
})();
