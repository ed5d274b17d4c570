/* SPDX-License-Identifier: Apache-2.0
 *
 * usage: node suspects_test.js
 *
 * The first sentences of the page: what grows, and where the process's memory grew.
 */
"use strict";

const assert = require("assert");
const path = require("path");
const code = path.join(__dirname, "../../analyzer/page");
global.Format = require(path.join(code, "format.js"));
const Suspects = require(path.join(code, "views/suspects.js"));

const MIB = 1 << 20;
const facts = (growth, seconds) => ({heap: {known: true, growth_bytes: growth},
	capture: {duration_ns: seconds * 1e9}, totals: {allocations: 7}});
const growing = (...slopes) => slopes.map((slope) => ({slope_bytes_per_s: slope}));

assert.strictEqual(Suspects.growthText({totals: {allocations: 0}}, []),
	"The process allocated nothing. ");
assert.strictEqual(Suspects.growthText(facts(MIB, 10), []),
	"No site grows over the whole capture. ");
assert.strictEqual(Suspects.growthText(facts(MIB, 10), growing(MIB / 10)),
	"1 site grows, by 6.0 MiB a minute. ");
assert.strictEqual(Suspects.growthText(facts(MIB, 10), growing(MIB / 60, MIB / 60)),
	"2 sites grow, together by 2.0 MiB a minute. ");
/* A hundredth of the heap's growth is the least. */
assert.strictEqual(Suspects.growthText(facts(6000, 10), growing(6)),
	"1 site grows, by 360 B a minute. ");
assert.strictEqual(Suspects.growthText(facts(6100, 10), growing(6)),
	"Little grows steadily: 1 site, by 360 B a minute. ");
assert.strictEqual(Suspects.growthText(facts(MIB, 10), growing(6, 6)),
	"Little grows steadily: 2 sites, together by 720 B a minute. ");
assert.strictEqual(Suspects.growthText({heap: {known: false}, capture: {duration_ns: 1e10},
	totals: {allocations: 7}}, growing(6)), "1 site grows, by 360 B a minute. ");

assert.strictEqual(Suspects.rssText({first_bytes: 30 * MIB, last_bytes: 30 * MIB + 1,
	growth: {heap_bytes: MIB}}), "RSS stayed at 30.0 MiB. ");
const rss = {first_bytes: 30 * MIB, last_bytes: 64 * MIB};
assert.strictEqual(Suspects.rssText({first_bytes: 0, last_bytes: 0}), "");
assert.strictEqual(Suspects.rssText(rss), "RSS went from 30.0 MiB to 64.0 MiB. ");
assert.strictEqual(Suspects.rssText({...rss, growth: {heap_bytes: null, allocator_free_bytes: null,
	other_anonymous_bytes: 2 * MIB, file_bytes: 0, shared_bytes: -4 * MIB}}),
"RSS went from 30.0 MiB to 64.0 MiB: shared memory -4.0 MiB, other anonymous memory +2.0 MiB. ");
assert.strictEqual(Suspects.rssText({...rss, growth: {heap_bytes: 100 * MIB,
	allocator_free_bytes: MIB - 1, other_anonymous_bytes: 0, file_bytes: MIB, shared_bytes: 0}}),
"RSS went from 30.0 MiB to 64.0 MiB: heap +100 MiB, mapped files +1.0 MiB. ");

const app = {model: {stepNs: 1e8}};
const since = (live) => Suspects.sinceText(app, {live: Array.from({length: 100}, (_, i) => live(i))});
assert.strictEqual(since((i) => i * 10), "since the start of the capture");
assert.strictEqual(since(() => 0), "since the start of the capture");
assert.strictEqual(since((i) => i < 50 ? 0 : i * 10), "since +5.00 s");
assert.strictEqual(since((i) => i < 6 ? 0 : 10), "since +0.60 s");

console.log("all right");
