/* SPDX-License-Identifier: Apache-2.0
 *
 * The start code of a static program: it is found in the file, and never runs again once it has
 * called main.
 */
#include "attach/elf/startcode.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/process/proc_open.h"
#include "tests/support/ht_check.h"

#define BIAS   0x555500000000ull
#define START  (BIAS + 0x1010)
#define CALLED (BIAS + 0x1800)

/* A file whose code begins at offset 0x1000. */
static uint8_t code[4096];
static const struct module module = {.bias = BIAS,
	.segment = {{.vaddr = 0x1000,
		.memsz = 4096,
		.filesz = 4096,
		.offset = 0x1000,
		.flags = PF_R | PF_X}},
	.segment_count = 1};

static void put_call(size_t at, raddr_t to)
{
	int32_t far = (int32_t)(to - (BIAS + 0x1000 + at + 5));
	code[at] = 0xe8;
	memcpy(code + at + 1, &far, sizeof(far));
}

static struct startcode settle(uint64_t bytes, raddr_t call)
{
	int fd = memfd_create("startcode", MFD_CLOEXEC);
	ck_assert_int_eq(ftruncate(fd, 0x2000), 0);
	ck_assert_int_eq(pwrite(fd, code, sizeof(code), 0x1000), (int)sizeof(code));
	struct elf_file file = {.fd = fd, .bytes = 0x2000, .left = ELF_FILE_READ_MAX};
	struct startcode found = {0};
	raddr_t main_caller = 0;
	startcode_note(&found, &main_caller, START, bytes, "__libc_start_main");
	startcode_note(&found, &main_caller, call, 16, "__libc_start_call_main");
	startcode_note(&found, &main_caller, START + 1, 1, "main");
	startcode_settle(&found, main_caller, &module, &file);
	close(fd);
	return found;
}

HT_TEST(its_names_are_in_the_filter)
{
	struct beginnings names = {0};
	startcode_add_beginnings(&names);
	ck_assert(beginnings_may_have(&names, "__libc_start_main"));
	ck_assert(beginnings_may_have(&names, "__libc_start_call_main"));
	ck_assert(!beginnings_may_have(&names, "main"));
}

HT_TEST(one_call_and_no_other)
{
	ck_assert_uint_eq(settle(0x100, CALLED).addr, 0);
	put_call(0x40, CALLED);
	put_call(0x60, CALLED + 1);
	struct startcode found = settle(0x100, CALLED);
	ck_assert_uint_eq(found.addr, START);
	ck_assert_uint_eq(found.bytes, 0x100);
	ck_assert_uint_eq(found.return_to, BIAS + 0x1045);
	/* The call lies after the function's end, or the function beyond the file's bytes. */
	ck_assert_uint_eq(settle(0x20, CALLED).addr, 0);
	ck_assert_uint_eq(settle(0x1000, CALLED).addr, 0);
	ck_assert_uint_eq(settle(0x100, 0).addr, 0);
	put_call(0x80, CALLED);
	ck_assert_uint_eq(settle(0x100, CALLED).addr, 0);
}

/* This process began like any other: its stack has return addresses of real code, not a made-up
 * one. */
HT_TEST(over_when_main_was_called)
{
	/* Static, so that the value is not on the stack that is searched. */
	static struct startcode code_of = {.return_to = 0x123456789};
	struct proc proc;
	bool over;
	ck_no_err(proc_open(getpid(), &proc));
	ck_no_err(proc_open_mem(&proc));
	ck_no_err(startcode_is_over(&proc, &code_of, &over));
	ck_assert(!over);
	code_of.return_to = 0;
	ck_no_err(startcode_is_over(&proc, &code_of, &over));
	ck_assert(!over);
	/* The outermost frames are on the stack of the first thread: of _start, and behind it of
	 * the C library's start. One of these words leads into this program. */
	unsigned found = 0;
	extern const char etext[], __executable_start[];
	for (size_t i = 0; i < (size_t)(etext - __executable_start); i++) {
		if (__executable_start[i] !=
			(char)0xf4) /* hlt, the instruction behind _start's only call */
			continue;
		code_of.return_to = (raddr_t)&__executable_start[i];
		ck_no_err(startcode_is_over(&proc, &code_of, &over));
		found += over;
	}
	ck_assert_uint_ge(found, 1);
	proc_close(&proc);
}

HT_SUITE("attach/startcode")
