/* SPDX-License-Identifier: Apache-2.0
 *
 * The page for a person: every figure of the window is on it, and chains are readable.
 */
#include "analyzer/ui/report_text.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/analyzer/scene.h"

static struct scene scene;
static struct analysis *analysis;
static char *page;

static void begin(void)
{
	scene_init(&scene);
	tracebuild_module(
		&scene.trace, 1, "/usr/lib/libx.so", "12345678901234567890", 0x400000, 0x500000);
}

static void write_page_of(
	unsigned columns, const struct page_options *options, const struct query *query)
{
	size_t length = 0;
	analysis = scene_analyze_blocks(&scene, query);
	FILE *out = open_memstream(&page, &length);
	const struct text text = {.out = out, .columns = columns};
	struct view *view = scene_view(analysis, query);
	ck_no_err(report_text_write(&text, view, options));
	view_destroy(view);
	fclose(out);
}

static void write_page_with(size_t limit, bool shows_wrappers)
{
	const struct page_options options = {
		.path = "my.htap", .limit = limit, .shows_stacks = true, .is_utc = true};
	struct query query;
	query_init(&query);
	query.shows_wrappers = shows_wrappers;
	write_page_of(0, &options, &query);
}

static void write_page(size_t limit)
{
	write_page_with(limit, false);
}

static void end(void)
{
	free(page);
	analysis_destroy(analysis);
	scene_deinit(&scene);
}

static void check_has(const char *want)
{
	ck_assert_msg(strstr(page, want), "\"%s\" is not on the page:\n%s", want, page);
}

HT_TEST(a_sample_says_that_it_is_one)
{
	scene_init_sample(&scene, 1 << 19);
	for (unsigned i = 0; i < 400; i++)
		scene_malloc(&scene, 0, 0x10000 + 0x1000 * i, 99, 0);
	tracebuild_rss(&scene.trace, scene.now, 3 << 20);
	tracebuild_loss(&scene.trace, REC_COUNTER_SAMPLES_LOST, 7);
	write_page(0);
	check_has(
		"sample       one allocation in 512.0 KiB of its bytes was recorded: 400 samples. "
		"All figures are estimates");
	check_has("allocations  2,097,");
	check_has(" of 198.0 MiB +-9.8 %");
	check_has("lost         7 events dropped");
	check_has("! 7 samples dropped");
	check_has("calls  ~2,097,");
	check_has(" of ~198.0 MiB +-9.8 %; 400 samples\n");
	check_has("heap   ~+198.0 MiB +-9.8 % in the window, peak ~+198.0 MiB +-9.8 %");
	check_has("  ~198.0 MiB  100.0 %  ~2,097,");
	check_has("+-9.8 %  (no stack)\n");
	check_has("for 95 of 100 the true figure is within the bound");
	ck_assert_ptr_null(strcasestr(page, "temporary"));
	ck_assert_ptr_null(strstr(page, "before"));
	ck_assert_ptr_null(strstr(page, "explains"));
	end();
}

HT_TEST(figures_are_on_the_page)
{
	begin();
	for (unsigned i = 0; i < 1500; i++)
		scene_malloc(&scene, 0, 0x10000 + 0x1000 * i, 1024, 0);
	scene_free(&scene, 0, 0x10000, 1024);
	scene_free(&scene, 0, 0x7, 2048);
	tracebuild_thread(&scene.trace, SCENE_TID(0), "wor\033ker");
	tracebuild_rss(&scene.trace, scene.now, 3 << 20);
	tracebuild_rss(&scene.trace, scene.now, 1234 << 20);
	tracebuild_loss(&scene.trace, REC_COUNTER_LOST_TIMEOUT, 1234);
	write_page(0);
	check_has("target (pid 4242)  1.5 ms, 2023-11-14 22:13:21 .. 22:13:21 UTC, complete\n"
		  "calls  1,500 allocations (");
	check_has("  program      /usr/bin/target\n");
	check_has("allocations  1,500 of 1.5 MiB");
	check_has("frees        1 of 1.0 KiB");
	check_has("temporary    0 (0.0 %)");
	check_has("outstanding  1,499 of 1.5 MiB: allocated in the window, not freed in it\n");
	check_has("peak         1.5 MiB at +1.5 ms");
	check_has("RSS          3.0 MiB -> 1.2 GiB (highest 1.2 GiB): +1.2 GiB; the trace explains "
		  "+1.5 MiB, see Warnings\n");
	check_has(
		"! RSS grew by 1231 MiB; the window's blocks and heaptap itself can account for 34 "
		"MiB at most.");
	check_has("older        1 of 2.0 KiB freed in the window, allocated earlier\n");
	check_has("1,234 events dropped");
	check_has("! 1234 events dropped: heaptap could not keep up");
	check_has("     100  worker  ");
	check_has("heaptap report my.htap --by function");
	ck_assert_ptr_null(strchr(page, '\033'));
	end();
}

