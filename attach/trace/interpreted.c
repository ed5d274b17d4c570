/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/trace/interpreted.h"

#include <stdio.h>

#include "attach/proc/clock.h"
#include "attach/proc/proc_status.h"
#include "attach/thread/proc_where.h"
#include "format/arch.h"

/* A program that goes on making functions, or workers, makes as many new stacks. Limits for all
 * threads, and lower ones for workers, which leave something for the first thread. */
#define NODES_MAX	    (ABI_NODE_MAX / 2)
#define WORKERS_NODES_MAX   (ABI_NODE_MAX / 4)
#define SCRIPTS_MAX	    (ABI_SCRIPTS_MAX - ABI_SCRIPTS_THREADS) /* with room for one look */
#define WORKERS_SCRIPTS_MAX (SCRIPTS_MAX / 2)

/* One look reads the isolates of at most SEEN_MAX threads. The looks take at most 1 / SEEN_PART of
 * the time. */
#define SEEN_MAX       128u
#define SEEN_PERIOD_NS (20 * CLOCK_NS_PER_MS)
#define SEEN_PART      50u
#define SEEN_TICK_NS   CLOCK_NS_PER_MS /* of a look, if at several threads: the receiver waits */

/*
 * A worker that starts runs a thousand functions once, in 20 to 60 ms, which makes 8,000 of the
 * 50,000 stack nodes; five such workers would use up all. So a worker is followed only when its
 * start is over: when it has used this much CPU time, or is this old, as some workers mostly wait.
 */
#define BEGUN_RAN_NS (100 * CLOCK_NS_PER_MS)
#define BEGUN_AGE_NS CLOCK_NS_PER_S

struct ht_err *interpreted_prepare(struct interpreted *interpreted, struct proc *proc,
	const struct v8_layout *layout, struct v8_places *ret_places)
{
	const struct natives_v8 *code = &layout->code;
	bool found;
	struct ht_err *err = v8_collections_places(proc, code, ret_places, &found);
	if (err || !found || !code->has_isolate || !code->interpreter)
		return err;
	interpreted->code = (struct publish_interpreter){.module_id = layout->module_id,
		.lo = code->interpreter,
		.bytes = code->interpreter_bytes,
		.words = layout->frame_bytecode / 8};
	return NULL;
}

/* --- generations --- */

/* Begins the next generation of the thread, for the snapshots that follow. */
static void begin(struct interpreted *interpreted, unsigned i)
{
	struct interpreted_thread *thread = &interpreted->thread[i];
	thread->generation = ++interpreted->generation;
	thread->isolate = v8_names_isolate(interpreted->use.names, thread->pointer);
	interpreted->code.scripts[i] = abi_scripts_of(thread->pointer, thread->generation);
	/* Events of the agent from before it sees the snapshot carry a number that is not looked
	 * up. */
	v8_names_begin(interpreted->use.names, i, thread->generation);
}

/* Ends the thread's generation. The first thread keeps its thread pointer. */
static void end(struct interpreted *interpreted, unsigned i)
{
	struct interpreted_thread *thread = &interpreted->thread[i];
	v8_names_drop(interpreted->use.names, i);
	same_thread_close(&thread->same);
	*thread = (struct interpreted_thread){.pointer = i ? 0 : thread->pointer};
	interpreted->code.scripts[i] = 0;
}

static struct ht_err *publish(struct interpreted *interpreted)
{
	publish_set_interpreter(interpreted->use.publish, &interpreted->code);
	return publish_snapshot(interpreted->use.publish, interpreted->use.image->local,
		interpreted->use.image->base, &interpreted->use.survey->modules,
		&interpreted->use.survey->maps, false);
}

/* Gives up the names of thread `first` and of those behind it, which `whose` names. */
static void give_up(
	struct interpreted *interpreted, unsigned first, const char *whose, const char *why)
{
	for (unsigned i = first; i < ABI_SCRIPTS_THREADS; i++)
		end(interpreted, i);
	snprintf(interpreted->use.problem, interpreted->use.problem_bytes,
		"some interpreted JavaScript functions%s have no names: there are too many %s",
		whose, why);
}

/* --- threads --- */

static void take_first(void *context, const struct receiver_thread *thread)
{
	struct interpreted *interpreted = context;
	if (thread->tid == (uint32_t)interpreted->use.survey->status.ns_tid)
		interpreted->thread[0].pointer = thread->thread_pointer;
}

/* A thread that has run the stub has a known thread pointer; any other, when it has allocated. */
static bool find_first(struct interpreted *interpreted)
{
	struct interpreted_thread *first = &interpreted->thread[0];
	if (!first->pointer && interpreted->use.remote->tid == interpreted->use.survey->proc.pid)
		first->pointer = interpreted->use.remote->thread_pointer;
	if (!first->pointer && interpreted->receiver)
		receiver_each_thread(interpreted->receiver, take_first, interpreted);
	return first->pointer &&
	       v8_names_find_isolate(interpreted->use.names, 0, first->pointer, NULL);
}

