/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/cli/print_session.h"

#include <stdio.h>
#include <string.h>

#include "attach/cli/print.h"
#include "format/quantity.h"

static bool has_reached_limit(enum rec_end_reason reason)
{
	return reason == REC_END_RSS || reason == REC_END_GROWTH || reason == REC_END_SIZE;
}

/* Did the window end for a reason that the user did not ask for? */
static bool is_early(enum rec_end_reason reason)
{
	return reason != REC_END_DURATION && reason != REC_END_SIGNAL && reason != REC_END_STOP &&
	       reason != REC_END_COMMAND && !has_reached_limit(reason);
}

static double ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

static void print_checks(const struct session_report *r)
{
	const struct residue_report *v = &r->verify;
	const struct {
		const char *name, *result;
	} checks[RESIDUE_CHECKS] = {
		{"mappings", v->maps},
		{"descriptors", v->fds},
		{"slots", v->slots},
		{"code", v->text},
		{"threads", v->threads},
		{"signals", v->signals},
	};
	for (size_t i = 0; i < RESIDUE_CHECKS; i++) {
		print_text(stderr, "  %-12s %s", checks[i].name, checks[i].result);
		if (checks[i].result == v->slots)
			print_text(stderr,
				" (%lu of %lu restored, %lu changed by the process, %lu "
				"unloaded)",
				(unsigned long)r->slots_restored, (unsigned long)r->slots_tapped,
				(unsigned long)r->slots_changed, (unsigned long)r->slots_unloaded);
		print_text(stderr, "\n");
	}
	print_text(stderr, "  level        %d\n", r->level);
}

static void print_proof(const struct session_report *r, bool verbose)
{
	if (!r->detached && r->is_followed && !verbose)
		return;
	if (!r->detached) {
		print_text(stderr,
			r->ended == REC_END_TARGET_EXEC
				? "the process became another program: nothing had to be undone\n"
				: "the process has ended: nothing had to be undone\n");
		return;
	}
	if (r->level == DETACH_TOMBSTONE && r->verify.page_only)
		print_text(
			stderr, "process unchanged (%u checks), but %s\n", RESIDUE_CHECKS, r->why);
	else if (r->level > DETACH_RETRIED)
		print_text(stderr, "left in the process: %s\n", r->why);
	else if (!r->verify.equal)
		print_text(stderr,
			"heaptap has left the process, but something is not as it was: %s\n",
			r->why);
	else
		print_text(stderr, "process unchanged: %u checks\n", RESIDUE_CHECKS);
	if (verbose)
		print_checks(r);
}

static void print_pages(const struct children_report *children)
{
	if (!children->pages)
		return;
	print_text(stderr,
		"one page of 4 KiB stays in %zu child%s forked during the capture, which keep%s "
		"addresses of allocator functions. It is harmless; `heaptap cleanup -p` removes "
		"it when they are gone:",
		children->pages, children->pages == 1 ? "" : "ren",
		children->pages == 1 ? "s" : "");
	for (size_t i = 0; i < children->pages && i < CHILDREN_NAMED_MAX; i++)
		print_text(stderr, " %d", children->page[i].pid);
	print_text(stderr, "%s\n", children->pages > CHILDREN_NAMED_MAX ? " ..." : "");
}

static void print_children(const struct children_report *children, bool verbose)
{
	if (children->cleaned && verbose)
		print_text(stderr,
			"children forked during the capture: %zu, nothing is left in them\n",
			children->cleaned);
	print_pages(children);
	if (!children->left)
		return;
	print_text(stderr,
		"WARNING: heaptap's code is or may be left in %zu child%s forked during the "
		"capture; it only forwards calls (%s). heaptap verify -p shows how to remove it:",
		children->left, children->left == 1 ? "" : "ren", children->why);
	for (size_t i = 0; i < children->left && i < CHILDREN_NAMED_MAX; i++)
		print_text(stderr, " %d", children->named[i]);
	print_text(stderr, "%s\n", children->left > CHILDREN_NAMED_MAX ? " ..." : "");
}

