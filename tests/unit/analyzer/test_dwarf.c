/* SPDX-License-Identifier: Apache-2.0
 *
 * DWARF as linkers leave it: that of functions which they have dropped names nothing.
 */
#include "analyzer/symbols/dwarf.h"

#include <stdlib.h>

#include "tests/support/compile.h"
#include "tests/unit/analyzer/module_file.h"

/* The linker drops the gone_ functions, since nothing calls them. If their section were at 0,
 * gone_behind would begin where the program has other code; gone_inlined is dropped on its own,
 * between functions that are kept. */
static const char dropped[] = "int sink;\n"
			      "__attribute__((section(\".text.gone\"))) void gone_giant(void)\n"
			      "{ __asm__ volatile(\".fill 0x1000, 1, 0x90\"); sink = 1; }\n"
			      "__attribute__((section(\".text.gone\"))) void gone_behind(void)\n"
			      "{ __asm__ volatile(\".fill 0x80000, 1, 0x90\"); sink = 1; }\n"
			      "void kept_function(void *volatile *at, int value) {\n"
			      "*at = __builtin_malloc(value);\n"
			      "}\n"
			      "static inline __attribute__((always_inline)) int inner(int i)\n"
			      "{ __asm__ volatile(\".fill 0x2000, 1, 0x90\"); return i + 1; }\n"
			      "__attribute__((section(\".text.gone2\"))) int gone_inlined(int i)\n"
			      "{ return inner(i); }\n";
static const char plain[] = "void *plain_alloc(int n)\n"
			    "{ void *p = __builtin_malloc(n); __asm__ volatile(\"\" : \"+r\"(p)); "
			    "return p; }\n";
static const char program[] = "void *plain_alloc(int); void kept_function(void *volatile *, int);\n"
			      "void *volatile keep[2];\n"
			      "int main(void) {\n"
			      "keep[0] = plain_alloc(1);\n"
			      "kept_function(&keep[1], 2);\n"
			      "return 0; }\n";

static void check_plain(const char *path, const char *name)
{
	struct module_file file;
	GElf_Sym symbol = module_file_symbol(path, name);
	for (uint64_t at = symbol.st_value; at < symbol.st_value + symbol.st_size; at++) {
		uint32_t count;
		module_file_read(&file, path);
		const struct symbol_frame *frame = module_file_frames(&file, at, &count);
		ck_assert_uint_eq(count, 1);
		ck_assert_str_eq(frame->function, name);
		ck_assert_msg(!frame->file, "%s is in %s:%u", name, frame->file, frame->line);
		module_file_end(&file);
	}
}

static void check_lines(const char *path, const char *name, unsigned first, unsigned last)
{
	struct module_file file;
	GElf_Sym symbol = module_file_symbol(path, name);
	for (uint64_t at = symbol.st_value; at < symbol.st_value + symbol.st_size; at++) {
		uint32_t count;
		module_file_read(&file, path);
		const struct symbol_frame *frame = module_file_frames(&file, at, &count);
		ck_assert_uint_eq(count, 1);
		ck_assert_str_eq(frame->function, name);
		ck_assert_ptr_nonnull(frame->file);
		ck_assert_msg(frame->line >= first && frame->line <= last, "%s+%llu: line %u", name,
			(unsigned long long)(at - symbol.st_value), frame->line);
		module_file_end(&file);
	}
}

static void check_linked(const char *compiler, const char *version, const char *linker)
{
	const char *const with_debug[] = {compiler, "-O2", "-g", version, "-fno-pie", "-fPIC", "-c",
		"-ffunction-sections", NULL};
	const char *const without[] = {
		compiler, "-O2", "-g0", "-fPIC", "-c", "-ffunction-sections", NULL};
	char *a = compile_or_skip("dropped functions", with_debug, dropped);
	char *b = compile_or_skip("dropped functions", without, plain);
	if (!a || !b)
		return;
	const char *const link[] = {compiler, "-O2", "-g", version, "-fPIC", "-pie", linker,
		"-Wl,--gc-sections", "-Wl,--build-id", NULL};
	const char *const objects[] = {a, b, NULL};
	char *linked = compile(link, program, objects);
	if (!linked) {
		printf("skipped: dropped functions: %s %s is not here\n", compiler, linker);
	} else {
		check_plain(linked, "plain_alloc");
		check_lines(linked, "kept_function", 6, 8);
		check_lines(linked, "main", 3, 6);
	}
	free(a);
	free(b);
	free(linked);
}

