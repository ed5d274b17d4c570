/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/trace/scripts.h"

#include <stdio.h>

#include "attach/proc/clock.h"
#include "attach/process/room.h"
#include "attach/trace/records.h"

/* Short, since heaptap neither reads events nor notices the window's end meanwhile. */
#define TICK_NS (1 * CLOCK_NS_PER_MS)
#define REST_NS (500 * CLOCK_NS_PER_MS)

static struct ht_err *put_name(
	void *context, bool interpreted, uint64_t place, const struct v8_functions *functions)
{
	const struct scripts *scripts = context;
	struct rec rec = {.kind = REC_SYMBOL,
		.symbol = {.module_id = interpreted ? TRACE_MODULE_SCRIPTS : 0,
			.offset = place,
			.frame_count = functions->count}};

	for (unsigned i = 0; i < functions->count; i++) {
		const struct v8_function *function = &functions->function[i];
		const char *name = function->name[0] ? function->name : "(anonymous)";
		rec.symbol.frame[i] = (struct rec_frame){.function = records_text(name),
			.file = records_text(function->file),
			.line = function->line};
	}
	return sink_put(scripts->sink, &rec, 0);
}

struct ht_err *scripts_prepare(
	struct scripts *scripts, struct survey *survey, char *problem, size_t problem_bytes)
{
	char why[120];
	struct v8_layout layout;
	bool found;

	scripts->problem = problem;
	scripts->problem_bytes = problem_bytes;
	HT_TRY(v8_layout_read(&survey->proc, &survey->modules, &layout, &found, why, sizeof(why)));
	if (why[0])
		snprintf(problem, problem_bytes,
			"JavaScript functions have no names: heaptap does not know this V8 (%s)",
			why);
	if (!found)
		return NULL;
	if (room_of_cgroups(&survey->proc) < survey_memory_bytes(survey) + ABI_FUNCTIONS_BYTES) {
		snprintf(problem, problem_bytes,
			"JavaScript functions have no names: the memory limit of the process's "
			"control group leaves no room");
		return NULL;
	}
	struct v8_places places = {0};
	scripts->frame_function = layout.frame_function;
	HT_TRY(interpreted_prepare(&scripts->interpreted, &survey->proc, &layout, &places));
	return v8_names_create(&(struct v8_names_options){.proc = &survey->proc,
				       .maps = &survey->maps,
				       .places = places,
				       .sink = put_name,
				       .context = scripts},
		&layout, &scripts->names);
}

void scripts_configure(
	struct scripts *scripts, struct interpreted_use use, struct abi_config *config)
{
	config->functions = scripts->names ? use.image->base + ABI_FUNCTIONS_OFF : 0;
	config->function_words = scripts->frame_function / 8;
	config->interpreted_words = scripts->interpreted.code.words;
	scripts->sink = use.sink;
	if (!scripts->names)
		return;
	use.names = scripts->names;
	use.problem = scripts->problem;
	use.problem_bytes = scripts->problem_bytes;
	interpreted_configure(&scripts->interpreted, &use);
}

void scripts_see(void *context, struct rec_node *node, uint64_t function)
{
	const struct scripts *scripts = context;
	raddr_t pc = node->flags & ABI_NODE_EXACT ? node->pc : node->pc - 1;

	if (node->flags & ABI_NODE_INTERPRETED)
		node->pc = v8_names_see_interpreted(scripts->names, node->pc >> ABI_SCRIPTS_SHIFT,
			node->pc & ((1ull << ABI_SCRIPTS_SHIFT) - 1), function);
	else
		v8_names_see(scripts->names, pc, function);
}

struct ht_err *scripts_follow(struct scripts *scripts, struct receiver *receiver)
{
	struct ht_err *err = interpreted_drain(&scripts->interpreted, receiver, true);
	if (err || !scripts->names)
		return err;
	return v8_names_look_up(scripts->names, clock_mono_ns() + TICK_NS);
}

struct ht_err *scripts_drain(struct scripts *scripts, struct receiver *receiver)
{
	return interpreted_drain(&scripts->interpreted, receiver, false);
}

struct ht_err *scripts_drain_last(
	struct scripts *scripts, struct receiver *receiver, bool is_mapped)
{
	return interpreted_drain_last(&scripts->interpreted, receiver, is_mapped);
}

struct ht_err *scripts_finish(
	struct scripts *scripts, bool is_gone, uint64_t *ret_places, uint64_t *ret_names)
{
	if (!scripts->names)
		return NULL;
	struct ht_err *err = NULL;
	if (!is_gone)
		err = v8_names_look_up_rest(scripts->names, clock_mono_ns() + REST_NS);
	struct v8_names_counts counts = v8_names_counts(scripts->names);
	*ret_places = counts.seen + counts.dropped;
	*ret_names = counts.named;
	return err;
}

void scripts_close(struct scripts *scripts)
{
	interpreted_finish(&scripts->interpreted);
	v8_names_destroy(scripts->names);
	scripts->names = NULL;
}
