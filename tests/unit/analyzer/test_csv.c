/* SPDX-License-Identifier: Apache-2.0
 *
 * CSV: one line per chain, every field quoted that holds text, no formula.
 */
#include "tests/unit/analyzer/exported.h"

#define HEAD                                                                                       \
	"outstanding_bytes,survivors_bytes,growth_bytes,live_bytes,peak_bytes,allocated_bytes,"    \
	"calls,temporary,freed_bytes,lifetime_ns,outstanding_blocks,module,threads,function,file," \
	"line,chain\n"

static struct exported exported;

HT_TEST(one_line_per_chain)
{
	exported_begin(&exported);
	ck_assert_str_eq(exported_as(&exported, "csv", NULL), HEAD
		"100,100,100,100,130,130,2,1,30,1000,1,\"/usr/bin/target\",\"worker\",\"inner\","
		"\"src/in.h\",7,\"main;caller;inner\"\n"
		"7,7,7,7,0,7,1,0,0,,1,\"/usr/bin/target\",\"target\",\"target+0x2ff\",\"\",,"
		"\"main;target+0x2ff\"\n"
		"0,0,0,0,0,1,1,1,1,1000,0,\"\",\"target\",\"(no stack)\",\"\",,\"(no stack)\"\n");
	exported_end(&exported);
}

HT_TEST(a_filter_leaves_lines_out)
{
	struct query query;
	query_init(&query);
	ck_no_err(query_add(&query.functions, "--function", "caller"));
	exported_begin(&exported);
	ck_assert_str_eq(exported_as(&exported, "csv", &query), HEAD
		"100,100,100,100,130,130,2,1,30,1000,1,\"/usr/bin/target\",\"worker\",\"inner\","
		"\"src/in.h\",7,\"main;caller;inner\"\n");
	exported_end(&exported);
}

HT_TEST(a_quote_is_doubled_and_a_formula_is_text)
{
	exported_begin(&exported);
	const uint32_t node = tracebuild_node(&exported.scene.trace, 0, 0x400500);
	tracebuild_symbol(&exported.scene.trace, 1, 0x4ff, "=a(\"b\",c)\n", "-x,y", 3);
	scene_malloc(&exported.scene, 0, 0x9000, 1000, node);
	exported_as(&exported, "csv", NULL);
	exported_has(&exported, ",\"'=a(\"\"b\"\",c)?\",\"'-x,y\",3,\"'=a(\"\"b\"\",c)?\"\n");
	exported_end(&exported);
}

/* A figure that a sample cannot give is an empty cell. */
HT_TEST(a_sample_has_no_temporary_blocks)
{
	exported = (struct exported){0};
	scene_init_sample(&exported.scene, 1 << 19);
	scene_malloc(&exported.scene, 0, 0x1000, 1 << 24, 0);
	exported_as(&exported, "csv", NULL);
	exported_has(&exported, "\n16777216,16777216,16777216,16777216,16777216,16777216,1,,0,,1,");
	exported_end(&exported);
}

/* Ten threads allocate on one stack: the cell names eight. */
HT_TEST(many_threads_are_cut)
{
	exported = (struct exported){0};
	scene_init(&exported.scene);
	for (uint32_t i = 0; i < 10; i++) {
		char name[8];
		snprintf(name, sizeof(name), "t%u", i);
		tracebuild_thread(&exported.scene.trace, 900 + i, name);
		eventbuild_thread(scene_lane(&exported.scene, 0), 900 + i, 0);
		scene_malloc(&exported.scene, 0, 0x1000 + 0x100 * i, 10, 0);
	}
	exported_as(&exported, "csv", NULL);
	exported_has(&exported, ",\"t0;t1;t2;t3;t4;t5;t6;t7;...\",");
	exported_end(&exported);
}

HT_SUITE("analyzer/csv")
