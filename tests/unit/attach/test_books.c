/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proof/books.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "attach/process/proc_open.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"

#define SLOTS 2u
#define KEY   0x7000u /* stands for the address of a thread control block */

static struct image make_image(uint32_t number)
{
	static struct agent_elf elf;
	struct image image;
	int fd = memfd_create("heaptap-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	ck_assert_int_eq(ftruncate(fd, (off_t)abi_image_bytes(SLOTS)), 0);
	ck_no_err(agent_elf_read(&elf));
	ck_no_err(image_init(&image, &elf, 0x10000, SLOTS, fd));
	image_control(&image)->claimed[0] = 1;
	struct abi_slot_head *head = (void *)(image.local + ABI_SLOTS_OFF);
	head->key = KEY;
	head->tid = number;
	head->state = ABI_SLOT_RECORDING;
	return image;
}

static struct books books_for(const struct image *image, struct proc *proc, pid_t pid)
{
	ck_no_err(proc_open(pid, proc));
	return books_make(image, proc);
}

HT_TEST(a_thread_is_known_by_its_number)
{
	struct proc proc;
	struct image image = make_image((uint32_t)getpid());
	struct books books = books_for(&image, &proc, getpid());
	ck_assert(books.same_numbers);
	ck_assert_int_eq(books_of(&books, &proc, getpid()), QUIESCE_INSIDE);
	ck_assert_int_eq(books_of(&books, &proc, getpid() + 1), QUIESCE_UNKNOWN);
	proc_close(&proc);
	image_deinit(&image);
}

static void wait_here(const void *arg)
{
	(void)arg;
	child_ready(0);
	child_wait();
}

/* The record's thread has ended; another process that shares the memory has its TID now. */
HT_TEST(a_process_that_shares_the_memory_is_not_in_them)
{
	struct child child = child_fork(wait_here, NULL);
	struct quiesce_frame frame[QUIESCE_FRAMES_MAX];
	struct proc proc, sharer;
	struct image image = make_image((uint32_t)child.pid);
	struct books books = books_for(&image, &proc, getpid());
	bool abandoned = true;
	ck_no_err(proc_open(child.pid, &sharer));
	ck_assert_int_eq(books_of(&books, &proc, child.pid), QUIESCE_INSIDE);
	ck_assert_int_eq(books_of(&books, &sharer, child.pid), QUIESCE_UNKNOWN);
	ck_assert_uint_eq(books_frames(&books, &sharer, child.pid, frame, &abandoned), 0);
	ck_assert(!abandoned);
	proc_close(&sharer);
	proc_close(&proc);
	image_deinit(&image);
	child_kill(&child);
}

/* The first process of the new namespace has PID 1 there. */
static void start_namespace(const void *arg)
{
	(void)arg;
	pid_t first = unshare(CLONE_NEWPID) == 0 ? fork() : -1;
	if (first == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		child_wait();
	}
	child_ready(first);
	child_wait();
}

HT_TEST(a_thread_of_another_namespace_is_known_by_the_number_that_it_has_there)
{
	struct child child = child_fork(start_namespace, NULL);
	struct proc proc;
	if (child.value < 0) {
		printf("skipped: books: a PID namespace needs root\n");
		child_kill(&child);
		return;
	}
	pid_t pid = (pid_t)child.value;
	struct image image = make_image(1);
	struct books books = books_for(&image, &proc, pid);
	ck_assert(!books.same_numbers);
	ck_assert_int_eq(books_of(&books, &proc, pid), QUIESCE_INSIDE);
	proc_close(&proc);
	image_deinit(&image);
	child_kill(&child);
}

HT_SUITE("attach/proof/books")
