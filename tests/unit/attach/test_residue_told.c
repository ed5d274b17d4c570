/* SPDX-License-Identifier: Apache-2.0
 *
 * The comparison names each difference between before and after in its category, and nothing else.
 */
#include "attach/proof/residue.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "attach/memory/memory.h"
#include "attach/process/proc_open.h"
#include "tests/support/child.h"
#include "tests/support/deny.h"
#include "tests/support/ht_check.h"

#define WORD  0x5a5a00020028ull
#define OTHER 0x5a5a00030000ull

#define SLEEP_MS 1000
#define SHORT_MS 50 /* ten seconds are 200 such sleeps */

/* The simulated clock: each sleep passes at once. */
static long passed_ms, sleep_ms = SLEEP_MS;
static unsigned sleeps_until_undone;

static void undo(void);

int nanosleep(const struct timespec *span, struct timespec *left)
{
	(void)span, (void)left;
	passed_ms += sleep_ms;
	if (sleeps_until_undone && --sleeps_until_undone == 0)
		undo();
	return 0;
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	int result = (int)syscall(SYS_clock_gettime, clock, ret);
	ret->tv_sec += passed_ms / 1000;
	ret->tv_nsec += passed_ms % 1000 * 1000000;
	ret->tv_sec += ret->tv_nsec / 1000000000;
	ret->tv_nsec %= 1000000000;
	return result;
}

/* The process that changes while its picture is taken; NULL: none. */
static const struct look *changing;

static void change(const struct look *look);

ssize_t pread(int fd, void *buffer, size_t bytes, off_t offset)
{
	const struct look *look = changing;
	changing = NULL;
	if (look)
		change(look);
	return syscall(SYS_pread64, fd, buffer, bytes, offset);
}

/* --- the process that is looked at --------------------------------------------------------------
 */

enum order {
	NOTHING,
	PROTECT,
	PROTECT_WORDS,
	UNMAP_COPY,
	MAP_OURS,
	OPEN_OURS,
	OPEN_SOCKET,
	BLOCK,
	BLOCK_A_WHILE,
	BLOCK_IN_VFORK,
};

static struct shared {
	volatile enum order order;
	volatile bool done;
	volatile bool undo, undone;
	volatile uint64_t value; /* result of the order: an address, a descriptor's inode, a flag */
	volatile uint64_t word;	 /* a GOT slot */
} * shared;

/* Two pages of a module's code, the module's data, and the second page mapped again outside of any
 * module. */
static uint8_t *code, *words, *copy;
static struct stat code_file;
static int code_fd;
static off_t code_bytes = 2 * HT_PAGE_BYTES; /* the file's size when the picture is taken */

static bool block(int how)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	return sigprocmask(how, &set, NULL) == 0;
}

static void undo(void)
{
	shared->undo = true;
	while (!shared->undone)
		sched_yield();
}

/* The thread computes as long as it blocks the signal. */
static bool block_a_while(void)
{
	bool blocked = block(SIG_BLOCK);
	shared->done = true;
	while (!shared->undo)
		;
	shared->undone = block(SIG_UNBLOCK);
	return blocked && shared->undone;
}

/* posix_spawn blocks signals in the same way until its child of vfork has execed. */
static bool block_in_vfork(void)
{
	bool blocked = block(SIG_BLOCK);
	shared->done = true;
	pid_t child = vfork();
	if (child == 0) {
		while (!shared->undo)
			sched_yield();
		_exit(0);
	}
	shared->undone = block(SIG_UNBLOCK);
	return blocked && child > 0 && shared->undone;
}

static bool make_ours(bool mapped)
{
	int fd = memfd_create("heaptap-4711", MFD_CLOEXEC);
	void *page = mapped && ftruncate(fd, HT_PAGE_BYTES) == 0
			     ? mmap(NULL, HT_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0)
			     : NULL;
	if (mapped)
		close(fd);
	shared->value = (uintptr_t)page;
	return fd >= 0 && page != MAP_FAILED;
}

static bool open_socket(void)
{
	struct stat stat;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	bool opened = fd >= 0 && fstat(fd, &stat) == 0;
	shared->value = opened ? stat.st_ino : 0;
	return opened;
}