HT_TEST(chains_are_leaf_first)
{
	begin();
	uint32_t outer = tracebuild_node(&scene.trace, 0, 0x400100);
	uint32_t leaf = tracebuild_node(&scene.trace, outer, 0x400200);
	tracebuild_symbol(&scene.trace, 1, 0x1ff, "leaf()", "/src/a/leaf.cc", 12);
	scene_malloc(&scene, 0, 0x1000, 10, leaf);
	write_page(5);
	check_has("        10 B  100.0 %           1  leaf() <- libx.so+0xff\n"
		  "    Unclear: a window of 0.0 s is too short; record for a minute or more.\n"
		  "      leaf()  leaf.cc:12\n"
		  "        <- libx.so+0xff\n");
	check_has("    leaf()  leaf.cc:12 <- libx.so+0xff\n");
	end();
}

/* user <- alloc::alloc::alloc twice, from different places */
static void begin_wrapped(void)
{
	begin();
	uint32_t user = tracebuild_node(&scene.trace, 0, 0x400100);
	tracebuild_symbol(&scene.trace, 1, 0xff, "app::user", "user.rs", 3);
	for (unsigned i = 2; i < 4; i++) {
		tracebuild_symbol(&scene.trace, 1, 0x100 * i - 1, "alloc::alloc::alloc", NULL, 0);
		scene_malloc(&scene, 0, 0x1000 * i, 10,
			tracebuild_node(&scene.trace, user, 0x400000 + 0x100 * i));
	}
}

HT_TEST(wrappers_are_passed_over_and_summed_up)
{
	begin_wrapped();
	write_page(0);
	check_has("        20 B  100.0 %           2  app::user\n"
		  "    Unclear: a window of 0.0 s is too short; record for a minute or more.\n"
		  "      app::user  user.rs:3\n"
		  "\n");
	check_has("my.htap --stacks --show-wrappers ");
	ck_assert_ptr_null(strstr(page, "alloc::alloc::alloc"));
	end();
}

HT_TEST(wrappers_are_shown_when_wanted)
{
	begin_wrapped();
	write_page_with(0, true);
	check_has("        20 B  100.0 %           2  alloc::alloc::alloc <- app::user\n"
		  "    Unclear: a window of 0.0 s is too short; record for a minute or more.\n"
		  "      alloc::alloc::alloc  libx.so\n"
		  "        <- app::user  user.rs:3\n"
		  "\n");
	ck_assert_ptr_null(strstr(page, "--show-wrappers"));
	end();
}

HT_TEST(a_limit_says_what_is_left_out)
{
	begin();
	for (unsigned i = 0; i < 10; i++) {
		uint32_t node = tracebuild_node(&scene.trace, 0, 0x400100 + i);
		scene_malloc(&scene, 0, 0x1000 * (i + 1), 100, node);
	}
	write_page(3);
	check_has("       700 B  in 7 other sites; --limit 0 shows all\n");
	end();
}

HT_TEST(reports_a_heap_without_an_allocator)
{
	begin();
	const struct rec rec = {
		.kind = REC_HEAP, .heap = {.begin_tsc = scene.now, .end_tsc = scene.now}};
	tracebuild_put(&scene.trace, &rec);
	write_page(0);
	check_has("unknown: no allocator was found\n");
	end();
}

HT_TEST(lines_of_made_code_are_the_functions_first)
{
	scene_init(&scene);
	uint32_t node = tracebuild_node(&scene.trace, 0, 0x7000);
	scene_malloc(&scene, 0, 0x1000, 100, node);
	tracebuild_symbol(&scene.trace, 0, 0x6fff, "churn", "/srv/script.js", 13);
	write_page(0);
	check_has("churn  script.js:13 (function's first line)\n");
	ck_assert_ptr_null(strstr(page, "  empty"));
	end();
}

HT_TEST(an_empty_window_is_a_page)
{
	begin();
	write_page(5);
	check_has("  empty        the process allocated and freed nothing in this window\n");
	ck_assert_ptr_null(strstr(page, "allocations  0"));
	check_has("lost         0 events dropped");
	end();
}

