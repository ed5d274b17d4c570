/* SPDX-License-Identifier: Apache-2.0
 *
 * Allocators that are linked into the program: heaptap finds them by the symbols of the program's
 * file and hooks the GOT slots that lead to them, and counts are exact. Functions without a slot
 * are reported.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/books.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define PHASE_MS 60000

/* Checks what attach, trace and report say about calls that no hook sees. */
static void check_told(const json_t *attach, const char *trace, bool unseen)
{
	json_auto_t *report = report_load(trace);
	size_t index, told = 0;
	json_t *warning;
	json_array_foreach(report_at(report, "warnings"), index, warning) told +=
		strstr(json_string_value(warning), "directly") != NULL;
	ck_assert_uint_eq(told, unseen);
	ck_assert_uint_eq(report_u64(attach, "unseen_places") > 0, unseen);
	ck_assert_uint_eq(report_text(attach, "unseen")[0] != '\0', unseen);
}

/* Captures one phase; returns the target's answer. `module`: the module with the slots; NULL:
 * any. */
static char *record_phase(struct victim *victim, const char *module, bool unseen, struct tap *tap)
{
	free(victim_ask(victim, "go", PHASE_MS));
	struct procsnap *before = procsnap_take(victim->pid, 0);
	tap_start(tap, victim->pid, NULL);
	if (module)
		tap_wait_on(tap, module);
	else
		tap_wait_any(tap);
	char *books = victim_ask(victim, "go", PHASE_MS);
	json_t *attach = tap_stop(tap, 0);
	tap_check_clean(attach);
	check_told(attach, tap->trace, unseen);
	json_decref(attach);
	procsnap_verify(before, victim->pid);
	free(victim_ask(victim, "go", PHASE_MS));
	return books;
}

static void compare_books(const char *program, const char *module, bool by_thread)
{
	struct victim victim;
	struct tap tap;
	victim_start(&victim, (const char *[]){run_built(program), NULL});
	HT_FREED char *books = record_phase(&victim, module, false, &tap);
	victim_stop(&victim);
	json_auto_t *ledger = report_parse(books);
	books_check(tap.trace, ledger, by_thread, false);
}

HT_TEST(position_independent)
{
	compare_books("tests/targets/extended-static", "/extended-static", true);
}

/* The GOT of a program at fixed addresses has its values without relocations. */
HT_TEST(fixed_addresses)
{
	compare_books("tests/targets/extended-fixed", "/extended-fixed", true);
}

/* The allocator is in a library. Slots with symbols lead there, so heaptap need not read the file's
 * symbols. */
HT_TEST(in_a_library)
{
	compare_books("tests/targets/extended-shared", NULL, true);
}

HT_TEST(rust)
{
	compare_books("tests/targets/rust-jemalloc", "/rust-jemalloc", false);
}

/* doctor's word for how a function is covered: "slot", "partly", "no"; NULL: the function is not
 * listed. */
static const char *covered(const json_t *doctor, const char *function)
{
	size_t index;
	json_t *entry;
	json_array_foreach(report_at(doctor, "linked_in"), index,
		entry) if (!strcmp(report_text(entry, "function"),
				   function)) return report_text(entry, "covered");
	return NULL;
}

/* Whole-program optimisation loads the functions' addresses in code and calls them past the GOT;
 * doctor and the trace must report that. */
HT_TEST(rust_optimised_as_a_whole)
{
	const char *program = run_built("tests/targets/rust-jemalloc-lto");
	struct victim victim;
	struct tap tap;
	victim_start(&victim, (const char *[]){program, NULL});
	json_t *before = report_run("doctor", victim.pid, 0);
	ck_assert_str_eq(covered(before, "_rjem_sdallocx"), "partly");
	ck_assert_str_eq(covered(before, "_rjem_calloc"), "slot");
	ck_assert_ptr_null(covered(before, "_rjem_valloc"));
	json_decref(before);
	free(record_phase(&victim, strrchr(program, '/'), true, &tap));
	victim_stop(&victim);
}

static void check_operators(const char *program, bool unseen)
{
	struct victim victim;
	struct tap tap;
	victim_start(&victim, (const char *[]){run_built(program), NULL});
	json_t *before = report_run("doctor", victim.pid, 0);
	ck_assert_uint_eq(report_u64(before, "unseen_places") > 0, unseen);
	json_decref(before);
	tap_start(&tap, victim.pid, NULL);
	tap_wait_any(&tap);
	victim_prove_alive(&victim);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	check_told(attach, tap.trace, unseen);
	ck_assert_uint_eq(strstr(report_text(attach, "unseen"), "operator new") != NULL, unseen);
	json_decref(attach);
	victim_stop(&victim);
}

/* The operator new of libstdc++ calls malloc; an allocator's own operator new does not. */
HT_TEST(operators_that_do_not_call_malloc)
{
	check_operators("tests/targets/cxx", false);
	check_operators("tests/targets/cxx-tcmalloc", false);
	check_operators("tests/targets/operators-tcmalloc-debug", true);
}

