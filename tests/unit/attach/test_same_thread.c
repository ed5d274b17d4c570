/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread pointer belongs to one thread; a later thread with the same pointer is distinguished.
 */
#include "attach/thread/same_thread.h"

#include <pthread.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

#include "attach/memory/proc_map.h"
#include "attach/proc/proc_tids.h"
#include "attach/process/proc_open.h"
#include "tests/support/ht_check.h"

struct thread {
	pthread_t thread;
	sem_t told, end;
	uint32_t tid;
	uint32_t *word; /* holds the TID while the thread lives, else 0, as in a control block */
};

static void *be_there(void *arg)
{
	struct thread *thread = arg;
	thread->tid = (uint32_t)gettid();
	*thread->word = thread->tid;
	sem_post(&thread->told);
	sem_wait(&thread->end);
	return NULL;
}

static void begin(struct thread *thread, uint32_t *word)
{
	thread->word = word;
	sem_init(&thread->told, 0, 0);
	sem_init(&thread->end, 0, 0);
	ck_assert_int_eq(pthread_create(&thread->thread, NULL, be_there, thread), 0);
	sem_wait(&thread->told);
}

static void end(struct thread *thread)
{
	sem_post(&thread->end);
	pthread_join(thread->thread, NULL);
}

/* Either the word or the file shows that the thread is not the same any more. */
HT_TEST(another_thread_is_not_the_same)
{
	struct proc proc;
	struct proc_maps maps = {0};
	struct same_thread same = {0};
	struct thread thread;
	uint32_t word;
	ck_no_err(proc_open(getpid(), &proc));
	ck_no_err(proc_open_mem(&proc));
	ck_assert(!same_thread_lives(&same));
	begin(&thread, &word);
	const raddr_t at = (raddr_t)(uintptr_t)&word;
	ck_assert(same_thread_open(&same, &proc, &maps, thread.tid, at));
	ck_assert(same_thread_lives(&same));
	ck_assert(same_thread_lives(&same));
	/* The thread has ended and another has its memory, while the file can still be read. */
	word = 0;
	ck_assert(!same_thread_lives(&same));
	word = thread.tid + 1;
	ck_assert(!same_thread_lives(&same));
	/* The word is unchanged but the thread ends, which can take a moment. */
	word = thread.tid;
	ck_assert(same_thread_lives(&same));
	end(&thread);
	bool there = true;
	while (there)
		ck_no_err(proc_has_thread(&proc, (pid_t)thread.tid, &there));
	ck_assert(!same_thread_lives(&same));
	same_thread_close(&same);
	same_thread_close(&same);
	/* No thread has that TID; then the word is not that of the thread. */
	ck_assert(!same_thread_open(&same, &proc, &maps, thread.tid, at));
	ck_assert(!same_thread_lives(&same));
	begin(&thread, &word);
	word = 0;
	ck_assert(!same_thread_open(&same, &proc, &maps, thread.tid, at));
	ck_assert(!same_thread_open(&same, &proc, &maps, 0, at));
	end(&thread);
	proc_close(&proc);
}

/* The pointer and the TID come from the target. */
HT_TEST(an_unreadable_word_belongs_to_no_thread)
{
	static _Alignas(8) uint32_t words[4];
	const raddr_t at = (raddr_t)(uintptr_t)words;
	const uint32_t tid = (uint32_t)gettid();
	struct proc_map file = {.lo = at, .hi = at + sizeof(words), .read = true};
	struct proc_maps maps = {.map = &file, .count = 1};
	const raddr_t places[] = {
		0, 8, 1, at + 1, UINT64_MAX - 3, 1ull << 47, 0x7fffffffe000, 0xffffffffff600000};
	const uint32_t tids[] = {tid + 1, UINT32_MAX, 1u << 31};
	struct proc proc;
	struct same_thread same;
	ck_no_err(proc_open(getpid(), &proc));
	ck_no_err(proc_open_mem(&proc));
	for (size_t i = 0; i < HT_ARRAY_SIZE(words); i++)
		words[i] = tid;
	memcpy((uint8_t *)words + 1, &tid, sizeof(tid));
	for (size_t i = 0; i < HT_ARRAY_SIZE(places); i++)
		ck_assert(!same_thread_open(&same, &proc, &maps, tid, places[i]));
	words[0] = tid;
	for (size_t i = 0; i < HT_ARRAY_SIZE(tids); i++) {
		words[1] = tids[i];
		ck_assert(!same_thread_open(&same, &proc, &maps, tids[i], at + 4));
	}
	ck_assert(same_thread_open(&same, &proc, &maps, tid, at));
	/* A word in a file mapping is not read, even if the mapping came later. */
	file.inode = 1;
	ck_assert(!same_thread_lives(&same));
	file.inode = 0;
	ck_assert(same_thread_lives(&same));
	same_thread_close(&same);
	file.inode = 1;
	ck_assert(!same_thread_open(&same, &proc, &maps, tid, at));
	proc_close(&proc);
}

HT_SUITE("attach/thread/same_thread")
