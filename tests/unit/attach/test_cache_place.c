/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests where the cache lies, who may use it, how large it gets, and what happens when calls fail.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/deny.h"
#include "tests/unit/attach/cachestage.h"

#define MIB		  (1l << 20)
#define NEIGHBOURS_ROUNDS 200

HT_TEST(only_a_directory_of_ours_is_a_cache)
{
	setup();
	cache_close(opened());
	ck_assert_int_eq(chmod(place, 0770), 0);
	ck_assert_ptr_null(cache_open());
	ck_assert_int_eq(chmod(place, 0707), 0);
	ck_assert_ptr_null(cache_open());
	ck_assert_int_eq(chmod(place, 0755), 0);
	cache_close(opened());
	if (geteuid() == 0) {
		ck_assert_int_eq(chown(place, NOBODY, NOBODY), 0);
		ck_assert_ptr_null(cache_open());
		ck_assert_int_eq(chown(place, 0, 0), 0);
	}
	char *elsewhere = tmpdir_path("elsewhere");
	ck_assert_int_eq(rename(place, elsewhere), 0);
	ck_assert_int_eq(symlink(elsewhere, place), 0);
	ck_assert_ptr_null(cache_open());
	ck_assert_int_eq(unlink(place), 0);
	ck_assert_int_eq(mkfifo(place, 0600), 0);
	ck_assert_ptr_null(cache_open());
	free(elsewhere);
}

/* Permissions do not bind root, so the test becomes another user. */
static void become_nobody(void)
{
	char *directory = tmpdir_path("");
	if (geteuid() == 0) {
		ck_assert_int_eq(chown(directory, NOBODY, NOBODY), 0);
		ck_assert_int_eq(seteuid(NOBODY), 0);
	}
	free(directory);
}

static void become_oneself(void)
{
	if (geteuid() != getuid())
		ck_assert_int_eq(seteuid(getuid()), 0);
}

HT_TEST(a_place_is_found_or_not)
{
	setup();
	become_nobody();
	unsetenv("XDG_CACHE_HOME");
	setenv("HOME", home, 1);
	ck_assert_ptr_null(cache_open()); /* $HOME itself is not made */
	ck_assert_int_eq(mkdir(home, 0700), 0);
	cache_close(opened());
	char *path = tmpdir_path("home/.cache/heaptap");
	ck_assert(exists(path));
	free(path);
	unsetenv("HOME");
	ck_assert_ptr_null(cache_open());
	setenv("HOME", "relative", 1);
	setenv("XDG_CACHE_HOME", "relative", 1);
	ck_assert_ptr_null(cache_open());
	setenv("XDG_CACHE_HOME", "", 1);
	ck_assert_ptr_null(cache_open());
	setenv("XDG_CACHE_HOME", "/dev/null", 1);
	ck_assert_ptr_null(cache_open());
	setenv("XDG_CACHE_HOME", "/nowhere/to/be/found", 1);
	ck_assert_ptr_null(cache_open());
	char *longest = malloc(8192);
	memset(longest, '/', 8191);
	longest[8191] = '\0';
	setenv("XDG_CACHE_HOME", longest, 1);
	ck_assert_ptr_null(cache_open());
	free(longest);
	become_oneself();
}

HT_TEST(a_cache_that_cannot_be_written_is_read)
{
	static const uint8_t other_id[] = {1};
	const struct cache_key other = {other_id, sizeof(other_id)};
	struct cache_entry entry;
	setup();
	become_nobody();
	struct cache *cache = opened();
	cache_store(cache, &key, &input, table);
	cache_close(cache);
	ck_assert_int_eq(chmod(place, 0500), 0);
	cache = opened();
	ck_assert(loads(cache));
	cache_store(cache, &other, &input, table);
	ck_assert(!cache_load(cache, &other, &entry));
	ck_assert(loads(cache));
	cache_close(cache);
	ck_assert_uint_eq(files_there(), 1);
	ck_assert_int_eq(chmod(place, 0700), 0);
	become_oneself();
}

HT_TEST(on_a_full_disk_nothing_is_begun)
{
	setup();
	struct cache *cache = opened();
	signal(SIGXFSZ, SIG_IGN);
	for (rlim_t limit = 0; limit <= 512; limit += 64) {
		struct rlimit small = {limit, RLIM_INFINITY};
		ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
		cache_store(cache, &key, &input, table);
		small.rlim_cur = RLIM_INFINITY;
		ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
		ck_assert_uint_eq(files_there(), 0);
	}
	ck_assert(!loads(cache));
	cache_store(cache, &key, &input, table);
	ck_assert(loads(cache));
	cache_close(cache);
}

static void make_file(const char *called, off_t bytes, time_t age_s)
{
	char *path;
	ck_assert_int_gt(asprintf(&path, "%s/%s", place, called), 0);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	ck_assert(fd >= 0 && ftruncate(fd, bytes) == 0);
	const struct timespec then = {.tv_sec = time(NULL) - age_s};
	ck_assert_int_eq(futimens(fd, (const struct timespec[]){then, then}), 0);
	close(fd);
	free(path);
}

static bool is_there(const char *called)
{
	char *path;
	ck_assert_int_gt(asprintf(&path, "%s/%s", place, called), 0);
	bool there = exists(path);
	free(path);
	return there;
}

