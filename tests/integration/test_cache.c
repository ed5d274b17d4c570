/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache of unwind tables: the second attach uses the tables that the first stored, and a broken
 * cache never changes a capture. test_chain compares stacks that use cached tables.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define PROGRAM	  "chain-gcc-O2"
#define ANSWER_MS 60000
#define FILES_MAX 32
#define NOBODY	  65534
/* heaptap caches the tables of all modules but one, the vDSO. */
#define NEVER_KEPT 1

struct counts {
	uint64_t cached, compiled;
};

/* A capture, and the target's snapshot from before it. */
struct capture {
	struct victim victim;
	struct procsnap *before;
	struct tap tap;
};

static void capture_start(struct capture *capture, const char *const words[])
{
	const char *argv[24];
	char pid[16];
	size_t count = 0;
	victim_start(&capture->victim, (const char *[]){run_built("tests/targets/" PROGRAM), NULL});
	capture->before = procsnap_take(capture->victim.pid, PROCSNAP_MODULES_GROW);
	snprintf(pid, sizeof(pid), "%d", capture->victim.pid);
	for (; words && *words; words++)
		argv[count++] = *words;
	const char *const rest[] = {run_built("heaptap"), "attach", "-p", pid, "-o", "/dev/null",
		"-f", "--json", "--symbolize", "later", NULL};
	memcpy(argv + count, rest, sizeof(rest));
	capture->tap = (struct tap){.target = capture->victim.pid};
	run_start(&capture->tap.run, argv);
}

/* Ends the capture. heaptap must leave nothing, and print nothing but its progress to stderr. */
static struct counts capture_end(struct capture *capture)
{
	tap_wait_on(&capture->tap, PROGRAM);
	free(victim_ask(&capture->victim, "go", ANSWER_MS));
	json_t *attach = tap_stop(&capture->tap, 0);
	tap_check_clean(attach);
	ck_assert_uint_gt(report_u64(attach, "events"), 0);
	struct counts counts = {
		report_u64(attach, "tables_cached"), report_u64(attach, "tables_compiled")};
	json_decref(attach);
	procsnap_verify(capture->before, capture->victim.pid);
	victim_stop(&capture->victim);
	return counts;
}

static struct counts attach_with(const char *const words[])
{
	struct capture capture;
	capture_start(&capture, words);
	return capture_end(&capture);
}

static void check_cold(struct counts counts)
{
	ck_assert_uint_eq(counts.cached, 0);
	ck_assert_uint_ge(counts.compiled, 3);
}

static void check_warm(struct counts counts)
{
	ck_assert_uint_ge(counts.cached, 2);
	ck_assert_uint_eq(counts.compiled, NEVER_KEPT);
}

struct file {
	char name[256];
	size_t bytes;
	uint8_t *data;
};

/* The files of the cache, sorted by name. */
struct files {
	size_t count;
	struct file file[FILES_MAX];
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct file *)a)->name, ((const struct file *)b)->name);
}

static void files_read(const char *directory, struct files *ret)
{
	DIR *dir = opendir(directory);
	*ret = (struct files){0};
	ck_assert_ptr_nonnull(dir);
	for (const struct dirent *entry; (entry = readdir(dir));) {
		struct stat st;
		struct file *file = &ret->file[ret->count];
		if (entry->d_name[0] == '.')
			continue;
		ck_assert_uint_lt(++ret->count, FILES_MAX);
		snprintf(file->name, sizeof(file->name), "%s", entry->d_name);
		int fd = openat(dirfd(dir), file->name, O_RDONLY | O_CLOEXEC);
		ck_assert(fd >= 0 && fstat(fd, &st) == 0);
		ck_assert_int_eq(st.st_mode & 07777, 0600);
		file->bytes = (size_t)st.st_size;
		file->data = malloc(file->bytes + 1);
		ck_assert_int_eq(read(fd, file->data, file->bytes), st.st_size);
		close(fd);
	}
	closedir(dir);
	qsort(ret->file, ret->count, sizeof(ret->file[0]), by_name);
}

