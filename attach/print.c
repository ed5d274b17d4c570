/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/print.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const ended_names[] = {
	[REC_END_DURATION] = "duration",
	[REC_END_SIGNAL] = "signal",
	[REC_END_TARGET_EXIT] = "target exited",
	[REC_END_TARGET_EXEC] = "target exec'd",
	[REC_END_DISK_FULL] = "disk full",
	[REC_END_ERROR] = "error",
	[REC_END_STOP] = "stop",
};

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

static void print_proof(const struct session_report *r)
{
	const struct residue_report *v = &r->verify;

	if (!r->detached) {
		fprintf(stderr,
			"the process ended during the capture: nothing is left to detach from\n");
		return;
	}
	fprintf(stderr, "detached in %.1f ms; compared with before:\n", ms(r->detach_ns));
	fprintf(stderr, "  mappings     %s\n", v->maps);
	fprintf(stderr, "  descriptors  %s\n", v->fds);
	fprintf(stderr, "  slots        %s (%lu of %lu restored)\n", v->slots,
		(unsigned long)r->slots_restored, (unsigned long)r->slots_tapped);
	fprintf(stderr, "  code         %s\n", v->text);
	fprintf(stderr, "  threads      %s\n", v->threads);
	fprintf(stderr, "  signals      %s\n", v->signals);
	if (r->level <= DETACH_RETRIED)
		fprintf(stderr, "level %d: nothing is left in the process%s\n", r->level,
			r->level == DETACH_RETRIED ? " (the proof took a while)" : "");
	else
		fprintf(stderr, "level %d: %s\n", r->level, r->why);
}

void print_session(const struct session_report *r, const char *trace)
{
	print_proof(r);
	fprintf(stderr, "%lu events of %lu threads in %.2f s (%s)", (unsigned long)r->events,
		(unsigned long)r->threads, ms(r->capture_ns) / 1e3, ended_names[r->ended]);
	fprintf(stderr, "; dropped %lu, truncated stacks %lu\n", (unsigned long)r->dropped_events,
		(unsigned long)r->truncated_stacks);
	fprintf(stderr, "no thread was held longer than %.3f ms; tapped after %.1f ms\n",
		ms(r->stop_ns), ms(r->attach_ns));
	if (r->untapped_modules)
		fprintf(stderr,
			"%lu modules were loaded during the capture: their first allocations, for "
			"some "
			"milliseconds, are missing\n",
			(unsigned long)r->untapped_modules);
	if (r->symbols_problem[0])
		fprintf(stderr, "%s\n", r->symbols_problem);
	if (r->sink_state != SINK_OK)
		fprintf(stderr, "the trace is incomplete: %s\n", r->sink_problem);
	fprintf(stderr, "trace: %s (%lu bytes)\n", trace, (unsigned long)r->trace_bytes);
	if (strcmp(trace, "-") != 0)
		fprintf(stderr, "next:  heaptap report %s\n", trace);
}

static struct ht_err *dump(json_t *object)
{
	char *text = object ? json_dumps(object, JSON_INDENT(2)) : NULL;
	json_decref(object);
	if (!text)
		return ht_err_new(HT_ERR_NOMEM, "no memory for the JSON object");
	puts(text);
	free(text);
	return NULL;
}

struct ht_err *print_session_json(const struct session_report *r, pid_t pid, const char *trace)
{
	const struct residue_report *v = &r->verify;
	json_t *verify = json_null();