/* Prints which calls of the process heaptap could not record. */
static void print_unseen(const struct session_report *r)
{
	if (r->slots_left)
		print_text(stderr,
			"WARNING: calls of some libraries that were loaded during the capture are "
			"missing: no room for %lu more allocator addresses\n",
			(unsigned long)r->slots_left);
	if (r->unseen_places)
		print_text(stderr,
			"WARNING: %lu places in the program's code directly call an allocator "
			"that is linked into it (%s). These calls are not recorded: totals are "
			"too low, and blocks freed there look as if they stayed%s\n",
			(unsigned long)r->unseen_places, r->unseen,
			r->entries || r->refused[0] ? "" : ". Try --hook auto");
	if (r->refused[0])
		print_text(stderr, "these functions could not be recorded: %s\n", r->refused);
	if (r->untapped_modules)
		print_text(stderr,
			"libraries loaded during the capture and recorded too late: %lu; their "
			"first calls are missing\n",
			(unsigned long)r->untapped_modules);
}

static void print_problems(const struct session_report *r)
{
	if (r->guardian_left)
		print_text(stderr,
			"WARNING: heaptap's guardian, process %d, has not ended and may still be "
			"at work; heaptap verify shows whether anything is left\n",
			r->guardian_left);
	if (is_early(r->ended) && r->detached)
		print_text(stderr, "recording ended early: %s\n", rec_end_text(r->ended));
	else if (has_reached_limit(r->ended))
		print_text(stderr, "recording ended: %s\n", rec_end_text(r->ended));
	if (r->dropped_events)
		print_text(stderr,
			r->sink_state == STORE_OK
				? "WARNING: %lu events are lost, heaptap could not keep up; "
				  "--lossless makes the process wait instead\n"
				: "WARNING: %lu events are lost, because the trace could not be "
				  "written\n",
			(unsigned long)r->dropped_events);
	print_unseen(r);
	if (r->own_profile.active[0])
		print_text(stderr,
			"WARNING: the process profiles its own heap (%s): heaptap cuts the stacks "
			"in that profile during the capture\n",
			r->own_profile.active);
	if (r->own_profile.unsure[0])
		print_text(stderr,
			"WARNING: the process profiles its own heap (%s): heaptap may cut stacks "
			"in that profile during the capture\n",
			r->own_profile.unsure);
	if (r->damage)
		print_text(stderr,
			"WARNING: the process damaged the memory that it shares with heaptap "
			"(%lu times); do not trust the trace\n",
			(unsigned long)r->damage);
	if (r->symbols_problem[0])
		print_text(stderr, "%s\n", r->symbols_problem);
	if (r->scripts_problem[0])
		print_text(stderr, "%s\n", r->scripts_problem);
	if (r->sink_state != STORE_OK)
		print_text(stderr, "WARNING: the trace is incomplete: %s\n", r->sink_problem);
}

static void print_counts(const struct session_report *r)
{
	if (r->control_problem[0])
		print_text(stderr, "without a socket for heaptap status and stop: %s\n",
			r->control_problem);
	print_text(stderr, "threads: %lu; stacks cut: %lu; functions hooked at their entry: %lu\n",
		(unsigned long)r->threads, (unsigned long)r->truncated_stacks,
		(unsigned long)r->entries);
	print_text(stderr,
		"attached in %.1f ms, detached in %.1f ms; the longest stop of a thread was "
		"%.3f ms\n",
		ms(r->attach_ns), ms(r->detach_ns), ms(r->stop_ns));
}