void interpreted_configure(struct interpreted *interpreted, const struct interpreted_use *use)
{
	interpreted->use = *use;
	if (interpreted->code.bytes && find_first(interpreted)) {
		begin(interpreted, 0);
		publish_set_interpreter(interpreted->use.publish, &interpreted->code);
	}
}

/* The threads that have an isolate, from one look. */
struct seen {
	struct interpreted *interpreted;
	struct seen_thread {
		raddr_t pointer, isolate;
		uint32_t tid, slot;
	} thread[SEEN_MAX];
	size_t count, looked;
	uint32_t from, next; /* records where this look and the next begin; 0: the first */
};

static void see_thread(void *context, const struct receiver_thread *thread)
{
	struct seen *seen = context;
	if (thread->slot < seen->from || seen->next)
		return;
	if (seen->looked == SEEN_MAX) {
		seen->next = thread->slot;
		return;
	}
	for (size_t i = 0; i < seen->count; i++)
		if (seen->thread[i].pointer == thread->thread_pointer)
			return; /* another record of the same thread */
	seen->looked++;
	raddr_t isolate = v8_names_isolate(seen->interpreted->use.names, thread->thread_pointer);
	if (isolate)
		seen->thread[seen->count++] = (struct seen_thread){
			thread->thread_pointer, isolate, thread->tid, thread->slot};
}

/* Is the thread the only one in its isolate? V8's helper threads are in the isolate while they
 * collect garbage, too, and run no function of it. */
static bool is_alone(const struct seen *seen, const struct seen_thread *thread)
{
	size_t in = 0;
	for (size_t i = 0; i < seen->count; i++)
		in += seen->thread[i].isolate == thread->isolate;
	return in == 1;
}

static bool is_known(const struct interpreted *interpreted, const struct seen_thread *thread)
{
	for (unsigned i = 0; i < ABI_SCRIPTS_THREADS; i++)
		if (interpreted->thread[i].pointer == thread->pointer ||
			interpreted->thread[i].isolate == thread->isolate)
			return true;
	return false;
}

static bool has_begun(const struct interpreted *interpreted, const struct same_thread *same)
{
	return proc_ran_ns(&interpreted->use.survey->proc, same->task) >= BEGUN_RAN_NS ||
	       proc_age_ns(&interpreted->use.survey->proc, same->task) >= BEGUN_AGE_NS;
}

static bool take_worker(struct interpreted *interpreted, unsigned i, const struct seen_thread *seen)
{
	struct interpreted_thread *thread = &interpreted->thread[i];
	if (!same_thread_open(&thread->same, &interpreted->use.survey->proc,
		    &interpreted->use.survey->maps, seen->tid,
		    seen->pointer + interpreted->use.remote->tid_offset))
		return false;
	thread->pointer = seen->pointer;
	if (has_begun(interpreted, &thread->same) &&
		v8_names_find_isolate(interpreted->use.names, i, thread->pointer, &thread->same)) {
		begin(interpreted, i);
		return true;
	}
	end(interpreted, i);
	return false;
}

/* True: the worker is followed now, so a new snapshot is needed. */
static bool place_worker(
	struct interpreted *interpreted, const struct seen *seen, const struct seen_thread *thread)
{
	unsigned i = 1;
	if (thread->tid == (uint32_t)interpreted->use.survey->status.ns_tid ||
		is_known(interpreted, thread) || !is_alone(seen, thread))
		return false;
	while (i < ABI_SCRIPTS_THREADS && interpreted->thread[i].pointer)
		i++;
	if (i < ABI_SCRIPTS_THREADS)
		return take_worker(interpreted, i, thread);
	if (!interpreted->use.problem[0])
		snprintf(interpreted->use.problem, interpreted->use.problem_bytes,
			"interpreted JavaScript functions of some worker threads have no names: "
			"heaptap reads those of %u workers at a time",
			ABI_SCRIPTS_THREADS - 1);
	return false;
}

/* Starts with the worker for which the last look had no time. */
static bool place_workers(struct interpreted *interpreted, const struct seen *seen, uint64_t end_ns)
{
	bool changed = false;
	size_t first = 0;
	while (first < seen->count && seen->thread[first].slot < interpreted->place_from)
		first++;
	for (size_t k = 0; k < seen->count; k++) {
		const struct seen_thread *thread = &seen->thread[(first + k) % seen->count];
		interpreted->place_from = thread->slot;
		if (k > 0 && clock_mono_ns() > end_ns)
			return changed;
		changed |= place_worker(interpreted, seen, thread);
	}
	return changed;
}

/* Looks for workers that are not followed yet. True: one is followed now, so a new snapshot is
 * needed. */
