/* SPDX-License-Identifier: Apache-2.0
 *
 * Names from files: this very program plays the traced module, and so does the C library.
 */
#include "analyzer/symbols/resolve.h"

#include <gnu/libc-version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/analyzer/module_here.h"

static uint64_t pc_in_inlined, pc_in_plain;
static int line_in_inlined, line_of_call, line_in_plain;

static __attribute__((noinline)) uint64_t return_pc(void)
{
	return (uint64_t)__builtin_extract_return_addr(__builtin_return_address(0));
}

static inline __attribute__((always_inline)) void resolve_test_inlined(void)
{
	line_in_inlined = __LINE__ + 1;
	pc_in_inlined = return_pc();
	__asm__ volatile("");
}

static __attribute__((noinline)) void resolve_test_plain(void)
{
	line_of_call = __LINE__ + 1;
	resolve_test_inlined();
	line_in_plain = __LINE__ + 1;
	pc_in_plain = return_pc();
	__asm__ volatile("");
}

static struct tracebuild trace;
static struct model model;
static struct symbols symbols;

static void begin(const struct module_here *here)
{
	tracebuild_init(&trace);
	tracebuild_start(&trace, 1, 0, 0);
	module_here_put(here, &trace);
}

static struct ht_err *take(
	void *context, struct place place, const struct rec_frame *frame, uint64_t count)
{
	(void)context;
	return symbols_add(&symbols, &model.strings, place, frame, count);
}

static void resolve(void)
{
	const struct model_observer observer = {0};
	ck_no_err(model_load(&model, tracebuild_finish(&trace), "trace", &observer));
	ck_no_err(resolve_places(
		&model, &symbols, &(struct resolve_files){.sysroot = ""}, take, NULL));
}

static const struct symbol_frame *frames_of(uint32_t id, uint32_t *ret_count)
{
	struct place place;
	ck_no_err(place_of_node(&model.modules, nodes_get(&model.nodes, id), &place));
	return symbols_find(&symbols, place, ret_count);
}

static void end(void)
{
	symbols_deinit(&symbols);
	model_deinit(&model);
	tracebuild_deinit(&trace);
}

static void check_frame(
	const struct symbol_frame *frame, const char *function, const char *file, int line)
{
	ck_assert_ptr_nonnull(frame->function);
	ck_assert_str_eq(frame->function, function);
	ck_assert_ptr_nonnull(frame->file);
	ck_assert_msg(strstr(frame->file, file), "%s is not in %s", file, frame->file);
	ck_assert_uint_eq(frame->line, (unsigned)line);
}

HT_TEST(dwarf_gives_inlined_functions_and_lines)
{
	resolve_test_plain();
	struct module_here here = module_here_find("");
	begin(&here);
	uint32_t plain = tracebuild_node(&trace, 0, pc_in_plain);
	uint32_t inlined = tracebuild_node(&trace, 0, pc_in_inlined);
	resolve();
	uint32_t count;
	const struct symbol_frame *frame = frames_of(inlined, &count);
	ck_assert_uint_eq(count, 2);
	check_frame(&frame[0], "resolve_test_inlined", "test_resolve.c", line_in_inlined);
	check_frame(&frame[1], "resolve_test_plain", "test_resolve.c", line_of_call);
	frame = frames_of(plain, &count);
	ck_assert_uint_eq(count, 1);
	check_frame(&frame[0], "resolve_test_plain", "test_resolve.c", line_in_plain);
	end();
}

HT_TEST(a_file_with_another_build_id_is_not_accepted)
{
	resolve_test_plain();
	struct module_here here = module_here_find("");
	here.build_id[0] ^= 1;
	begin(&here);
	uint32_t plain = tracebuild_node(&trace, 0, pc_in_plain), count;
	resolve();
	ck_assert_ptr_null(frames_of(plain, &count));
	end();
}

HT_TEST(a_file_is_not_accepted_for_a_module_without_build_id)
{
	resolve_test_plain();
	struct module_here here = module_here_find("");
	here.build_id_length = 0;
	begin(&here);
	uint32_t plain = tracebuild_node(&trace, 0, pc_in_plain), count;
	resolve();
	ck_assert_ptr_null(frames_of(plain, &count));
	end();
}

HT_TEST(the_c_library_has_names)
{
	struct module_here here = module_here_find("libc.so.6");
	begin(&here);
	uint32_t id = tracebuild_node(&trace, 0, (uint64_t)(uintptr_t)&gnu_get_libc_version + 2),
		 count;
	resolve();
	const struct symbol_frame *frame = frames_of(id, &count);
	ck_assert_uint_ge(count, 1);
	/* "__gnu_..." where the C library's debug information is installed. */
	ck_assert_msg(
		strstr(frame[count - 1].function, "gnu_get_libc_version"), "%s", frame[0].function);
	end();
}

HT_TEST(paths_that_are_no_regular_files_are_passed_over)
{
	char directory[] = "/tmp/heaptap-test-XXXXXX", fifo[64];
	ck_assert_ptr_nonnull(mkdtemp(directory));
	snprintf(fifo, sizeof(fifo), "%s/fifo", directory);
	ck_assert_int_eq(mkfifo(fifo, 0600), 0);
	const char *path[] = {fifo, directory, "/dev/zero", "relative", "/nonexistent"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(path); i++) {
		struct module_here here = module_here_find("");
		snprintf(here.path, sizeof(here.path), "%s", path[i]);
		begin(&here);
		uint32_t id = tracebuild_node(&trace, 0, here.lo + 64), count;
		resolve();
		ck_assert_ptr_null(frames_of(id, &count));
		end();
	}
	unlink(fifo);
	rmdir(directory);
}

HT_TEST(names_in_the_trace_are_not_resolved_again)
{
	resolve_test_plain();
	struct module_here here = module_here_find("");
	begin(&here);
	uint32_t id = tracebuild_node(&trace, 0, pc_in_plain), count;
	struct place place = {.module = 0, .offset = pc_in_plain - 1 - here.bias};
	struct rec_frame known = {.function = {"known", 5}};
	ck_no_err(symbols_add(&symbols, &model.strings, place, &known, 1));
	resolve();
	ck_assert_str_eq(frames_of(id, &count)->function, "known");
	end();
}

HT_SUITE("analyzer/resolve")
