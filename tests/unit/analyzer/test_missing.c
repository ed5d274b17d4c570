/* SPDX-License-Identifier: Apache-2.0
 *
 * The report of missing names gives the reason and the remedy. Separate and compressed symbols are
 * found, and only those of the right build.
 */
#include "analyzer/views/missing.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/compile.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"
#include "tests/unit/analyzer/module_file.h"
#include "tests/unit/analyzer/scene.h"

#define TOOL_MS 20000

static const char source[] = "static int __attribute__((noinline)) hidden_work(int i)\n"
			     "{ __asm__ volatile(\"\" : \"+r\"(i)); return i + 1; }\n"
			     "int main(int c, char **v) { return hidden_work(c); }\n";

static char *make(const char *option)
{
	const char *const command[] = {"gcc", "-O1", "-g", "-Wl,--build-id", option, NULL};
	char *program = compile(command, source, NULL);
	ck_assert_ptr_nonnull(program);
	return program;
}

static int sh(const char *command)
{
	return run_program((const char *[]){"sh", "-ec", command, NULL}, TOOL_MS, NULL, NULL);
}

/* Runs a shell command with the program's path in $p, its directory in $d, its name in $n. */
static void change(const char *format, const char *program)
{
	char command[9000];
	snprintf(command, sizeof(command), "p=%s d=$(dirname $p) n=$(basename $p); %s", program,
		format);
	ck_assert_int_eq(sh(command), 0);
}

/* Returns the warnings of a trace in which `hidden_work` allocates, malloc'd; NULL: none.
 * `ret_function` gets the name that the trace has for it, malloc'd. */
static char *look(const struct module_file *file, uint64_t vaddr, char **ret_function)
{
	struct scene scene;
	struct missing missing;
	uint32_t count;
	struct place place;
	scene_init(&scene);
	module_here_put(&file->here, &scene.trace);
	uint32_t id = tracebuild_node(&scene.trace, 0, MODULE_FILE_BIAS + vaddr + 1);
	scene_malloc(&scene, 0, 0x1000, 10, id);
	scene_malloc(&scene, 0, 0x2000, 10, id);
	struct analysis *analysis = scene_analyze(&scene);
	ck_no_err(analysis_resolve(analysis, &file->files));
	ck_no_err(place_of_node(
		&analysis->model.modules, nodes_get(&analysis->model.nodes, id), &place));
	const struct symbol_frame *frame = symbols_find(&analysis->symbols, place, &count);
	*ret_function = frame && frame->function ? strdup(frame->function) : NULL;
	ck_no_err(missing_find(analysis, &missing));
	char *text = NULL;
	ck_assert_uint_eq(missing.others, 0);
	ck_assert_uint_le(missing.shown_count, 1);
	if (missing.shown_count) {
		ck_assert_uint_eq(missing.shown[0].allocations, 2);
		text = missing_sentence(analysis, &missing.shown[0]);
	}
	analysis_destroy(analysis);
	scene_deinit(&scene);
	return text;
}

/* `says` and `remedy` are parts of the warning; NULL: there must be a name, and no warning. */
static void check(
	const struct module_file *file, GElf_Sym symbol, const char *says, const char *remedy)
{
	char *function;
	char *text = look(file, symbol.st_value, &function);
	if (!says) {
		ck_assert_msg(!text, "%s", text);
		ck_assert_ptr_nonnull(function);
		ck_assert_str_eq(function, "hidden_work");
	} else {
		ck_assert_ptr_nonnull(text);
		ck_assert_msg(strstr(text, says) && strstr(text, remedy), "%s", text);
		ck_assert_ptr_null(function);
	}
	free(text);
	free(function);
}

HT_TEST(a_file_that_is_gone)
{
	struct module_file file;
	char *program = make("-g");
	GElf_Sym symbol = module_file_symbol(program, "hidden_work");
	module_file_read(&file, program);
	check(&file, symbol, NULL, NULL);
	change("rm $p", program);
	check(&file, symbol, "its file is gone", "--sysroot DIR");
	free(program);
}

HT_TEST(a_file_of_another_build)
{
	struct module_file file;
	char *program = make("-g");
	GElf_Sym symbol = module_file_symbol(program, "hidden_work");
	module_file_read(&file, program);
	file.here.build_id[0] ^= 1;
	check(&file, symbol, "another build", "--sysroot DIR");
	free(program);
}

