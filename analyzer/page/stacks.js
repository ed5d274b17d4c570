/* SPDX-License-Identifier: Apache-2.0
 *
 * Call chains: filters, display, and the trees that views walk. A tree is arrays by node, parents
 * before children: parent, call (the function, -1 of the root and of folded stacks), and siteNode,
 * the node where each site's chain ends.
 */
"use strict";

const Stacks = (() => {
	/* --- filters ------------------------------------------------------------ */

	/* "/x/" is a regular expression on name and place; other text must be equal to the
	 * function's name. Null: an invalid expression. */
	function matcher(text) {
		if (text.length < 3 || !text.startsWith("/") || !text.endsWith("/"))
			return (name) => name === text;
		try {
			const expression = new RegExp(text.slice(1, -1), "i");
			return (name, place) => expression.test(name + "\n" + place);
		} catch (error) {
			return null;
		}
	}

	/* By frame, whether `text` finds it; null: an invalid expression. */
	function framesThat(model, names, text) {
		const found = new Uint8Array(model.frame.count), isMatch = matcher(text);
		if (!isMatch)
			return null;
		for (let i = 0; i < found.length; i++)
			found[i] = isMatch(names.frameName(i), names.frameWhere(i)) ? 1 : 0;
		return found;
	}

	/* By node of the model's tree, whether its chain has one of these frames. */
	function chainsWith(model, found) {
		const {parent, frame, count} = model.tree, isIn = new Uint8Array(count);
		for (let i = 1; i < count; i++)
			isIn[i] = isIn[parent[i]] || (frame[i] >= 0 && found[frame[i]]) ? 1 : 0;
		return isIn;
	}

	/* By site, whether the filters keep it; null: all sites. {focus: text or "", hide:
	 * [text...], thread: index or -1}: chains through `focus`, through none of `hide`, of one
	 * thread. */
	function sitesIn(model, names, {focus, hide, thread}) {
		const {site} = model;
		if (!focus && !hide.length && thread < 0)
			return null;
		const isIn = new Uint8Array(site.count).fill(1);
		const keep = (text, wanted) => {
			const found = framesThat(model, names, text);
			const chains = found && chainsWith(model, found);
			for (let i = 0; chains && i < site.count; i++)
				if (chains[site.node[i]] !== wanted)
					isIn[i] = 0;
		};
		if (focus)
			keep(focus, 1);
		hide.forEach((text) => keep(text, 0));
		for (let i = 0; thread >= 0 && i < site.count; i++)
			if (site.thread[i] !== thread)
				isIn[i] = 0;
		return isIn;
	}

	/* --- display ------------------------------------------------------------ */

	/* The node at which each chain begins on screen: the caller of the allocation wrappers. A
	 * chain of wrappers alone is shown in full. */
	function beginOf(model, showsWrappers) {
		const {parent, frame, count} = model.tree, begin = new Int32Array(count);
		for (let i = 1; i < count; i++)
			begin[i] = !showsWrappers && frame[i] >= 0 && model.frame.isWrapper[frame[i]]
				? begin[parent[i]] : i;
		for (let i = 1; i < count; i++)
			begin[i] = begin[i] || i;
		return begin;
	}

	/* Nodes by (parent, call): a hash table with open addressing, because there may be
	 * millions. */
	function growing(least) {
		let room = 1 << Math.ceil(Math.log2(Math.max(4096, least))), count = 1, slot = new Int32Array(room * 2);
		let parent = new Int32Array(room), call = new Int32Array(room).fill(-1);

		function place(from, to) {
			const mask = slot.length - 1;
			let at = Math.imul(from, 0x9e3779b1) ^ Math.imul(to + 2, 0x85ebca6b);
			at = (at ^ at >>> 15) & mask;
			while (slot[at] && (parent[slot[at]] !== from || call[slot[at]] !== to))
				at = (at + 1) & mask;
			return at;
		}

		function grow() {
			const old = {parent, call};
			room *= 2;
			parent = new Int32Array(room);
			call = new Int32Array(room);
			parent.set(old.parent);
			call.set(old.call);
			slot = new Int32Array(room * 2);
			for (let node = 1; node < count; node++)
				slot[place(parent[node], call[node])] = node;
		}

		return {
			step(from, to) {
				let at = place(from, to);
				if (slot[at])
					return slot[at];
				if (count === room) {
					grow();
					at = place(from, to);
				}
				parent[count] = from;
				call[count] = to;
				slot[at] = count;
				return count++;
			},
			parentOf: (node) => parent[node],
			callOf: (node) => call[node],
			tree: (siteNode) => ({parent: parent.slice(0, count), call: call.slice(0, count), count,
				siteNode}),
		};
	}

	/* The tree by function, outermost callers at the root; nodeOf: by node of the model's tree.
	 * With `mergesRecursion`, a recursive call continues at the function's first node. */
	function topDown(model, functions, {showsWrappers, mergesRecursion}) {
		const {parent, frame, count} = model.tree, begin = beginOf(model, showsWrappers);
		const isUsed = new Uint8Array(count), nodeOf = new Int32Array(count), tree = growing(count);
		const siteNode = new Int32Array(model.site.count);
		for (let site = 0; site < siteNode.length; site++)
			for (let at = begin[model.site.node[site]]; at && !isUsed[at]; at = parent[at])
				isUsed[at] = 1;
		for (let i = 1; i < count; i++) {
			if (!isUsed[i]) {
				nodeOf[i] = nodeOf[parent[i]];
				continue;
			}
			const call = frame[i] < 0 ? -1 : functions.ofFrame[frame[i]];
			let up = mergesRecursion ? nodeOf[parent[i]] : 0;
			while (up && tree.callOf(up) !== call)
				up = tree.parentOf(up);
			nodeOf[i] = up || tree.step(nodeOf[parent[i]], call);
		}
		for (let site = 0; site < siteNode.length; site++)
			siteNode[site] = nodeOf[begin[model.site.node[site]]];
		return {...tree.tree(siteNode), nodeOf};
	}

	/* The chains of `down` from the allocating functions to their callers. Groups chains that
	 * agree so far, level by level; adds the rest of a chain at once when no other agrees with
	 * it. */
	function bottomUp(down) {
		const parent = [0], call = [-1], endOf = new Int32Array(down.count);
		const add = (up, at) => {
			parent.push(up);
			return call.push(down.call[at]) - 1;
		};
		const follow = (leaf, node, at) => {
			for (; at; at = down.parent[at])
				node = add(node, at);
			endOf[leaf] = node;
		};
		const open = [{node: 0, chains: [...new Set(down.siteNode)].map((leaf) => [leaf, leaf])}];
		while (open.length) {
			const {node, chains} = open.pop(), groups = new Map();
			for (const [leaf, at] of chains)
				if (!at)
					endOf[leaf] = node;
				else if (groups.has(down.call[at]))
					groups.get(down.call[at]).push([leaf, down.parent[at]]);
				else
					groups.set(down.call[at], [[leaf, down.parent[at]]]);
			for (const [key, same] of groups) {
				parent.push(node);
				const child = call.push(key) - 1;
				if (same.length === 1)
					follow(same[0][0], child, same[0][1]);
				else
					open.push({node: child, chains: same});
			}
		}
		return {parent: new Int32Array(parent), call: new Int32Array(call), count: parent.length,
			siteNode: down.siteNode.map((leaf) => endOf[leaf])};
	}

	/* --- walks ------------------------------------------------------------------------- */

	/* Own values at the nodes of sites, then inclusive ones: node 0 has the total. */
	function inclusive(tree, values) {
		const own = new Float64Array(tree.count);
		for (let site = 0; site < values.length; site++)
			own[tree.siteNode[site]] += values[site];
		const total = Float64Array.from(own);
		for (let i = tree.count - 1; i > 0; i--)
			total[tree.parent[i]] += total[i];
		return {own, total};
	}

	/* The children of node n are child[first[n]] to child[first[n + 1] - 1]. */
	function childrenOf(tree) {
		const first = new Int32Array(tree.count + 2), child = new Int32Array(tree.count);
		for (let i = 1; i < tree.count; i++)
			first[tree.parent[i] + 2]++;
		for (let i = 2; i < first.length; i++)
			first[i] += first[i - 1];
		for (let i = 1; i < tree.count; i++)
			child[first[tree.parent[i] + 1]++] = i;
		return {first, child};
	}

	/* Children with figures, largest first. */
	function sorted(children, totals, node) {
		const list = [];
		for (let i = children.first[node]; i < children.first[node + 1]; i++)
			if (totals[children.child[i]])
				list.push(children.child[i]);
		return list.sort((a, b) => totals[b] - totals[a] || a - b);
	}

	/* `sum`: what `isFound` (by function) finds: totals of the outermost matching nodes, so
	 * that nothing counts twice. `found`: number of matching nodes with a total. */
	function matched(tree, totals, isFound) {
		const isIn = new Uint8Array(tree.count);
		let sum = 0, found = 0;
		for (let i = 1; i < tree.count; i++) {
			const isMatch = tree.call[i] >= 0 && isFound[tree.call[i]];
			found += isMatch && totals[i] ? 1 : 0;
			isIn[i] = isMatch || isIn[tree.parent[i]] ? 1 : 0;
			if (isMatch && !isIn[tree.parent[i]])
				sum += totals[i];
		}
		return {sum, found};
	}

	/* The nodes without a caller of the same group: the sum of their totals is the group's
	 * inclusive value. `keyOf`: by node, a number; -1: no group. */
	function outermost(tree, keyOf) {
		const nodes = [];
		for (let i = 1; i < tree.count; i++) {
			const key = keyOf[i];
			let up = key < 0 ? 0 : tree.parent[i];
			while (up && keyOf[up] !== key)
				up = tree.parent[up];
			if (key >= 0 && !up)
				nodes.push(i);
		}
		return Int32Array.from(nodes);
	}

	/* One function: `callers` of its outermost recursive calls, `callees` of its innermost.
	 * Each list plus the part without one (`outermost`, `own`) adds up to `total`. As
	 * analyzer/views/function.c. */
	function around(tree, own, call) {
		const outer = new Int32Array(tree.count), callee = new Int32Array(tree.count).fill(-2);
		const result = {total: 0, own: 0, outermost: 0, callers: new Map(), callees: new Map()};
		const add = (map, key, value) => map.set(key, (map.get(key) || 0) + value);
		for (let i = 1; i < tree.count; i++) {
			const up = tree.parent[i], isSelf = tree.call[i] === call;
			outer[i] = outer[up] || (isSelf ? i : 0);
			/* -2: the function is not in the chain; -3: it ends the chain here. */
			callee[i] = isSelf ? -3 : callee[up] === -3 ? tree.call[i] : callee[up];
			if (!outer[i] || !own[i])
				continue;
			const caller = tree.parent[outer[i]];
			result.total += own[i];
			if (caller)
				add(result.callers, tree.call[caller], own[i]);
			else
				result.outermost += own[i];
			if (callee[i] === -3)
				result.own += own[i];
			else
				add(result.callees, callee[i], own[i]);
		}
		return result;
	}

	/* The analyzer folds the stacks that allocate least into one site, whose thread, size and function
	 * are not known. */
	const FOLDED = Infinity;

	/* By site, its key in `column`, or FOLDED. */
	function keysOf(model, column) {
		const {node} = model.site, {frame} = model.tree;
		return Array.from(column, (key, site) => node[site] && frame[node[site]] < 0 ? FOLDED : key);
	}

	return {FOLDED, keysOf, sitesIn, framesThat, chainsWith, beginOf, topDown, bottomUp, inclusive, childrenOf, sorted, matched,
		outermost, around};
})();

if (typeof module !== "undefined")
	module.exports = Stacks;
