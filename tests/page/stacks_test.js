/* SPDX-License-Identifier: Apache-2.0
 *
 * usage: node stacks_test.js
 *
 * Chains of random recursive programs, shown in every way, against what each chain says by itself.
 * Exits with 1 at the first failure.
 */
"use strict";

const assert = require("assert");
const path = require("path");
const page = path.join(__dirname, "../../analyzer/page");
global.Format = require(path.join(page, "format.js"));
const Names = require(path.join(page, "names.js"));
const Stacks = require(path.join(page, "stacks.js"));

const PROGRAMS = 60, NODES = 80, SITES = 40;

/* Always the same numbers in [0, below). */
let seed = 12345;
function random(below) {
	seed = (Math.imul(seed, 1103515245) + 12345) >>> 0;
	return Math.floor(seed / 2 ** 32 * below);
}

/* Frames are lines of functions a to f, two lines each; f passes allocations on. */
const FUNCTIONS = "abcdef", strings = [...FUNCTIONS, "file.c"];
const frame = {count: 12, name: [], file: [], line: [], module: [], isWrapper: [], space: []};
for (let i = 0; i < 12; i++) {
	frame.name.push(i >> 1);
	frame.file.push(7);
	frame.line.push(10 + i);
	frame.module.push(0);
	frame.isWrapper.push(i >= 10 ? 1 : 0);
	frame.space.push(0);
}

function program() {
	const tree = {count: NODES, parent: [0], frame: [-1]};
	for (let i = 1; i < NODES; i++) {
		tree.parent.push(random(i));
		tree.frame.push(random(12));
	}
	const site = {count: SITES, node: [], thread: []};
	for (let i = 0; i < SITES; i++) {
		site.node.push(random(NODES));
		site.thread.push(i % 3);
	}
	return {frame, tree, site, facts: {strings, modules: [], threads: []}};
}

/* A site's functions, outermost first. */
function chainOf(model, site, showsWrappers) {
	const chain = [];
	for (let at = model.site.node[site]; at; at = model.tree.parent[at])
		chain.unshift(FUNCTIONS[model.tree.frame[at] >> 1]);
	let end = chain.length;
	while (!showsWrappers && end > 0 && chain[end - 1] === "f")
		end--;
	return end ? chain.slice(0, end) : chain;
}

/* A call of what is running already goes on from there. */
function merged(chain) {
	const path = [];
	for (const one of chain)
		if (path.includes(one))
			path.length = path.indexOf(one) + 1;
		else
			path.push(one);
	return path;
}

function chainIn(tree, site, names) {
	const chain = [];
	for (let at = tree.siteNode[site]; at; at = tree.parent[at])
		chain.unshift(names.functionName(tree.call[at]));
	return chain;
}

const sumOf = (values, is) => values.reduce((sum, value, i) => sum + (is(i) ? value : 0), 0);

/* --- one way to show the chains of one program */

function checkTrees(model, names, options) {
	const down = Stacks.topDown(model, names.functions, options), up = Stacks.bottomUp(down);
	const values = Array.from({length: SITES}, () => random(100));
	const chains = values.map((_, site) => {
		const chain = chainOf(model, site, options.showsWrappers);
		return options.mergesRecursion ? merged(chain) : chain;
	});
	chains.forEach((chain, site) => {
		assert.deepStrictEqual(chainIn(down, site, names), chain);
		assert.deepStrictEqual(chainIn(up, site, names), [...chain].reverse());
	});
	for (const tree of [down, up]) {
		const {own, total} = Stacks.inclusive(tree, values), children = Stacks.childrenOf(tree);
		assert.strictEqual(total[0], sumOf(values, () => true));
		for (let node = 0; node < tree.count; node++) {
			const list = Stacks.sorted(children, total, node);
			assert(list.every((child) => tree.parent[child] === node));
			assert.strictEqual(own[node] + list.reduce((sum, child) => sum + total[child], 0),
				total[node]);
			list.forEach((child, i) => assert(!i || total[list[i - 1]] >= total[child]));
		}
	}
	checkFunctions(down, names, values, chains);
}

/* Totals, callers and callees of each function; what a search finds. */
function checkFunctions(down, names, values, chains) {
	const {own, total} = Stacks.inclusive(down, values);
	const inclusive = new Map();
	for (const node of Stacks.outermost(down, down.call))
		inclusive.set(down.call[node], (inclusive.get(down.call[node]) || 0) + total[node]);
	for (let call = 0; call < names.functions.count; call++) {
		const name = names.functionName(call), is = Stacks.around(down, own, call);
		const expected = sumOf(values, (site) => chains[site].includes(name));
		assert.strictEqual(inclusive.get(call) || 0, expected);
		assert.strictEqual(is.total, expected);
		assert.strictEqual(is.own, sumOf(values, (site) => chains[site].at(-1) === name));
		assert.strictEqual(is.outermost, sumOf(values, (site) => chains[site][0] === name));
		for (let other = 0; other < names.functions.count; other++) {
			const second = names.functionName(other);
			assert.strictEqual(is.callers.get(other) || 0, sumOf(values, (site) =>
				chains[site].indexOf(name) > 0 &&
				chains[site][chains[site].indexOf(name) - 1] === second));
			assert.strictEqual(is.callees.get(other) || 0, sumOf(values, (site) =>
				chains[site].includes(name) &&
				chains[site][chains[site].lastIndexOf(name) + 1] === second));
		}
		const found = new Uint8Array(names.functions.count);
		found[call] = 1;
		assert.strictEqual(Stacks.matched(down, total, found).sum, expected);
	}
}

/* --- which chains count */

function checkFilters(model, names) {
	const all = {focus: "", hide: [], thread: -1};
	const has = (site, name) => chainOf(model, site, true).includes(name);
	assert.strictEqual(Stacks.sitesIn(model, names, all), null);
	const check = (filters, is) => assert.deepStrictEqual(
		[...Stacks.sitesIn(model, names, {...all, ...filters})],
		Array.from({length: SITES}, (_, site) => is(site) ? 1 : 0));
	check({focus: "a"}, (site) => has(site, "a"));
	check({hide: ["b"]}, (site) => !has(site, "b"));
	check({focus: "a", hide: ["b", "c"]}, (site) => has(site, "a") && !has(site, "b") &&
		!has(site, "c"));
	check({focus: "/^[AB]\n/"}, (site) => has(site, "a") || has(site, "b"));
	check({thread: 1}, (site) => site % 3 === 1);
	check({focus: "A"}, () => false);
	check({focus: "/(/"}, () => true); /* no expression: nothing is left out */
}

for (let i = 0; i < PROGRAMS; i++) {
	const model = program(), names = Names.of(model);
	assert(names.functions.count <= 6);
	for (const showsWrappers of [false, true])
		for (const mergesRecursion of [false, true])
			checkTrees(model, names, {showsWrappers, mergesRecursion});
	checkFilters(model, names);
}
/* --- folded stacks are a part of their own; those without a stack are not folded */

assert.deepStrictEqual(Stacks.keysOf({site: {node: [0, 1, 2]}, tree: {frame: [-1, 3, -1]}}, [7, 8, 0]),
	[7, 8, Stacks.FOLDED]);

console.log("all right");
