/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/capture/scripts.h"

#include <stdio.h>
#include <string.h>

#include "attach/capture/interpreted.h"
#include "attach/proc/clock.h"
#include "attach/process/room.h"

/* Short: heaptap neither reads events nor sees the window's end meanwhile. */
#define TICK_NS (1 * CLOCK_NS_PER_MS)
#define REST_NS (500 * CLOCK_NS_PER_MS)

static struct ht_err *put_name(
	void *context, bool interpreted, uint64_t place, const struct v8_functions *functions)
{
	const struct session *s = context;
	struct rec rec = {.kind = REC_SYMBOL,
		.symbol = {.module_id = interpreted ? TRACE_MODULE_SCRIPTS : 0,
			.offset = place,
			.frame_count = functions->count}};

	for (unsigned i = 0; i < functions->count; i++) {
		const struct v8_function *function = &functions->function[i];
		const char *name = function->name[0] ? function->name : "(anonymous)";
		rec.symbol.frame[i] = (struct rec_frame){.function = {name, strlen(name)},
			.file = {function->file, strlen(function->file)},
			.line = function->line};
	}
	return sink_put(s->outlet.sink, &rec, 0);
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
			"JavaScript functions have no names: heaptap does not know this V8 (%s)",
			why);
	if (!found)
		return NULL;
	if (room_of_cgroups(&s->survey.proc) <
		survey_memory_bytes(&s->survey) + ABI_FUNCTIONS_BYTES) {
		snprintf(s->report->scripts_problem, sizeof(s->report->scripts_problem),
			"JavaScript functions have no names: the memory limit of the process's "
			"control group leaves no room");
		return NULL;
	}
	struct v8_places places = {0};
	s->frame_function = layout.frame_function;
	err = interpreted_prepare(s, &layout, &places);
	if (err)
		return err;
	return v8_names_create(&(struct v8_names_options){.proc = &s->survey.proc,
				       .maps = &s->survey.maps,
				       .places = places,
				       .sink = put_name,
				       .context = s},
		&layout, &s->names);
}

void scripts_configure(struct session *s, struct abi_config *config)
{
	config->functions = s->names ? s->image.base + ABI_FUNCTIONS_OFF : 0;
	config->function_words = s->frame_function / 8;
	config->interpreted_words = s->interpreted.code.words;
	if (s->names)
		interpreted_configure(s);
}

void scripts_see(void *context, struct rec_node *node, uint64_t function)
{
	const struct session *s = context;
	raddr_t pc = node->flags & ABI_NODE_EXACT ? node->pc : node->pc - 1;

	if (node->flags & ABI_NODE_INTERPRETED)
		node->pc = v8_names_see_interpreted(s->names, node->pc >> ABI_SCRIPTS_SHIFT,
			node->pc & ((1ull << ABI_SCRIPTS_SHIFT) - 1), function);
	else
		v8_names_see(s->names, pc, function);
}

struct ht_err *scripts_follow(struct session *s)
{
	return s->names ? v8_names_look_up(s->names, clock_mono_ns() + TICK_NS) : NULL;
}

struct ht_err *scripts_finish(struct session *s)
{
	if (!s->names)
		return NULL;
	struct ht_err *err = NULL;
	if (!s->change.is_gone)
		err = v8_names_look_up_rest(s->names, clock_mono_ns() + REST_NS);
	struct v8_names_counts counts = v8_names_counts(s->names);
	s->report->script_places = counts.seen + counts.dropped;
	s->report->script_names = counts.named;
	return err;
}
