/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/undo/detach.h"

#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "attach/elf/modules.h"
#include "attach/memory/proc_maps.h"
#include "attach/proc/clock.h"
#include "attach/process/proc_open.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"

#define SLOTS	   2u
#define NOTHING	   0x1000ul /* stands for a real function; no test calls it */
#define TURNS_BUSY 3u
#define PROOF_NS   (300 * CLOCK_NS_PER_MS)

static struct image image;
static raddr_t hook, guard;
static struct abi_slot_head *busy;
static unsigned turns;
static bool gate_is_watched;

static raddr_t target_of(raddr_t entry)
{
	return ((const struct abi_thunk *)(uintptr_t)(entry - ABI_THUNK_ENTRY))->target;
}

/* The detach sleeps here. Thread record `busy` stays within a system call of the agent until
 * sleep number TURNS_BUSY. */
int nanosleep(const struct timespec *span, struct timespec *left)
{
	if (!gate_is_watched)
		return (int)syscall(SYS_nanosleep, span, left);
	ck_assert_uint_eq(target_of(hook), NOTHING);
	ck_assert_uint_ne(target_of(guard), NOTHING);
	ck_assert_uint_eq(image_config(&image)->stop, 1);
	if (++turns == TURNS_BUSY) {
		__atomic_store_n(&busy->calling, 0, __ATOMIC_RELEASE);
		__atomic_store_n(&image_control(&image)->exec_calling, 0, __ATOMIC_RELEASE);
	}
	return 0;
}

static unsigned file_reads; /* reads of files that are not in /proc */

ssize_t pread(int fd, void *data, size_t bytes, off_t offset)
{
	struct stat stat;
	file_reads += fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode) && stat.st_size > 0;
	return syscall(SYS_pread64, fd, data, bytes, offset);
}

static raddr_t tap(const struct agent_elf *elf, enum abi_hook which)
{
	const struct image_thunk want = {
		.hook = which, .real = NOTHING, .real_lo = NOTHING, .real_len = 1};
	raddr_t entry;
	ck_no_err(image_thunk(&image, &want, &entry));
	ck_no_err(image_enable(&image, elf, entry));
	ck_assert_uint_ne(target_of(entry), NOTHING);
	return entry;
}

