/* SPDX-License-Identifier: Apache-2.0
 *
 * The first screen, word for word. On pages with hostile names and numbers and with many warnings,
 * no line is wider than the terminal, and the first screen fits.
 */
#include "analyzer/ui/report_text.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/random.h"
#include "tests/unit/analyzer/stage.h"

#define STEP_NS	 50000000u
#define MINUTE	 (60000000000 / STEP_NS)
#define COLUMNS	 80u
#define PAGES	 60u
#define KINDS	 16u /* of pages */
#define ROWS_MAX 23u

static struct stage stage;
static struct analysis *analysis;
static struct query query;
static char *page;
static uint64_t seed;

static struct page_options usual(void)
{
	return (struct page_options){.path = "my.htap", .limit = 10, .is_utc = true};
}

static void write_page(unsigned columns, const struct page_options *options)
{
	size_t length = 0;
	FILE *out = open_memstream(&page, &length);
	const struct text text = {.out = out, .columns = columns};
	struct view *view = scene_view(analysis, &query);
	ck_no_err(report_text_write(&text, view, options));
	view_destroy(view);
	fclose(out);
}

static void end(void)
{
	analysis_destroy(analysis);
	scene_deinit(&stage.scene);
}

/* --- word for word -----------------------------------------------------------------------------
 */

static void put_heap(uint64_t held_bytes)
{
	struct rec rec = {.kind = REC_HEAP,
		.heap = {.begin_tsc = stage.scene.now,
			.end_tsc = stage.scene.now,
			.account_count = 1}};
	rec.heap.account[0] = (struct rec_account){.flags = REC_ACCOUNT_KNOWN,
		.allocator = {"glibc", 5},
		.held_bytes = held_bytes,
		.arenas = 1};
	tracebuild_put(&stage.scene.trace, &rec);
	stage.scene.now += SCENE_STEP_NS;
}

/* Makes a minute in which three sites allocate. `leaks`: one of them keeps its blocks. */
static void make_minute(bool leaks)
{
	stage_begin(&stage);
	query_init(&query);
	const uint32_t main_node = stage_node(&stage, 0, "main", NULL);
	const uint32_t serve = stage_node(&stage, main_node, "app::serve(int)", NULL);
	const uint32_t again = stage_node(&stage, serve, "app::Sessions::add(int)", NULL);
	const uint32_t add = tracebuild_node(&stage.scene.trace, again, STAGE_LO + 0x1000);
	const uint32_t cache = stage_node(&stage, serve, "app::Cache::fill", NULL);
	const uint32_t reply = stage_node(&stage, serve, "app::reply", NULL);
	stage_name(&stage, 1, STAGE_LO + 0x1000, "app::Sessions::add(int)", NULL,
		"/src/sessions.cc", 77);
	put_heap(1 << 20);
	tracebuild_rss(&stage.scene.trace, stage.scene.now, 3 << 20);
	uint64_t last = 0;
	for (uint64_t i = 0; i < MINUTE; i++) {
		const uint64_t kept = stage_alloc(&stage, 0, 1000, add);
		if (!leaks)
			stage_free(&stage, kept);
		if (i < 32)
			stage_alloc(&stage, 0, 1 << 15, cache);
		if (last)
			stage_free(&stage, last);
		last = stage_alloc(&stage, 0, 5000, reply);
		stage.scene.now += STEP_NS;
	}
	tracebuild_rss(&stage.scene.trace, stage.scene.now, 6 << 20);
	tracebuild_loss(&stage.scene.trace, REC_COUNTER_TRUNC_NO_RULE, 12);
	analysis = scene_analyze(&stage.scene);
}

static void check_begins(const char *want)
{
	ck_assert_msg(!strncmp(page, want, strlen(want)), "not\n%s\nbut\n%s", want, page);
	free(page);
}

/* By the events alone the curve would fall by a third; the last reading of the heap says that it
 * does not. */
HT_TEST(the_curve_ends_where_the_books_do)
{
	const struct page_options options = usual();
	stage_begin(&stage);
	query_init(&query);
	put_heap(3 << 20);
	for (unsigned i = 0; i < 64; i++) {
		scene_malloc(&stage.scene, 0, 0x1000, 8, 0);
		scene_free(&stage.scene, 0, 0x1000, 8);
		scene_free(&stage.scene, 0, 0x100000 + 0x1000 * i, 16 << 10);
		stage.scene.now += 1000000;
	}
	put_heap(3 << 20);
	analysis = scene_analyze(&stage.scene);
	write_page(COLUMNS, &options);
	char *heap = strstr(page, "\nheap   3.0 MiB -> 3.0 MiB, peak 3.0 MiB at +");
	ck_assert_ptr_nonnull(heap);
	*strchr(heap + 1, '\n') = '\0';
	ck_assert_int_eq(heap[strlen(heap) - 1], '#');
	free(page);
	end();
}

