/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/remote.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/tmpdir.h"

#define PLACE_BYTES 64u

/* A page of code of a file, in this process, and the stub's place in it. */
struct place {
	struct proc self;
	int file_fd;
	uint8_t *page;
	struct remote_slack slack;
};

static void place_init(struct place *place)
{
	char *path = tmpdir_path("code");
	ck_no_err(proc_open(getpid(), &place->self));
	ck_no_err(proc_open_mem(&place->self));
	place->file_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert_int_ge(place->file_fd, 0);
	ck_assert_int_eq(ftruncate(place->file_fd, HT_PAGE_BYTES), 0);
	place->page =
		mmap(NULL, HT_PAGE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, place->file_fd, 0);
	ck_assert_ptr_ne(place->page, MAP_FAILED);
	place->slack = (struct remote_slack){
		.addr = (raddr_t)(uintptr_t)place->page + 128, .bytes = PLACE_BYTES};
	free(path);
}

static void place_deinit(struct place *place)
{
	munmap(place->page, HT_PAGE_BYTES);
	close(place->file_fd);
	proc_close(&place->self);
}

START_TEST(what_is_no_stub_is_left_alone)
{
	struct place place;
	bool holds = true;
	place_init(&place);
	ck_no_err(remote_slack_holds_stub(&place.self, &place.slack, &holds));
	ck_assert(!holds);
	memset(place.slack.original, 0xcc, PLACE_BYTES);
	ck_no_err(remote_slack_restore(&place.self, &place.slack));
	ck_assert_uint_eq(place.page[128], 0);
	/* Its module is gone. */
	munmap(place.page, HT_PAGE_BYTES);
	ck_no_err(remote_slack_holds_stub(&place.self, &place.slack, &holds));
	ck_assert(!holds);
	ck_no_err(remote_slack_restore(&place.self, &place.slack));
	place_deinit(&place);
}
END_TEST

START_TEST(what_cannot_be_read_may_be_a_stub)
{
	struct place place;
	bool holds;
	place_init(&place);
	ck_assert_int_eq(ftruncate(place.file_fd, 0), 0);
	ck_err_says(remote_slack_holds_stub(&place.self, &place.slack, &holds), HT_ERR_SYS,
		"cannot read the stub's place");
	ck_err_says(remote_slack_restore(&place.self, &place.slack), HT_ERR_SYS,
		"cannot read the stub's place");
	place_deinit(&place);
}
END_TEST

HT_SUITE("attach/inject/remote", what_is_no_stub_is_left_alone, what_cannot_be_read_may_be_a_stub)
