/* SPDX-License-Identifier: Apache-2.0
 *
 * What a page of heaptap serve asks its server for. The token that proves who asks stands in the
 * address of the page, and goes along as a header, so that no other page can send it.
 */
"use strict";

const Server = (() => {
	const given = typeof location === "undefined" ? new URLSearchParams()
		: new URLSearchParams(location.search);

	/* `path` with parameters, and with the trace that the page is about. */
	function address(path, parameters) {
		const all = {...parameters};
		if (given.get("trace") !== null)
			all.trace = given.get("trace");
		const words = Object.entries(all)
			.map(([name, value]) => name + "=" + encodeURIComponent(value));
		return path + (words.length ? "?" + words.join("&") : "");
	}

	function send(method, path, parameters) {
		return fetch(address(path, parameters), {method, cache: "no-store",
			headers: {"X-Heaptap-Token": given.get("token") || ""}});
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
		get,
		post: (path, parameters) => send("POST", path, parameters),
		token: given.get("token") || "", trace: Number(given.get("trace") || 0),
	};
})();

if (typeof module !== "undefined")
	module.exports = Server;