static void setup(struct proc *self, struct detach *detach)
{
	struct agent_elf elf;
	uint64_t bytes = abi_image_bytes(SLOTS);
	int fd = memfd_create("heaptap-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_eq(ftruncate(fd, (off_t)bytes), 0);
	void *seen = mmap(NULL, bytes, PROT_READ | PROT_EXEC, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(seen, MAP_FAILED);
	ck_no_err(agent_elf_read(&elf));
	ck_no_err(image_init(&image, &elf, (raddr_t)(uintptr_t)seen, SLOTS, fd));
	hook = tap(&elf, ABI_HOOK_MALLOC);
	guard = tap(&elf, ABI_GUARD_PRCTL);
	image_control(&image)->claimed[0] = 3;
	busy = (struct abi_slot_head *)(void *)(image.local + ABI_SLOTS_OFF + ABI_SLOT_BYTES);
	busy->key = 0x1000;
	busy->calling = 1;
	turns = 0;
	gate_is_watched = true;
	ck_no_err(proc_open(getpid(), self));
	ck_no_err(proc_open_mem(self));
	*detach = (struct detach){.proc = self, .image = &image};
	ck_no_err(journal_create(&detach->journal));
}

static void finish(struct proc *self, struct detach *detach)
{
	ck_assert_uint_eq(target_of(hook), NOTHING);
	ck_assert_uint_eq(target_of(guard), NOTHING);
	journal_destroy(&detach->journal);
	proc_close(self);
	image_deinit(&image);
}

/* Once a guard is gone, the program can install a seccomp filter unseen. */
HT_TEST(guards_stay_until_no_call_is_under_way)
{
	struct proc self;
	struct detach detach;
	struct detach_report report;
	setup(&self, &detach);
	ck_no_err(detach_untap(&detach, &report));
	ck_assert_uint_eq(turns, TURNS_BUSY);
	finish(&self, &detach);
}

/* A program's symbols can be megabytes, and what attach has read of a file is still true. */
HT_TEST(files_that_are_known_are_not_read_again)
{
	struct proc self;
	struct proc_maps maps;
	struct modules modules;
	struct detach detach;
	struct detach_report report;
	setup(&self, &detach);
	image.forked = true;
	ck_no_err(detach_untap(&detach, &report));
	ck_assert_uint_gt(file_reads, 0);
	ck_no_err(proc_maps_read(&self, &maps));
	ck_no_err(modules_read(&self, &maps, &modules));
	detach.modules = &modules;
	file_reads = 0;
	ck_no_err(detach_untap(&detach, &report));
	ck_assert_uint_eq(file_reads, 0);
	modules_deinit(&modules);
	proc_maps_deinit(&maps);
	finish(&self, &detach);
}

/* The guard's caller is about to exec and has no thread record. */
HT_TEST(a_call_of_a_guard_is_waited_for)
{
	struct proc self;
	struct detach detach;
	struct detach_report report;
	setup(&self, &detach);
	busy->calling = 0;
	image_control(&image)->exec_calling = 1;
	ck_no_err(detach_untap(&detach, &report));
	ck_assert_uint_eq(turns, TURNS_BUSY);
	finish(&self, &detach);
}

static unsigned pumped;

static void take_what_it_waits_with(void *context)
{
	(void)context;
	pumped++;
	__atomic_store_n(&busy->calling, 0, __ATOMIC_RELEASE);
}

/* During the detach only the detach reads the ring: else the thread and the detach would wait for
 * each other. */
HT_TEST(a_thread_that_waits_for_room_is_given_it)
{
	struct proc self;
	struct detach detach;
	struct detach_report report;
	setup(&self, &detach);
	detach.pump = take_what_it_waits_with;
	ck_no_err(detach_untap(&detach, &report));
	ck_assert_uint_eq(pumped, 1);
	ck_assert_uint_lt(turns, TURNS_BUSY);
	finish(&self, &detach);
}

HT_TEST(the_dead_make_no_call)
{
	struct proc self;
	struct detach detach;
	struct detach_report report;
	setup(&self, &detach);
	busy->key |= ABI_SLOT_DEAD;
	ck_no_err(detach_untap(&detach, &report));
	ck_assert_uint_eq(turns, 0);
	finish(&self, &detach);
}

/* --- threads whose records say that they are in no hook -----------------------------------------
 */

static uint8_t *code_of_the_agent(void)
{
	return image.local + ABI_TEXT_OFF + ABI_TEXT_MAX - HT_PAGE_BYTES;
}

/* Waits in a callee of code in the agent's image, which no thread record mentions. */
static void wait_below_the_agent(const void *arg)
{
	void (*frame)(void (*)(void)) = (void (*)(void (*)(void)))(
		uintptr_t)(image.base + (raddr_t)(code_of_the_agent() - image.local));
	(void)arg;
	child_ready(0);
	frame((void (*)(void))child_wait);
}

enum untold { ALL_IS_TOLD, NO_SLOT_LEFT, GIVEN_UP, CLOCK_FORBIDDEN, FORKED };

static void check_books(enum untold what, bool inside)
{
	static const uint8_t call[] = {
		0x55, 0xff, 0xd7, 0x5d, 0xc3}; /* push; call *%rdi; pop; ret */
	struct proc self, proc;
	struct detach detach;
	struct detach_report report = {.patch = {.unloaded = 1}};
	setup(&self, &detach);
	gate_is_watched = false;
	memcpy(code_of_the_agent(), call, sizeof(call));
	struct child child = child_fork(wait_below_the_agent, NULL);
	child_sleeping(&child);
	ck_no_err(proc_open(child.pid, &proc));
	ck_no_err(proc_open_mem(&proc));
	busy->calling = 0;
	busy->tid = (uint32_t)child.pid;
	busy->state = ABI_SLOT_IDLE;
	struct abi_control *control = image_control(&image);
	control->lost[ABI_LOSS_SLOT_FULL] = what == NO_SLOT_LEFT;
	control->given_up = what == GIVEN_UP ? ABI_GIVEN_UP : 0;
	control->forbidden = what == CLOCK_FORBIDDEN ? ABI_FORBIDDEN_CLOCK : 0;
	image.forked = what == FORKED;
	detach.proc = &proc;
	detach.deadline_mono_ns = clock_mono_ns() + PROOF_NS;
	journal_begin(&detach.journal, image.base, image.bytes, image.thunks);
	struct ht_err *err = detach_unmap(&detach, &report);
	if (inside) {
		ck_no_err(err);
		ck_assert_int_eq(report.level, DETACH_INCOMPLETE);
		ck_assert_int_eq(report.quiesce.tid, child.pid);
	} else {
		/* The proof holds, but the journal has no place for a stub that could unmap
		 * anything. */
		ck_err(err, HT_ERR_INCOMPLETE);
	}
	child_kill(&child);
	proc_close(&proc);
	journal_destroy(&detach.journal);
	proc_close(&self);
	image_deinit(&image);
}

HT_TEST(idle_books_prove_that_words_are_stale)
{
	check_books(ALL_IS_TOLD, false);
}

/* Thread records do not show calls that found no record or are only forwarded, nor a thread of a
 * child whose TID equals one of its parent's. */
HT_TEST(books_that_do_not_tell_all_prove_nothing)
{
	for (enum untold what = NO_SLOT_LEFT; what <= FORKED; what++)
		check_books(what, true);
}

HT_SUITE("attach/undo/detach")
