/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/detach.h"

#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/ht_check.h"

#define SLOTS	   2u
#define NOTHING	   0x1000ul /* no function is called */
#define TURNS_BUSY 3u

static struct image image;
static raddr_t hook, guard;
static struct abi_slot_head *busy;
static unsigned turns;

static raddr_t target_of(raddr_t entry)
{
	return ((const struct abi_thunk *)(uintptr_t)(entry - ABI_THUNK_ENTRY))->target;
}

/* The detach waits. A thread is within a system call of the agent's until its third turn. */
int nanosleep(const struct timespec *span, struct timespec *left)
{
	(void)span;
	(void)left;
	ck_assert_uint_eq(target_of(hook), NOTHING);
	ck_assert_uint_ne(target_of(guard), NOTHING);
	ck_assert_uint_eq(image_config(&image)->stop, 1);
	if (++turns == TURNS_BUSY)
		__atomic_store_n(&busy->calling, 0, __ATOMIC_RELEASE);
	return 0;
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

/* As soon as no guard is passed any more the program may enter a filter unseen. */
START_TEST(guards_stay_until_no_call_is_under_way)
{
	struct proc self;
	struct detach detach;
	struct detach_report report;
	setup(&self, &detach);
	ck_no_err(detach_untap(&detach, &report));
	ck_assert_uint_eq(turns, TURNS_BUSY);
	finish(&self, &detach);
}
END_TEST

START_TEST(the_dead_make_no_call)
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
END_TEST

HT_SUITE("attach/inject/detach", guards_stay_until_no_call_is_under_way, the_dead_make_no_call)
