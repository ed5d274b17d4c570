/* SPDX-License-Identifier: Apache-2.0
 *
 * massif.out: snapshots in the order of time, one peak, trees of callers that sum up.
 */
#include "tests/unit/analyzer/exported.h"

static struct exported exported;

#define SNAPSHOT(n, ms, bytes, tree)                                                               \
	"#-----------\nsnapshot=" n "\n#-----------\ntime=" ms "\nmem_heap_B=" bytes               \
	"\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=" tree "\n"
#define TOP " (heap allocation functions) malloc/new/new[], --alloc-fns, etc.\n"

HT_TEST(the_peak_and_the_end_have_trees)
{
	exported_begin(&exported);
	ck_assert_str_eq(exported_as(&exported, "massif", NULL),
		"desc: heaptap " HEAPTAP_VERSION "\ncmd: /usr/bin/target\ntime_unit: ms\n" SNAPSHOT(
			"0", "0", "0", "empty") SNAPSHOT("1", "0", "130",
			"peak") "n1: 130" TOP " n1: 130 0x4001FF: inner (in.h:7)\n"
				"  n1: 130 0x4001FF: caller (out.c:9)\n"
				"   n0: 130 0x4000FF: main (main.c:10)\n" SNAPSHOT("2", "0", "107",
					"detailed") "n2: 107" TOP
						    " n1: 100 0x4001FF: inner (in.h:7)\n"
						    "  n1: 100 0x4001FF: caller (out.c:9)\n"
						    "   n0: 100 0x4000FF: main (main.c:10)\n"
						    " n1: 7 0x4002FF: ??? (in /usr/bin/target)\n"
						    "  n0: 7 0x4000FF: main (main.c:10)\n");
	exported_end(&exported);
}

HT_TEST(a_filter_chooses_what_is_drawn)
{
	struct query query;
	query_init(&query);
	ck_no_err(query_add(&query.excluded, "--exclude", "inner"));
	exported_begin(&exported);
	exported_as(&exported, "massif", &query);
	exported_has(&exported, SNAPSHOT("1", "0", "0", "peak") "n0: 0" TOP);
	exported_has(&exported, SNAPSHOT("2", "0", "7", "detailed") "n1: 7" TOP);
	exported_end(&exported);
}

/* 99 blocks of 1 byte each are below massif's threshold, 1 % of 20,099 bytes; the block of 20,000
 * bytes is not. */
HT_TEST(small_branches_become_one)
{
	exported = (struct exported){0};
	scene_init(&exported.scene);
	tracebuild_module(&exported.scene.trace, 1, "/usr/bin/target", NULL, 0x400000, 0x500000);
	for (unsigned i = 0; i < 100; i++) {
		const uint32_t node =
			tracebuild_node(&exported.scene.trace, 0, 0x400100 + 0x10 * i);
		scene_malloc(&exported.scene, 0, 0x1000 + 0x100 * i, i ? 1 : 20000, node);
	}
	exported_as(&exported, "massif", NULL);
	exported_has(&exported, "n2: 20099" TOP " n0: 20000 0x4000FF: ??? (in /usr/bin/target)\n"
				" n0: 99 in 99 places, all below massif's threshold (01.00%)\n");
	exported_end(&exported);
}

/* A window of 450 ms has more steps than the export has snapshots; the last snapshot is the end of
 * the window. */
HT_TEST(a_long_window_has_a_hundred_steps_at_most)
{
	unsigned count = 0;
	exported = (struct exported){0};
	scene_init(&exported.scene);
	for (unsigned i = 0; i < 450; i++) {
		scene_malloc(&exported.scene, 0, 0x1000 + 0x100 * i, 10, 0);
		exported.scene.now += 1000000;
	}
	exported_as(&exported, "massif", NULL);
	for (const char *at = exported.text; (at = strstr(at, "snapshot=")); at++)
		count++;
	ck_assert_uint_gt(count, 50);
	ck_assert_uint_le(count, 103);
	exported_has(&exported, "mem_heap_B=4500\nmem_heap_extra_B=0\nmem_stacks_B=0\n"
				"heap_tree=detailed\nn1: 4500" TOP " n0: 4500 (no stack)\n");
	exported_end(&exported);
}

/* The window ends within a step: the end of that step is later, but no snapshot may be. */
HT_TEST(no_snapshot_is_later_than_the_last)
{
	unsigned long last = 0;
	exported = (struct exported){0};
	scene_init(&exported.scene);
	scene_malloc(&exported.scene, 0, 0x1000, 10, 0);
	exported.scene.now += 1300000000;
	scene_malloc(&exported.scene, 0, 0x2000, 10, 0);
	exported.scene.now += 300000;
	tracebuild_rss(&exported.scene.trace, exported.scene.now + 100000000, 1 << 20);
	exported_as(&exported, "massif", NULL);
	for (const char *at = exported.text; (at = strstr(at, "\ntime=")); at++) {
		const unsigned long time_ms = strtoul(at + 6, NULL, 10);
		ck_assert_uint_ge(time_ms, last);
		last = time_ms;
	}
	ck_assert_uint_eq(last, 1300);
	exported_end(&exported);
}

HT_TEST(a_deep_chain_is_cut)
{
	uint32_t node = 0;
	exported = (struct exported){0};
	scene_init(&exported.scene);
	tracebuild_module(&exported.scene.trace, 1, "/usr/bin/target", NULL, 0x400000, 0x500000);
	for (unsigned i = 0; i < 100; i++)
		node = tracebuild_node(&exported.scene.trace, node, 0x400100 + 0x10 * i);
	scene_malloc(&exported.scene, 0, 0x1000, 10, node);
	exported_as(&exported, "massif", NULL);
	/* The export indents by at most 30 blanks. */
	exported_has(&exported, "\n                              n0: 10 0x");
	ck_assert_ptr_null(strstr(exported.text, "\n                               n"));
	exported_end(&exported);
}

HT_SUITE("analyzer/massif")
