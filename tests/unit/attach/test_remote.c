/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/stub/remote.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/memory/memory.h"
#include "attach/memory/proc_map.h"
#include "attach/process/proc_open.h"
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
	HT_FREED char *path = tmpdir_path("code");
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
}

static void place_deinit(struct place *place)
{
	munmap(place->page, HT_PAGE_BYTES);
	close(place->file_fd);
	proc_close(&place->self);
}

HT_TEST(leaves_other_code_alone)
{
	struct place place;
	bool holds = true;
	place_init(&place);
	ck_no_err(remote_slack_holds_stub(&place.self, &place.slack, &holds));
	ck_assert(!holds);
	memset(place.slack.original, 0xcc, PLACE_BYTES);
	ck_no_err(remote_slack_restore(&place.self, &place.slack));
	ck_assert_uint_eq(place.page[128], 0);
	/* The module is unmapped now. */
	munmap(place.page, HT_PAGE_BYTES);
	ck_no_err(remote_slack_holds_stub(&place.self, &place.slack, &holds));
	ck_assert(!holds);
	ck_no_err(remote_slack_restore(&place.self, &place.slack));
	place_deinit(&place);
}

HT_TEST(unreadable_code_may_be_a_stub)
{
	struct place place;
	bool holds;
	place_init(&place);
	ck_assert_int_eq(ftruncate(place.file_fd, 0), 0);
	ck_err_says(remote_slack_holds_stub(&place.self, &place.slack, &holds), HT_ERR_SYS,
		"cannot read the bytes behind the code");
	ck_err_says(remote_slack_restore(&place.self, &place.slack), HT_ERR_SYS,
		"cannot read the bytes behind the code");
	place_deinit(&place);
}

/* --- the choice of the stub's place -------------------------------------------------------------
 */

#define TEXT_BYTES 64u

/* Two libraries of one page each. The first has more unused bytes behind its code. */
struct libraries {
	struct proc self;
	struct place place[2];
	struct module module[2];
	struct proc_map map[2];
	struct modules modules;
	struct proc_maps maps;
};

static void libraries_init(struct libraries *libraries)
{
	ck_no_err(proc_open(getpid(), &libraries->self));
	ck_no_err(proc_open_mem(&libraries->self));
	struct place one, other;
	place_init(&one);
	place_init(&other);
	bool ascend = one.page < other.page;
	libraries->place[0] = ascend ? one : other;
	libraries->place[1] = ascend ? other : one;
	for (size_t i = 0; i < 2; i++) {
		struct place *place = &libraries->place[i];
		uint8_t text[HT_PAGE_BYTES];
		struct stat stat;
		memset(text, 0x5a, sizeof(text));
		ck_assert_int_eq(pwrite(place->file_fd, text, sizeof(text), 0), sizeof(text));
		ck_assert_int_eq(fstat(place->file_fd, &stat), 0);
		libraries->map[i] = (struct proc_map){.lo = (raddr_t)(uintptr_t)place->page,
			.hi = (raddr_t)(uintptr_t)place->page + HT_PAGE_BYTES,
			.inode = stat.st_ino,
			.read = true,
			.exec = true,
			.name = i ? "second" : "first"};
		libraries->module[i] = (struct module){.bias = libraries->map[i].lo,
			.initial = true,
			.segment = {{.memsz = TEXT_BYTES * (i + 1), .flags = PF_R | PF_X}},
			.segment_count = 1};
	}
	libraries->modules = (struct modules){.module = libraries->module, .count = 2};
	libraries->maps = (struct proc_maps){.map = libraries->map, .count = 2};
}

static void libraries_deinit(struct libraries *libraries)
{
	for (size_t i = 0; i < 2; i++)
		place_deinit(&libraries->place[i]);
	proc_close(&libraries->self);
}

static void put(struct libraries *libraries, size_t which, size_t at, uint8_t byte)
{
	raddr_t addr = libraries->map[which].lo + at;
	ck_no_err(memory_write(&libraries->self, addr, &byte, 1));
}

static struct ht_err *prepare(struct libraries *libraries, struct remote_slack *ret)
{
	return remote_slack_prepare(
		&libraries->self, &libraries->modules, &libraries->maps, 0, ret);
}

static void check_chosen(struct libraries *libraries, size_t which)
{
	struct remote_slack slack;
	ck_no_err(prepare(libraries, &slack));
	ck_assert_uint_eq(slack.addr, libraries->map[which].lo + TEXT_BYTES * (which + 1));
	ck_assert_uint_eq(slack.original[0], 0x5a);
	ck_assert_uint_eq(slack.original[slack.bytes - 1], 0x5a);
}

HT_TEST(leaves_the_programs_bytes_after_its_code_alone)
{
	struct libraries libraries;
	struct remote_slack slack;
	libraries_init(&libraries);
	check_chosen(&libraries, 0);
	/* By now the page is the process's own copy, with the content of the file. */
	check_chosen(&libraries, 0);
	put(&libraries, 0, TEXT_BYTES + 200, 0xc3);
	check_chosen(&libraries, 1);
	put(&libraries, 0, TEXT_BYTES + 200, 0x5a);
	check_chosen(&libraries, 0);
	/* The byte behind the stub's place may differ from the file, the last byte in it may not.
	 */
	put(&libraries, 0, TEXT_BYTES + stub_map_bytes(0), 0xc3);
	check_chosen(&libraries, 0);
	put(&libraries, 0, TEXT_BYTES + stub_map_bytes(0) - 1, 0xc3);
	check_chosen(&libraries, 1);
	put(&libraries, 1, 2 * TEXT_BYTES, 0);
	ck_err_says(prepare(&libraries, &slack), HT_ERR_REFUSED, "has changed the bytes behind");
	libraries_deinit(&libraries);
}

HT_TEST(expects_zeros_if_the_file_is_unreadable)
{
	struct libraries libraries;
	libraries_init(&libraries);
	check_chosen(&libraries, 0);
	/* The mapped file is not the one at the path now. */
	libraries.map[0].inode++;
	check_chosen(&libraries, 1);
	for (size_t i = 0; i < stub_map_bytes(0); i++)
		put(&libraries, 0, TEXT_BYTES + i, 0);
	struct remote_slack slack;
	ck_no_err(prepare(&libraries, &slack));
	ck_assert_uint_eq(slack.addr, libraries.map[0].lo + TEXT_BYTES);
	libraries_deinit(&libraries);
}

/* If a stub stands in the first place, heaptap refuses, and chooses no other place. */
HT_TEST(a_stub_that_stands_there_refuses)
{
	struct libraries libraries;
	struct remote_slack slack;
	struct stub stub;
	const struct stub_map map = {.image = 1ull << 32, .image_bytes = 1 << 20, .name = "x"};
	const struct stub_thread thread = {0};
	libraries_init(&libraries);
	ck_no_err(stub_make_map(&map, libraries.map[0].lo + TEXT_BYTES, &thread, &stub));
	for (size_t i = 0; i < stub.length; i++)
		put(&libraries, 0, TEXT_BYTES + i, stub.bytes[i]);
	ck_err_says(prepare(&libraries, &slack), HT_ERR_REFUSED, "another heaptap");
	libraries_deinit(&libraries);
}

HT_SUITE("attach/stub/remote")
