/* SPDX-License-Identifier: Apache-2.0
 *
 * Zoom and search of a flame graph: in the SVG itself, without anything from elsewhere. Names are
 * read from title elements and written as text only.
 */
(function () {
	"use strict";
	var svg = document.documentElement;
	var width = number(svg, "data-width"), left = number(svg, "data-left");
	var head = number(svg, "data-head"), row = number(svg, "data-row");
	var foot = number(svg, "data-foot"), total = number(svg, "data-total");
	var unit = svg.getAttribute("data-unit");
	var is_top_down = svg.getAttribute("data-root") === "top";
	var thinnest = 1.5; /* pixels of a box that is shown: thinner ones make towers */
	var query = "", typing = false;
	var boxes = [].map.call(document.getElementsByClassName("f"), function (group) {
		var title = group.getElementsByTagName("title")[0].textContent;
		return {
			group: group,
			title: title,
			name: title.split("\n")[0],
			short: group.getAttribute("data-n"),
			start: number(group, "data-s"),
			value: number(group, "data-v"),
			depth: number(group, "data-d"),
			rect: group.getElementsByTagName("rect")[0],
			label: group.getElementsByTagName("text")[0]
		};
	});

	function number(element, name) {
		return Number(element.getAttribute(name));
	}

	function put(id, text) {
		document.getElementById(id).textContent = text;
	}

	function amount(value) {
		var units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"], i = 0;
		if (unit !== "bytes")
			return String(value).replace(/\B(?=(\d{3})+$)/g, ",");
		while (value >= 1023.95 && i + 1 < units.length) {
			value /= 1024;
			i++;
		}
		return (i ? value.toFixed(1) : value) + " " + units[i];
	}

	function columns(text) {
		var count = 0, i;
		for (i = 0; i < text.length; i++)
			count += text.charCodeAt(i) >= 0x1100 ? 2 : 1;
		return count;
	}

	function fitted(box, pixels) {
		var room = Math.floor((pixels - 6) / 6.65);
		if (room < 3)
			return "";
		if (columns(box.name) <= room)
			return box.name;
		if (columns(box.short) <= room)
			return box.short;
		return room < 5 || columns(box.short) > box.short.length ? "" :
			box.short.slice(0, room - 2) + "..";
	}

	/* As wide as the window, and as high as that makes it. */
	function resize() {
		var size = svg.getAttribute("viewBox").split(" ");
		var wide = Math.max(window.innerWidth - 20, 600);
		svg.setAttribute("width", wide);
		svg.setAttribute("height", wide * size[3] / size[2]);
	}
	/* Shows a box over the whole width, with what it calls and what calls it. */
	function place(box, to, scale) {
		var start = to ? to.start : 0, end = start + (to ? to.value : total);
		var from = Math.max(box.start, start);
		var pixels = (Math.min(box.start + box.value, end) - from) * scale;
		var calls = Boolean(to) && box.depth < to.depth && box.start <= start &&
			box.start + box.value >= end;
		var below = box.start >= start && box.start + box.value <= end &&
			(!to || box.depth >= to.depth);
		var x = left + (from - start) * scale;
		box.shown = (calls || below) && pixels >= thinnest;
		box.group.style.display = box.shown ? "" : "none";
		box.group.classList.toggle("caller", calls);
		box.rect.setAttribute("x", x);
		box.rect.setAttribute("width", pixels);
		box.label.setAttribute("x", x + 3);
		box.label.textContent = fitted(box, pixels);
	}

	function zoom(to) {
		var scale = width / (to ? to.value : total), deepest = 0, bottom;
		boxes.forEach(function (box) {
			place(box, to, scale);
			if (box.shown && box.depth > deepest)
				deepest = box.depth;
		});
		boxes.forEach(function (box) {
			var y = head + (is_top_down ? box.depth : deepest - box.depth) * row;
			box.rect.setAttribute("y", y);
			box.label.setAttribute("y", y + 13);
		});
		bottom = head + (deepest + 1) * row;
		document.getElementById("foot").setAttribute("transform", "translate(0," + bottom + ")");
		svg.setAttribute("viewBox", "0 0 1200 " + (bottom + foot));
		resize();
		put("reset", to ? "[Esc] whole graph" : "");
	}

	/* A match within another one is part of it. */
	function search(text) {
		var wanted = text.toLowerCase(), sum = 0, end = -1, count = 0;
		query = text;
		boxes.forEach(function (box) {
			var found = wanted !== "" && box.depth > 0 &&
				box.name.toLowerCase().indexOf(wanted) >= 0;
			box.group.classList.toggle("m", found);
			if (!found)
				return;
			count++;
			if (box.start >= end) {
				sum += box.value;
				end = box.start + box.value;
			}
		});
		svg.classList.toggle("searching", wanted !== "");
		put("search", typing ? "search: " + text + "_" : text ? "search: " + text : "[/] search");
		put("matched", wanted === "" ? "" : "matched " + amount(sum) + ", " +
			(100 * sum / total).toFixed(1) + " % in " + count + " boxes");
	}

	function box_of(target) {
		while (target && target.classList && !target.classList.contains("f"))
			target = target.parentNode;
		return boxes.filter(function (box) { return box.group === target; })[0];
	}

	function reset() {
		typing = false;
		search("");
		zoom(null);
	}

	svg.addEventListener("click", function (event) {
		var box = box_of(event.target);
		if (box) {
			zoom(box.depth ? box : null);
		} else if (event.target.id === "search") {
			typing = true;
			search(query);
		} else if (event.target.id === "reset") {
			reset();
		}
	});
	svg.addEventListener("mouseover", function (event) {
		var box = box_of(event.target);
		put("detail", box ? box.title.replace("\n", ": ") : "");
	});
	document.addEventListener("keydown", function (event) {
		var box = box_of(event.target);
		if (event.ctrlKey || event.metaKey || event.altKey)
			return;
		if (event.key === "Escape") {
			reset();
		} else if (!typing && event.key === "/") {
			typing = true;
			search("");
		} else if (!typing && event.key === "Enter" && box) {
			zoom(box.depth ? box : null);
		} else if (!typing) {
			return;
		} else if (event.key === "Enter") {
			typing = false;
			search(query);
		} else if (event.key === "Backspace") {
			search(query.slice(0, -1));
		} else if (event.key.length === 1) {
			search(query + event.key);
		}
		event.preventDefault();
	});
	window.addEventListener("resize", resize);
	reset();
})();
