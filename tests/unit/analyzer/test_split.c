/* SPDX-License-Identifier: Apache-2.0
 *
 * Split DWARF: from .dwo files and packages, wherever they lie; without them the names of the
 * symbols remain, and the module says what is missing.
 */
#include "analyzer/symbols/split.h"

#include <sys/stat.h>

#include <stdlib.h>

#include "tests/support/compile.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"
#include "tests/unit/analyzer/module_file.h"

#define TOOL_MS 20000

static const char source[] = "void *volatile kept;\n"
			     "extern void *malloc(unsigned long);\n"
			     "static inline __attribute__((always_inline)) void inner(int n) {\n"
			     "kept = malloc(n);\n"
			     "}\n"
			     "__attribute__((noinline)) void outer(int n) {\n"
			     "inner(n + 1);\n"
			     "__asm__ volatile(\"\" ::: \"memory\");\n"
			     "}\n"
			     "int main(void) { outer(3); return 0; }\n";

enum lies { BESIDE, PACKED, IN_DEBUG_DIR, NOWHERE };

static void move_dwo(const char *directory, const char *to)
{
	char command[9000];
	snprintf(command, sizeof(command), "cd '%s' && for f in *.dwo; do %s \"$f\" %s; done",
		directory, to ? "mv" : "rm", to ? to : "");
	ck_assert_int_eq(
		run_program((const char *[]){"sh", "-c", command, NULL}, TOOL_MS, NULL, NULL), 0);
}

/* Returns false if the program is not installed, or cannot do this. */
static bool pack(const char *tool, const char *program)
{
	char package[4096];
	snprintf(package, sizeof(package), "%s.dwp", program);
	if (run_program((const char *[]){tool, "-e", program, "-o", package, NULL}, TOOL_MS, NULL,
		    NULL) == 0)
		return true;
	printf("skipped: split: %s cannot pack this\n", tool);
	return false;
}

/* Checks that `outer` is the outermost function at each of its addresses, and that at least one
 * address is in inlined code. */
static void check_whole(struct module_file *file, GElf_Sym outer)
{
	unsigned in_inner = 0;
	for (uint64_t at = outer.st_value; at < outer.st_value + outer.st_size; at++) {
		uint32_t count;
		const struct symbol_frame *frame = module_file_frames(file, at, &count);
		ck_assert_uint_ge(count, 1);
		ck_assert_str_eq(frame[count - 1].function, "outer");
		ck_assert_ptr_nonnull(frame[count - 1].file);
		ck_assert_ptr_nonnull(strstr(frame[count - 1].file, ".c"));
		if (count == 2) {
			ck_assert_str_eq(frame[0].function, "inner");
			ck_assert_uint_eq(frame[1].line, 7);
			in_inner += frame[0].line == 4;
		}
		ck_assert_uint_eq(file->model.modules.module[0].names, REC_NAMES_WHOLE);
		module_file_end(file);
	}
	ck_assert_uint_gt(in_inner, 0);
}

static void check_missing(struct module_file *file, GElf_Sym outer)
{
	uint32_t count;
	const struct symbol_frame *frame = module_file_frames(file, outer.st_value, &count);
	const struct module *module = &file->model.modules.module[0];
	ck_assert_uint_eq(count, 1);
	ck_assert_str_eq(frame->function, "outer");
	ck_assert_uint_eq(module->names, REC_NAMES_SPLIT);
	ck_assert_ptr_nonnull(strstr(module->names_detail, ".dwo"));
	module_file_end(file);
}

static void check_split(
	const char *compiler, const char *version, const char *packer, enum lies lies)
{
	char *directory = tmpdir_path(""), *program;
	const char *const command[] = {compiler, "-O2", "-g", version, "-gsplit-dwarf", NULL};
	struct module_file file;
	char *elsewhere = tmpdir_path("elsewhere");
	ck_assert_int_eq(chdir(directory), 0);
	program = compile_or_skip("split debug information", command, source);
	if (program && (lies != PACKED || pack(packer, program))) {
		if (lies == IN_DEBUG_DIR && mkdir(elsewhere, 0755) != 0)
			ck_abort_msg("cannot make %s", elsewhere);
		if (lies != BESIDE)
			move_dwo(directory, lies == IN_DEBUG_DIR ? elsewhere : NULL);
		module_file_read(&file, program);
		if (lies == IN_DEBUG_DIR)
			file.files.debug_dir[file.files.debug_dir_count++] = elsewhere;
		GElf_Sym outer = module_file_symbol(program, "outer");
		if (lies == NOWHERE)
			check_missing(&file, outer);
		else
			check_whole(&file, outer);
	}
	free(directory);
	free(elsewhere);
	free(program);
}

HT_TEST(beside_the_program)
{
	check_split("gcc", "-gdwarf-4", "", BESIDE);
	check_split("gcc", "-gdwarf-5", "", BESIDE);
	check_split("clang-14", "-gdwarf-4", "", BESIDE);
	check_split("clang-14", "-gdwarf-5", "", BESIDE);
}

HT_TEST(in_a_package)
{
	check_split("gcc", "-gdwarf-4", "dwp", PACKED);
	check_split("gcc", "-gdwarf-5", "llvm-dwp", PACKED);
	check_split("clang-14", "-gdwarf-4", "llvm-dwp", PACKED);
	check_split("clang-14", "-gdwarf-5", "llvm-dwp", PACKED);
}

HT_TEST(in_a_directory_that_the_user_names)
{
	check_split("gcc", "-gdwarf-5", "", IN_DEBUG_DIR);
}

HT_TEST(nowhere)
{
	check_split("gcc", "-gdwarf-4", "", NOWHERE);
	check_split("clang-14", "-gdwarf-5", "", NOWHERE);
}

HT_SUITE("analyzer/split")
