/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/cli/print_survey.h"

#include <stdio.h>

#include "attach/cli/print.h"
#include "attach/got/relocs.h"

static const char *module_path(const struct survey *survey, uint64_t id)
{
	for (size_t i = 0; i < survey->modules.count; i++)
		if (survey->modules.module[i].id == id)
			return survey->modules.module[i].path;
	return "?";
}

/* How calls of a linked-in function are recorded. */
static const char *way_of(const struct coverage_function *function)
{
	if (function->at_entry)
		return "entry";
	if (function->slots)
		return function->places ? "partly" : "slot";
	return function->places || !function->native->pointers ? "no" : "pointer";
}

static void print_coverage(const struct coverage *coverage, bool verbose)
{
	if (coverage->operators)
		print_text(stdout,
			"WARNING: operator new and delete of %s do not call malloc; their calls "
			"are not recorded\n",
			coverage->operators->path);
	if (coverage->places)
		print_text(stdout,
			"WARNING: %zu places in the code directly call an allocator that is "
			"linked in; these calls are not\n"
			"  recorded: totals are too low, and blocks freed there look as if they "
			"stayed. Try --hook auto\n",
			coverage->places);
	if (coverage->count && verbose)
		print_text(stdout, "functions of allocators that are linked in:\n");
	for (size_t i = 0; i < coverage->count && verbose; i++) {
		const struct coverage_function *f = &coverage->function[i];
		print_text(stdout,
			"  %-24s %-16s slots %zu, direct %zu, pointers in data %u%s  %s\n",
			f->native->name, f->native->family->allocator, f->slots, f->places,
			f->native->pointers,
			f->native->role == FAMILY_UNSEEN ? ", no hook for it" : "",
			f->module->path);
	}
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

static bool is_new_module(const struct survey *s, size_t at)
{
	const struct allocator_function *f = &s->slots.function[at];

	if (!abi_is_allocator(f->hook))
		return false;
	for (size_t i = 0; i < at; i++)
		if (abi_is_allocator(s->slots.function[i].hook) &&
			s->slots.function[i].module_id == f->module_id)
			return false;
	return true;
}

static void print_allocators(const struct survey *s)
{
	for (size_t at = 0; at < s->slots.function_count; at++) {
		if (!is_new_module(s, at))
			continue;
		print_text(
			stdout, "allocator: %s (", module_path(s, s->slots.function[at].module_id));
		for (size_t i = at; i < s->slots.function_count; i++) {
			const struct allocator_function *f = &s->slots.function[i];
			if (abi_is_allocator(f->hook) &&
				f->module_id == s->slots.function[at].module_id)
				print_text(stdout, "%s%s", i == at ? "" : " ", tap_name(f->name));
		}
		print_text(stdout, ")\n");
	}
}

/* The row's slot, if it is a slot of an allocator function. */
static const struct slot *slot_of(const struct taps_row *row)
{
	return row->slot && abi_is_allocator(row->slot->hook) ? row->slot : NULL;
}

static void print_slots(const struct survey *s, const struct taps *taps)
{
	print_text(stdout, "slots: %zu to tap, %zu not bound yet, %zu hold something else\n",
		s->tap_count, s->unresolved_count, s->foreign_count);
	for (size_t i = 0; i < taps->count; i++) {
		const struct slot *slot = slot_of(&taps->row[i]);
		if (!slot)
			continue;
		print_text(stdout, "  %-16s %lx %-28s %s\n", tap_name(slot->name),
			(unsigned long)slot->addr, taps_words(&taps->row[i]),
			module_path(s, slot->module_id));
	}
}

static void print_profile(const struct ownprofile *profile)
{
	if (profile->active[0])
		print_text(stdout,
			"the process profiles its own heap (%s): attach needs --force, and cuts "
			"the stacks "
			"in that profile\n",
			profile->active);
	if (profile->unsure[0])
		print_text(stdout,
			"the process profiles its own heap (%s): attach may cut stacks in that "
			"profile\n",
			profile->unsure);
}

void print_survey(const struct survey *s, const struct taps *taps, const struct ownprofile *profile,
	bool verbose)
{
	char size[PRINT_SIZE_BYTES];

	print_text(stdout, "process %d (%s), user %u, %u thread%s, %s resident\n", s->proc.pid,
		s->status.comm, s->status.ruid, s->status.threads, print_plural(s->status.threads),
		print_size(s->status.rss_bytes, size));
	print_allocators(s);
	if (verbose)
		print_slots(s, taps);
	if (s->any_seccomp)
		print_text(stdout,
			"seccomp filter: heaptap's code in the process makes no system call\n");
	if (s->found.tombstone)
		print_text(stdout,
			"one page of an earlier capture is left at %lx; attach uses it again\n",
			(unsigned long)s->found.base);
	print_coverage(&s->coverage, verbose);
	if (s->is_static)
		print_text(stdout,
			"statically linked: attach needs --hook auto, and changes the first bytes "
			"of %zu functions\n",
			s->entry_count);
	print_profile(profile);
	print_text(stdout,
		"attach is possible: it stops one thread, usually for less than a millisecond, and "
		"changes %zu\n"
		"addresses of allocator functions, which detach restores. Nothing was touched\n",
		s->tap_count + s->unresolved_count);
}

struct ht_err *print_survey_json(
	const struct survey *s, const struct taps *taps, const struct ownprofile *profile)
{
	json_t *slots = json_array();

	for (size_t i = 0; slots && i < taps->count; i++) {
		const struct slot *slot = slot_of(&taps->row[i]);
		if (!slot)
			continue;
		json_array_append_new(
			slots, json_pack("{s:s, s:I, s:s, s:o}", "function", tap_name(slot->name),
				       "address", (json_int_t)slot->addr, "verdict",
				       taps_words(&taps->row[i]), "module",
				       print_string(module_path(s, slot->module_id))));
	}
	return print_json(json_pack(
		"{s:s, s:i, s:o, s:i, s:i, s:i, s:b, s:b, s:b, s:I, s:o, s:o, s:I, s:o}", "schema",
		"heaptap.doctor/1", "pid", (int)s->proc.pid, "comm", print_string(s->status.comm),
		"threads", (int)s->status.threads, "slots_to_tap",
		(int)(s->tap_count + s->unresolved_count), "slots_foreign", (int)s->foreign_count,
		"seccomp", (int)s->any_seccomp, "tombstone", (int)s->found.tombstone, "static",
		(int)s->is_static, "entries", (json_int_t)s->entry_count, "slots", slots,
		"linked_in", coverage_json(&s->coverage), "unseen_places",
		(json_int_t)s->coverage.places, "own_profile",
		print_string(profile->active[0] ? profile->active : profile->unsure)));
}