static void map(uint64_t addr, uint64_t length, uint8_t protect)
{
	const struct eventbuild_mapping mapping = {ABI_CALL_MAP, addr, length, protect, 0x22, 0};
	struct eventbuild *events = scene_lane(&scene, 0);
	eventbuild_mapping(events, scene.now, &mapping, SCENE_TID(0), 0);
}

static void put_heap(uint64_t off_bytes)
{
	struct rec rec = {.kind = REC_HEAP,
		.heap = {.begin_tsc = scene.now, .end_tsc = scene.now, .account_count = 1}};
	rec.heap.account[0] = (struct rec_account){.flags = REC_ACCOUNT_KNOWN,
		.allocator = {"glibc", 5},
		.held_bytes = 3 << 20,
		.off_bytes = off_bytes,
		.arenas = 1};
	tracebuild_put(&scene.trace, &rec);
	scene.now += SCENE_STEP_NS;
}

/* The end may be less exact than the start, where lost events do not bound it. */
HT_TEST(a_heap_says_how_exact_its_end_is)
{
	for (uint64_t off_bytes = 0; off_bytes <= 5 << 20; off_bytes += 5 << 20) {
		begin();
		put_heap(0);
		put_heap(off_bytes);
		tracebuild_loss(&scene.trace, REC_COUNTER_LOST_TIMEOUT, 1);
		write_page(5);
		check_has(off_bytes ? "3.0 MiB at the start, between 0 B and 8.0 MiB at the end, "
				      "between 3.0 MiB and 8.0 "
				      "MiB at the peak"
				    : "3.0 MiB at the start, 3.0 MiB at the end, ");
		check_has("1 arena; exact");
		end();
	}
}

HT_TEST(shows_mappings_if_recorded)
{
	for (uint64_t flags = 0; flags <= REC_CAPTURE_MAPPINGS; flags++) {
		scene_init_with(&scene, 0, flags);
		map(0x7f0000000000, 3 << 20, 3);
		map(0x7f1000000000, 1ull << 32, 0);
		tracebuild_rss(&scene.trace, scene.now, 3 << 20);
		tracebuild_rss(&scene.trace, scene.now, 1234 << 20);
		write_page(5);
		check_has(flags ? "window's blocks, its mappings and heaptap itself can account "
				  "for 35 MiB at most. The rest is mapped files"
				: "The rest is mmap (attach --mmap records it), mapped files");
		if (flags) {
			check_has("\nMappings: ");
			check_has("at the end   3.0 MiB accessible, 4.0 GiB reserved\n");
			check_has("2 mapped, 0 unmapped, 0 remapped, 0 protected\n");
			check_has("    3.0 MiB accessible, 4.0 GiB reserved, of 3.0 MiB in 2 "
				  "calls\n      (no stack)\n");
		} else {
			ck_assert_ptr_null(strstr(page, "Mappings"));
		}
		end();
	}
}

HT_TEST(a_sample_of_nothing_says_its_rate)
{
	scene_init_sample(&scene, 1 << 19);
	write_page(10);
	check_has(
		"sample       one allocation in 512.0 KiB of its bytes was recorded: 0 samples. ");
	end();
}

/* Fails the test if a line of the page is wider than `columns`. */
static void check_width(size_t columns)
{
	for (char *rest = page, *line; (line = strsep(&rest, "\n"));)
		ck_assert_msg(
			text_columns(line) <= columns, "%zu columns: %s", text_columns(line), line);
}

static struct page_options options_of(enum metric metric)
{
	return (struct page_options){.path = "my.htap",
		.limit = 10,
		.has_metric = true,
		.metric = metric,
		.is_utc = true};
}

/* Makes four rows: row i has i + 1 blocks of 1000 - i bytes, one each millisecond. */
static void make_rows(void)
{
	begin();
	for (unsigned i = 0; i < 4; i++) {
		char name[16];
		snprintf(name, sizeof(name), "row%u", i);
		uint32_t node = tracebuild_node(&scene.trace, 0, 0x400100 + 0x100 * i);
		tracebuild_symbol(&scene.trace, 1, 0xff + 0x100 * i, name, "rows.c", i + 1);
		for (unsigned k = 0; k <= i; k++) {
			scene_malloc(&scene, 0, 0x10000 * (i + 1) + 0x1000 * k, 1000 - i, node);
			scene.now += 1000000;
		}
	}
}