static char debug_path[256];

/* Also removes the directory if it is empty. */
static void remove_debug_file(void)
{
	unlink(debug_path);
	*strrchr(debug_path, '/') = '\0';
	rmdir(debug_path);
}

/* Puts `file` where the debug file of a build-id belongs; false: no right to do so. */
static bool install_debug_file(const char *build_id, const char *file)
{
	char folder[64];
	snprintf(folder, sizeof(folder), "/usr/lib/debug/.build-id/%.2s", build_id);
	snprintf(debug_path, sizeof(debug_path), "%s/%s.debug", folder, build_id + 2);
	return run_program((const char *[]){"install", "-D", "-m", "644", file, debug_path, NULL},
		       60000, NULL, NULL) == 0;
}

static void build_id_of(const char *program, char ret[64])
{
	HT_FREED char *text;
	ck_assert_int_eq(
		run_program((const char *[]){"readelf", "-n", program, NULL}, 60000, &text, NULL),
		0);
	const char *line = strstr(text, "Build ID: ");
	ck_assert_ptr_nonnull(line);
	ck_assert_int_eq(sscanf(line, "Build ID: %60s", ret), 1);
}

/* Names of a stripped program come from its debug file, and from no other. */
HT_TEST(stripped)
{
	const char *program = run_built("tests/targets/rust-jemalloc-stripped");
	char build_id[64], debug[4200];
	struct victim victim;
	snprintf(debug, sizeof(debug), "%s.debug", program);
	build_id_of(program, build_id);
	atexit(remove_debug_file);
	if (!install_debug_file(build_id, run_built("tests/targets/extended-static"))) {
		printf("skipped: stripped: /usr/lib/debug cannot be written\n");
		return;
	}
	victim_start(&victim, (const char *[]){program, NULL});
	json_t *with_another = report_run("doctor", victim.pid, 0);
	ck_assert_ptr_null(covered(with_another, "_rjem_malloc"));
	json_decref(with_another);
	victim_stop(&victim);
	ck_assert(install_debug_file(build_id, debug));
	compare_books("tests/targets/rust-jemalloc-stripped", "/rust-jemalloc-stripped", false);
}

#define SPARSE_BYTES (600l << 20) /* size of a sparse file without any blocks on the disk */

/* Declares the whole file to be symbol names. */
static void make_too_much(const char *path)
{
	Elf64_Ehdr ehdr;
	Elf64_Shdr section;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	ck_assert_int_eq(pread(fd, &ehdr, sizeof(ehdr), 0), sizeof(ehdr));
	ck_assert_int_eq(ftruncate(fd, SPARSE_BYTES), 0);
	for (unsigned i = 0; i < ehdr.e_shnum; i++) {
		off_t at = (off_t)(ehdr.e_shoff + i * sizeof(section));
		ck_assert_int_eq(pread(fd, &section, sizeof(section), at), sizeof(section));
		if (section.sh_type != SHT_STRTAB || section.sh_flags & SHF_ALLOC)
			continue;
		section.sh_size = SPARSE_BYTES - section.sh_offset;
		ck_assert_int_eq(pwrite(fd, &section, sizeof(section), at), sizeof(section));
	}
	close(fd);
}

/* The end of the capture reports what heaptap left out of a library loaded during it. */
HT_TEST(library_with_too_much_loaded_later)
{
	char *program = tmpdir_path("plughost"), *library = tmpdir_path("libplug.so");
	struct victim victim;
	struct tap tap;
	ck_assert_int_eq(run_program((const char *[]){"cp", run_built("tests/targets/plughost"),
					     program, NULL},
				 60000, NULL, NULL),
		0);
	ck_assert_int_eq(run_program((const char *[]){"cp", run_built("tests/targets/libplug.so"),
					     library, NULL},
				 60000, NULL, NULL),
		0);
	make_too_much(library);
	victim_start(&victim, (const char *[]){program, NULL});
	tap_start_changing(&tap, victim.pid, PROCSNAP_MODULES_GROW,
		(const char *[]){"--symbolize", "later", NULL});
	tap_wait_on(&tap, "");
	free(victim_ask(&victim, "open", PHASE_MS));
	tap_wait_on(&tap, "/libplug.so");
	json_t *attach = tap_stop(&tap, 0);
	ck_assert_uint_eq(report_u64(attach, "unseen_places"), 1);
	ck_assert_ptr_nonnull(strstr(report_text(attach, "unseen"), "part of /"));
	ck_assert_ptr_nonnull(
		strstr(report_text(attach, "unseen"), "/libplug.so, which is too large"));
	check_told(attach, tap.trace, true);
	tap_check_clean(attach);
	victim_stop(&victim);
	free(program);
	free(library);
}

HT_SUITE("integration/natives")
