/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of frames, functions and threads. A frame is a line of a function. Functions are numbered
 * in the order of their first frames; frames with the same name and file (without a file: module)
 * are of one function.
 */
"use strict";

const Names = (() => {
	const base = (path) => path.slice(path.lastIndexOf("/") + 1);

	/* Numbers of functions by frame, and the first frame of each function. */
	function functionsOf(model) {
		const {frame} = model, {strings} = model.facts;
		const number = new Map(), first = [], ofFrame = new Int32Array(frame.count);
		for (let i = 0; i < frame.count; i++) {
			const place = frame.file[i] ? strings[frame.file[i] - 1] : "\0" + frame.module[i];
			const key = strings[frame.name[i]] + "\0" + place;
			if (!number.has(key)) {
				number.set(key, first.length);
				first.push(i);
			}
			ofFrame[i] = number.get(key);
		}
		return {count: first.length, first, ofFrame};
	}

	function of(model) {
		const {frame, tree} = model, {strings, modules, threads} = model.facts;
		const functions = functionsOf(model);

		const frameName = (index) => index < 0 ? "(folded)" : strings[frame.name[index]];
		const fileOf = (index) => frame.file[index] ? strings[frame.file[index] - 1] : "";
		const moduleOf = (index) => frame.module[index]
			? base(modules[frame.module[index] - 1][0] || "") : "";

		function frameWhere(index) {
			const file = fileOf(index);
			return [file + (file && frame.line[index] ? ":" + frame.line[index] : ""),
				moduleOf(index)].filter((part) => part).join(" in ");
		}

		const functionName = (index) => index < 0 ? "(folded)" : frameName(functions.first[index]);

		function functionWhere(index) {
			return index < 0 ? "" : [fileOf(functions.first[index]),
				moduleOf(functions.first[index])].filter((part) => part).join(" in ");
		}

		const shorts = new Map();
		/* Cached, because parsing a name is slow. */
		function shortOf(name) {
			if (!shorts.has(name))
				shorts.set(name, Format.shortName(name));
			return shorts.get(name);
		}

		const nodeName = (node) => node ? frameName(tree.frame[node]) : "(no stack)";
		const shortName = (node) => node ? shortOf(nodeName(node)) : "(no stack)";

		/* The nearest function of a script in the node's chain, as text; "" if there is
		 * none, or if it is the node itself. */
		function scriptText(node) {
			for (let at = node; at; at = tree.parent[at]) {
				const index = tree.frame[at];
				const path = index < 0 || frame.module[index] ? "" : fileOf(index);
				if (path.startsWith("/"))
					return at === node ? "" : "from " + frameName(index) + ", " +
						base(path) + ":" + frame.line[index];
			}
			return "";
		}

		/* The nearest callers of a node, at most `most`. */
		function callers(node, most) {
			const names = [];
			let last = shortName(node);
			for (let at = tree.parent[node]; node && at && names.length < most; at = tree.parent[at]) {
				if (shortName(at) !== last)
					names.push(shortName(at));
				last = shortName(at);
			}
			return names;
		}

		/* The place of a node, the script's function, and up to three callers, as text. */
		function callersText(node, isWithoutScript) {
			const names = callers(node, 3);
			const where = node && tree.frame[node] >= 0 ? frameWhere(tree.frame[node]) : "";
			return [where, isWithoutScript ? "" : scriptText(node), names.length ? "called by " + names.join(" \u2190 ")
				: ""].filter((part) => part).join(" \u00b7 ");
		}

		function threadName(index) {
			const thread = threads[index] || [0, "unknown"];
			return thread[1] + " (" + (thread[0] === model.facts.target.pid ? "main, " : "") +
				thread[0] + ")";
		}

		return {functions, shortOf, frameName, frameWhere, fileOf, functionName, functionWhere, nodeName,
			shortName, callersText, scriptText, threadName};
	}

	return {of, base};
})();

if (typeof module !== "undefined")
	module.exports = Names;
