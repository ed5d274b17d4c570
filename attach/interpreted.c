/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/interpreted.h"

#include <stdio.h>

#include "format/arch.h"

/* A program that makes functions all the time has as many stacks. */
#define NODES_MAX (ABI_NODE_MAX / 2)

struct ht_err *interpreted_prepare(
	struct session *s, const struct v8_layout *layout, struct v8_places *ret_places)
{
	const struct natives_v8 *code = &layout->code;
	bool found;
	struct ht_err *err = v8_collections_places(&s->survey.proc, code, ret_places, &found);
	if (err || !found || !code->has_isolate || !code->interpreter)
		return err;
	s->interpreted.code = (struct publish_interpreter){.module_id = layout->module_id,
		.lo = code->interpreter,
		.bytes = code->interpreter_bytes,
		.words = layout->frame_bytecode / 8};
	return NULL;
}

/* The next generation, or that there is none, for the snapshots that follow. */
static void put_in_force(struct session *s, bool holds)
{
	struct interpreted *interpreted = &s->interpreted;
	interpreted->generation = (uint16_t)(interpreted->generation + holds);
	interpreted->holds = holds;
	interpreted->code.scripts[0] =
		abi_scripts_of(interpreted->thread, holds ? interpreted->generation : 0);
	/* What the agent saw before it sees the snapshot has no number that is looked up. */
	v8_names_begin(s->names, holds ? interpreted->generation : 0);
	publish_set_interpreter(s->publish, &interpreted->code);
}

static struct ht_err *publish(struct session *s)
{
	return publish_snapshot(s->publish, s->image.local, s->image.base, &s->survey.modules,
		&s->survey.maps, false);
}

static void take_thread(void *context, const struct receiver_thread *thread)
{
	struct session *s = context;
	if (thread->tid == (uint32_t)s->survey.status.ns_tid)
		s->interpreted.thread = thread->thread_pointer;
}

/* A thread that has run the stub has told where its variables are, any other when it allocates. */
static bool find_isolate(struct session *s)
{
	struct interpreted *interpreted = &s->interpreted;
	if (!interpreted->thread && s->remote.tid == s->survey.proc.pid)
		interpreted->thread = s->remote.thread_pointer;
	if (!interpreted->thread && s->receiver)
		receiver_each_thread(s->receiver, take_thread, s);
	return interpreted->thread && v8_names_find_isolate(s->names, interpreted->thread);
}

void interpreted_configure(struct session *s)
{
	if (s->interpreted.code.bytes && find_isolate(s))
		put_in_force(s, true);
}

/* From here on interpreted functions are all one. */
static struct ht_err *give_up(struct session *s, const char *why)
{
	put_in_force(s, false);
	s->interpreted.code.bytes = 0;
	publish_set_interpreter(s->publish, &s->interpreted.code);
	snprintf(s->report->scripts_problem, sizeof(s->report->scripts_problem),
		"interpreted JavaScript functions have names up to a point: there are too many %s",
		why);
	return publish(s);
}

static struct ht_err *put_until(struct session *s, uint64_t tsc)
{
	struct rec rec = {.kind = REC_SCRIPTS,
		.scripts = {.generation = s->interpreted.generation, .until_tsc = tsc}};
	return tsc ? sink_put(s->sink, &rec, 0) : NULL;
}

/* `until_tsc`: what happens from now on is stamped with that or later. */
static struct ht_err *look(struct session *s, uint64_t until_tsc)
{
	const struct abi_control *control = (const void *)(s->image.local + ABI_CONTROL_OFF);
	struct interpreted *interpreted = &s->interpreted;
	if (!interpreted->holds) {
		if (!find_isolate(s))
			return NULL;
		if (interpreted->generation == ABI_SCRIPTS_MAX)
			return give_up(s, "collections of garbage");
		put_in_force(s, true);
		return publish(s);
	}
	switch (v8_names_check(s->names)) {
	case V8_NAMES_HOLD:
		break;
	case V8_NAMES_MOVES:
		return NULL;
	case V8_NAMES_MOVED:
		if (interpreted->generation == ABI_SCRIPTS_MAX)
			return give_up(s, "collections of garbage");
		put_in_force(s, true);
		return publish(s);
	case V8_NAMES_LOST:
		put_in_force(s, false);
		return publish(s);
	}
	if (__atomic_load_n(&control->node_count, __ATOMIC_RELAXED) >= NODES_MAX)
		return give_up(s, "different stacks");
	return receiver_is_quiet(s->receiver) ? NULL : put_until(s, until_tsc);
}

static bool is_watched(const struct session *s)
{
	return s->names && s->interpreted.code.bytes && !s->target_gone;
}

struct ht_err *interpreted_drain(struct session *s)
{
	struct ht_err *err = is_watched(s) ? look(s, receiver_settled(s->receiver)) : NULL;
	return err ? err : receiver_drain(s->receiver);
}

struct ht_err *interpreted_drain_last(struct session *s)
{
	struct ht_err *err = NULL;
	/* Where nobody is in a hook any more, nothing happens from now on. */
	uint64_t until_tsc = s->mapped ? receiver_settled(s->receiver) : abi_time_floor(arch_tsc());
	if (is_watched(s) && s->interpreted.holds && v8_names_check(s->names) == V8_NAMES_HOLD)
		err = put_until(s, until_tsc);
	return err ? err : receiver_drain_last(s->receiver);
}