HT_TEST(what_grows_and_who)
{
	make_minute(true);
	const struct page_options options = usual();
	write_page(COLUMNS, &options);
	check_begins(
		"target (pid 4242)  60.0 s, 2023-11-14 22:13:21 .. 22:14:21 UTC, complete\n"
		"calls  2,432 allocations (40/s) of 7.9 MiB, 0.0 % temporary\n"
		"heap   1.0 MiB -> ~3.1 MiB, peak 3.1 MiB at +60.0 s  -----======++++++******#\n"
		"RSS    3.0 MiB -> 6.0 MiB; the trace explains +2.1 MiB\n"
		"\n"
		"What grows: 1 of 3 sites, +1.1 MiB/min; then the largest others\n"
		"   1.1 MiB  +1.1 MiB/min    1,200 blocks, oldest 60.0 s     "
		"growing, 99 % sure\n"
		"    app::Sessions::add(int)  sessions.cc:77 <- app::serve(int) <- main\n"
		"   1.0 MiB  46.5 % of all   32 blocks, oldest 60.0 s        "
		"plateau, 90 % sure\n"
		"    app::Cache::fill <- app::serve(int) <- main\n"
		"   4.9 KiB  0.2 % of all    1 block, oldest 99.7 ms         "
		"churn, 100 % sure\n"
		"    app::reply <- app::serve(int) <- main\n"
		"\n"
		"! 12 stacks cut: no unwind information for a frame\n"
		"Next: heaptap report my.htap --stacks   with call chains\n"
		"      heaptap report my.htap --by function   or module, thread, size, lifetime\n"
		"\n"
		"Outstanding: allocated in the window and not freed by its end (2.1 MiB)\n");
	end();
}

HT_TEST(nothing_grows)
{
	make_minute(false);
	const struct page_options options = usual();
	write_page(COLUMNS, &options);
	check_begins(
		"target (pid 4242)  60.0 s, 2023-11-14 22:13:21 .. 22:14:21 UTC, complete\n"
		"calls  2,432 allocations (40/s) of 7.9 MiB, 49.3 % temporary\n"
		"heap   1.0 MiB -> ~2.0 MiB, peak 2.0 MiB at +1.6 s  ########################\n"
		"RSS    3.0 MiB -> 6.0 MiB; the trace explains +1.0 MiB\n"
		"\n"
		"Nothing grows; most of what is outstanding:\n"
		"   1.0 MiB  99.5 % of all   32 blocks, oldest 60.0 s        "
		"plateau, 90 % sure\n");
	end();
}

/* --- whatever the trace says --------------------------------------------------------------------
 */

static const char *hostile_name(void)
{
	static char text[4096];
	static const char *const part[] = {"std::vector<int, std::allocator<int> >::", "\033[2J",
		"operator<<", "(anonymous namespace)::", "\u6f22\u5b57", "e\u0301", "\xff\xfe",
		"<alloc::vec::Vec<T> as a::B>::", "a_rather_long_function_name_of_c", "\u202e",
		"(int, char const*) const", ">>>", "((((", "::", "x", "\n", "\t", "{lambda()#1}"};
	const uint64_t parts =
		random_below(&seed, 4) ? random_below(&seed, 8) : random_below(&seed, 120);
	text[0] = '\0';
	for (size_t i = 0, used = 0; i <= parts; i++) {
		const char *more = part[random_below(&seed, HT_ARRAY_SIZE(part))];
		if (used + strlen(more) >= sizeof(text))
			break;
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s", more);
	}
	return text;
}

static uint64_t any_size(void)
{
	return random_next(&seed) >> (16 + random_below(&seed, 47));
}

static uint32_t hostile_node(uint32_t parent)
{
	const uint64_t pc = STAGE_LO + 0x10 * ++stage.node_count;
	if (random_below(&seed, 5)) {
		char *name = strdup(hostile_name());
		stage_name(&stage, 1, pc, name, NULL,
			random_below(&seed, 2) ? hostile_name() : NULL,
			random_next(&seed) >> random_below(&seed, 64));
		free(name);
	}
	return tracebuild_node(&stage.scene.trace, parent, pc);
}

