/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/print.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/elf/relocs.h"
#include "format/foreign.h"

/* More than any line, with two paths in it. */
#define TEXT_BYTES 16384u

static const char *const ended_names[] = {
	[REC_END_DURATION] = "duration",
	[REC_END_SIGNAL] = "signal",
	[REC_END_TARGET_EXIT] = "target exited",
	[REC_END_TARGET_EXEC] = "target exec'd",
	[REC_END_DISK_FULL] = "disk full",
	[REC_END_ERROR] = "error",
	[REC_END_STOP] = "stop",
	[REC_END_FORBIDDEN] = "target forbade recording: strict seccomp or PR_SET_TSC",
};

void print_text(FILE *out, const char *fmt, ...)
{
	char text[TEXT_BYTES];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	/* The lines are ours, what stands in them may be the target's. */
	for (char *line = text; *line;) {
		char *end = strchr(line, '\n'), *next = end ? end + 1 : line + strlen(line);
		if (end)
			*end = '\0';
		foreign_copy(line, strlen(line) + 1, line);
		fputs(line, out);
		if (end)
			fputc('\n', out);
		line = next;
	}
}

json_t *print_string(const char *text)
{
	size_t bytes = strlen(text) + 1;
	char *copy = malloc(bytes);
	if (!copy)
		return NULL;
	foreign_copy(copy, bytes, text);
	json_t *string = json_string(copy);
	free(copy);
	return string;
}

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

static void print_proof(const struct session_report *r)
{
	const struct residue_report *v = &r->verify;

	if (!r->detached) {
		print_text(stderr,
			"the process ended during the capture: nothing is left to detach from\n");
		return;
	}
	print_text(stderr, "detached in %.1f ms; compared with before:\n", ms(r->detach_ns));
	print_text(stderr, "  mappings     %s\n", v->maps);
	print_text(stderr, "  descriptors  %s\n", v->fds);
	print_text(stderr, "  slots        %s (%lu of %lu restored", v->slots,
		(unsigned long)r->slots_restored, (unsigned long)r->slots_tapped);
	if (r->slots_changed)
		print_text(stderr, ", %lu changed by the process", (unsigned long)r->slots_changed);
	if (r->slots_unloaded)
		print_text(stderr, ", %lu unloaded", (unsigned long)r->slots_unloaded);
	print_text(stderr, ")\n");
	print_text(stderr, "  code         %s\n", v->text);
	print_text(stderr, "  threads      %s\n", v->threads);
	print_text(stderr, "  signals      %s\n", v->signals);
	if (r->level <= DETACH_RETRIED && !v->equal)
		print_text(stderr,
			"level %d: everything was taken out, but not all is as it was: %s\n",
			r->level, r->why);
	else if (r->level <= DETACH_RETRIED)
		print_text(stderr, "level %d: nothing is left in the process%s\n", r->level,
			r->level == DETACH_RETRIED ? " (the proof took a while)" : "");
	else
		print_text(stderr, "level %d: %s\n", r->level, r->why);
}

static void print_children(const struct children_report *children)
{
	if (children->cleaned)
		print_text(stderr,
			"%zu children that it had forked: nothing is left in them either\n",
			children->cleaned);
	if (!children->left)
		return;
	print_text(stderr,
		"%zu children that it had forked have, or may have, the agent, or a page of its "
		"jumps, mapped still, which only forwards calls (%s); heaptap verify -p says what "
		"takes it out:",
		children->left, children->why);
	for (size_t i = 0; i < children->left && i < CHILDREN_NAMED_MAX; i++)
		print_text(stderr, " %d", children->named[i]);
	print_text(stderr, "%s\n", children->left > CHILDREN_NAMED_MAX ? " ..." : "");
}

