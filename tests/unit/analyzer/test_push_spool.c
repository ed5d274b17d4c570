/* SPDX-License-Identifier: Apache-2.0
 *
 * The spool of push: windows wait in order and within a bound, and a window that was sent is not
 * added again.
 */
#include "analyzer/push/spool.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"

#define KEY(digit) "0000000000000000000000000000000" digit

static struct ht_err *write_text(FILE *out, void *context)
{
	fputs(context, out);
	return NULL;
}

static struct ht_err *write_fails(FILE *out, void *context)
{
	fputs(context, out);
	return ht_err_new(HT_ERR_NOMEM, "no");
}

static enum push_added add(
	struct push_spool *spool, const char *key, const char *text, size_t *dropped)
{
	enum push_added added;
	struct ht_err *err = push_spool_add(spool, key, write_text, (void *)text, &added, dropped);
	ck_assert_msg(!err, "%s", err ? err->message : "");
	return added;
}

static void check_windows(struct push_spool *spool, const char *const keys[], size_t count)
{
	char name[PUSH_SPOOL_NAME_BYTES] = "";
	for (size_t i = 0; i < count; i++) {
		ck_assert(push_spool_next(spool, name, name));
		ck_assert_msg(strstr(name, keys[i]), "%s", name);
	}
	ck_assert(!push_spool_next(spool, name, name));
}

HT_TEST(order_bound_and_memory)
{
	static const char *const both[] = {KEY("2"), KEY("3")}, *const last[] = {KEY("3")};
	char *base = tmpdir_path("spool"), name[PUSH_SPOOL_NAME_BYTES] = "";
	struct push_spool spool;
	struct stat stat;
	size_t dropped, windows;
	uint64_t bytes;
	enum push_added added;
	ck_assert_ptr_null(push_spool_open(base, "address", 10, &spool));
	ck_assert_int_eq(fstat(spool.dir, &stat), 0);
	ck_assert_uint_eq(stat.st_mode & 0777, 0700);
	ck_assert_int_eq(add(&spool, KEY("1"), "12345", &dropped), PUSH_ADDED);
	ck_assert_int_eq(add(&spool, KEY("2"), "12345", &dropped), PUSH_ADDED);
	ck_assert_uint_eq(dropped, 0);
	ck_assert_int_eq(add(&spool, KEY("2"), "12345", &dropped), PUSH_WAITS);
	ck_assert_int_eq(add(&spool, KEY("3"), "12345", &dropped), PUSH_ADDED);
	ck_assert_uint_eq(dropped, 1);
	ck_assert_uint_eq(push_spool_dropped(&spool), 1);
	check_windows(&spool, both, 2);
	/* A window that cannot be written, or is too large, leaves nothing. */
	ck_assert(ht_err_drop(
		push_spool_add(&spool, KEY("4"), write_fails, (void *)"1", &added, &dropped)));
	ck_assert(ht_err_drop(push_spool_add(
		&spool, KEY("4"), write_text, (void *)"12345678901", &added, &dropped)));
	push_spool_count(&spool, &windows, &bytes);
	ck_assert_uint_eq(windows, 2);
	ck_assert_uint_eq(bytes, 10);
	ck_assert(push_spool_next(&spool, "", name));
	push_spool_taken(&spool, name, KEY("2"));
	check_windows(&spool, last, 1);
	push_spool_close(&spool);
	/* A spool that is opened again knows what was sent; windows for another address are
	 * separate. */
	ck_assert_ptr_null(push_spool_open(base, "address", 10, &spool));
	ck_assert_int_eq(add(&spool, KEY("2"), "12345", &dropped), PUSH_SENT);
	push_spool_close(&spool);
	ck_assert_ptr_null(push_spool_open(base, "another", 10, &spool));
	ck_assert_int_eq(add(&spool, KEY("2"), "12345", &dropped), PUSH_ADDED);
	push_spool_close(&spool);
	free(base);
}

HT_TEST(one_process_sends)
{
	HT_FREED char *base = tmpdir_path("locked");
	struct push_spool spool, other;
	ck_assert_ptr_null(push_spool_open(base, "address", 10, &spool));
	ck_assert_ptr_null(push_spool_open(base, "address", 10, &other));
	ck_assert(push_spool_lock(&spool));
	ck_assert(!push_spool_lock(&other));
	push_spool_unlock(&spool);
	ck_assert(push_spool_lock(&other));
	push_spool_close(&other);
	push_spool_close(&spool);
}

/* A file that a killed process has begun is no window, and is removed. */
HT_TEST(a_killed_writer_leaves_nothing)
{
	char *base = tmpdir_path("killed"), name[PUSH_SPOOL_NAME_BYTES];
	struct push_spool spool;
	ck_assert_ptr_null(push_spool_open(base, "address", 10, &spool));
	const pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	snprintf(name, sizeof(name), ".new-%d", (int)pid);
	const int fd = openat(spool.dir, name, O_WRONLY | O_CREAT, 0600);
	ck_assert_int_ge(fd, 0);
	close(fd);
	check_windows(&spool, NULL, 0);
	push_spool_close(&spool);
	ck_assert_ptr_null(push_spool_open(base, "address", 10, &spool));
	ck_assert_int_lt(faccessat(spool.dir, name, F_OK, 0), 0);
	push_spool_close(&spool);
	free(base);
}

HT_SUITE("analyzer/push_spool")
