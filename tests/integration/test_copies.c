/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of a trace: with names that are looked up later (symbols --resolve), and without names
 * (anonymize). The original does not change, and a copy is written completely or not at all.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/reader.h"
#include "tests/support/compile.h"
#include "tests/support/files.h"
#include "tests/support/ht_check.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"
#include "tests/support/tracebuild.h"

#define RUN_MS 60000

static const char source[] = "#include <stdlib.h>\n"
			     "static void *volatile kept;\n"
			     "static void __attribute__((noinline)) quiet_worker(int i)\n"
			     "{ kept = malloc(100 + i); }\n"
			     "int main(void) { for (int i = 0; i < 50; i++) quiet_worker(i);\n"
			     "free(kept); return 0; }\n";

static int heaptap(const char *const words[], char **ret_out, char **ret_err)
{
	const char *argv[16] = {run_built("heaptap")};
	for (size_t i = 0; words[i]; i++)
		argv[i + 1] = words[i];
	return run_program(argv, RUN_MS, ret_out, ret_err);
}

static void must(const char *const words[])
{
	HT_FREED char *out, *err;
	const int status = heaptap(words, &out, &err);
	ck_assert_msg(status == 0, "%s ended with %d: %s", words[0], status, err);
}

static void sh(const char *command)
{
	HT_FREED char *err;
	const int status =
		run_program((const char *[]){"sh", "-ec", command, NULL}, RUN_MS, NULL, &err);
	ck_assert_msg(status == 0, "%s: %s", command, err);
}

