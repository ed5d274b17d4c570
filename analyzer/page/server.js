/* SPDX-License-Identifier: Apache-2.0
 *
 * What a page of heaptap serve asks its server for. The token that proves who asks stands in the
 * address of the page, and goes along as a header, so that no other page can send it.
 */
"use strict";

const Server = (() => {
	const given = () => new URLSearchParams(typeof location === "undefined" ? ""
		: location.search);

	function address(path, parameters) {
		const words = Object.entries(parameters || {})
			.map(([name, value]) => name + "=" + encodeURIComponent(value));
		return path + (words.length ? "?" + words.join("&") : "");
	}

	function send(method, path, parameters) {
		return fetch(address(path, parameters), {method, cache: "no-store",
			headers: {"X-Heaptap-Token": given().get("token") || ""}});
	}

	/* The numbers, as text, of the trace that the page is about, and of the one it is compared
	 * with; null: none is given. */
	function chosen() {
		return {trace: given().get("trace"), base: given().get("base")};
	}

	/* The address of the page about other traces; a base below 0 is none. */
	function search({trace, base}) {
		const all = given();
		all.set("trace", trace);
		all.delete("base");
		if (base >= 0)
			all.set("base", base);
		return "?" + all;
	}

	/* A server that has too much to do, or whose trace has not begun, says when to ask again. */
	async function get(path, parameters) {
		for (let tries = 0; ; tries++) {
			const answer = await send("GET", path, parameters);
			if (answer.status !== 503 || tries === 30)
				return answer;
			await new Promise((resolve) => setTimeout(resolve, 300));
		}
	}

	return {
		get, chosen, search,
		/* Of the traces that are chosen. */
		getChosen: (path) => get(path, Object.fromEntries(
			Object.entries(chosen()).filter(([, value]) => value !== null))),
		post: (path, parameters) => send("POST", path, parameters),
	};
})();

if (typeof module !== "undefined")
	module.exports = Server;