HT_TEST(a_file_without_a_build_id)
{
	struct module_file file;
	char *program = make("-Wl,--build-id=none");
	GElf_Sym symbol = module_file_symbol(program, "hidden_work");
	module_file_read(&file, program);
	ck_assert_uint_eq(file.here.build_id_length, 0);
	check(&file, symbol, "another", "--sysroot DIR");
	free(program);
}

HT_TEST(a_stripped_file)
{
	struct module_file file;
	char *program = make("-g");
	GElf_Sym symbol = module_file_symbol(program, "hidden_work");
	change("strip $p", program);
	module_file_read(&file, program);
	check(&file, symbol, "stripped", "--debug-dir DIR");
	free(program);
}

HT_TEST(a_debug_file_in_a_directory_that_the_user_names)
{
	struct module_file file;
	char *program = make("-g"), *directory = tmpdir_path("debug");
	GElf_Sym symbol = module_file_symbol(program, "hidden_work");
	change("i=$(readelf -n $p | sed -n 's/.*Build ID: //p'); "
	       "mkdir -p $d/debug/.build-id/$(echo $i | cut -c1-2); "
	       "objcopy --only-keep-debug $p "
	       "$d/debug/.build-id/$(echo $i | cut -c1-2)/$(echo $i | cut -c3-).debug; strip $p",
		program);
	module_file_read(&file, program);
	check(&file, symbol, "stripped", "--debug-dir DIR");
	file.files.debug_dir[file.files.debug_dir_count++] = directory;
	check(&file, symbol, NULL, NULL);
	free(program);
	free(directory);
}

/* Without a build-id the checksum in .gnu_debuglink decides. */
HT_TEST(a_debug_file_that_is_linked)
{
	static const char *const place[] = {"$d/$n.debug", "$d/.debug/$n.debug"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(place); i++) {
		char command[512];
		struct module_file file;
		char *program = make("-g");
		GElf_Sym symbol = module_file_symbol(program, "hidden_work");
		snprintf(command, sizeof(command),
			"mkdir -p $d/.debug; objcopy -R .note.gnu.build-id --only-keep-debug $p "
			"%s; strip $p; "
			"objcopy --add-gnu-debuglink=%s $p",
			place[i], place[i]);
		change(command, program);
		module_file_read(&file, program);
		check(&file, symbol, NULL, NULL);
		snprintf(command, sizeof(command), "printf x >> %s", place[i]);
		change(command, program);
		check(&file, symbol, "belongs to another build", "--debug-dir DIR");
		free(program);
	}
}

HT_TEST(packed_symbols)
{
	struct module_file file;
	char *program = make("-g");
	GElf_Sym symbol = module_file_symbol(program, "hidden_work");
	if (sh("command -v xz >/dev/null") != 0) {
		printf("skipped: missing: xz is not here\n");
		return;
	}
	change("objcopy -S --keep-symbol=hidden_work $p $p.mini; xz $p.mini; strip $p; "
	       "objcopy --add-section .gnu_debugdata=$p.mini.xz $p",
		program);
	module_file_read(&file, program);
	check(&file, symbol, NULL, NULL);
	/* Damaged symbols name nothing. */
	change("objcopy --dump-section .gnu_debugdata=$p.x $p; "
	       "printf XXXXXXXX | dd of=$p.x bs=1 seek=40 conv=notrunc status=none; "
	       "objcopy --update-section .gnu_debugdata=$p.x $p",
		program);
	check(&file, symbol, "stripped", "--debug-dir DIR");
	free(program);
}

HT_TEST(compressed_in_the_old_way)
{
	struct module_file file;
	uint32_t count;
	char *program = make("-Wl,--compress-debug-sections=zlib-gnu");
	GElf_Sym symbol = module_file_symbol(program, "hidden_work");
	module_file_read(&file, program);
	const struct symbol_frame *frame = module_file_frames(&file, symbol.st_value, &count);
	ck_assert_uint_eq(count, 1);
	ck_assert_ptr_nonnull(frame->file);
	ck_assert_uint_eq(frame->line, 2);
	module_file_end(&file);
	free(program);
}

HT_SUITE("analyzer/missing")