static void files_compare(const struct files *a, const struct files *b)
{
	ck_assert_uint_eq(a->count, b->count);
	for (size_t i = 0; i < a->count; i++) {
		ck_assert_str_eq(a->file[i].name, b->file[i].name);
		ck_assert_uint_eq(a->file[i].bytes, b->file[i].bytes);
		ck_assert_mem_eq(a->file[i].data, b->file[i].data, a->file[i].bytes);
	}
}

static void file_write(const char *directory, const struct file *file, size_t bytes)
{
	char path[4400];
	snprintf(path, sizeof(path), "%s/%s", directory, file->name);
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, file->data, bytes), (ssize_t)bytes);
	close(fd);
}

HT_TEST(second_attach_compiles_nothing)
{
	struct files first, second;
	HT_FREED char *directory = tmpdir_path("cache/heaptap");
	check_cold(attach_with(NULL));
	files_read(directory, &first);
	check_warm(attach_with(NULL));
	files_read(directory, &second);
	files_compare(&first, &second);
}

HT_TEST(not_wanted)
{
	HT_FREED char *directory = tmpdir_path("cache");
	struct victim victim;
	struct tap tap;
	for (int i = 0; i < 2; i++) {
		victim_start(&victim, (const char *[]){run_built("tests/targets/" PROGRAM), NULL});
		tap_start(&tap, victim.pid, (const char *[]){"--no-cache", NULL});
		tap_wait_on(&tap, PROGRAM);
		json_t *attach = tap_stop(&tap, 0);
		tap_check_clean(attach);
		ck_assert_uint_eq(report_u64(attach, "tables_cached"), 0);
		json_decref(attach);
		victim_stop(&victim);
		ck_assert_int_eq(access(directory, F_OK), -1);
	}
}

/* Damages each cached file in one of several ways. heaptap must compile all tables again, and write
 * the same files. */
HT_TEST(damaged)
{
	struct files before, after;
	HT_FREED char *directory = tmpdir_path("cache/heaptap");
	check_cold(attach_with(NULL));
	files_read(directory, &before);
	for (size_t i = 0; i < before.count; i++) {
		struct file *file = &before.file[i];
		size_t at = i % 3 == 0 ? file->bytes / 2 : i % 3 == 1 ? 200 : file->bytes - 1;
		file->data[at] ^= 0x40;
		file_write(directory, file, i % 2 ? file->bytes : file->bytes - 1);
		file->data[at] ^= 0x40;
	}
	check_cold(attach_with(NULL));
	files_read(directory, &after);
	files_compare(&before, &after);
	check_warm(attach_with(NULL));
}

HT_TEST(two_at_once)
{
	struct capture capture[2];
	for (int i = 0; i < 2; i++)
		capture_start(&capture[i], NULL);
	for (int i = 0; i < 2; i++)
		ck_assert_uint_ge(capture_end(&capture[i]).compiled, NEVER_KEPT);
	check_warm(attach_with(NULL));
}

/* heaptap neither reads nor writes its cache while it is attached, because the cache may be on a
 * file system that stalls. */
HT_TEST(libraries_that_come_later_are_compiled)
{
	struct files before, after;
	HT_FREED char *directory = tmpdir_path("cache/heaptap");
	for (int round = 0; round < 2; round++) {
		struct victim victim;
		struct tap tap;
		victim_start(&victim, (const char *[]){run_built("tests/targets/plughost"), NULL});
		tap_start_changing(&tap, victim.pid, PROCSNAP_MODULES_GROW, NULL);
		tap_wait_any(&tap);
		if (round)
			files_read(directory, &after);
		else
			files_read(directory, &before);
		free(victim_ask(&victim, "open", ANSWER_MS));
		tap_wait_on(&tap, "/libplug.so");
		json_t *attach = tap_stop(&tap, 0);
		tap_check_clean(attach);
		ck_assert_uint_ge(report_u64(attach, "tables_compiled"), NEVER_KEPT + 1);
		json_decref(attach);
		victim_stop(&victim);
	}
	files_compare(&before, &after);
	files_read(directory, &after);
	files_compare(&before, &after);
}