static void make_hostile(uint64_t kind)
{
	uint32_t node[40] = {0};
	stage_begin(&stage);
	if (kind & 1) {
		scene_deinit(&stage.scene);
		scene_init_with(&stage.scene, 1 << 19, REC_CAPTURE_MAPPINGS);
		tracebuild_module(&stage.scene.trace, 1, "/usr/bin/a library of a long name.so",
			"12345678901234567890", STAGE_LO, STAGE_LO + 0x100000);
	}
	if (kind & 2)
		put_heap(any_size());
	for (size_t i = 1; i < HT_ARRAY_SIZE(node); i++)
		node[i] = hostile_node(node[random_below(&seed, i)]);
	for (size_t i = 0; i < 600; i++) {
		const uint64_t addr = stage_alloc(&stage, (unsigned)random_below(&seed, 8),
			any_size(), node[random_below(&seed, HT_ARRAY_SIZE(node))]);
		if (random_below(&seed, 3) == 0)
			stage_free(&stage, addr);
		stage.scene.now += 1008 * random_below(&seed, 100000);
	}
	for (unsigned i = 0; i < 8; i++)
		tracebuild_thread(&stage.scene.trace, SCENE_TID(i), hostile_name());
	for (unsigned i = 0; kind & 4 && i < REC_COUNTER_COUNT; i++)
		tracebuild_loss(&stage.scene.trace, (enum rec_counter)i, any_size());
	tracebuild_rss(&stage.scene.trace, stage.scene.now, any_size());
	tracebuild_rss(&stage.scene.trace, stage.scene.now, any_size());
	if (kind & 8)
		put_heap(any_size());
	analysis = scene_analyze(&stage.scene);
	query_init(&query);
}

static struct page_options any_options(void)
{
	struct page_options options = usual();
	options.path = random_below(&seed, 4) ? "my.htap" : hostile_name();
	options.shows_stacks = random_below(&seed, 2);
	options.is_exact = random_below(&seed, 2);
	options.has_metric = random_below(&seed, 3) == 0;
	options.metric = (enum metric)random_below(&seed, METRIC_COUNT);
	options.has_sort = random_below(&seed, 3) == 0;
	options.sort = (enum metric)random_below(&seed, METRIC_COUNT);
	options.has_by = random_below(&seed, 2);
	options.by = (enum breakdown_by)random_below(&seed, BREAKDOWN_LIFETIME + 1);
	query.shows_wrappers = random_below(&seed, 2);
	query.from = random_below(&seed, 3) ? NULL : "+3s";
	return options;
}

static void check_lines(size_t columns)
{
	for (char *rest = page, *line; (line = strsep(&rest, "\n"));) {
		ck_assert_msg(text_columns(line) <= columns, "%zu of %zu columns: %s",
			text_columns(line), columns, line);
		ck_assert_ptr_null(strpbrk(line, "\033\t"));
		ck_assert_msg(!*line || line[strlen(line) - 1] != ' ', "\"%s\"", line);
	}
}

HT_TEST(no_line_is_wider_than_the_terminal)
{
	for (seed = 1; seed <= PAGES; seed++) {
		const uint64_t with = seed;
		make_hostile(seed % KINDS);
		for (int i = 0; i < 6; i++) {
			const struct page_options options = any_options();
			const unsigned columns = i ? COLUMNS : (unsigned)(40 + with);
			write_page(columns, &options);
			check_lines(columns);
			free(page);
		}
		end();
		seed = with;
	}
}

HT_TEST(the_first_screen_fits)
{
	for (seed = 1; seed <= PAGES; seed++) {
		const uint64_t with = seed;
		size_t lines = 0;
		make_hostile((seed % KINDS) | 4);
		query.from = with % 3 ? NULL : "+3s";
		const struct page_options options = usual();
		write_page(COLUMNS, &options);
		const char *next = strstr(page, "\nNext: ");
		ck_assert_ptr_nonnull(next);
		for (const char *at = page; at <= next; at++)
			lines += *at == '\n';
		ck_assert_msg(lines + 2 <= ROWS_MAX, "%zu lines: %s", lines + 2, page);
		ck_assert_ptr_nonnull(strstr(page, " more at the end of this page\n"));
		ck_assert_ptr_nonnull(strstr(page, "\nWarnings\n  ! "));
		free(page);
		end();
		seed = with;
	}
}

HT_SUITE("analyzer/screen")
