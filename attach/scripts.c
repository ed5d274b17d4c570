/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/scripts.h"

#include <stdio.h>
#include <string.h>

#include "attach/target/clock.h"
#include "attach/target/room.h"

/* Meanwhile nobody reads what the target sends, nor sees that the window is over. */
#define TICK_NS (1 * CLOCK_NS_PER_MS)
#define REST_NS (500 * CLOCK_NS_PER_MS)

#define NODES_MAX (ABI_NODE_MAX / 2)

static struct ht_err *put_name(void *context, raddr_t pc, const struct v8_function *function)
{
	const struct session *s = context;
	const char *name = function->name[0] ? function->name : "(anonymous)";
	struct rec rec = {.kind = REC_SYMBOL, .symbol = {.offset = pc, .frame_count = 1}};

	rec.symbol.frame[0] = (struct rec_frame){.function = {name, strlen(name)},
		.file = {function->file, strlen(function->file)},
		.line = function->line};
	return sink_put(s->sink, &rec, 0);
}

struct ht_err *scripts_prepare(struct session *s)
{
	char why[120];
	struct v8_layout layout;
	bool found;

	struct ht_err *err = v8_layout_read(
		&s->survey.proc, &s->survey.modules, &layout, &found, why, sizeof(why));
	if (err)
		return err;
	if (why[0])
		snprintf(s->report->scripts_problem, sizeof(s->report->scripts_problem),
			"JavaScript functions have no names: this V8 is not known, its %s", why);
	if (!found)
		return NULL;
	if (room_of_cgroups(&s->survey.proc) <
		survey_memory_bytes(&s->survey) + ABI_FUNCTIONS_BYTES) {
		snprintf(s->report->scripts_problem, sizeof(s->report->scripts_problem),
			"JavaScript functions have no names: the memory limit of the process's "
			"control group leaves no room");
		return NULL;
	}
	s->frame_function = layout.frame_function;
	s->interpreter = (struct publish_interpreter){.module_id = layout.module_id,
		.lo = layout.interpreter,
		.bytes = layout.interpreter_bytes,
		.words = layout.frame_bytecode / 8};
	return v8_names_create(&(struct v8_names_options){.proc = &s->survey.proc,
				       .maps = &s->survey.maps,
				       .sink = put_name,
				       .context = s},
		&layout, &s->names);
}

void scripts_configure(const struct session *s, struct abi_config *config)
{
	config->functions = s->names ? s->image.base + ABI_FUNCTIONS_OFF : 0;
	config->function_words = s->frame_function / 8;
	config->interpreted_words = s->interpreter.words;
	if (s->names)
		publish_set_interpreter(s->publish, &s->interpreter);
}

void scripts_see(void *context, const struct rec_node *node, uint64_t function)
{
	const struct session *s = context;
	raddr_t pc = node->flags & ABI_NODE_EXACT ? node->pc : node->pc - 1;

	if (node->flags & ABI_NODE_INTERPRETED)
		v8_names_see_interpreted(s->names, pc, function);
	else
		v8_names_see(s->names, pc, function);
}

/* A program that makes functions all the time has as many stacks: what is to come are stacks of the
 * one that runs them all. */
static struct ht_err *limit_nodes(struct session *s)
{
	const struct abi_control *control = (const void *)(s->image.local + ABI_CONTROL_OFF);
	if (!s->interpreter.bytes ||
		__atomic_load_n(&control->node_count, __ATOMIC_RELAXED) < NODES_MAX)
		return NULL;
	s->interpreter.bytes = 0;
	publish_set_interpreter(s->publish, &s->interpreter);
	snprintf(s->report->scripts_problem, sizeof(s->report->scripts_problem),
		"interpreted JavaScript functions have names up to a point: there are too many "
		"different stacks");
	return publish_snapshot(s->publish, s->image.local, s->image.base, &s->survey.modules,
		&s->survey.maps, false);
}

struct ht_err *scripts_follow(struct session *s)
{
	if (!s->names)
		return NULL;
	struct ht_err *err = limit_nodes(s);
	return err ? err : v8_names_look_up(s->names, clock_mono_ns() + TICK_NS);
}

struct ht_err *scripts_finish(struct session *s)
{
	if (!s->names)
		return NULL;
	struct ht_err *err = NULL;
	if (!s->target_gone)
		err = v8_names_look_up_rest(s->names, clock_mono_ns() + REST_NS);
	if (!err)
		err = v8_names_end(s->names);
	struct v8_names_counts counts = v8_names_counts(s->names);
	s->report->script_places = counts.seen + counts.dropped;
	s->report->script_names = counts.named;
	return err;
}
