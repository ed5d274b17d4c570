/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/threads.h"

#include <stdlib.h>

/* Number of earlier threads of a slot that are searched for a name. */
#define BEFORE_MAX 4096u

void threads_deinit(struct threads *threads)
{
	free(threads->thread);
	free(threads->change);
	map_deinit(&threads->by_tid);
	*threads = (struct threads){0};
}

/* Adds an entry; `*ret` is the last entry if the table is full. */
static struct ht_err *add(struct threads *threads, const struct thread *thread, uint32_t *ret)
{
	*ret = THREADS_MAX - 1;
	if (threads->count == THREADS_MAX)
		return NULL;
	HT_TRY(ARRAY_RESERVE(threads->thread, threads->capacity, threads->count + 1, "threads"));
	threads->thread[threads->count] = *thread;
	*ret = (uint32_t)threads->count++;
	return NULL;
}

static struct ht_err *find(struct threads *threads, uint32_t tid, uint32_t *ret)
{
	if (map_get(&threads->by_tid, tid, ret))
		return NULL;
	if (threads->count < THREADS_MAX) {
		HT_TRY(map_put(&threads->by_tid, tid, (uint32_t)threads->count));
		threads->tids++;
	}
	const struct thread new = {.tid = tid, .first = (uint32_t)threads->count, .names = 1};
	return add(threads, &new, ret);
}

struct ht_err *threads_index(
	struct threads *threads, uint32_t tid, uint64_t tsc, uint32_t *ret, uint64_t *ret_until)
{
	*ret_until = UINT64_MAX;
	HT_TRY(find(threads, tid, ret));
	uint32_t at = threads->thread[*ret].changes;
	/* Search from the newest change: most events are later than it. */
	for (; at; at = threads->change[at - 1].before) {
		const struct thread_change *change = &threads->change[at - 1];
		if (change->since_tsc <= tsc) {
			*ret = change->thread;
			return NULL;
		}
		*ret_until = change->since_tsc;
	}
	return NULL;
}

void threads_succeed(struct threads *threads, uint32_t index, uint32_t before)
{
	if (!threads->thread[index].before && index != before)
		threads->thread[index].before = before + 1;
}

const char *threads_shown_name(
	const struct threads *threads, uint32_t index, const char *fallback, bool *ret_assumed)
{
	const struct thread *thread = &threads->thread[index];
	*ret_assumed = !thread->name;
	for (unsigned i = 0; i < BEFORE_MAX && !thread->name && thread->before; i++)
		thread = &threads->thread[thread->before - 1];
	return thread->name ? thread->name : fallback;
}

/* The entry of the thread `first` under `name`. */
static struct ht_err *find_name(
	struct threads *threads, uint32_t first, const char *name, uint32_t *ret)
{
	uint32_t at = first, last;
	do {
		last = at;
		if (threads->thread[at].name == name)
			break;
		at = threads->thread[at].next;
	} while (at);
	*ret = last;
	if (threads->thread[last].name == name || threads->thread[first].names == THREADS_NAMES_MAX)
		return NULL;
	const struct thread new = {.tid = threads->thread[first].tid, .first = first, .name = name};
	struct ht_err *err = add(threads, &new, ret);
	if (err || *ret == THREADS_MAX - 1)
		return err;
	threads->thread[last].next = *ret;
	threads->thread[first].names++;
	return NULL;
}

static struct ht_err *add_change(
	struct threads *threads, uint32_t first, uint64_t since_tsc, const char *name)
{
	uint32_t thread;
	if (threads->change_count == THREADS_MAX)
		return NULL;
	HT_TRY(find_name(threads, first, name, &thread));
	HT_TRY(ARRAY_RESERVE(threads->change, threads->change_capacity, threads->change_count + 1,
		"names of threads"));
	threads->change[threads->change_count] = (struct thread_change){
		.since_tsc = since_tsc,
		.thread = thread,
		.before = threads->thread[first].changes,
	};
	threads->thread[first].changes = (uint32_t)++threads->change_count;
	return NULL;
}

struct ht_err *threads_name(
	struct threads *threads, struct strings *strings, const struct rec_thread *rec)
{
	uint32_t first;
	const char *name;
	if (rec->tid > UINT32_MAX)
		return NULL;
	HT_TRY(find(threads, (uint32_t)rec->tid, &first));
	HT_TRY(strings_intern(strings, rec->name, &name));
	struct thread *thread = &threads->thread[first];
	const struct thread_change *last =
		thread->changes ? &threads->change[thread->changes - 1] : NULL;
	uint64_t last_tsc = last ? last->since_tsc : thread->named_tsc;
	/* The thread has no name yet; or the trace has no times of names, so the new name replaces
	 * the only one. */
	if (!thread->name || (!last && rec->since_tsc <= last_tsc)) {
		thread->name = name;
		thread->named_tsc = rec->since_tsc;
		return NULL;
	}
	const char *now = threads->thread[last ? last->thread : first].name;
	if (now == name || rec->since_tsc < last_tsc)
		return NULL;
	return add_change(threads, first, rec->since_tsc, name);
}
