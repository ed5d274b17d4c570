/* SPDX-License-Identifier: Apache-2.0
 *
 * The dynamic linker's pointer to the function that unlocks its lists, and its locks, are found in
 * this process.
 */
#include "attach/got/unlock.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/elf/modules.h"
#include "attach/memory/proc_maps.h"
#include "attach/process/proc_open.h"
#include "tests/support/ht_check.h"

static struct proc self;
static struct proc_maps maps;
static struct modules modules;
static struct scope scope;

static void setup(void)
{
	ck_no_err(proc_open(getpid(), &self));
	ck_no_err(proc_open_mem(&self));
	ck_no_err(proc_maps_read(&self, &maps));
	ck_no_err(modules_read(&self, &maps, &modules));
	ck_no_err(scope_init(&self, &modules, &scope));
}

static const struct module *linker(void)
{
	for (size_t i = 0; i < modules.count; i++)
		if (modules.module[i].interpreter)
			return &modules.module[i];
	ck_abort_msg("no dynamic linker");
}

HT_TEST(the_pointer_is_the_only_one)
{
	struct unlock unlock;
	setup();
	ck_no_err(unlock_find(&scope, &(struct unlock_hooks){0}, &unlock));
	ck_assert_uint_eq(unlock.module_id, linker()->id);
	ck_assert_uint_ge(unlock.addr, linker()->lo);
	ck_assert_uint_lt(unlock.addr, linker()->hi);
	ck_assert_uint_eq(unlock.value, (uint64_t)(uintptr_t)pthread_mutex_unlock);
	ck_assert_uint_eq(unlock.real, unlock.value);
	/* A word that leads to a thunk is found, too. */
	uint64_t real = unlock.real;
	struct unlock tapped;
	ck_no_err(unlock_find(&scope, &(struct unlock_hooks){.lo = real, .hi = real + 1}, &tapped));
	ck_assert_uint_eq(tapped.addr, unlock.addr);
	/* If several words match, none is certain. */
	ck_no_err(unlock_find(&scope,
		&(struct unlock_hooks){.lo = linker()->text_lo, .hi = linker()->text_hi}, &tapped));
	ck_assert_uint_eq(tapped.addr, 0);
}

/* Each lock is a mutex that can be locked more than once. */
HT_TEST(the_locks_stand_one_behind_the_other)
{
	struct unlock_locks locks;
	setup();
	ck_no_err(unlock_locks(&self, &modules, &locks));
	ck_assert_uint_ne(locks.lists, 0);
	ck_assert_uint_ge(locks.lists, linker()->lo);
	ck_assert_uint_lt(locks.lists, linker()->hi);
	bool is_last = locks.done == locks.lists + sizeof(pthread_mutex_t);
	ck_assert(is_last || locks.done == locks.lists - sizeof(pthread_mutex_t));
	ck_assert_int_le(locks.before_constructors, is_last);
}

HT_TEST(the_pointer_of_an_earlier_heaptap_is_found)
{
	struct unlock unlock, left;
	setup();
	ck_no_err(unlock_find(&scope, &(struct unlock_hooks){0}, &unlock));
	int fd = memfd_create("heaptap-1", MFD_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(ftruncate(fd, HT_PAGE_BYTES), 0);
	void *hook = mmap(NULL, HT_PAGE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(hook, MAP_FAILED);
	proc_maps_deinit(&maps);
	ck_no_err(proc_maps_read(&self, &maps));
	/* Nothing in this process loads a library while the word has another value. */
	uint64_t *word = (uint64_t *)(uintptr_t)unlock.addr;
	void *page = (void *)(uintptr_t)ht_align_down(unlock.addr, HT_PAGE_BYTES);
	ck_assert_int_eq(mprotect(page, HT_PAGE_BYTES, PROT_READ | PROT_WRITE), 0);
	*word = (uint64_t)(uintptr_t)hook + 16;
	ck_no_err(unlock_find(&scope, &(struct unlock_hooks){.maps = &maps}, &left));
	struct unlock unknown;
	ck_no_err(unlock_find(&scope, &(struct unlock_hooks){0}, &unknown));
	*word = unlock.value;
	ck_assert_uint_eq(left.addr, unlock.addr);
	ck_assert_uint_eq(left.value, (uint64_t)(uintptr_t)hook + 16);
	ck_assert_uint_eq(unknown.addr, 0);
	ck_no_err(unlock_find(&scope, &(struct unlock_hooks){.maps = &maps}, &left));
	ck_assert_uint_eq(left.value, unlock.value);
	close(fd);
}

HT_TEST(without_a_dynamic_linker)
{
	struct unlock unlock;
	struct unlock_locks locks;
	setup();
	for (size_t i = 0; i < modules.count; i++)
		modules.module[i].interpreter = false;
	ck_no_err(unlock_find(&scope, &(struct unlock_hooks){0}, &unlock));
	ck_assert_uint_eq(unlock.addr, 0);
	ck_no_err(unlock_locks(&self, &modules, &locks));
	ck_assert_uint_eq(locks.lists, 0);
}

HT_SUITE("attach/got/unlock")
