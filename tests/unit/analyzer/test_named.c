/* SPDX-License-Identifier: Apache-2.0
 *
 * Which names a trace has, by module; and the page of 80 columns that says so.
 */
#include "analyzer/views/named.h"

#include <stdlib.h>

#include "analyzer/ui/named_text.h"
#include "tests/unit/analyzer/stage.h"

#define OTHER_LO 0x900000u

static struct stage stage;
static struct analysis *analysis;
static struct named named;

/* `path`: the path of module 2, which has no names. */
static void make(const char *path)
{
	stage_begin(&stage);
	struct tracebuild *build = &stage.scene.trace;
	tracebuild_module(build, 2, path, NULL, OTHER_LO, OTHER_LO + 0x1000);
	tracebuild_module(build, 3, "/lib/unused.so", NULL, 0xa00000, 0xa01000);
	const struct rec why = {
		.kind = REC_NAMES, .names = {.module_id = 2, .state = REC_NAMES_NO_SYMBOLS}};
	uint32_t top = stage_node(&stage, 0, "main", NULL);
	uint32_t again = stage_node(&stage, top, "main", NULL);
	uint32_t bare = stage_node(&stage, top, NULL, NULL);
	uint32_t other = tracebuild_node(build, bare, OTHER_LO + 0x10);
	uint32_t deeper = tracebuild_node(build, other, OTHER_LO + 0x20);
	uint32_t made = stage_made(&stage, 0, "turn", 3);
	/* The same place in another stack is one address. */
	tracebuild_node(build, made, STAGE_LO + 0x10);
	for (unsigned i = 0; i < 10; i++)
		stage_alloc(&stage, 0, 10, again);
	for (unsigned i = 0; i < 5; i++)
		stage_alloc(&stage, 0, 10, deeper);
	stage_alloc(&stage, 0, 10, made);
	tracebuild_put(build, &why);
	analysis = scene_analyze(&stage.scene);
	ck_no_err(named_find(analysis, &named));
}

static void end(void)
{
	named_deinit(&named);
	analysis_destroy(analysis);
	scene_deinit(&stage.scene);
}

static void check(size_t at, uint32_t module, uint64_t allocations, uint32_t addresses,
	uint32_t with_function, uint32_t with_line, uint32_t functions)
{
	const struct named_module *found = &named.module[at];
	ck_assert_uint_eq(found->module, module);
	ck_assert_uint_eq(found->allocations, allocations);
	ck_assert_uint_eq(found->addresses, addresses);
	ck_assert_uint_eq(found->with_function, with_function);
	ck_assert_uint_eq(found->with_line, with_line);
	ck_assert_uint_eq(found->functions, functions);
}

HT_TEST(modules_by_the_allocations_that_pass)
{
	make("/lib/other.so");
	ck_assert_uint_eq(named.count, 3);
	check(0, 0, 15, 3, 2, 0, 1);
	check(1, 1, 5, 2, 0, 0, 0);
	check(2, MODULES_NONE, 1, 1, 1, 1, 1);
	ck_assert_uint_eq(named.others, 1);
	end();
}

static char *print_page(void)
{
	const struct terminal terminal = {.columns = 80, .has_utf8 = true};
	char *bytes = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&bytes, &length);
	const struct text text = text_for(out, &terminal);
	named_text_write(&text, analysis, &named);
	fclose(out);
	return bytes;
}

HT_TEST(the_page_names_what_helps)
{
	make("/lib/other.so");
	char *page = print_page();
	ck_assert_msg(strstr(page, " allocations addresses  named  lines functions  module\n"),
		"%s", page);
	ck_assert_msg(strstr(page, "          15         3      2      0         1  /usr/bin/x\n"),
		"%s", page);
	ck_assert_msg(strstr(page, "           5         2      0      0         0  /lib/other.so\n"
				   "      functions have no names: it is stripped;"),
		"%s", page);
	ck_assert_msg(strstr(page, "--debug-dir DIR"), "%s", page);
	ck_assert_msg(strstr(page, "1 module is in no call chain\n"), "%s", page);
	free(page);
	end();
}

static char *print_of_scene(void)
{
	analysis = scene_analyze(&stage.scene);
	ck_no_err(named_find(analysis, &named));
	return print_page();
}

/* A file that is mapped twice (V8's builtins) has one row; a remedy for two modules is printed
 * once; named code that a runtime generated lacks nothing. */
HT_TEST(the_page_repeats_nothing)
{
	stage_begin(&stage);
	struct tracebuild *build = &stage.scene.trace;
	for (uint32_t i = 0; i < 4; i++) {
		const uint64_t lo = OTHER_LO + 0x100000 * i;
		const struct rec why = {.kind = REC_NAMES,
			.names = {.module_id = i + 2, .state = REC_NAMES_NO_SYMBOLS}};
		tracebuild_module(build, i + 2,
			i < 2	? "/bin/node"
			: i < 3 ? "/lib/a.so"
				: "/lib/b.so",
			"12345678901234567890", lo, lo + 0x1000);
		/* The offset is the same in all modules but the last. */
		stage_alloc(&stage, 0, 10, tracebuild_node(build, 0, lo + 0x10 + i / 3));
		tracebuild_put(build, &why);
	}
	stage_alloc(&stage, 0, 10, stage_made(&stage, 0, "turn", 0));
	char *page = print_of_scene();
	const char *node =
		strstr(page, "           2         1      0      0         0  /bin/node\n"
			     "      functions have no names: it is stripped;");
	ck_assert_msg(node && !strstr(node + 70, "/bin/node"), "%s", page);
	ck_assert_msg(strstr(page, "  /lib/a.so\n      as for node\n"), "%s", page);
	ck_assert_msg(strstr(page, "  /lib/b.so\n      as for node\n"), "%s", page);
	ck_assert_msg(strstr(page, "  (in no file)\n"), "%s", page);
	ck_assert_ptr_null(strstr(page, "code in no file. "));
	free(page);
	end();
}

HT_TEST(the_page_has_80_columns)
{
	char path[3000] = "/\x1b[31m\n\xe2\x80\xae";
	memset(path + strlen(path), 'x', sizeof(path) - strlen(path) - 1);
	path[sizeof(path) - 1] = '\0';
	make(path);
	char *page = print_page();
	for (const char *line = page; *line;) {
		const char *newline = strchr(line, '\n');
		char *copy = strndup(line, (size_t)(newline - line));
		ck_assert_msg(text_columns(copy) <= 80, "%s", copy);
		free(copy);
		line = newline + 1;
	}
	for (const char *at = page; *at; at++)
		ck_assert_msg((unsigned char)*at >= 0x20 || *at == '\n', "%02x", *at);
	free(page);
	end();
}

HT_SUITE("analyzer/named")