void print_session(const struct session_report *r, const char *trace, bool verbose, bool has_next)
{
	char size[PRINT_SIZE_BYTES], text[QUANTITY_TEXT_BYTES];

	print_proof(r, verbose);
	print_children(&r->children, verbose);
	print_problems(r);
	if (r->given[0])
		print_text(stderr, "functions named with --alloc-fn: %s\n", r->given);
	if (r->sample_bytes)
		print_text(stderr,
			"sampled: one allocation in %lu bytes; the report's figures are "
			"estimates\n",
			(unsigned long)r->sample_bytes);
	if (r->cull_ns)
		print_text(stderr,
			"culled: of blocks that lived less than %s the trace has only sums\n",
			quantity_duration_text(r->cull_ns, text));
	if (r->pauses)
		print_text(stderr, "paused %lu time%s, for %.1f s in all\n",
			(unsigned long)r->pauses, print_plural(r->pauses), ms(r->paused_ns) / 1e3);
	if (r->overhead_limit_ppm)
		print_text(stderr,
			"recording cost about %.1f %% of the process's CPU time, limit %.1f %%%s\n",
			(double)r->overhead_ppm / 1e4, (double)r->overhead_limit_ppm / 1e4,
			10 * r->overhead_ppm > 11 * r->overhead_limit_ppm
				? ": frees are recorded in pauses, too; --sample costs less"
				: "");
	if (r->settle_ns)
		print_text(stderr, "settled: frees were recorded for %.1f s after the window\n",
			ms(r->settle_ns) / 1e3);
	if (verbose)
		print_counts(r);
	print_text(stderr, "trace: %s (%s, %lu event%s in %.1f s)\n", trace,
		print_size(r->trace_bytes, size), (unsigned long)r->events, print_plural(r->events),
		ms(r->capture_ns) / 1e3);
	if (has_next && strcmp(trace, "-") != 0 && strcmp(trace, "/dev/null") != 0)
		print_text(stderr, "next:  heaptap report %s\n", trace);
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
		{"settle_ns", r->settle_ns},
		{"detach_ns", r->detach_ns},
		{"sample_bytes", r->sample_bytes},
		{"cull_ns", r->cull_ns},
		{"events", r->events},
		{"mappings", r->mappings},
		{"dropped_events", r->dropped_events},
		{"pauses", r->pauses},
		{"paused_ns", r->paused_ns},
		{"overhead_ppm", r->overhead_ppm},
		{"overhead_limit_ppm", r->overhead_limit_ppm},
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
		{"page", r->page},
		{"linger_ns", r->linger_ns},
		{"threads", r->threads},
		{"trace_bytes", r->trace_bytes},
		{"tables_cached", r->tables.cached},
		{"tables_compiled", r->tables.compiled},
		{"script_places", r->script_places},
		{"script_names", r->script_names},
	};
	json_t *met = json_pack("{s:I, s:I, s:I}", "asleep", (json_int_t)r->met.asleep, "awake",
		(json_int_t)r->met.awake, "inside", (json_int_t)r->met.inside);
	json_object_set_new(object, "threads_met", met);
	json_object_set_new(object, "phases_ns", phases_json(r->phase_ns));
	for (size_t i = 0; object && i < HT_ARRAY_SIZE(numbers); i++)
		json_object_set_new(
			object, numbers[i].name, json_integer((json_int_t)numbers[i].value));
	json_object_set_new(object, "refused", print_string(r->refused));
	json_object_set_new(object, "given", print_string(r->given));
	json_object_set_new(object, "own_profile",
		print_string(
			r->own_profile.active[0] ? r->own_profile.active : r->own_profile.unsure));
	json_object_set_new(object, "scripts_problem", print_string(r->scripts_problem));
	json_object_set_new(object, "control_problem", print_string(r->control_problem));
	json_t *left = json_array();
	for (size_t i = 0; i < r->children.left && i < CHILDREN_NAMED_MAX; i++)
		json_array_append_new(left, json_integer(r->children.named[i]));
	json_object_set_new(object, "children_left", left);
	json_t *pages = json_array();
	for (size_t i = 0; i < r->children.pages && i < CHILDREN_NAMED_MAX; i++)
		json_array_append_new(pages, json_integer(r->children.page[i].pid));
	json_object_set_new(object, "children_pages", pages);
	return print_json(object);
}