HT_TEST(a_metric_makes_one_list)
{
	make_rows();
	const struct page_options options = options_of(METRIC_ALLOCATED);
	write_page_of(80, &options, NULL);
	check_has("\nAllocated: bytes allocated in the window (9.7 KiB)\n"
		  "   allocated    share       calls  function <- callers\n"
		  "     3.9 KiB   40.0 %           4  row3\n"
		  "     2.9 KiB   30.0 %           3  row2\n"
		  "     2.0 KiB   20.0 %           2  row1\n"
		  "      1000 B   10.0 %           1  row0\n\nTotals\n");
	ck_assert_ptr_null(strstr(page, "Outstanding:"));
	check_width(80);
	end();
}

static void make_two_chains(void)
{
	static const char *const name[] = {"first", "second", "caller", "leaf"};
	begin();
	for (unsigned i = 0; i < 4; i++)
		tracebuild_symbol(&scene.trace, 1, 0xff + 0x100 * i, name[i], "a.c", i + 1);
	for (unsigned i = 0; i < 2; i++) {
		uint32_t node = tracebuild_node(&scene.trace, 0, 0x400100 + 0x100 * i);
		for (unsigned k = 3; k <= 4; k++)
			node = tracebuild_node(&scene.trace, node, 0x400000 + 0x100 * k);
		scene_malloc(&scene, 0, 0x1000 + i, 1000, node);
	}
}

HT_TEST(chains_that_read_alike_are_one_line)
{
	struct page_options options = options_of(METRIC_CALLS);
	make_two_chains();
	write_page_of(80, &options, NULL);
	check_has("           2  100.0 %     2.0 KiB  leaf <- caller\n");
	end();
	options.shows_stacks = true;
	make_two_chains();
	write_page_of(80, &options, NULL);
	check_has("           1   50.0 %      1000 B  leaf <- caller <- second\n");
	end();
}

HT_TEST(an_order_of_its_own)
{
	make_rows();
	struct page_options options = options_of(METRIC_PEAK);
	options.has_sort = true;
	options.sort = METRIC_LIFETIME;
	options.limit = 1;
	write_page_of(80, &options, NULL);
	check_has("     3.9 KiB   40.0 %  row3\n     5.9 KiB  in 3 other sites");
	end();
}

HT_TEST(exact_bytes)
{
	make_rows();
	struct page_options options = options_of(METRIC_OUTSTANDING);
	options.is_exact = true;
	write_page_of(80, &options, NULL);
	check_has(" of 9,980 B, 0.0 % temporary\n");
	check_has("           3,988 B   40.0 %           4  row3\n");
	check_width(80);
	end();
}

HT_TEST(a_class_chooses_rows)
{
	make_rows();
	struct page_options options = options_of(METRIC_OUTSTANDING);
	options.has_class = true;
	options.of_class = SUSPECT_GROWING;
	write_page_of(80, &options, NULL);
	check_has("\nNo site is growing\n");
	check_has("not freed by its end (9.7 KiB)\n    none\n");
	end();
}

HT_TEST(a_part_says_so)
{
	make_rows();
	struct page_options options = options_of(METRIC_PEAK);
	struct query query;
	query_init(&query);
	query.from = "+4ms";
	query.to = "+7.5ms";
	write_page_of(80, &options, &query);
	check_has("target (pid 4242)  window +4.0 ms .. +8.0 ms of 10.0 ms\n"
		  "2023-11-14 22:13:21 .. 22:13:21 UTC, snapped to buckets of 1.0 ms; "
		  "~ estimates\n"
		  "calls  4 allocations (1,000/s) of 3.9 KiB, 0.0 % temporary\n");
	check_has("\nPeak: live when the recorded blocks used most memory (~");
	ck_assert_ptr_null(strstr(page, "RSS"));
	end();
}

/* Heap and RSS are those of the process, whatever is chosen. */
HT_TEST(chosen_blocks_say_so)
{
	make_rows();
	struct page_options options = options_of(METRIC_OUTSTANDING);
	struct query query;
	query_init(&query);
	query.min_size = 999;
	write_page_of(80, &options, &query);
	check_has("calls  3 chosen allocations (");
	check_has("heap   +9.7 KiB in the window, peak +9.7 KiB");
	check_has("\nGrowth unclear: ");
	end();
	make_rows();
	query_init(&query);
	query.min_age_ns = 4000000;
	write_page_of(80, &options, &query);
	check_has("\nMost of what is outstanding of the chosen blocks:\n");
	ck_assert_ptr_null(strstr(page, "unclear"));
	end();
}

