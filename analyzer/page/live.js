/* SPDX-License-Identifier: Apache-2.0
 *
 * A page over a running capture: listens to its server, shows the capture's state, reloads the
 * model when it grows, and controls the capture.
 */
"use strict";

const Live = (() => {
	const AGAIN_MS = 1000;
	let show, source, state = null, isLoading = false, isStale = false;
	let newest = null, isFollowing = true, isHeld = false;

	/* --- the bar ----------------------------------------------------------------------- */

	const TEXT = {recording: "Recording", paused: "Paused", settling: "The window is over; frees are recorded", detaching: "Leaving the process",
		naming: "The process was left; writing names into the trace",
		ended: "The capture has ended; the process was left"};

	async function steer(verb, parameters) {
		const answer = await Server.post("/api/v1/" + verb, parameters);
		const told = await answer.json();
		Dom.by("live-error").textContent = told.error || "";
		if (!told.error)
			showState(told);
	}

	function mark(event) {
		event.preventDefault();
		const text = Dom.by("live-text").value.trim();
		if (text)
			steer("mark", {text});
		Dom.by("live-text").value = "";
	}

	function button(name, title, act) {
		return Dom.element("button", {type: "button", id: "live-" + name, onclick: act}, title);
	}

	function showBar() {
		const bar = Dom.element("section", {class: "card bar", id: "live", "aria-label": "Capture"},
			Dom.element("strong", {id: "live-state", "aria-live": "polite"}),
			Dom.element("span", {id: "live-figures", class: "quiet"}),
			Dom.element("span", {class: "space"}),
			Dom.element("form", {class: "bar", onsubmit: mark},
				Dom.element("input", {id: "live-text", placeholder: "name of a mark",
					"aria-label": "name of a mark", maxlength: "200"}),
				Dom.element("button", {id: "live-mark"}, "Mark")),
			button("follow", "Follow", setFollowing),
			button("pause", "Pause", () => steer(state.state === "paused" ? "resume" : "pause")),
			button("stop", "Stop and detach", () => steer("stop")),
			Dom.element("span", {id: "live-error", role: "alert"}));
		Dom.by("notices").before(bar);
		Dom.by("live-follow").setAttribute("aria-pressed", "true");
		Dom.by("live-follow").title = "Show what is new, twice a second; off: the page stays as it is";
	}

	function showState(now) {
		const isOver = now.state !== "recording" && now.state !== "paused";
		state = now;
		Dom.by("live-state").textContent = TEXT[now.state] || now.state;
		Dom.by("live-figures").textContent = isOver ? "" : [Format.time(now.elapsed_ns),
			Format.count(now.events) + " events", now.dropped ? Format.count(now.dropped) + " lost" : ""]
			.filter((part) => part).join(" \u00b7 ");
		Dom.by("live-pause").textContent = now.state === "paused" ? "Resume" : "Pause";
		for (const name of ["pause", "stop", "mark", "text"])
			Dom.by("live-" + name).disabled = isOver;
	}

	const ENDED = "heaptap serve has ended; what is shown stays.";

	/* --- events ------------------------------------------------------------------------ */

	/* Shows the newest model, but not while the user presses an element, such as the brush: it
	 * must not be replaced under the pointer. */
	function showNewest() {
		if (!newest || !isFollowing || isHeld)
			return;
		const model = newest;
		newest = null;
		show(model);
	}

	/* Loads one model at a time; if a newer one appears meanwhile, loads that one
	 * afterwards. */
	async function load() {
		isStale = true;
		if (isLoading)
			return;
		isLoading = true;
		while (isStale) {
			isStale = false;
			newest = await Decode.load(source);
			showNewest();
		}
		isLoading = false;
	}

	function setFollowing() {
		isFollowing = !isFollowing;
		Dom.by("live-follow").setAttribute("aria-pressed", String(isFollowing));
		showNewest();
	}

	/* Waits until the handlers of the pressed element have run. */
	function hold(is) {
		isHeld = is;
		setTimeout(showNewest);
	}

	let last = "";

	function take(text) {
		const lines = text.split("\n");
		const data = lines.filter((line) => line.startsWith("data: "))
			.map((line) => line.slice(6)).join("\n");
		if (lines[0] === "event: capture")
			showState(JSON.parse(data));
		else if (lines[0] === "event: report" && data !== last) {
			last = data;
			load();
		}
	}

	/* Takes the events of the server until they end; returns why they ended. */
	async function listen() {
		const answer = await Server.get(source.dataset.live);
		if (!answer.ok)
			return (await answer.json()).error;
		Dom.by("live-error").textContent = "";
		const reader = answer.body.getReader(), decoder = new TextDecoder();
		let rest = "";
		for (;;) {
			const {done, value} = await reader.read();
			if (done)
				return ENDED;
			const parts = (rest + decoder.decode(value, {stream: true})).split("\n\n");
			rest = parts.pop();
			parts.forEach(take);
		}
	}

	function goOn() {
		listen().catch(() => ENDED).then((problem) => {
			Dom.by("live-error").textContent = problem;
			setTimeout(goOn, AGAIN_MS * 5);
		});
	}

	/* Starts on a page whose server has a capture; `showModel` shows a new model. */
	function start(element, showModel) {
		source = element;
		show = showModel;
		if (!source.dataset.live)
			return;
		showBar();
		addEventListener("pointerdown", () => hold(true));
		for (const name of ["pointerup", "pointercancel", "blur"])
			addEventListener(name, () => hold(false));
		goOn();
	}

	/* The warnings without those that the bar shows already. */
	function warningsOf({capture, warnings}) {
		return state && capture.ended === "running" ? warnings.slice(1) : warnings;
	}

	return {start, warningsOf};
})();