/* Mounts a small file system in a mount namespace that heaptap inherits. False: the test does not
 * run as root. */
static bool mount_small(const char *directory, const char *options)
{
	if (geteuid() != 0) {
		printf("skipped: cache: needs root for a file system of its own\n");
		return false;
	}
	ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
	ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	ck_assert_int_eq(mount("small", directory, "tmpfs", 0, options), 0);
	return true;
}

HT_TEST(read_only)
{
	struct files before, after;
	char *cache = tmpdir_path("cache"), *directory = tmpdir_path("cache/heaptap");
	ck_assert_int_eq(mkdir(cache, 0700), 0);
	if (!mount_small(cache, "size=100m"))
		return;
	ck_assert_int_eq(mount(NULL, cache, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	check_cold(attach_with(NULL));
	check_cold(attach_with(NULL));
	ck_assert_int_eq(access(directory, F_OK), -1);
	ck_assert_int_eq(mount(NULL, cache, NULL, MS_REMOUNT, NULL), 0);
	check_cold(attach_with(NULL));
	files_read(directory, &before);
	ck_assert_int_eq(mount(NULL, cache, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	check_warm(attach_with(NULL));
	files_read(directory, &after);
	files_compare(&before, &after);
	ck_assert_int_eq(umount2(cache, MNT_DETACH), 0);
	free(cache);
	free(directory);
}

/* A table that does not fit on the disk is not cached, not even in part. */
HT_TEST(full_disk)
{
	struct files files;
	char *cache = tmpdir_path("cache"), *directory = tmpdir_path("cache/heaptap");
	ck_assert_int_eq(mkdir(cache, 0700), 0);
	if (!mount_small(cache, "size=200k"))
		return;
	check_cold(attach_with(NULL));
	files_read(directory, &files);
	struct counts counts = attach_with(NULL);
	ck_assert_uint_eq(counts.cached, files.count);
	ck_assert_uint_gt(counts.compiled, NEVER_KEPT);
	for (size_t i = 0; i < files.count; i++)
		ck_assert_ptr_nonnull(strstr(files.file[i].name, ".table"));
	ck_assert_int_eq(umount2(cache, MNT_DETACH), 0);
	free(cache);
	free(directory);
}

HT_TEST(cache_of_another_user)
{
	char *cache = tmpdir_path("cache"), *directory = tmpdir_path("cache/heaptap");
	if (geteuid() != 0) {
		printf("skipped: cache: needs root for a second user\n");
		return;
	}
	check_cold(attach_with(NULL));
	ck_assert_int_eq(chown(directory, NOBODY, NOBODY), 0);
	check_cold(attach_with(NULL));
	ck_assert_int_eq(chown(directory, 0, 0), 0);
	check_warm(attach_with(NULL));
	ck_assert_int_eq(chmod(directory, 0777), 0);
	check_cold(attach_with(NULL));
	free(cache);
	free(directory);
}

/* Without HOME, root's heaptap uses /var/cache/heaptap, and works where it is read-only. */
HT_TEST(without_home)
{
	static const char *const nowhere[] = {
		"/usr/bin/env", "-u", "HOME", "-u", "XDG_CACHE_HOME", NULL};
	if (!mount_small("/var/cache", "size=100m"))
		return;
	check_cold(attach_with(nowhere));
	check_warm(attach_with(nowhere));
	ck_assert_int_eq(access("/var/cache/heaptap", F_OK), 0);
	ck_assert_int_eq(mount(NULL, "/var/cache", NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
	check_warm(attach_with(nowhere));
	static const char *const relative[] = {"/usr/bin/env", "XDG_CACHE_HOME=cache", NULL};
	check_warm(attach_with(relative));
	static const char *const missing[] = {"/usr/bin/env", "XDG_CACHE_HOME=/no/such", NULL};
	check_cold(attach_with(missing));
	ck_assert_int_eq(umount2("/var/cache", MNT_DETACH), 0);
}

HT_SUITE("integration/cache")
