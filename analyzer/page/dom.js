/* SPDX-License-Identifier: Apache-2.0
 *
 * Builds elements. Text is set only with textContent, because names in a trace are hostile.
 */
"use strict";

const Dom = (() => {
	const by = (id) => document.getElementById(id);

	/* element("td", {class: "number"}, "12", child...) */
	function element(tag, attributes, ...children) {
		const made = document.createElement(tag);
		for (const [name, value] of Object.entries(attributes || {}))
			if (name.startsWith("on"))
				made.addEventListener(name.slice(2), value);
			else if (value !== undefined && value !== false)
				made.setAttribute(name, value === true ? "" : value);
		made.append(...children.filter((child) => child !== undefined && child !== null));
		return made;
	}

	function replace(parent, ...children) {
		parent.replaceChildren(...children);
	}

	/* A window above the page, which Escape closes. */
	function dialog(title, ...content) {
		const made = element("dialog", {"aria-label": title},
			element("div", {class: "bar"}, element("h2", {}, title), element("span", {class: "space"}),
				element("button", {type: "button", onclick: () => made.close()}, "Close")),
			...content);
		made.addEventListener("close", () => made.remove());
		document.body.append(made);
		made.showModal();
		return made;
	}

	/* A bar whose length is `value` / `most`. */
	function meter(value, most) {
		const bar = element("div", {class: value < 0 ? "negative" : ""});
		bar.style.width = Math.abs(value) / (Math.abs(most) || 1) * 100 + "%";
		return element("div", {class: "meter", "aria-hidden": "true"}, bar);
	}

	/* Caches the colours of the style sheet's current theme, because reading them from the
	 * browser is slow. */
	const colours = new Map();
	function colour(name) {
		const key = document.documentElement.dataset.theme + " " + name;
		if (!colours.has(key))
			colours.set(key, getComputedStyle(document.documentElement)
				.getPropertyValue("--" + name).trim());
		return colours.get(key);
	}

	/* Sizes a canvas for the screen's pixel density; returns its context in CSS pixels. */
	function paintOn(canvas, width, height) {
		const ratio = window.devicePixelRatio || 1;
		canvas.width = Math.round(width * ratio);
		canvas.height = Math.round(height * ratio);
		canvas.style.width = width + "px";
		canvas.style.height = height + "px";
		const context = canvas.getContext("2d");
		context.scale(ratio, ratio);
		context.clearRect(0, 0, width, height);
		return context;
	}

	/* A sparkline of `values`; shades buckets [from, to) if they are only a part. */
	function sparkline(values, from, to, label) {
		const canvas = element("canvas", {class: "spark", role: "img", "aria-label": label});
		const width = 132, height = 34, context = paintOn(canvas, width, height);
		const most = Math.max(1, ...values);
		const step = width / Math.max(1, values.length);
		if (to - from < values.length) {
			context.fillStyle = colour("selected");
			context.fillRect(from * step, 0, Math.max(1, (to - from) * step), height);
		}
		context.beginPath();
		context.moveTo(0, height);
		values.forEach((value, i) => context.lineTo((i + 0.5) * step,
			height - 2 - Math.max(0, value) / most * (height - 4)));
		context.lineTo(width, height - 2 - Math.max(0, values[values.length - 1] || 0) / most *
			(height - 4));
		context.strokeStyle = colour("live");
		context.lineWidth = 1.5;
		context.stroke();
		context.lineTo(width, height);
		context.closePath();
		context.globalAlpha = 0.18;
		context.fillStyle = colour("live");
		context.fill();
		return canvas;
	}

	return {by, element, replace, dialog, meter, colour, paintOn, sparkline};
})();
