/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/trace/threadnames.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/proc/proc_file.h"

#define NAME_BYTES 64u
#define CALM_LOOKS 40u

enum number { NUMBER_UNKNOWN, NUMBER_KNOWN, NUMBER_GONE };

/* The thread that uses a thread record. */
struct named {
	uint32_t tid;
	enum number number;
	uint64_t incarnation;
	uint64_t position;   /* of its event stream, at the last look */
	uint64_t looked_tsc; /* up to this time it had `name`, or did not exist */
	pid_t outer;	     /* its number in our PID namespace */
	bool was_seen;
	char name[NAME_BYTES];
};

struct threadnames {
	uint64_t looked_tsc; /* the last look */
	size_t turn;	     /* the thread with which the next look begins */
	unsigned calm;	     /* looks since a new thread was found, at most CALM_LOOKS */
	struct named slot[ABI_SLOT_MAX];
};

struct ht_err *threadnames_create(struct threadnames **ret)
{
	*ret = calloc(1, sizeof(**ret));
	return *ret ? NULL : ht_err_new(HT_ERR_NOMEM, "no memory for the names of threads");
}

void threadnames_destroy(struct threadnames *names)
{
	free(names);
}

static bool is_of(const struct named *named, const struct receiver_thread *thread)
{
	return named->tid == thread->tid && named->incarnation == thread->incarnation;
}

bool threadnames_needs_number(
	const struct threadnames *names, const struct receiver_thread *thread, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct named *named = &names->slot[thread[i].slot % ABI_SLOT_MAX];
		if (!is_of(named, &thread[i]) || named->number == NUMBER_UNKNOWN)
			return true;
	}
	return false;
}

bool threadnames_come_fast(const struct threadnames *names)
{
	return names->looked_tsc && names->calm < CALM_LOOKS;
}

/* The thread's entry; empty if another thread had the record at the last look. */
static struct named *find(struct threadnames *names, const struct receiver_thread *thread)
{
	struct named *named = &names->slot[thread->slot % ABI_SLOT_MAX];
	if (is_of(named, thread))
		return named;
	names->calm = 0;
	*named = (struct named){.tid = thread->tid,
		.incarnation = thread->incarnation,
		.looked_tsc = names->looked_tsc};
	return named;
}

void threadnames_number(
	struct threadnames *names, const struct receiver_thread *thread, pid_t outer)
{
	struct named *named = find(names, thread);
	named->outer = outer;
	named->number = outer ? NUMBER_KNOWN : NUMBER_GONE;
}

/* False: the thread has ended. */
static bool read_name(const struct proc *proc, pid_t tid, char ret[NAME_BYTES])
{
	char path[48];
	snprintf(path, sizeof(path), "task/%d/comm", tid);
	return proc_file_comm(proc->dir_fd, path, ret);
}

static struct ht_err *put_name(struct sink *sink, const struct named *named)
{
	const struct rec rec = {
		.kind = REC_THREAD,
		.thread = {.tid = named->tid,
			.name = {named->name, strlen(named->name)},
			.since_tsc = named->looked_tsc},
	};
	return sink_put(sink, &rec, 0);
}

static struct ht_err *look(struct named *named, const struct proc *proc, struct sink *sink)
{
	char name[NAME_BYTES];
	if (!read_name(proc, named->outer, name)) {
		named->number = NUMBER_GONE;
		return NULL;
	}
	if (named->was_seen && strcmp(named->name, name) == 0)
		return NULL;
	named->was_seen = true;
	memcpy(named->name, name, sizeof(name));
	return put_name(sink, named);
}

struct ht_err *threadnames_look(struct threadnames *names, const struct proc *proc,
	struct sink *sink, const struct receiver_thread *thread, size_t count, uint64_t look_tsc,
	bool same_numbers)
{
	size_t first = count ? names->turn % count : 0;
	unsigned left = THREADNAMES_LOOKS;
	struct ht_err *err = NULL;
	for (size_t i = 0; i < count && !err; i++) {
		const struct receiver_thread *now = &thread[(first + i) % count];
		struct named *named = find(names, now);
		if (same_numbers && named->number == NUMBER_UNKNOWN)
			threadnames_number(names, now, (pid_t)now->tid);
		bool has_recorded = !named->was_seen || now->position != named->position;
		if (named->number == NUMBER_KNOWN && has_recorded) {
			if (left == 0)
				continue;
			if (--left == 0)
				names->turn = first + i + 1;
			err = look(named, proc, sink);
		}
		named->position = now->position;
		named->looked_tsc = look_tsc;
	}
	names->looked_tsc = look_tsc;
	if (names->calm < CALM_LOOKS)
		names->calm++;
	return err;
}