	if (r->detached)
		verify = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "maps", v->maps, "fds", v->fds,
			"slots", v->slots, "text", v->text, "threads", v->threads, "signals",
			v->signals);
	json_t *object = json_pack("{s:s, s:s, s:i, s:s, s:o, s:s, s:o}", "schema",
		"heaptap.attach/1", "trace", trace, "pid", (int)pid, "ended", ended_names[r->ended],
		"level", r->detached ? json_integer(r->level) : json_null(), "why", r->why,
		"verify", verify);
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {
		{"attach_ns", r->attach_ns},
		{"stop_ns", r->stop_ns},
		{"capture_ns", r->capture_ns},
		{"detach_ns", r->detach_ns},
		{"events", r->events},
		{"dropped_events", r->dropped_events},
		{"nested_events", r->nested_events},
		{"truncated_stacks", r->truncated_stacks},
		{"slots_tapped", r->slots_tapped},
		{"slots_restored", r->slots_restored},
		{"untapped_modules", r->untapped_modules},
		{"threads", r->threads},
		{"trace_bytes", r->trace_bytes},
	};
	for (size_t i = 0; object && i < HT_ARRAY_SIZE(numbers); i++)
		json_object_set_new(
			object, numbers[i].name, json_integer((json_int_t)numbers[i].value));
	return dump(object);
}

static const char *const verdict_names[] = {
	[SLOT_TAP] = "tap",
	[SLOT_UNRESOLVED] = "tap (not bound yet)",
	[SLOT_FOREIGN] = "leave: holds something else",
	[SLOT_DATA] = "leave: program data",
	[SLOT_SKIPPED] = "leave: dynamic linker",
};

static const char *const hook_names[ABI_HOOK_COUNT] = {
#define X(id, name, shape, arity) #name,
	ABI_HOOKS(X)
#undef X
};

static const char *module_path(const struct survey *survey, uint64_t id)
{
	for (size_t i = 0; i < survey->modules.count; i++)
		if (survey->modules.module[i].id == id)
			return survey->modules.module[i].path;
	return "?";
}

void print_survey(const struct survey *s)
{
	printf("process %d (%s), uid %u, %u threads, %.1f MiB resident\n", s->proc.pid,
		s->status.comm, s->status.ruid, s->status.threads,
		(double)s->status.rss_bytes / (1 << 20));
	if (s->any_seccomp)
		printf("runs under a seccomp filter: the agent will make no system call\n");
	if (s->found.tombstone)
		printf("an earlier capture left one page of jump stubs at %lx\n",
			(unsigned long)s->found.base);
	printf("allocators:\n");
	for (size_t i = 0; i < s->slots.function_count; i++) {
		const struct allocator_function *f = &s->slots.function[i];
		printf("  %-16s %lx in %s\n", hook_names[f->hook], (unsigned long)f->addr,
			module_path(s, f->module_id));
	}
	printf("slots: %zu to tap, %zu not bound yet, %zu hold something else\n", s->tap_count,
		s->unresolved_count, s->foreign_count);
	for (size_t i = 0; i < s->slots.count; i++) {
		const struct slot *slot = &s->slots.slot[i];
		printf("  %-16s %lx %-28s %s\n", hook_names[slot->hook], (unsigned long)slot->addr,
			verdict_names[slot->verdict], module_path(s, slot->module_id));
	}
	printf("attach would stop one thread once, for less than a millisecond, and write %zu "
	       "words\n"
	       "nothing was touched\n",
		s->tap_count + s->unresolved_count);
}

struct ht_err *print_survey_json(const struct survey *s)
{
	json_t *slots = json_array();

	for (size_t i = 0; slots && i < s->slots.count; i++) {
		const struct slot *slot = &s->slots.slot[i];
		json_array_append_new(
			slots, json_pack("{s:s, s:I, s:s, s:s}", "function", hook_names[slot->hook],
				       "address", (json_int_t)slot->addr, "verdict",
				       verdict_names[slot->verdict], "module",
				       module_path(s, slot->module_id)));
	}
	return dump(json_pack("{s:s, s:i, s:s, s:i, s:i, s:i, s:b, s:b, s:o}", "schema",
		"heaptap.doctor/1", "pid", (int)s->proc.pid, "comm", s->status.comm, "threads",
		(int)s->status.threads, "slots_to_tap", (int)(s->tap_count + s->unresolved_count),
		"slots_foreign", (int)s->foreign_count, "seccomp", (int)s->any_seccomp, "tombstone",
		(int)s->found.tombstone, "slots", slots));
}