void print_session(const struct session_report *r, const char *trace)
{
	print_proof(r);
	print_children(&r->children);
	if (r->guardian_left)
		print_text(stderr,
			"WARNING: the guardian, process %d, has not ended, and may be at work "
			"still: "
			"heaptap verify says when nothing is left\n",
			r->guardian_left);
	print_text(stderr, "%lu events of %lu threads in %.2f s (%s)", (unsigned long)r->events,
		(unsigned long)r->threads, ms(r->capture_ns) / 1e3, ended_names[r->ended]);
	print_text(stderr, "; dropped %lu, truncated stacks %lu\n",
		(unsigned long)r->dropped_events, (unsigned long)r->truncated_stacks);
	if (r->sample_bytes)
		print_text(stderr,
			"a sample: one allocation in %lu bytes, and its free; what the report says "
			"is "
			"estimated from it\n",
			(unsigned long)r->sample_bytes);
	print_text(stderr, "no thread was held longer than %.3f ms; tapped after %.1f ms\n",
		ms(r->stop_ns), ms(r->attach_ns));
	if (r->slots_left)
		print_text(stderr,
			"%lu allocator slots of libraries that were loaded later found no "
			"room: their calls are missing\n",
			(unsigned long)r->slots_left);
	if (r->given[0])
		print_text(stderr, "given: %s\n", r->given);
	if (r->entries)
		print_text(stderr, "%lu functions were hooked at their entry\n",
			(unsigned long)r->entries);
	if (r->refused[0])
		print_text(stderr, "not hooked at their entry: %s\n", r->refused);
	if (r->unseen_places)
		print_text(stderr,
			"WARNING: %lu places in the program's code call an allocator past the "
			"slots, %s: these calls are not recorded; totals are too low, and blocks "
			"that are freed there look as if they stayed\n",
			(unsigned long)r->unseen_places, r->unseen);
	if (r->untapped_modules)
		print_text(stderr,
			"%lu modules were loaded during the capture: their first allocations, for "
			"some "
			"milliseconds, are missing\n",
			(unsigned long)r->untapped_modules);
	if (r->damage)
		print_text(stderr,
			"%lu times the process had damaged the memory it shares with heaptap: the "
			"trace is not to be trusted\n",
			(unsigned long)r->damage);
	if (r->symbols_problem[0])
		print_text(stderr, "%s\n", r->symbols_problem);
	if (r->scripts_problem[0])
		print_text(stderr, "%s\n", r->scripts_problem);
	if (r->sink_state != STORE_OK)
		print_text(stderr, "the trace is incomplete: %s\n", r->sink_problem);
	print_text(stderr, "trace: %s (%lu bytes)\n", trace, (unsigned long)r->trace_bytes);
	if (strcmp(trace, "-") != 0 && strcmp(trace, "/dev/null") != 0)
		print_text(stderr, "next:  heaptap report %s\n", trace);
}

struct ht_err *print_json(json_t *object)
{
	char *text = object ? json_dumps(object, JSON_INDENT(2)) : NULL;
	json_decref(object);
	if (!text)
		return ht_err_new(HT_ERR_NOMEM, "no memory for the JSON object");
	puts(text);
	free(text);
	return NULL;
}

static json_t *phases_json(const uint64_t phase_ns[SESSION_PHASES])
{
	static const char *const names[] = {
		[SESSION_SURVEY] = "survey",
		[SESSION_TABLES] = "tables",
		[SESSION_PICTURE] = "picture",
		[SESSION_BRING_IN] = "bring_in",
		[SESSION_TAP] = "tap",
	};
	json_t *object = json_object();

	for (size_t i = 0; object && i < SESSION_PHASES; i++)
		json_object_set_new(object, names[i], json_integer((json_int_t)phase_ns[i]));
	return object;
}

struct ht_err *print_session_json(const struct session_report *r, pid_t pid, const char *trace)
{
	const struct residue_report *v = &r->verify;
	json_t *verify = json_null();

