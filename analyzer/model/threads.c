/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/model/threads.h"

#include <stdlib.h>

void threads_deinit(struct threads *threads)
{
	free(threads->thread);
	map_deinit(&threads->by_tid);
	*threads = (struct threads){0};
}

struct ht_err *threads_index(struct threads *threads, uint32_t tid, uint32_t *ret)
{
	if (map_get(&threads->by_tid, tid, ret))
		return NULL;
	if (threads->count == THREADS_MAX) {
		*ret = THREADS_MAX - 1;
		return NULL;
	}
	struct ht_err *err = array_reserve(&threads->thread, &threads->capacity, threads->count + 1,
		sizeof(*threads->thread), "threads");
	if (!err)
		err = map_put(&threads->by_tid, tid, (uint32_t)threads->count);
	if (err)
		return err;
	threads->thread[threads->count] = (struct thread){.tid = tid};
	*ret = (uint32_t)threads->count++;
	return NULL;
}

struct ht_err *threads_name(
	struct threads *threads, struct strings *strings, const struct rec_thread *rec)
{
	if (rec->tid > UINT32_MAX)
		return NULL;
	uint32_t index;
	const char *name;
	struct ht_err *err = threads_index(threads, (uint32_t)rec->tid, &index);
	if (!err)
		err = strings_intern(strings, rec->name, &name);
	if (!err)
		threads->thread[index].name = name;
	return err;
}