static bool find_workers(struct interpreted *interpreted)
{
	struct seen seen = {.interpreted = interpreted, .from = interpreted->see_from};
	const uint64_t now_ns = clock_mono_ns();
	if (interpreted->no_workers || !interpreted->use.remote->tid_offset ||
		now_ns < interpreted->next_ns)
		return false;
	receiver_each_thread(interpreted->receiver, see_thread, &seen);
	interpreted->see_from = seen.next;
	bool changed = place_workers(interpreted, &seen, now_ns + SEEN_TICK_NS);
	const uint64_t end_ns = clock_mono_ns(), rest_ns = (end_ns - now_ns) * SEEN_PART;
	interpreted->next_ns = end_ns + (rest_ns > SEEN_PERIOD_NS ? rest_ns : SEEN_PERIOD_NS);
	return changed;
}

/* --- looks --- */

static struct ht_err *put_until(struct interpreted *interpreted, unsigned i, uint64_t tsc)
{
	struct rec rec = {.kind = REC_SCRIPTS,
		.scripts = {.generation = interpreted->thread[i].generation, .until_tsc = tsc}};
	return tsc ? sink_put(interpreted->use.sink, &rec, 0) : NULL;
}

/* Looks at thread `i`. `until_tsc`: later events have this time stamp or a later one.
 * `ret_changed`: set if a new snapshot is needed. */
static struct ht_err *look_at(
	struct interpreted *interpreted, unsigned i, uint64_t until_tsc, bool *ret_changed)
{
	if (!interpreted->thread[i].generation) {
		if (i == 0 && find_first(interpreted)) {
			begin(interpreted, i);
			*ret_changed = true;
		}
		return NULL;
	}
	switch (v8_names_check(interpreted->use.names, i)) {
	case V8_NAMES_HOLD:
		return receiver_is_quiet(interpreted->receiver)
			       ? NULL
			       : put_until(interpreted, i, until_tsc);
	case V8_NAMES_MOVES:
		return NULL;
	case V8_NAMES_MOVED:
		begin(interpreted, i);
		break;
	case V8_NAMES_LOST:
		end(interpreted, i);
		break;
	}
	*ret_changed = true;
	return NULL;
}

/* Names what has run out; NULL: nothing has. */
static const char *used_up(
	const struct interpreted *interpreted, uint64_t nodes_max, unsigned scripts_max)
{
	const struct abi_control *control =
		(const void *)(interpreted->use.image->local + ABI_CONTROL_OFF);
	if (__atomic_load_n(&control->node_count, __ATOMIC_RELAXED) >= nodes_max)
		return "different stacks";
	return interpreted->generation >= scripts_max ? "garbage collections" : NULL;
}

static bool has_workers(const struct interpreted *interpreted)
{
	bool any = false;
	for (unsigned i = 1; i < ABI_SCRIPTS_THREADS; i++)
		any |= interpreted->thread[i].generation != 0;
	return any;
}

static struct ht_err *look(struct interpreted *interpreted, uint64_t until_tsc, bool for_workers)
{
	struct ht_err *err = NULL;
	bool changed = false;
	const char *why = used_up(interpreted, NODES_MAX, SCRIPTS_MAX);
	if (why) {
		/* From here on all interpreted functions count as one. */
		give_up(interpreted, 0, "", why);
		interpreted->code.bytes = 0;
		return publish(interpreted);
	}
	why = has_workers(interpreted)
		      ? used_up(interpreted, WORKERS_NODES_MAX, WORKERS_SCRIPTS_MAX)
		      : NULL;
	if (why) {
		give_up(interpreted, 1, " of worker threads", why);
		interpreted->no_workers = changed = true;
	}
	for (unsigned i = 0; i < ABI_SCRIPTS_THREADS && !err; i++)
		err = look_at(interpreted, i, until_tsc, &changed);
	if (!err && for_workers)
		changed |= find_workers(interpreted);
	return !err && changed ? publish(interpreted) : err;
}

static bool is_watched(const struct interpreted *interpreted)
{
	return interpreted->use.names && interpreted->code.bytes && !*interpreted->use.is_gone;
}

struct ht_err *interpreted_drain(
	struct interpreted *interpreted, struct receiver *receiver, bool for_workers)
{
	struct ht_err *err = NULL;
	interpreted->receiver = receiver;
	if (is_watched(interpreted))
		err = look(interpreted, receiver_settled(receiver), for_workers);
	return err ? err : receiver_drain(receiver);
}

struct ht_err *interpreted_drain_last(
	struct interpreted *interpreted, struct receiver *receiver, bool is_mapped)
{
	struct ht_err *err = NULL;
	/* If no thread can be in a hook any more, no event follows. */
	uint64_t until_tsc = is_mapped ? receiver_settled(receiver) : abi_time_floor(arch_tsc());
	for (unsigned i = 0; i < ABI_SCRIPTS_THREADS && is_watched(interpreted) && !err; i++)
		if (interpreted->thread[i].generation &&
			v8_names_check(interpreted->use.names, i) == V8_NAMES_HOLD)
			err = put_until(interpreted, i, until_tsc);
	return err ? err : receiver_drain_last(receiver);
}

void interpreted_finish(struct interpreted *interpreted)
{
	for (unsigned i = 0; i < ABI_SCRIPTS_THREADS; i++)
		same_thread_close(&interpreted->thread[i].same);
}