	if (r->detached)
		verify = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "maps", print_string(v->maps),
			"fds", print_string(v->fds), "slots", print_string(v->slots), "text",
			print_string(v->text), "threads", print_string(v->threads), "signals",
			print_string(v->signals));
	json_t *object = json_pack("{s:s, s:o, s:o, s:i, s:s, s:o, s:o, s:o}", "schema",
		"heaptap.attach/1", "trace", print_string(trace), "unseen", print_string(r->unseen),
		"pid", (int)pid, "ended", rec_end_name(r->ended), "level",
		r->detached ? json_integer(r->level) : json_null(), "why", print_string(r->why),
		"verify", verify);
	const struct {
		const char *name;
		uint64_t value;
	} numbers[] = {
		{"attach_ns", r->attach_ns},
		{"stop_ns", r->stop_ns},
		{"capture_ns", r->capture_ns},
		{"detach_ns", r->detach_ns},
		{"sample_bytes", r->sample_bytes},
		{"events", r->events},
		{"mappings", r->mappings},
		{"dropped_events", r->dropped_events},
		{"nested_events", r->nested_events},
		{"truncated_stacks", r->truncated_stacks},
		{"children_cleaned", r->children.cleaned},
		{"slots_tapped", r->slots_tapped},
		{"slots_restored", r->slots_restored},
		{"slots_changed", r->slots_changed},
		{"slots_unloaded", r->slots_unloaded},
		{"slots_foreign", r->slots_foreign},
		{"slots_left", r->slots_left},
		{"untapped_modules", r->untapped_modules},
		{"entries", r->entries},
		{"unseen_places", r->unseen_places},
		{"damage", r->damage},
		{"guardian_left", (uint64_t)r->guardian_left},
		{"threads", r->threads},
		{"trace_bytes", r->trace_bytes},
		{"tables_cached", r->tables.cached},
		{"tables_compiled", r->tables.compiled},
		{"script_places", r->script_places},
		{"script_names", r->script_names},
	};
	json_t *met = json_pack("{s:I, s:I, s:I}", "asleep", (json_int_t)r->met.asleep, "awake",
		(json_int_t)r->met.awake, "inside", (json_int_t)r->met.inside);
	if (object)
		json_object_set_new(object, "threads_met", met);
	if (object)
		json_object_set_new(object, "phases_ns", phases_json(r->phase_ns));
	for (size_t i = 0; object && i < HT_ARRAY_SIZE(numbers); i++)
		json_object_set_new(
			object, numbers[i].name, json_integer((json_int_t)numbers[i].value));
	if (object)
		json_object_set_new(object, "refused", print_string(r->refused));
	if (object)
		json_object_set_new(object, "given", print_string(r->given));
	if (object)
		json_object_set_new(object, "scripts_problem", print_string(r->scripts_problem));
	json_t *left = json_array();
	for (size_t i = 0; i < r->children.left && i < CHILDREN_NAMED_MAX; i++)
		json_array_append_new(left, json_integer(r->children.named[i]));
	if (object)
		json_object_set_new(object, "children_left", left);
	return print_json(object);
}

static const char *const verdict_names[] = {
	[SLOT_TAP] = "tap",
	[SLOT_UNRESOLVED] = "tap (not bound yet)",
	[SLOT_EMPTY] = "leave: empty",
	[SLOT_FOREIGN] = "leave: holds something else",
	[SLOT_DATA] = "leave: program data",
	[SLOT_OURS] = "tapped",
	[SLOT_SKIPPED] = "leave: dynamic linker",
};

static const char *module_path(const struct survey *survey, uint64_t id)
{
	for (size_t i = 0; i < survey->modules.count; i++)
		if (survey->modules.module[i].id == id)
			return survey->modules.module[i].path;
	return "?";
}

/* How calls of a function that is linked in are seen. */
static const char *way_of(const struct coverage_function *function)
{
	if (function->at_entry)
		return "entry";
	if (function->slots)
		return function->places ? "partly" : "slot";
	return function->places || !function->native->pointers ? "no" : "pointer";
}

static void print_coverage(const struct coverage *coverage)
{
	if (coverage->operators)
		print_text(stdout,
			"NOT SEEN: operator new and delete of %s, which do not call malloc\n",
			coverage->operators->path);
	if (coverage->count)
		print_text(stdout, "allocators that are linked in:\n");
	for (size_t i = 0; i < coverage->count; i++) {
		const struct coverage_function *f = &coverage->function[i];
		print_text(stdout,
			"  %-24s %-16s slots %zu, direct %zu, pointers in data %u%s  %s\n",
			f->native->name, f->native->family->allocator, f->slots, f->places,
			f->native->pointers,
			f->native->role == FAMILY_UNSEEN ? ", no hook for it" : "",
			f->module->path);
	}
	if (coverage->places)
		print_text(stdout,
			"WARNING: a trace would not show the calls from %zu places in the code: "
			"totals would be too low, and blocks that are freed there look as if they "
			"stayed\n",
			coverage->places);
}