static bool obey(enum order order)
{
	switch (order) {
	case NOTHING:
		break;
	case PROTECT:
		return mprotect(code + HT_PAGE_BYTES, HT_PAGE_BYTES, PROT_READ) == 0;
	case PROTECT_WORDS:
		return mprotect(words, HT_PAGE_BYTES, PROT_READ) == 0;
	case UNMAP_COPY:
		return munmap(copy, HT_PAGE_BYTES) == 0;
	case MAP_OURS:
		return make_ours(true);
	case OPEN_OURS:
		return make_ours(false);
	case OPEN_SOCKET:
		return open_socket();
	case BLOCK:
		return block(SIG_BLOCK);
	case BLOCK_A_WHILE:
		return block_a_while();
	case BLOCK_IN_VFORK:
		return block_in_vfork();
	}
	return true;
}

static void be_looked_at(const void *arg)
{
	const enum order order = *(const enum order *)arg;
	child_ready(0);
	while (shared->order != order)
		sched_yield();
	if (!obey(order))
		_exit(1);
	shared->done = true;
	child_wait();
}

/* --- the comparison -----------------------------------------------------------------------------
 */

struct look {
	struct child child;
	struct proc proc;
	struct journal journal;
	struct residue *residue;
	enum order order;
	bool keep;
};

static void map_part(int fd, uint8_t *at, size_t bytes, size_t offset, int rights)
{
	ck_assert_ptr_eq(
		mmap(at, bytes, PROT_READ | rights, MAP_PRIVATE | MAP_FIXED, fd, (off_t)offset),
		at);
}

