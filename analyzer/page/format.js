/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers as people read them.
 */
"use strict";

const Format = (() => {
	const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

	/* 1536 as "1.5 KiB". */
	function bytes(value) {
		let unit = 0, size = Math.abs(value);
		while (size >= 1023.95 && unit + 1 < UNITS.length) {
			size /= 1024;
			unit++;
		}
		const text = !unit || size >= 99.95 ? size.toFixed(0) : size.toFixed(1);
		return (value < 0 ? "-" : "") + text + " " + UNITS[unit];
	}

	/* 1234567 as "1,234,567". */
	function count(value) {
		const text = Math.round(Math.abs(value)).toString();
		return (value < 0 ? "-" : "") + text.replace(/\B(?=(\d{3})+$)/g, ",");
	}

	function value(number, unit) {
		return unit === "bytes" ? bytes(number) : count(number);
	}

	/* A time since the start of the capture. */
	function time(ns) {
		const s = ns / 1e9;
		if (s < 0.1)
			return ns ? Number((ns / 1e6).toFixed(1)) + " ms" : "0 s";
		if (s < 60)
			return s.toFixed(s < 10 ? 2 : 1) + " s";
		const minutes = Math.floor(s / 60), rest = Math.floor(s % 60);
		const two = (part) => String(part).padStart(2, "0");
		return minutes < 60 ? minutes + ":" + two(rest) + " min"
			: Math.floor(minutes / 60) + ":" + two(minutes % 60) + ":" + two(rest) + " h";
	}

	/* A time in seconds since the start, in a short form for an axis. */
	function moment(s) {
		if (s > 0 && s < 0.1)
			return Number((s * 1e3).toFixed(2)) + " ms";
		return s < 60 ? Number(s.toFixed(3)) + " s" : time(s * 1e9);
	}

	function duration(ns) {
		if (ns < 1e3)
			return ns.toFixed(0) + " ns";
		if (ns < 1e6)
			return (ns / 1e3).toFixed(1) + " us";
		return ns < 1e9 ? (ns / 1e6).toFixed(1) + " ms" : time(ns);
	}

	function percent(part, whole) {
		if (!(whole > 0))
			return "";
		const share = part / whole * 100;
		return (share > 0 && share < 0.05 ? "<0.1" : share.toFixed(1)) + " %";
	}

	/* " \u00b112 %" of an estimate; "" if it is exact. */
	function bound(value, half) {
		const percent = 100 * half / Math.abs(value);
		return half && value ? " \u00b1" + percent.toFixed(percent < 10 ? 1 : 0) + " %" : "";
	}

	/* The position after the bracket that closes the one at `at`; the name's end if none does.
	 */
	function past(name, at) {
		const open = name[at], close = {"(": ")", "<": ">"}[open];
		for (let depth = 0; at < name.length; at++) {
			depth += name[at] === open ? 1 : name[at] === close && name[at - 1] !== "-" ? -1 : 0;
			if (!depth)
				return at + 1;
		}
		return at;
	}

	/* A C++ name without its parameters and its template arguments. */
	function shortName(name) {
		let short = "";
		for (let at = 0; at < name.length;) {
			const operator = /^operator *(\(\)|<<=?|>>=?|<=>|<=?|>=?|->\*?)/.exec(name.slice(at, at + 14));
			const isName = name.startsWith("(anonymous", at) || name.startsWith("{lambda", at);
			if (operator && !/\w$/.test(short)) {
				short += operator[0];
				at += operator[0].length;
			} else if (isName && name[at] === "(") {
				const end = past(name, at);
				short += name.slice(at, end);
				at = end;
			} else if (name[at] === "{" && isName) {
				const end = name.indexOf("}", at);
				short += "{lambda}";
				at = end < 0 ? name.length : end + 1;
			} else if (name[at] === "(" && short) {
				at = past(name, at);
				at += name.startsWith(" const", at) ? 6 : 0;
			} else if (name[at] === "<" && short) {
				at = past(name, at);
				short += "<>";
			} else
				short += name[at++];
		}
		return short;
	}

	return {bound, shortName, bytes, count, value, time, moment, duration, percent};
})();

if (typeof module !== "undefined")
	module.exports = Format;
