/* SPDX-License-Identifier: Apache-2.0
 *
 * Requests of a page to its heaptap serve. The page's address contains the token that authorises
 * requests; it is sent as a header, which no other page can do.
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

	/* The numbers, as text, of the shown trace and of the one it is compared with; null: not
	 * given. */
	function chosen() {
		return {trace: given().get("trace"), base: given().get("base")};
	}

	/* The address of the page with other traces; no base if it is below 0. */
	function search({trace, base}) {
		const all = given();
		all.set("trace", trace);
		all.delete("base");
		if (base >= 0)
			all.set("base", base);
		return "?" + all;
	}

	/* Status 503: the server is busy, or its trace has not begun. Asks again up to 30 times,
	 * every 300 ms. */
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
		/* Asks about the chosen traces. */
		getChosen: (path) => get(path, Object.fromEntries(
			Object.entries(chosen()).filter(([, value]) => value !== null))),
		post: (path, parameters) => send("POST", path, parameters),
	};
})();

if (typeof module !== "undefined")
	module.exports = Server;
