/* SPDX-License-Identifier: Apache-2.0
 *
 * What grows: the sites that the analyzer classified, growing ones first. Class and sentence are of
 * the whole capture; amounts are of the selected time.
 */
"use strict";

const Suspects = (() => {
	const OTHERS = 40;

	function groupsOf(model) {
		return model.facts.suspects.map((suspect) =>
			({...suspect, nodes: new Set(suspect.nodes)}));
	}

	function sitesOf(model, nodes) {
		const sites = [];
		for (let site = 0; site < model.site.count; site++)
			if (nodes.has(model.site.node[site]))
				sites.push(site);
		return sites;
	}

	function card(app, group) {
		const {model} = app, {from, to} = app.state;
		const unit = Model.METRICS[app.state.metric].unit;
		const amount = group.sites.reduce((sum, site) => sum + app.values()[site], 0);
		const grows = group.class === "growing";
		const amounts = Dom.element("div", {class: "amount"});
		if (grows)
			amounts.append(Dom.element("b", {},
				"+" + Format.bytes(group.slope_bytes_per_s * 60) + "/min"),
				Dom.element("br"));
		amounts.append(Format.value(amount, unit) + " " + app.state.metric);
		if (grows)
			amounts.append(Dom.element("br"), Dom.element("span", {class: "quiet"},
				"confidence " + Math.round(group.confidence * 100) + " %"));
		return Dom.element("article", {class: "suspect"},
			Dom.element("div", {class: "what"},
				Dom.element("span", {class: "badge " + (grows ? "growing" : "")},
					group.class),
				Dom.element("button", {class: "link name", type: "button",
					title: app.nodeName(group.node),
					onclick: () => app.open(group.node)}, app.shortName(group.node)),
				Dom.element("div", {class: "where"}, app.callersText(group.node)),
				Dom.element("div", {}, group.text + (group.nodes.size > 1
					? " (" + group.nodes.size + " call chains)" : ""))),
			amounts,
			Dom.sparkline(group.live, from, to, "live bytes over the whole capture, at most " +
				Format.bytes(Math.max(0, ...group.live))));
	}

	function create(app) {
		const groups = groupsOf(app.model);
		for (const group of groups) {
			group.sites = sitesOf(app.model, group.nodes);
			group.live = Model.liveSeries(app.model, group.sites);
		}
		const growing = groups.filter((group) => group.class === "growing");
		const others = groups.filter((group) => group.class !== "growing");
		return {
			render(view) {
				const matches = app.matchesNode();
				const shown = (list) => list.filter((group) => !matches ||
					[...group.nodes].some(matches));
				const list = shown(growing);
				const rest = shown(others).slice(0, OTHERS);
				Dom.replace(view, Dom.element("h2", {}, growing.length
					? "What grows" : "No site grows over the whole capture"),
					...list.map((group) => card(app, group)));
				if (rest.length)
					view.append(Dom.element("details", {open: !growing.length},
						Dom.element("summary", {}, rest.length +
							" other sites that held memory at the end"),
						...rest.map((group) => card(app, group))));
				view.append(Dom.element("p", {class: "hint"},
					"Class, rate and sentence are of the whole capture; amounts are of " +
					"the selected time. Curves show live bytes over the whole capture."));
			},
		};
	}

	return {create};
})();
