/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports the view: as text on the clipboard, as a file.
 */
"use strict";

const Save = (() => {
	const KINDS = {svg: "image/svg+xml", csv: "text/csv", collapsed: "text/plain"};
	const ENDING = {svg: "svg", csv: "csv", collapsed: "collapsed.txt"};

	function file(name, kind, text) {
		const url = URL.createObjectURL(new Blob([text], {type: KINDS[kind] + ";charset=utf-8"}));
		const link = document.createElement("a");
		link.href = url;
		link.download = name.replace(/[^\w.-]+/g, "_").slice(0, 80) + "." + ENDING[kind];
		link.click();
		setTimeout(() => URL.revokeObjectURL(url), 10000);
	}

	/* Some browsers refuse the clipboard to pages from files: then shows the text to copy by
	 * hand. */
	async function copy(text) {
		try {
			await navigator.clipboard.writeText(text);
			return true;
		} catch (error) {
			const area = Dom.element("textarea", {readonly: true, rows: "20", "aria-label": "text"});
			area.value = text;
			Dom.dialog("Copy this text", area);
			area.select();
			return false;
		}
	}

	/* One line for each chain with a value, outermost function first. */
	function collapsed(tree, own, nameOf) {
		const lines = [];
		for (let node = 1; node < tree.count; node++) {
			if (!(own[node] > 0))
				continue;
			const chain = [];
			for (let at = node; at; at = tree.parent[at])
				chain.push(nameOf(tree.call[at]).replace(/;/g, ":").replace(/\s+/g, " "));
			lines.push(chain.reverse().join(";") + " " + Math.round(own[node]));
		}
		return lines.join("\n") + "\n";
	}

	/* An SVG drawing, built as elements so that every name is escaped. */
	function drawing(width, height, ground) {
		const root = Dom.by("drawing").content.firstElementChild.cloneNode();
		const space = root.namespaceURI;
		const add = (tag, attributes, text, to) => {
			const made = document.createElementNS(space, tag);
			for (const [name, value] of Object.entries(attributes))
				made.setAttribute(name, typeof value === "number" ? Math.round(value * 100) / 100
					: value);
			if (text !== undefined)
				made.textContent = text;
			(to || root).append(made);
			return made;
		};
		root.setAttribute("viewBox", "0 0 " + width + " " + height);
		root.setAttribute("width", width);
		root.setAttribute("height", height);
		root.setAttribute("font-family", "system-ui, sans-serif");
		root.setAttribute("font-size", "12");
		add("rect", {width, height, fill: ground});
		return {add, text: () => new XMLSerializer().serializeToString(root)
			.replace(/[\0-\x08\x0b\x0c\x0e-\x1f]/g, "?") + "\n"};
	}

	return {file, copy, collapsed, drawing};
})();

if (typeof module !== "undefined")
	module.exports = Save;