HT_TEST(the_least_recently_used_goes)
{
	setup();
	struct cache *cache = opened();
	cache_store(cache, &key, &input, table);
	cache_close(cache);
	make_file(name, 8192, 5000); /* damaged: never used again */
	make_file("a.table", 60 * MIB, 1000);
	make_file("b.table", 60 * MIB, 3000);
	make_file("c.table", 60 * MIB, 2000);
	make_file("d.table", 60 * MIB, 4000);
	make_file("e.table", 15 * MIB, 500);
	make_file("new.1", 1, 7200);
	make_file("new.2", 1, 10);
	make_file("precious", 300 * MIB, 9000);
	cache = opened();
	cache_close(cache); /* nothing stored */
	ck_assert(is_there("d.table") && is_there("new.1"));

	cache = opened();
	cache_store(cache, &key, &input, table);
	ck_assert(loads(cache));
	cache_close(cache);
	ck_assert(is_there("a.table") && is_there("b.table") && is_there("c.table"));
	ck_assert(is_there("e.table") && is_there(name) && is_there("new.2"));
	ck_assert(!is_there("new.1"));
	ck_assert(is_there("d.table")); /* the cache has less than its limit */

	make_file("f.table", 60 * MIB, 0);
	cache = opened();
	cache_store(cache, &key, &input, table);
	cache_close(cache);
	ck_assert(!is_there("d.table") && is_there("b.table"));
	ck_assert(is_there("precious"));
}

HT_TEST(use_keeps_an_entry_young)
{
	struct stat before, after;
	setup();
	struct cache *cache = opened();
	cache_store(cache, &key, &input, table);
	char *path = file_path();
	const struct timespec long_ago[] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	ck_assert_int_eq(utimensat(AT_FDCWD, path, long_ago, 0), 0);
	ck_assert_int_eq(stat(path, &before), 0);
	ck_assert(loads(cache));
	ck_assert_int_eq(stat(path, &after), 0);
	ck_assert_int_gt(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
	free(path);
	cache_close(cache);
}

/* A target can have any number of modules, of any size: what one attach stores is limited. */
HT_TEST(one_attach_does_not_fill_it)
{
	setup();
	size_t bytes = 20 * (size_t)MIB;
	uint8_t *large = calloc(1, bytes);
	struct unwind_input much = input;
	much.eh_frame = large;
	much.eh_frame_bytes = bytes;
	struct cache *cache = opened();
	for (uint8_t i = 1; i <= 12; i++)
		cache_store(cache, &(struct cache_key){&i, 1}, &much, table);
	ck_assert_uint_eq(files_there(), 6);
	cache_close(cache);
	cache = opened();
	much.eh_frame_bytes = CACHE_ENTRY_MAX;
	cache_store(cache, &key, &much, table);
	ck_assert_uint_eq(files_there(), 6);
	cache_close(cache);
	free(large);
}

static void neighbour(void)
{
	struct cache *cache = cache_open();
	for (unsigned i = 0; cache && i < NEIGHBOURS_ROUNDS; i++) {
		cache_store(cache, &key, &input, table);
		(void)loads(cache);
	}
	cache_close(cache);
}

HT_TEST(several_at_once_see_whole_entries)
{
	pid_t pid[3];
	setup();
	for (size_t i = 0; i < HT_ARRAY_SIZE(pid); i++) {
		pid[i] = fork();
		ck_assert_int_ge(pid[i], 0);
		if (!pid[i]) {
			neighbour();
			_exit(0);
		}
	}
	for (size_t i = 0; i < HT_ARRAY_SIZE(pid); i++) {
		int status;
		ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
		ck_assert_int_eq(status, 0);
	}
	struct cache *cache = opened();
	ck_assert(loads(cache));
	ck_assert_uint_eq(files_there(), 1);
	cache_close(cache);
}

static void use_without(uint32_t number, uint32_t error)
{
	deny_calls(number, (int)error);
	struct cache *cache = cache_open();
	(void)loads(cache);
	cache_store(cache, &key, &input, table);
	(void)loads(cache);
	cache_close(cache);
}

HT_TEST(any_call_may_fail)
{
	static const uint32_t numbers[] = {SYS_mkdir, SYS_mkdirat, SYS_open, SYS_openat, SYS_fstat,
		SYS_newfstatat, SYS_pread64, SYS_preadv, SYS_utimensat, SYS_write, SYS_renameat,
		SYS_unlinkat, SYS_getdents64, SYS_close, SYS_getpid, SYS_geteuid};
	static const uint32_t errors[] = {EPERM, EIO, EINTR, EMFILE, ENOSPC};
	setup();
	for (size_t i = 0; i < HT_ARRAY_SIZE(numbers) * HT_ARRAY_SIZE(errors); i++) {
		int status;
		uint32_t number = numbers[i / HT_ARRAY_SIZE(errors)];
		pid_t pid = fork();
		ck_assert_int_ge(pid, 0);
		if (!pid) {
			use_without(number, errors[i % HT_ARRAY_SIZE(errors)]);
			_exit(0);
		}
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_msg(status == 0, "call %u", number);
		struct cache *cache = opened();
		(void)loads(cache);
		cache_store(cache, &key, &input, table);
		ck_assert(loads(cache));
		cache_close(cache);
		ck_assert_uint_eq(files_there(), 1);
	}
}

HT_SUITE("attach/unwind/cache: its place")