static void check_linkers(const char *compiler)
{
	static const char *const linker[] = {
		"-fuse-ld=bfd", "-fuse-ld=gold", "-fuse-ld=lld", "-fuse-ld=mold"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(linker); i++) {
		check_linked(compiler, "-gdwarf-4", linker[i]);
		check_linked(compiler, "-gdwarf-5", linker[i]);
	}
}

HT_TEST(functions_that_the_linker_dropped_name_nothing)
{
	check_linkers("gcc");
}

HT_TEST(functions_that_the_linker_dropped_name_nothing_clang)
{
	check_linkers("clang-14");
}

/* gcc gives an inlined lambda no linkage name. */
HT_TEST(an_inlined_lambda_is_called_by_the_function_around_it)
{
	static const char source[] = "void *volatile kept;\n"
				     "__attribute__((noinline)) void around(int n) {\n"
				     "auto f = [&](int i) { kept = __builtin_malloc(i); };\n"
				     "f(n); __asm__ volatile(\"\" ::: \"memory\"); }\n"
				     "int main(int c, char **) { around(c); return 0; }\n";
	const char *const command[] = {"g++", "-x", "c++", "-O2", "-g", "-Wl,--build-id", NULL};
	char *linked = compile_or_skip("lambdas", command, source);
	if (!linked)
		return;
	struct module_file file;
	GElf_Sym symbol = module_file_symbol(linked, "_Z6aroundi");
	unsigned lambdas = 0;
	for (uint64_t at = symbol.st_value; at < symbol.st_value + symbol.st_size; at++) {
		uint32_t count;
		module_file_read(&file, linked);
		const struct symbol_frame *frame = module_file_frames(&file, at, &count);
		if (count == 2) {
			ck_assert_str_eq(frame[0].function, "lambda in around()");
			lambdas++;
		}
		module_file_end(&file);
	}
	ck_assert_uint_gt(lambdas, 0);
	free(linked);
}

/* DWARF names a lambda that is not inlined "operator()"; the symbol of gcc's copy names the
 * function that has the lambda. */
HT_TEST(a_lambda_of_its_own_is_called_by_the_function_around_it)
{
	static const char source[] = "void *volatile kept;\n"
				     "__attribute__((noinline)) void around(int n) {\n"
				     "auto f = [=](int i) __attribute__((noinline)) {\n"
				     "kept = __builtin_malloc(i + n); };\n"
				     "f(n); f(n + 1); __asm__ volatile(\"\" ::: \"memory\"); }\n"
				     "int main(int c, char **) { around(c); return 0; }\n";
	const char *const command[] = {"g++", "-x", "c++", "-O2", "-g", "-Wl,--build-id", NULL};
	char *linked = compile_or_skip("lambdas", command, source);
	if (!linked)
		return;
	struct module_file file;
	uint32_t count;
	GElf_Sym symbol = module_file_symbol(linked, "_ZZ6aroundiENKUliE_clEi.isra.0");
	module_file_read(&file, linked);
	const struct symbol_frame *frame =
		module_file_frames(&file, symbol.st_value + symbol.st_size - 1, &count);
	ck_assert_uint_eq(count, 1);
	ck_assert_str_eq(frame[0].function, "lambda in around(int)");
	ck_assert_ptr_nonnull(frame[0].file);
	module_file_end(&file);
	free(linked);
}

HT_SUITE("analyzer/dwarf")
