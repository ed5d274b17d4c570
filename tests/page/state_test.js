/* SPDX-License-Identifier: Apache-2.0
 *
 * usage: node state_test.js
 *
 * Tests the selection in the page's address, and tables as text and CSV. Exits with 1 at the first
 * failure.
 */
"use strict";

const assert = require("assert");
const path = require("path");
const page = path.join(__dirname, "../../analyzer/page");
global.Format = require(path.join(page, "format.js"));
const State = require(path.join(page, "state.js"));
const Table = require(path.join(page, "table.js"));

const METRICS = ["outstanding", "growth"], BUCKETS = 50;
const read = (hash) => State.read(hash, BUCKETS, METRICS);
const usual = State.usual(BUCKETS);

/* --- the address: what was written is read again, and what a stranger wrote harms nothing */

assert.deepStrictEqual(read(""), usual);
assert.strictEqual(State.write(usual, BUCKETS), "#");
for (const change of [{view: "tree", metric: "growth", from: 3, to: 9}, {search: "a|b&c=#%"},
	{hide: ["std::vector<int>", "/x y/", "\u202e"], focus: "f(int)"}, {thread: 2, zoom: 17, call: 4},
	{direction: "up", shape: "flame", wrappers: "show", recursion: "merge", sort: "calls-", file: 0}])
	assert.deepStrictEqual(read(State.write({...usual, ...change}, BUCKETS)), {...usual, ...change});
for (const hash of ["#view=none", "#metric=toString", "#from=-5", "#from=x", "#from=9&to=9", "#to=0",
	"#to=1e99", "#__proto__=1", "#constructor=1", "#shape=round", "#thread=-7", "#call=NaN"])
	assert.deepStrictEqual(read(hash), usual, hash);
assert.strictEqual(read("#zoom=1e99").zoom, 2 ** 31);

/* --- the same time when buckets have another length */

assert.deepStrictEqual(State.rescale({from: 10, to: 20}, 0.5), {from: 5, to: 10});
assert.deepStrictEqual(State.rescale({from: 11, to: 13}, 0.5), {from: 5, to: 7});
assert.deepStrictEqual(State.rescale({from: 0, to: 1}, 0.25), {from: 0, to: 1});
assert.deepStrictEqual(State.rescale({from: 3, to: 4}, 2), {from: 6, to: 8});

/* --- tables */

const columns = [{key: "name", title: "Name", unit: "text", value: (row) => row[0]},
	{key: "bytes", title: "Bytes", unit: "bytes", value: (row) => row[1]},
	{key: "life", title: "Life", unit: "ns", value: (row) => row[2]}];
const rows = [["b", 2048, null], ["a", 3, 5], ["=1+1,\"x\"\n", -7, 9]];
const sorted = (sort) => Table.sortRows(rows, columns, sort).map((row) => row[0][0]);
assert.deepStrictEqual(sorted("bytes"), ["b", "a", "="]);
assert.deepStrictEqual(sorted("bytes-"), ["=", "a", "b"]);
assert.deepStrictEqual(sorted("life"), ["=", "a", "b"]);
assert.deepStrictEqual(sorted("name"), ["=", "a", "b"]);
assert.deepStrictEqual(sorted("no such column"), ["b", "a", "="]);
assert.strictEqual(Table.text({columns, rows: () => rows.slice(0, 2)}),
	"  Bytes  Life  Name\n2.0 KiB        b\n    3 B  5 ns  a\n");
assert.strictEqual(Table.csv({columns, rows: () => rows}),
	"name,bytes,life\nb,2048,\na,3,5\n\"'=1+1,\"\"x\"\"\n\",-7,9\n");
/* Only the first of many rows are sorted: the same ones, in the same order. */
const many = Array.from({length: 3000}, (_, i) => ["n", i * 7919 % 1000, i % 3 ? i : null]);
for (const sort of ["bytes", "bytes-", "life", "life-", "name"])
	assert.deepStrictEqual(Table.firstRows(many, columns, sort, 50),
		Table.sortRows(many, columns, sort).slice(0, 50));
console.log("all right");
