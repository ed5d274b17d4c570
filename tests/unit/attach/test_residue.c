/* SPDX-License-Identifier: Apache-2.0
 *
 * The comparison does not call a part equal that it cannot read. The process is this one, seen
 * through a directory of links to its /proc/PID, in which the tests make one part unreadable each.
 */
#include "attach/proof/residue.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/process/proc_open.h"
#include "tests/support/files.h"
#include "tests/support/ht_check.h"

#define INODE	   12345u
#define PATH_BYTES 512u

struct stage {
	struct proc proc;
	struct journal journal;
	struct residue *residue;
	char *directory;
};

static void link_part(const struct stage *stage, const char *part)
{
	char target[PATH_BYTES];
	snprintf(target, sizeof(target), "/proc/%d/%s", getpid(), part);
	ck_assert_int_eq(symlinkat(target, stage->proc.dir_fd, part), 0);
}

static void stage_begin_with(struct stage *ret, const struct modules *modules)
{
	static const char *const parts[] = {"stat", "maps", "exe", "pagemap", "fd", "status"};
	char name[64];
	*ret = (struct stage){.directory = files_directory()};
	ck_no_err(proc_open(getpid(), &ret->proc));
	ck_no_err(proc_open_mem(&ret->proc));
	ck_no_err(residue_create(&ret->proc, modules, &ret->residue));
	ck_no_err(journal_create(&ret->journal));
	journal_begin(&ret->journal, 0x7000000000, 1 << 20, 0x7000001000);
	journal_set_sockets(&ret->journal, -1, INODE, INODE + 1);

	close(ret->proc.dir_fd);
	ret->proc.dir_fd = open(ret->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(ret->proc.dir_fd, 0);
	for (size_t i = 0; i < HT_ARRAY_SIZE(parts); i++)
		link_part(ret, parts[i]);
	ck_assert_int_eq(mkdirat(ret->proc.dir_fd, "task", 0700), 0);
	snprintf(name, sizeof(name), "task/%d", getpid());
	link_part(ret, name);
}

static void stage_begin(struct stage *ret)
{
	stage_begin_with(ret, &(struct modules){0});
}

static void remove_part(const struct stage *stage, const char *part)
{
	ck_assert_int_eq(unlinkat(stage->proc.dir_fd, part, 0), 0);
}

static struct residue_report stage_end(struct stage *stage)
{
	struct residue_report report;
	ck_no_err(residue_compare(stage->residue, &stage->proc, &stage->journal, false, &report));
	residue_destroy(stage->residue);
	journal_destroy(&stage->journal);
	proc_close(&stage->proc);
	free(stage->directory);
	return report;
}

static void check_equal(const struct residue_report *report)
{
	ck_assert_str_eq(residue_difference(report), "");
	ck_assert(report->equal);
}

static void check_unread(const struct residue_report *report, const char *part)
{
	ck_assert_msg(strstr(part, "could not be read"), "%s", part);
	ck_assert_str_eq(residue_difference(report), part);
	ck_assert(!report->equal);
}

HT_TEST(nothing_differs)
{
	struct stage stage;
	stage_begin(&stage);
	struct residue_report report = stage_end(&stage);
	check_equal(&report);
}

HT_TEST(descriptors_that_cannot_be_listed)
{
	struct stage stage;
	stage_begin(&stage);
	remove_part(&stage, "fd");
	struct residue_report report = stage_end(&stage);
	check_unread(&report, report.fds);
}

/* Descriptor 3 is a directory here: its link cannot be read. */
static void stage_fds(const struct stage *stage)
{
	remove_part(stage, "fd");
	ck_assert_int_eq(mkdirat(stage->proc.dir_fd, "fd", 0700), 0);
	ck_assert_int_eq(mkdirat(stage->proc.dir_fd, "fd/3", 0700), 0);
	ck_assert_int_eq(symlinkat("/dev/null", stage->proc.dir_fd, "fd/1"), 0);
}

HT_TEST(a_descriptor_that_cannot_be_read)
{
	struct stage stage;
	stage_begin(&stage);
	stage_fds(&stage);
	struct residue_report report = stage_end(&stage);
	check_unread(&report, report.fds);
}

HT_TEST(a_descriptor_of_ours_is_named_before_one_that_cannot_be_read)
{
	struct stage stage;
	char ours[64];
	stage_begin(&stage);
	stage_fds(&stage);
	snprintf(ours, sizeof(ours), "socket:[%u]", INODE);
	ck_assert_int_eq(symlinkat(ours, stage.proc.dir_fd, "fd/2"), 0);
	struct residue_report report = stage_end(&stage);
	ck_assert_msg(strstr(report.fds, "descriptor 2 is still heaptap's"), "%s", report.fds);
	ck_assert(!report.equal);
}

/* Puts thread 1 into the list: it belongs to another process, so its descriptors differ. */
static void stage_table(const struct stage *stage)
{
	ck_assert_int_eq(mkdirat(stage->proc.dir_fd, "task/1", 0700), 0);
	ck_assert_int_eq(mkdirat(stage->proc.dir_fd, "task/1/status", 0700), 0);
}

HT_TEST(a_descriptor_of_ours_in_the_table_of_a_thread)
{
	struct stage stage;
	char ours[64];
	stage_begin(&stage);
	stage_table(&stage);
	snprintf(ours, sizeof(ours), "socket:[%u]", INODE);
	ck_assert_int_eq(mkdirat(stage.proc.dir_fd, "task/1/fd", 0700), 0);
	ck_assert_int_eq(symlinkat(ours, stage.proc.dir_fd, "task/1/fd/2"), 0);
	struct residue_report report = stage_end(&stage);
	ck_assert_msg(strstr(report.fds, "descriptor 2 of thread 1 is still heaptap's"), "%s",
		report.fds);
	ck_assert(!report.equal);
}

HT_TEST(a_table_that_cannot_be_read)
{
	struct stage stage;
	stage_begin(&stage);
	stage_table(&stage);
	struct residue_report report = stage_end(&stage);
	check_unread(&report, report.fds);
}

static void replace_task(const struct stage *stage, const char *target)
{
	char name[64];
	snprintf(name, sizeof(name), "task/%d", getpid());
	remove_part(stage, name);
	if (target)
		ck_assert_int_eq(symlinkat(target, stage->proc.dir_fd, name), 0);
}

HT_TEST(a_thread_that_cannot_be_read)
{
	struct stage stage;
	char name[64];
	stage_begin(&stage);
	snprintf(name, sizeof(name), "%d", getpid());
	replace_task(&stage, name); /* leads to itself: ELOOP */
	struct residue_report report = stage_end(&stage);
	check_unread(&report, report.threads);
}

/* A thread of the picture has ended, and so has one that is in the new list. */
HT_TEST(a_thread_that_has_ended)
{
	struct stage stage;
	stage_begin(&stage);
	replace_task(&stage, NULL);
	ck_assert_int_eq(mkdirat(stage.proc.dir_fd, "task/1", 0700), 0);
	struct residue_report report = stage_end(&stage);
	check_equal(&report);
}

/* Maps a page behind the end of a file, which cannot be read; returns the page. */
static raddr_t map_behind_end(uint64_t *ret_inode)
{
	struct stat st;
	int fd = memfd_create("empty", MFD_CLOEXEC);
	void *page = mmap(NULL, HT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	ck_assert_ptr_ne(page, MAP_FAILED);
	ck_assert_int_eq(fstat(fd, &st), 0);
	close(fd);
	*ret_inode = st.st_ino;
	return (raddr_t)(uintptr_t)page;
}

static struct residue_report compare_with_slot(raddr_t addr, uint64_t inode)
{
	struct stage stage;
	stage_begin(&stage);
	ck_no_err(journal_add(&stage.journal,
		&(struct journal_slot){
			.addr = addr, .original = 1, .thunk = 2, .real = 1, .inode = inode}));
	return stage_end(&stage);
}

HT_TEST(a_slot_that_cannot_be_read)
{
	uint64_t inode;
	raddr_t addr = map_behind_end(&inode);
	struct residue_report report = compare_with_slot(addr, inode);
	check_unread(&report, report.slots);
}

HT_TEST(a_slot_in_whose_place_is_another_file)
{
	uint64_t inode;
	raddr_t addr = map_behind_end(&inode);
	struct residue_report report = compare_with_slot(addr, inode + 1);
	check_equal(&report);
}

HT_TEST(a_slot_whose_library_is_gone)
{
	uint64_t inode;
	raddr_t addr = map_behind_end(&inode);
	ck_assert_int_eq(munmap((void *)(uintptr_t)addr, HT_PAGE_BYTES), 0);
	struct residue_report report = compare_with_slot(addr, inode);
	check_equal(&report);
}

/* --- a library that is being loaded --- */

#define LIBRARY_PAGES 4u

struct library {
	struct module module;
	uint8_t *at;
	int fd;
};

/* Begins as the dynamic linker does, which maps the whole file as the first segment. */
static void library_begin(struct library *ret)
{
	static const int flags[LIBRARY_PAGES] = {PF_R, PF_R | PF_X, PF_R, PF_R | PF_W};
	struct stat file;
	*ret = (struct library){.fd = memfd_create("library", MFD_CLOEXEC)};
	ck_assert_int_eq(ftruncate(ret->fd, LIBRARY_PAGES * HT_PAGE_BYTES), 0);
	ck_assert_int_eq(fstat(ret->fd, &file), 0);
	ret->at = mmap(NULL, LIBRARY_PAGES * HT_PAGE_BYTES, PROT_READ, MAP_PRIVATE, ret->fd, 0);
	ck_assert_ptr_ne(ret->at, MAP_FAILED);
	ret->module = (struct module){.bias = (raddr_t)(uintptr_t)ret->at,
		.lo = (raddr_t)(uintptr_t)ret->at,
		.hi = (raddr_t)(uintptr_t)ret->at + LIBRARY_PAGES * HT_PAGE_BYTES,
		.inode = file.st_ino,
		.segment_count = LIBRARY_PAGES};
	/* The last segment has the same file page as the third. */
	for (size_t i = 0; i < LIBRARY_PAGES; i++)
		ret->module.segment[i] = (struct module_segment){.vaddr = i * HT_PAGE_BYTES,
			.memsz = HT_PAGE_BYTES,
			.filesz = HT_PAGE_BYTES,
			.offset = (i < 3 ? i : 2) * HT_PAGE_BYTES,
			.flags = (uint32_t)flags[i]};
}

static void library_map(const struct library *library, size_t segment)
{
	const struct module_segment *s = &library->module.segment[segment];
	int rights =
		PROT_READ | (s->flags & PF_X ? PROT_EXEC : 0) | (s->flags & PF_W ? PROT_WRITE : 0);
	ck_assert_ptr_ne(mmap(library->at + s->vaddr, HT_PAGE_BYTES, rights,
				 MAP_PRIVATE | MAP_FIXED, library->fd, (off_t)s->offset),
		MAP_FAILED);
}

/* The segments below `before` are mapped when the picture is taken, the others afterwards. */
static struct residue_report load_library(size_t before, bool then_change)
{
	struct library library;
	struct stage stage;
	library_begin(&library);
	for (size_t i = 1; i < before; i++)
		library_map(&library, i);
	stage_begin_with(&stage, &(struct modules){.module = &library.module, .count = 1});
	for (size_t i = before; i < LIBRARY_PAGES; i++)
		library_map(&library, i);
	if (then_change)
		ck_assert_int_eq(mprotect(library.at + HT_PAGE_BYTES, HT_PAGE_BYTES, PROT_READ), 0);
	struct residue_report report = stage_end(&stage);
	munmap(library.at, LIBRARY_PAGES * HT_PAGE_BYTES);
	close(library.fd);
	return report;
}

#define LOADING_TEST(name, before)                                                                 \
	HT_TEST(name)                                                                              \
	{                                                                                          \
		struct residue_report report = load_library(before, false);                        \
		check_equal(&report);                                                              \
	}

LOADING_TEST(a_library_without_its_code, 1)
LOADING_TEST(a_library_without_its_constants, 2)
LOADING_TEST(a_library_without_its_data, 3)
LOADING_TEST(a_library_that_is_loaded, LIBRARY_PAGES)

HT_TEST(a_library_that_was_changed)
{
	struct residue_report report = load_library(LIBRARY_PAGES, true);
	ck_assert_msg(strstr(report.maps, "differs"), "%s", report.maps);
}

/* --- code that is written through another mapping --- */

static struct residue_report change_code(int way_of_mapping)
{
	struct stage stage;
	int fd = memfd_create("jit", MFD_CLOEXEC);
	ck_assert_int_eq(ftruncate(fd, HT_PAGE_BYTES), 0);
	char *written = mmap(NULL, HT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	void *run = mmap(NULL, HT_PAGE_BYTES, PROT_READ | PROT_EXEC, way_of_mapping, fd, 0);
	ck_assert(written != MAP_FAILED && run != MAP_FAILED);
	stage_begin(&stage);
	written[0]++;
	struct residue_report report = stage_end(&stage);
	munmap(written, HT_PAGE_BYTES);
	munmap(run, HT_PAGE_BYTES);
	close(fd);
	return report;
}

HT_TEST(shared_code_is_the_programs_own)
{
	struct residue_report report = change_code(MAP_SHARED);
	check_equal(&report);
}

HT_TEST(private_code_that_was_changed)
{
	struct residue_report report = change_code(MAP_PRIVATE);
	ck_assert_msg(strstr(report.text, "differs"), "%s", report.text);
}

HT_SUITE("attach/proof/residue")