static void look_begin_changing(struct look *ret, enum order order, bool at_once)
{
	*ret = (struct look){.order = order};
	int fd = code_fd = memfd_create("libmodule.so", MFD_CLOEXEC);
	ck_assert_int_eq(ftruncate(fd, code_bytes), 0);
	ck_assert_int_eq(fstat(fd, &code_file), 0);
	code = mmap(NULL, 5 * HT_PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(code, MAP_FAILED);
	words = code + 2 * HT_PAGE_BYTES;
	copy = code + 4 * HT_PAGE_BYTES;
	map_part(fd, code, 2 * HT_PAGE_BYTES, 0, PROT_EXEC);
	map_part(fd, words, HT_PAGE_BYTES, HT_PAGE_BYTES, PROT_WRITE);
	map_part(fd, copy, HT_PAGE_BYTES, HT_PAGE_BYTES, PROT_EXEC);
	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(shared, MAP_FAILED);
	shared->order = order == NOTHING ? BLOCK : NOTHING;
	ret->child = child_fork(be_looked_at, &ret->order);
	ck_no_err(proc_open(ret->child.pid, &ret->proc));
	ck_no_err(proc_open_mem(&ret->proc));
	const raddr_t lo = (raddr_t)(uintptr_t)code;
	struct module module = {.lo = lo, .hi = lo + 3 * HT_PAGE_BYTES, .inode = code_file.st_ino};
	struct modules modules = {.module = &module, .count = 1};
	changing = at_once ? ret : NULL;
	ck_no_err(residue_create(&ret->proc, &modules, &ret->residue));
	ck_no_err(journal_create(&ret->journal));
	journal_begin(&ret->journal, OTHER, HT_PAGE_BYTES, OTHER);
}

static void look_begin(struct look *ret, enum order order)
{
	look_begin_changing(ret, order, false);
}

static void change(const struct look *look)
{
	shared->order = look->order;
	while (!shared->done)
		sched_yield();
	while (look->order == BLOCK_IN_VFORK && child_state(look->child.pid) != 'D')
		sched_yield();
	if (look->order != BLOCK_A_WHILE && look->order != BLOCK_IN_VFORK)
		child_sleeping(&look->child);
}

static struct residue_report look_end(struct look *look)
{
	struct residue_report report;
	ck_no_err(residue_compare(look->residue, &look->proc, &look->journal, look->keep, &report));
	residue_destroy(look->residue);
	journal_destroy(&look->journal);
	proc_close(&look->proc);
	child_kill(&look->child);
	close(code_fd);
	return report;
}

static struct residue_report report_after(enum order order)
{
	struct look look;
	look_begin(&look, order);
	change(&look);
	return look_end(&look);
}

/* Checks that `part` names a difference that contains `text`, and that no other part does. */
static void check_told(struct residue_report *report, char *part, const char *text)
{
	ck_assert_msg(strstr(part, text), "%s", part);
	ck_assert_str_eq(residue_difference(report), part);
	ck_assert(!report->equal);
	snprintf(part, RESIDUE_TEXT_BYTES, "equal");
	ck_assert_str_eq(residue_difference(report), "");
}

/* An unreadable part is no error of residue, which would have another exit code. */
HT_TEST(reports_unreadable_parts)
{
	struct look look;
	look_begin(&look, BLOCK);
	deny_calls(SYS_openat, EMFILE);
	struct residue_report report = look_end(&look);
	ck_assert_ptr_nonnull(strstr(report.maps, "could not be compared: "));
	ck_assert_ptr_nonnull(strstr(report.text, "could not be compared: "));
	ck_assert_str_eq(residue_difference(&report), report.maps);
	ck_assert(!report.equal);
}

HT_TEST(nothing_differs)
{
	struct residue_report report = report_after(NOTHING);
	ck_assert_str_eq(residue_difference(&report), "");
	ck_assert(report.equal);
}

HT_TEST(changed_code)
{
	struct look look;
	look_begin(&look, NOTHING);
	change(&look);
	ck_no_err(memory_write(
		&look.proc, (raddr_t)(uintptr_t)code + HT_PAGE_BYTES + 100, "\xcc", 1));
	struct residue_report report = look_end(&look);
	check_told(&report, report.text, "code of /memfd:libmodule.so");
}

/* A library, or V8's copy for a worker, may be unloaded while heaptap takes the picture, and loaded
 * at the same place again. */
HT_TEST(code_of_which_a_part_was_seen)
{
	struct look look;
	code_bytes = HT_PAGE_BYTES;
	look_begin(&look, NOTHING);
	change(&look);
	ck_assert_int_eq(ftruncate(code_fd, 2 * HT_PAGE_BYTES), 0);
	struct residue_report report = look_end(&look);
	ck_assert_str_eq(residue_difference(&report), "");
	look_begin(&look, NOTHING);
	change(&look);
	ck_no_err(memory_write(&look.proc, (raddr_t)(uintptr_t)code + 100, "\xcc", 1));
	report = look_end(&look);
	check_told(&report, report.text, "code of /memfd:libmodule.so");
}

HT_TEST(a_changed_mapping_of_a_module)
{
	struct residue_report report = report_after(PROTECT);
	check_told(&report, report.maps, "mapping of /memfd:libmodule.so");
}

/* The picture shows one part of the module before the change, and another part after it. */
HT_TEST(a_module_that_changes_while_the_picture_is_taken)
{
	struct look look;
	look_begin_changing(&look, PROTECT, true);
	ck_assert_ptr_null(changing);
	struct residue_report report = look_end(&look);
	ck_assert_str_eq(residue_difference(&report), "");
}

/* The picture was taken while the module was being loaded. */
HT_TEST(a_module_s_words_that_are_in_place)
{
	struct residue_report report = report_after(PROTECT_WORDS);
	ck_assert_str_eq(residue_difference(&report), "");
}

/* V8 maps its builtins, which are in its module's file, once more for each heap: a worker's is gone
 * when the worker is. */
HT_TEST(a_module_s_file_mapped_elsewhere)
{
	struct residue_report report = report_after(UNMAP_COPY);
	ck_assert_str_eq(residue_difference(&report), "");
	ck_assert(report.equal);
}

HT_TEST(memory_of_ours)
{
	struct residue_report report = report_after(MAP_OURS);
	check_told(&report, report.maps, "/memfd:heaptap-4711 (deleted) is still mapped");
}

/* The jump page that the detach keeps may stay, and no other page. */
HT_TEST(a_page_that_stays)
{
	struct look look;
	look_begin(&look, MAP_OURS);
	change(&look);
	look.keep = true;
	look.journal.header->thunks = shared->value;
	struct residue_report report = look_end(&look);
	check_told(&report, report.maps, "one page of jumps stays");
	look_begin(&look, MAP_OURS);
	change(&look);
	look.keep = true;
	report = look_end(&look);
	check_told(&report, report.maps, "is still mapped");
}

HT_TEST(descriptors_of_ours)
{
	struct look look;
	struct residue_report report = report_after(OPEN_OURS);
	check_told(&report, report.fds, "is still heaptap's (/memfd:heaptap-4711");
	look_begin(&look, OPEN_SOCKET);
	change(&look);
	journal_set_sockets(&look.journal, -1, shared->value, shared->value + 1);
	report = look_end(&look);
	check_told(&report, report.fds, "is still heaptap's (socket:[");
}

HT_TEST(sockets_of_its_own)
{
	struct look look;
	look_begin(&look, OPEN_SOCKET);
	change(&look);
	journal_set_sockets(&look.journal, -1, shared->value + 1, shared->value + 2);
	struct residue_report report = look_end(&look);
	ck_assert_str_eq(residue_difference(&report), "");
}

static struct residue_report compare_slot(uint64_t word, enum journal_state state)
{
	struct look look;
	look_begin(&look, NOTHING);
	change(&look);
	shared->word = word;
	ck_no_err(journal_add(
		&look.journal, &(struct journal_slot){.addr = (raddr_t)(uintptr_t)&shared->word,
				       .original = OTHER,
				       .thunk = WORD,
				       .real = OTHER}));
	journal_set_state(&look.journal, 0, state);
	return look_end(&look);
}

HT_TEST(slots_that_hold_a_hook)
{
	struct residue_report report = compare_slot(WORD, JOURNAL_SLOT_RESTORED);
	check_told(&report, report.slots,
		"1 addresses of allocator functions still lead to heaptap's code");
	report = compare_slot(OTHER, JOURNAL_SLOT_RESTORED);
	ck_assert_str_eq(residue_difference(&report), "");
	report = compare_slot(WORD, JOURNAL_SLOT_GONE);
	ck_assert_str_eq(residue_difference(&report), "");
}

HT_TEST(a_signal_that_stays_blocked)
{
	struct residue_report report = report_after(BLOCK);
	check_told(&report, report.signals, "blocked signals were 0, now 200");
}

/* The second look comes before heaptap touches the target, so the thread changed its mask by
 * itself.
 */
HT_TEST(a_mask_that_changed_before_proves_nothing)
{
	struct look look;
	look_begin(&look, BLOCK);
	change(&look);
	residue_look_again(look.residue, &look.proc);
	struct residue_report report = look_end(&look);
	ck_assert_str_eq(residue_difference(&report), "");
}

static void check_undone(enum order order, unsigned sleeps)
{
	sleeps_until_undone = sleeps;
	struct residue_report report = report_after(order);
	ck_assert_uint_eq(sleeps_until_undone, 0);
	ck_assert_str_eq(residue_difference(&report), "");
}

/* The test looks only a few times, as a process without a core would. */
HT_TEST(a_signal_that_is_blocked_at_a_few_looks)
{
	check_undone(BLOCK_A_WHILE, 5);
}

/* The looks are so close to each other that the thread has run only between some of them, as a
 * thread without a core. */
HT_TEST(a_signal_that_is_blocked_for_a_few_turns)
{
	sleep_ms = SHORT_MS;
	check_undone(BLOCK_A_WHILE, 150);
}

/* As before, with the child for which the thread waits. */
HT_TEST(signals_that_are_blocked_in_vfork)
{
	sleep_ms = SHORT_MS;
	check_undone(BLOCK_IN_VFORK, 150);
}

HT_TEST(a_thread_that_is_traced)
{
	struct look look;
	look_begin(&look, NOTHING);
	change(&look);
	ck_assert_int_eq(ptrace(PTRACE_SEIZE, look.child.pid, NULL, NULL), 0);
	struct residue_report report = look_end(&look);
	check_told(&report, report.threads, "is traced by");
}

HT_SUITE("attach/proof/residue, told")