static json_t *coverage_json(const struct coverage *coverage)
{
	json_t *array = json_array();
	for (size_t i = 0; array && i < coverage->count; i++) {
		const struct coverage_function *f = &coverage->function[i];
		json_array_append_new(
			array, json_pack("{s:s, s:o, s:o, s:s, s:I, s:I, s:I}", "allocator",
				       f->native->family->allocator, "function",
				       print_string(f->native->name), "module",
				       print_string(f->module->path), "covered", way_of(f), "slots",
				       (json_int_t)f->slots, "unseen_places", (json_int_t)f->places,
				       "pointers", (json_int_t)f->native->pointers));
	}
	return array;
}

void print_survey(const struct survey *s)
{
	print_text(stdout, "process %d (%s), uid %u, %u threads, %.1f MiB resident\n", s->proc.pid,
		s->status.comm, s->status.ruid, s->status.threads,
		(double)s->status.rss_bytes / (1 << 20));
	if (s->any_seccomp)
		print_text(stdout,
			"runs under a seccomp filter: the agent will make no system call\n");
	if (s->found.tombstone)
		print_text(stdout,
			"an earlier capture left one page of jump stubs at %lx; attach would use "
			"it "
			"again\n",
			(unsigned long)s->found.base);
	print_text(stdout, "allocators:\n");
	for (size_t i = 0; i < s->slots.function_count; i++) {
		const struct allocator_function *f = &s->slots.function[i];
		if (!abi_is_allocator(f->hook))
			continue;
		print_text(stdout, "  %-16s %lx in %s\n", tap_name(f->name), (unsigned long)f->addr,
			module_path(s, f->module_id));
	}
	print_text(stdout, "slots: %zu to tap, %zu not bound yet, %zu hold something else\n",
		s->tap_count, s->unresolved_count, s->foreign_count);
	for (size_t i = 0; i < s->slots.count; i++) {
		const struct slot *slot = &s->slots.slot[i];
		if (!abi_is_allocator(slot->hook))
			continue;
		print_text(stdout, "  %-16s %lx %-28s %s\n", tap_name(slot->name),
			(unsigned long)slot->addr, verdict_names[slot->verdict],
			module_path(s, slot->module_id));
	}
	print_coverage(&s->coverage);
	if (s->is_static)
		print_text(stdout,
			"linked statically: attach --hook auto would hook %zu functions at their "
			"entry; without --hook it is refused\n",
			s->entry_count);
	print_text(stdout,
		"attach would stop one thread, usually for less than a millisecond, and write %zu "
		"words\n"
		"nothing was touched\n",
		s->tap_count + s->unresolved_count);
}

struct ht_err *print_survey_json(const struct survey *s)
{
	json_t *slots = json_array();

	for (size_t i = 0; slots && i < s->slots.count; i++) {
		const struct slot *slot = &s->slots.slot[i];
		if (!abi_is_allocator(slot->hook))
			continue;
		json_array_append_new(
			slots, json_pack("{s:s, s:I, s:s, s:o}", "function", tap_name(slot->name),
				       "address", (json_int_t)slot->addr, "verdict",
				       verdict_names[slot->verdict], "module",
				       print_string(module_path(s, slot->module_id))));
	}
	return print_json(json_pack(
		"{s:s, s:i, s:o, s:i, s:i, s:i, s:b, s:b, s:b, s:I, s:o, s:o, s:I}", "schema",
		"heaptap.doctor/1", "pid", (int)s->proc.pid, "comm", print_string(s->status.comm),
		"threads", (int)s->status.threads, "slots_to_tap",
		(int)(s->tap_count + s->unresolved_count), "slots_foreign", (int)s->foreign_count,
		"seccomp", (int)s->any_seccomp, "tombstone", (int)s->found.tombstone, "static",
		(int)s->is_static, "entries", (json_int_t)s->entry_count, "slots", slots,
		"linked_in", coverage_json(&s->coverage), "unseen_places",
		(json_int_t)s->coverage.places));
}