static struct bytes_out content_of(const char *path)
{
	struct bytes_out content = {0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert_msg(fd >= 0, "there is no %s", path);
	tracebuild_slurp(fd, &content);
	close(fd);
	return content;
}

static bool is_same(const struct bytes_out *a, const struct bytes_out *b)
{
	return a->length == b->length && memcmp(a->data, b->data, a->length) == 0;
}

/* --- names found later -------------------------------------------------------------------------
 */

struct stripped {
	char *program, *debug_dir, *trace;
};

/* A stripped program, its debug file in a directory of its own, and a trace of the program. */
static struct stripped record_stripped(void)
{
	struct stripped ret = {.debug_dir = tmpdir_path("debug"), .trace = tmpdir_path("old.htap")};
	char command[12000];
	ret.program =
		compile((const char *[]){"gcc", "-O1", "-g", "-Wl,--build-id", NULL}, source, NULL);
	snprintf(command, sizeof(command),
		"mkdir %s; objcopy --only-keep-debug %s %s/p.debug; strip %s; objcopy "
		"--add-gnu-debuglink=%s/p.debug %s",
		ret.debug_dir, ret.program, ret.debug_dir, ret.program, ret.debug_dir, ret.program);
	sh(command);
	must((const char *[]){"run", "-o", ret.trace, ret.program, NULL});
	return ret;
}

/* The number `name` of the program in the JSON of `heaptap symbols`. */
static uint64_t figure(const char *trace, const char *program, const char *name)
{
	HT_FREED char *out;
	json_t *module;
	size_t index;
	uint64_t ret = UINT64_MAX;
	ck_assert_int_eq(
		heaptap((const char *[]){"symbols", trace, "--json", NULL}, &out, NULL), 0);
	json_auto_t *symbols = report_parse(out);
	json_array_foreach(report_at(symbols, "modules"), index, module)
	{
		const char *path = json_string_value(json_object_get(module, "path"));
		if (path && strcmp(path, program) == 0)
			ret = report_u64(module, name);
	}
	ck_assert_msg(ret != UINT64_MAX, "no %s in: %s", program, out);
	return ret;
}

static void resolve(const struct stripped *at, const char *out)
{
	must((const char *[]){"symbols", at->trace, "--resolve", "--debug-dir", at->debug_dir, "-f",
		"-o", out, NULL});
}

static void check_named(const struct stripped *at, const char *trace)
{
	HT_FREED char *out;
	ck_assert_uint_ge(figure(trace, at->program, "addresses"), 2);
	/* Two functions have lines; the start-up code has none. */
	ck_assert_uint_eq(figure(trace, at->program, "with_line"), 2);
	ck_assert_int_eq(heaptap((const char *[]){"report", trace, NULL}, &out, NULL), 0);
	ck_assert_msg(strstr(out, "quiet_worker"), "%s", out);
}

HT_TEST(names_from_a_debug_directory)
{
	struct stripped at = record_stripped();
	char *copy = tmpdir_path("named.htap"), *out;
	struct bytes_out before = content_of(at.trace);
	ck_assert_uint_eq(figure(at.trace, at.program, "with_line"), 0);
	ck_assert_int_eq(heaptap((const char *[]){"symbols", at.trace, NULL}, &out, NULL), 0);
	ck_assert_msg(strstr(out, "it is stripped") && strstr(out, "--debug-dir DIR"), "%s", out);
	free(out);
	resolve(&at, copy);
	unlink(at.program);
	check_named(&at, copy);
	struct bytes_out after = content_of(at.trace);
	ck_assert(is_same(&before, &after));
	json_t *old = report_load(at.trace), *new = report_load(copy);
	ck_assert(json_equal(report_at(old, "totals"), report_at(new, "totals")));
	/* A copy of the copy must not repeat records. */
	char *again = tmpdir_path("again.htap");
	must((const char *[]){"symbols", copy, "--resolve", "-o", again, NULL});
	check_named(&at, again);
}

/* Returns the path of the largest file of the symbol cache, malloc'd. run_program sets
 * XDG_CACHE_HOME to the test's directory. */
static char *cache_file(void)
{
	char *directory = NULL, *path = NULL;
	ck_assert_int_gt(asprintf(&directory, "%s/heaptap/symbols", tmpdir_path("cache")), 0);
	struct stat status;
	ck_assert_int_eq(stat(directory, &status), 0);
	ck_assert_int_eq(status.st_mode & 0777, 0700);
	DIR *dir = opendir(directory);
	ck_assert_ptr_nonnull(dir);
	char newest[300] = "";
	off_t most = 0;
	for (struct dirent *entry; (entry = readdir(dir));) {
		if (entry->d_name[0] == '.')
			continue;
		ck_assert_int_eq(fstatat(dirfd(dir), entry->d_name, &status, 0), 0);
		ck_assert_int_eq(status.st_mode & 0777, 0600);
		if (status.st_size < most)
			continue;
		most = status.st_size;
		snprintf(newest, sizeof(newest), "%s", entry->d_name);
	}
	closedir(dir);
	ck_assert_int_gt(asprintf(&path, "%s/%s", directory, newest), 0);
	return path;
}

/* Overwrites bytes of a file, but keeps its size and its times. */
static void spoil(const char *path, off_t from, size_t count)
{
	struct stat status;
	int fd = open(path, O_RDWR | O_CLOEXEC);
	ck_assert(fd >= 0 && fstat(fd, &status) == 0);
	for (size_t i = 0; i < count && from + (off_t)i < status.st_size; i++) {
		char byte;
		ck_assert(pread(fd, &byte, 1, from + (off_t)i) == 1);
		byte = (char)~byte;
		ck_assert(pwrite(fd, &byte, 1, from + (off_t)i) == 1);
	}
	const struct timespec times[] = {status.st_atim, status.st_mtim};
	ck_assert_int_eq(futimens(fd, times), 0);
	close(fd);
}

static off_t section_offset(const char *path, const char *section)
{
	char command[9000], *out;
	snprintf(command, sizeof(command),
		"readelf -SW %s | sed -n 's/.*\\%s  *PROGBITS  *[0-9a-f]* \\([0-9a-f]*\\) "
		".*/\\1/p'",
		path, section);
	ck_assert_int_eq(
		run_program((const char *[]){"sh", "-c", command, NULL}, RUN_MS, &out, NULL), 0);
	const off_t ret = (off_t)strtoull(out, NULL, 16);
	ck_assert_msg(ret > 0, "no %s in %s: %s", section, path, out);
	free(out);
	return ret;
}

HT_TEST(a_second_run_reads_no_debug_information)
{
	struct stripped at = record_stripped();
	char *copy = tmpdir_path("named.htap"), *debug = files_path(at.debug_dir, "p.debug");
	resolve(&at, copy);
	check_named(&at, copy);
	free(cache_file());
	spoil(debug, section_offset(debug, ".debug_info"), 64);
	resolve(&at, copy);
	check_named(&at, copy);
	/* With another modification time it is another file, for which the cache is not valid. */
	int fd = open(debug, O_WRONLY | O_CLOEXEC);
	ck_assert_int_eq(futimens(fd, NULL), 0);
	close(fd);
	resolve(&at, copy);
	ck_assert_uint_lt(
		figure(copy, at.program, "with_line"), figure(copy, at.program, "addresses"));
}

HT_TEST(a_damaged_cache_is_written_anew)
{
	struct stripped at = record_stripped();
	char *copy = tmpdir_path("named.htap");
	resolve(&at, copy);
	char *path = cache_file();
	struct bytes_out before = content_of(path);
	static const off_t place[] = {0, 9, 40, 100, 130, 200};
	for (size_t i = 0; i < HT_ARRAY_SIZE(place); i++) {
		spoil(path, place[i], 1);
		resolve(&at, copy);
		check_named(&at, copy);
		struct bytes_out after = content_of(path);
		ck_assert_msg(is_same(&before, &after), "byte %ld", (long)place[i]);
		bytes_out_deinit(&after);
	}
	ck_assert_int_eq(truncate(path, 50), 0);
	resolve(&at, copy);
	check_named(&at, copy);
	struct bytes_out after = content_of(path);
	ck_assert(is_same(&before, &after));
}

/* --- without names -----------------------------------------------------------------------------
 */

static void check_no_string(const struct bytes_out *records, const json_t *value)
{
	const char *text = json_string_value(value);
	const size_t length = text ? strlen(text) : 0;
	if (length >= 4)
		ck_assert_msg(!memmem(records->data, records->length, text, length),
			"the copy has \"%s\"", text);
}

/* The numbers of each stack must be the same in the copy. Their order may differ: compares sums and
 * sums of squares. */
static void check_stacks(const json_t *old, const json_t *new)
{
	const json_t *before = report_at(old, "stacks"), *after = report_at(new, "stacks");
	ck_assert_uint_eq(json_array_size(before), json_array_size(after));
	static const char *const metric[] = {"allocations", "allocated_bytes", "outstanding_bytes",
		"outstanding_blocks", "temporary", "peak_bytes"};
	for (size_t m = 0; m < HT_ARRAY_SIZE(metric); m++) {
		uint64_t sum[2] = {0}, squares[2] = {0};
		for (size_t i = 0; i < json_array_size(before); i++) {
			const uint64_t a = report_u64(json_array_get(before, i), metric[m]);
			const uint64_t b = report_u64(json_array_get(after, i), metric[m]);
			sum[0] += a;
			sum[1] += b;
			squares[0] += a * a;
			squares[1] += b * b;
		}
		ck_assert_msg(sum[0] == sum[1] && squares[0] == squares[1], "%s", metric[m]);
	}
}

static struct bytes_out records_of(const char *trace)
{
	static struct rec rec;
	struct bytes_out all = {0};
	struct trace_reader *reader;
	enum trace_end end;
	int fd = open(trace, O_RDONLY | O_CLOEXEC);
	ck_no_err(trace_reader_create(fd, trace, &reader));
	for (;;) {
		ck_no_err(trace_reader_next(reader, &rec, &end));
		if (end != TRACE_MORE)
			break;
		ck_no_err(bytes_out_put(&all, rec.raw.data, rec.raw.length));
	}
	trace_reader_destroy(reader);
	close(fd);
	return all;
}

HT_TEST(anonymous)
{
	char *trace = tmpdir_path("open.htap"), *copy = tmpdir_path("public.htap");
	char *kept = tmpdir_path("kept.htap");
	char *program =
		compile((const char *[]){"gcc", "-O1", "-g", "-Wl,--build-id", NULL}, source, NULL);
	must((const char *[]){"run", "--mmap", "-o", trace, program, NULL});
	must((const char *[]){"anonymize", trace, "-o", copy, NULL});
	must((const char *[]){"anonymize", trace, "--keep-system", "-o", kept, NULL});
	json_t *old = report_load(trace), *new = report_load(copy);
	ck_assert(json_equal(report_at(old, "totals"), report_at(new, "totals")));
	check_stacks(old, new);
	check_stacks(old, report_load(kept));
	struct bytes_out records = records_of(copy), kept_records = records_of(kept);
	size_t index;
	json_t *frame;
	json_array_foreach(report_at(old, "frames"), index, frame)
	{
		check_no_string(&records, json_object_get(frame, "function"));
		check_no_string(&records, json_object_get(frame, "file"));
		check_no_string(&records, json_object_get(frame, "module"));
		check_no_string(&records, json_object_get(frame, "build_id"));
	}
	check_no_string(&records, report_at(old, "target.exe"));
	check_no_string(&records, report_at(old, "target.comm"));
	check_no_string(&records, report_at(old, "target.kernel"));
	ck_assert(!memmem(records.data, records.length, "libc", 4));
	ck_assert(memmem(kept_records.data, kept_records.length, "/libc.so.6", 10));
	ck_assert(!memmem(kept_records.data, kept_records.length, "quiet_worker", 12));
	char *out;
	ck_assert_int_eq(heaptap((const char *[]){"report", copy, NULL}, &out, NULL), 0);
	ck_assert_msg(strstr(out, "f_"), "%s", out);
}

/* --- as a whole, or not at all -----------------------------------------------------------------
 */

static void check_refused(const char *const words[], int want, const char *reason)
{
	HT_FREED char *out, *err;
	const int status = heaptap(words, &out, &err);
	ck_assert_msg(status == want, "%s: %d instead of %d: %s", words[0], status, want, err);
	ck_assert_msg(strstr(err, reason), "no \"%s\": %s", reason, err);
	ck_assert_str_eq(out, "");
}

static void check_files(const char *const command[2])
{
	char *trace = tmpdir_path("whole.htap"), *there = tmpdir_path("there.htap");
	char *no_trace = tmpdir_path("nonsense.htap");
	files_write(there, "precious\n");
	files_write(no_trace, "no trace, and long enough to be called one\n");
	must((const char *[]){"run", "-f", "-o", trace, "true", NULL});
	const char *flag = command[1];
	check_refused((const char *[]){command[0], trace, "-o", there, flag, NULL}, 2,
		"exists; -f replaces it");
	files_check(there, "precious\n");
	check_refused((const char *[]){command[0], trace, "-f", "-o", trace, flag, NULL}, 2,
		"is the trace itself");
	check_refused(
		(const char *[]){command[0], no_trace, "-f", "-o", there, flag, NULL}, 9, no_trace);
	files_check(there, "precious\n");
	check_refused((const char *[]){command[0], trace, "-o", "/none/x.htap", flag, NULL}, 1,
		"/none/x.htap");
	if (flag)
		check_refused(
			(const char *[]){command[0], trace, flag, NULL}, 2, "-o OUT is missing");
	must((const char *[]){command[0], trace, "-f", "-o", there, flag, NULL});
	json_decref(report_load(there));
	/* The copy of an incomplete trace is incomplete. */
	struct stat status;
	ck_assert_int_eq(stat(trace, &status), 0);
	ck_assert_int_eq(truncate(trace, status.st_size - 5), 0);
	char *err;
	ck_assert_int_eq(heaptap((const char *[]){command[0], trace, "-f", "-o", there, flag, NULL},
				 NULL, &err),
		7);
	ck_assert_ptr_nonnull(strstr(err, "warning: "));
	ck_assert_int_eq(heaptap((const char *[]){"report", there, NULL}, NULL, &err), 7);
	char pattern[9000];
	snprintf(pattern, sizeof(pattern), "! ls %s.part-*", there);
	sh(pattern);
}

HT_TEST(a_copy_is_whole_or_not_there)
{
	check_files((const char *[]){"anonymize", NULL});
	check_files((const char *[]){"symbols", "--resolve"});
	check_refused((const char *[]){"anonymize", "x.htap", NULL}, 2, "-o OUT is missing");
	check_refused(
		(const char *[]){"symbols", "x.htap", "-o", "y", NULL}, 2, "-o needs --resolve");
	check_refused(
		(const char *[]){"symbols", "x.htap", "--fd", "3", NULL}, 2, "--fd needs --emit");
	check_refused((const char *[]){"symbols", NULL}, 2, "trace file is missing");
}

HT_SUITE("integration/copies")
