/* SPDX-License-Identifier: Apache-2.0
 *
 * callgrind.out: own figures by line, calls with what they cost, and each chain once for each
 * function, however often it calls itself.
 */
#include "tests/unit/analyzer/exported.h"

static struct exported exported;

HT_TEST(functions_and_calls)
{
	exported_begin(&exported);
	ck_assert_str_eq(exported_as(&exported, "callgrind", NULL),
		"# callgrind format\nversion: 1\ncreator: heaptap " HEAPTAP_VERSION
		"\npid: 4242\ncmd: /usr/bin/target\npositions: line\n"
		"events: Outstanding Peak Allocated Calls Temporary\n"
		"summary: 107 130 138 4 2\n"
		"\nob=(2) ???\nfl=(2) ???\nfn=(1) (root)\n"
		"0 0 0 1 1 1\n"
		"cob=(5) /usr/bin/target\ncfi=(4) src/main.c\ncfn=(3) main\ncalls=3 0\n"
		"0 107 130 137 3 1\n"
		"\nob=(5)\nfl=(4)\nfn=(3)\n"
		"cob=(5)\ncfi=(7) src/out.c\ncfn=(6) caller\ncalls=2 0\n"
		"10 100 130 130 2 1\n"
		"cob=(5)\ncfi=(2)\ncfn=(10) target+0x2ff\ncalls=1 0\n"
		"10 7 0 7 1 0\n"
		"\nob=(5)\nfl=(7)\nfn=(6)\n"
		"cob=(5)\ncfi=(9) src/in.h\ncfn=(8) inner\ncalls=2 0\n"
		"9 100 130 130 2 1\n"
		"\nob=(5)\nfl=(9)\nfn=(8)\n"
		"7 100 130 130 2 1\n"
		"\nob=(5)\nfl=(2)\nfn=(10)\n"
		"0 7 0 7 1 0\n"
		"\ntotals: 107 130 138 4 2\n");
	exported_end(&exported);
}

/* f calls g, which calls f: each of them is called once from outside. */
HT_TEST(recursion_counts_once)
{
	exported = (struct exported){0};
	scene_init(&exported.scene);
	tracebuild_module(&exported.scene.trace, 1, "/usr/bin/target", NULL, 0x400000, 0x500000);
	tracebuild_symbol(&exported.scene.trace, 1, 0xff, "f", "f.c", 1);
	tracebuild_symbol(&exported.scene.trace, 1, 0x1ff, "g", "g.c", 2);
	const uint64_t pc[] = {0x400100, 0x400200, 0x400100, 0x400200, 0x400100};
	const uint32_t node = tracebuild_stack(&exported.scene.trace, pc, HT_ARRAY_SIZE(pc));
	scene_malloc(&exported.scene, 0, 0x1000, 10, node);
	exported_as(&exported, "callgrind", NULL);
	ck_assert_str_eq(strstr(exported.text, "\nob="),
		"\nob=(2) ???\nfl=(2) ???\nfn=(1) (root)\n"
		"cob=(5) /usr/bin/target\ncfi=(4) f.c\ncfn=(3) f\ncalls=1 0\n0 10 10 10 1 0\n"
		"\nob=(5)\nfl=(4)\nfn=(3)\n1 10 10 10 1 0\n"
		"cob=(5)\ncfi=(7) g.c\ncfn=(6) g\ncalls=1 0\n1 10 10 10 1 0\n"
		"\ntotals: 10 10 10 1 0\n");
	exported_end(&exported);
}

/* Readers skip calls with a count of 0, and add their figures to the caller's own. So a block from
 * before the window counts as a call. */
HT_TEST(a_block_of_before_is_a_call)
{
	struct query query;
	query_init(&query);
	query.from = "+100ms";
	exported_begin(&exported);
	exported.scene.now += 200000000;
	scene_malloc(&exported.scene, 0, 0x9000, 1, 0);
	exported_as(&exported, "callgrind", &query);
	exported_has(&exported, "cfn=(3) main\ncalls=1 0\n0 0 107 0 0 0\n");
	exported_end(&exported);
}

HT_SUITE("analyzer/callgrind")