HT_TEST(reports_an_empty_selection)
{
	make_rows();
	scene_free(&scene, 0, 0x7, 2048);
	struct page_options options = {.path = "my.htap", .limit = 10};
	struct query query;
	query_init(&query);
	ck_no_err(query_add(&query.threads, "--thread", "none of these"));
	write_page_of(80, &options, &query);
	check_has("calls  the options choose no allocation of this window\n");
	ck_assert_ptr_null(strstr(page, "Outstanding:"));
	end();
}

HT_TEST(blocks_of_a_moment_have_no_class)
{
	make_rows();
	struct page_options options = {.path = "my.htap", .limit = 10};
	struct query query;
	query_init(&query);
	query.alive_at = "+4ms";
	write_page_of(80, &options, &query);
	check_has("\nMost of what was live at +4ms and still is:\n");
	ck_assert_ptr_null(strstr(page, "unclear"));
	end();
}

HT_TEST(sites_of_a_class)
{
	make_rows();
	struct page_options options = options_of(METRIC_OUTSTANDING);
	options.has_class = true;
	options.of_class = SUSPECT_UNCLEAR;
	write_page_of(80, &options, NULL);
	check_has("\n4 sites: unclear\n");
	end();
}

/* For a trace that came through a pipe there is no next command to type. */
HT_TEST(standard_input_has_no_next)
{
	make_rows();
	struct page_options options = options_of(METRIC_CALLS);
	options.path = "-";
	write_page_of(80, &options, NULL);
	ck_assert_ptr_null(strstr(page, "Next:"));
	ck_assert_ptr_null(strstr(page, "\n\n\n"));
	end();
}

HT_TEST(one_table_instead_of_lists)
{
	make_rows();
	struct page_options options = options_of(METRIC_CALLS);
	options.has_by = true;
	options.by = BREAKDOWN_MODULE;
	write_page_of(80, &options, NULL);
	ck_assert_str_eq(page,
		"target (pid 4242)  10.0 ms, 2023-11-14 22:13:21 .. 22:13:21 UTC, complete\n"
		"\n"
		"By module: allocations in the window\n"
		"        own   share with callees   share  module\n"
		"         10 100.0 %           10 100.0 %  libx.so\n");
	end();
}

HT_TEST(tables_have_their_figures)
{
	static const struct {
		enum breakdown_by by;
		const char *want;
	} table[] = {
		{BREAKDOWN_FUNCTION, "By function: allocations in the window\n"
				     "        own   share with callees   share  function  file\n"
				     "          4  40.0 %            4  40.0 %  row3  rows.c\n"},
		{BREAKDOWN_LINE, "          3  30.0 %            3  30.0 %  row2  rows.c:3\n"},
		{BREAKDOWN_ADDRESS,
			"          2  20.0 %            2  20.0 %  row1  rows.c  +0x1ff\n"},
		{BREAKDOWN_THREAD, "      calls   share   allocations  allocated  tid     name\n"
				   "         10 100.0 %            10    9.7 KiB  100     target  "
				   "(assumed)\n"},
		{BREAKDOWN_SIZE, "      512 B ..            10 100.0 %  "
				 "########################\n"},
		{BREAKDOWN_LIFETIME,
			"    not freed               10 100.0 %  ########################\n"},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++) {
		struct page_options options = options_of(METRIC_CALLS);
		make_rows();
		options.has_by = true;
		options.by = table[i].by;
		write_page_of(80, &options, NULL);
		check_has(table[i].want);
		check_width(80);
		end();
	}
}

HT_TEST(marks_are_listed)
{
	begin();
	for (unsigned i = 0; i < 12; i++) {
		char text[] = "go \x1b[2J 0";
		text[sizeof(text) - 2] = (char)('a' + i);
		const struct rec rec = {
			.kind = REC_MARK, .mark = {scene.now, {text, sizeof(text) - 1}}};
		tracebuild_put(&scene.trace, &rec);
	}
	scene_malloc(&scene, 0, 0x10000, 99, 0);
	write_page(0);
	check_has("\n  marks        +0 s  go [2J a\n               +0 s  go [2J b\n");
	check_has(" go [2J j\n               2 more: heaptap info lists them\n");
	ck_assert_ptr_null(strstr(page, "go [2J k"));
	end();
}

HT_SUITE("analyzer/report_text")
