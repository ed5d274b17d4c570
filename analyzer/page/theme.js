/* SPDX-License-Identifier: Apache-2.0
 *
 * Light or dark: as the system says, or as the reader chose; paper is light.
 */
"use strict";

const Theme = (() => {
	const NAMES = ["auto", "light", "dark"], KEY = "heaptap.theme";
	const system = matchMedia("(prefers-color-scheme: dark)");
	let chosen = "auto";

	/* Some browsers refuse storage to pages from files. */
	function stored(value) {
		try {
			if (value !== undefined)
				localStorage.setItem(KEY, value);
			return localStorage.getItem(KEY);
		} catch (error) {
			return null;
		}
	}

	function apply(isPaper) {
		const isDark = chosen === "dark" || (chosen === "auto" && system.matches);
		document.documentElement.dataset.theme = isDark && !isPaper ? "dark" : "light";
		Dom.by("theme").textContent = {auto: "Auto", light: "Light", dark: "Dark"}[chosen];
	}

	/* `redraw` draws canvases again, because the style sheet does not change their colours. */
	function start(redraw) {
		chosen = NAMES.includes(stored()) ? stored() : "auto";
		const change = (isPaper) => {
			apply(isPaper);
			redraw();
		};
		apply(false);
		system.addEventListener("change", () => change(false));
		addEventListener("beforeprint", () => change(true));
		addEventListener("afterprint", () => change(false));
		return {next() {
			chosen = NAMES[(NAMES.indexOf(chosen) + 1) % NAMES.length];
			stored(chosen);
			change(false);
		}};
	}

	return {start};
})();
