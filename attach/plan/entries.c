/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/plan/entries.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/inject/jump.h"
#include "attach/stub/remote_slack.h"
#include "attach/memory/proc_maps.h"
#include "attach/memory/memory.h"
#include "attach/plan/callees.h"
#include "format/array.h"

#define CALLER_MAX    4096u /* bytes of the code of a function without a hook */
#define CALLERS_STEPS 4u    /* longest chain of such functions that call each other */

static struct ht_err *no_memory(void)
{
	return ht_err_new(HT_ERR_NOMEM, "no memory for the functions to be hooked at their entry");
}

/* --- which functions --- */

/* Does it have calls that bypass all slots? A function named by the user, to which pointers in data
 * or no slots lead, is called through a table of the program's own or an address from dlsym. */
static bool passes_slots(const struct coverage_function *function)
{
	const struct native *native = function->native;
	return function->places ||
	       (native->family->given && (native->pointers || !function->slots));
}

/* Should the function be hooked at its entry? The functions of a static program have no slots, so
 * they need entry hooks. */
static bool is_wanted(const struct survey *survey, const struct coverage_function *function,
	enum entries_mode mode)
{
	return function->native->role == FAMILY_HOOKED &&
	       (mode == ENTRIES_ALL ||
		       (mode == ENTRIES_AUTO && (passes_slots(function) || survey->is_static)));
}

static void collect_functions(
	const struct survey *survey, enum entries_mode mode, struct entries *entries)
{
	for (size_t i = 0; i < survey->coverage.count; i++) {
		const struct coverage_function *function = &survey->coverage.function[i];
		if (!is_wanted(survey, function, mode))
			continue;
		struct entry *entry = &entries->entry[entries->count++];
		snprintf(entry->name, sizeof(entry->name), "%s", function->native->name);
		entry->hook = function->native->hook;
		entry->usable_size = function->native->usable_size;
		entry->plain = function->native->plain;
		entry->text_lo = function->module->text_lo;
		entry->text_hi = function->module->text_hi;
		entry->addr = function->native->addr;
		entry->bytes = function->native->bytes;
		entry->function = i;
	}
}

static const struct module *executable_of(const struct survey *survey)
{
	for (size_t i = 0; i < survey->modules.count; i++)
		if (survey->modules.module[i].executable)
			return &survey->modules.module[i];
	return NULL;
}

/* Adds the functions by which a static program could forbid what the agent does: these are
 * guarded. */
static void collect_guards(const struct survey *survey, struct entries *entries)
{
	const struct module *module = executable_of(survey);
	for (size_t i = 0; module && i < module->natives.guard_count; i++) {
		struct entry *entry = &entries->entry[entries->count++];
		*entry = (struct entry){.hook = ABI_GUARD_PRCTL,
			.name = "more of the kind",
			.text_lo = module->text_lo,
			.text_hi = module->text_hi,
			.function = ENTRY_GUARD};
		if (i == NATIVE_GUARDS_MAX)
			continue;
		const struct native_guard *guard = &module->natives.guard[i];
		entry->hook = guard->hook;
		entry->addr = guard->addr;
		entry->bytes = guard->bytes;
		snprintf(entry->name, sizeof(entry->name), "%s",
			guard->hook == ABI_GUARD_PRCTL ? "prctl" : "syscall");
	}
}

static struct ht_err *collect(
	const struct survey *survey, enum entries_mode mode, struct entries *entries)
{
	size_t most = survey->coverage.count + NATIVE_GUARDS_MAX + 2;
	entries->entry = calloc(most, sizeof(*entries->entry));
	if (!entries->entry)
		return no_memory();
	collect_functions(survey, mode, entries);
	if (survey->is_static && entries->count)
		collect_guards(survey, entries);
	return NULL;
}

static bool gives_back(enum abi_hook hook)
{
	if (!abi_is_allocator(hook))
		return false;
	enum abi_shape shape = abi_shape_of(hook);
	return shape == ABI_SHAPE_FREE || shape == ABI_SHAPE_REALLOC || shape == ABI_SHAPE_RESIZE;
}

/* Does the jump of one change the word, or the jump's bytes, of the other? */
static bool are_beside(const struct bridge *one, const struct bridge *other)
{
	raddr_t here = one->entry, there = other->entry;
	raddr_t apart = here > there ? here - there : there - here;
	return other->word == one->word || apart < JUMP_BYTES;
}

/* Is another function hooked, or possibly hooked, beside this place? */
static bool is_beside(
	const struct entries *entries, const struct entry *entry, const struct bridge *place)
{
	for (size_t i = 0; i < entries->count; i++) {
		const struct entry *other = &entries->entry[i];
		for (size_t n = 0; other != entry && !other->why && n < other->place_count; n++)
			if (are_beside(place, &other->place[n]))
				return true;
	}
	return false;
}

/* Only the first of entries beside each other is hooked. A place at a later instruction gives way
 * to any other entry. */
static void drop_beside(struct entries *entries, struct entry *entry)
{
	static const char beside[] =
		"another function shares its first bytes, or the word that they lie in";
	size_t kept = 0;
	for (const struct entry *other = entries->entry; other < entry; other++)
		if (!entry->why && !other->why && other->place_count &&
			are_beside(&entry->place[0], &other->place[0]))
			entry->why = beside;
	for (size_t i = 0; !entry->why && i < entry->place_count; i++)
		if (entry->place[i].entry == entry->addr ||
			!is_beside(entries, entry, &entry->place[i]))
			entry->place[kept++] = entry->place[i];
	entry->place_count = kept;
	if (!entry->why && !kept)
		entry->why = beside;
}

static struct ht_err *read_all(const struct survey *survey, struct entries *entries)
{
	HT_FREED struct entry_code *code = malloc(sizeof(*code));
	if (!code)
		return no_memory();
	for (size_t i = 0; i < entries->count; i++) {
		struct entry *entry = &entries->entry[i];
		entry->why = bridge_is_supported()
				     ? entry_read(survey, code, entry)
				     : "this heaptap was built without the decoder (Zydis)";
	}
	for (size_t i = 0; i < entries->count; i++)
		drop_beside(entries, &entries->entry[i]);
	return NULL;
}

/* --- where their bridges are --- */

/* The number of near areas for which the stub finds room: each area makes the stub longer. */
static size_t areas_max(const struct survey *survey)
{
	for (size_t count = ABI_NEAR_MAX; count > 0; count--) {
		struct remote_slack place;
		if (!ht_err_drop(remote_slack_choose(
			    &survey->proc, &survey->modules, &survey->maps, count, &place)))
			return count;
	}
	return 0;
}

static const struct entry *entry_at(const struct entries *entries, raddr_t addr)
{
	for (size_t i = 0; addr && i < entries->count; i++)
		if (entries->entry[i].addr == addr)
			return &entries->entry[i];
	return NULL;
}

/* The entry of the function of the same kind that this function only forwards to; NULL: none. */
static const struct entry *called_by(const struct entries *entries, const struct entry *entry)
{
	const struct entry *to = entry_at(entries, entry->leads_to);
	bool alike = to && abi_is_allocator(entry->hook) && abi_is_allocator(to->hook) &&
		     abi_shape_of(to->hook) == abi_shape_of(entry->hook);
	return alike ? to : NULL;
}

/* Does the function get a hook? Not if it cannot be hooked, nor a reallocarray that only forwards
 * to a realloc that can be: its calls are recorded there. */
static bool is_placed(const struct entries *entries, const struct entry *entry)
{
	const struct entry *to = called_by(entries, entry);
	return !entry->why && (entry->hook != ABI_HOOK_REALLOCARRAY || !to || to->why);
}

static struct patch_code code_of(const struct survey *survey, const struct entry *entry)
{
	const struct bridge *bridge = &entry->bridge;
	return (struct patch_code){.word = bridge->word,
		.pad = bridge->pad,
		.before = bridge->before,
		.after = bridge_word(bridge),
		.at = bridge->entry - bridge->word,
		.count = 1,
		.hook = entry->hook,
		.place = patch_place_of(proc_maps_find(&survey->maps, bridge->word), bridge->word)};
}

static struct ht_err *place_all(const struct survey *survey, struct entries *entries)
{
	HT_FREED struct near_hook *hook = calloc(entries->count + 1, sizeof(*hook));
	size_t count = 0;
	if (!hook)
		return no_memory();
	for (size_t i = 0; i < entries->count; i++)
		if (is_placed(entries, &entries->entry[i]))
			hook[count++] = (struct near_hook){.bridge = entries->entry[i].place,
				.count = entries->entry[i].place_count,
				.needed = gives_back(entries->entry[i].hook) ||
					  abi_is_guard(entries->entry[i].hook)};
	HT_TRY(near_place(&survey->maps, areas_max(survey), hook, count, entries->near,
		&entries->near_count));
	for (size_t i = 0, n = 0; i < entries->count; i++) {
		struct entry *entry = &entries->entry[i];
		if (!is_placed(entries, entry))
			continue;
		entry->bridge = entry->place[hook[n].chosen];
		entry->code = code_of(survey, entry);
		entry->at = hook[n++].at;
		if (!entry->at)
			entry->why = "no memory is free within reach of a jump from it";
	}
	return NULL;
}

/* --- an allocator as a whole --- */

static const struct coverage_function *function_of(
	const struct survey *survey, const struct entry *entry)
{
	return &survey->coverage.function[entry->function];
}

static const char whole[] = "a function of the same allocator that frees memory cannot be hooked";
static const char callee[] = "a function that it calls cannot be hooked";

/* Is this reason that another function cannot be hooked? */
static bool is_secondary(const char *why)
{
	return why == whole || why == callee;
}

/* Does the function forward to one that is hooked, or that itself forwards to a hooked one? */
static bool is_seen_elsewhere(const struct entries *entries, const struct entry *entry)
{
	const struct entry *to = called_by(entries, entry);
	return to && (to->at || to->passed);
}

/* Marks the functions without a hook for which is_seen_elsewhere is true, until none is left. */
static void pass_on(struct entries *entries)
{
	for (bool more = true; more;) {
		more = false;
		for (size_t i = 0; i < entries->count; i++) {
			struct entry *entry = &entries->entry[i];
			if (entry->at || entry->passed || !is_seen_elsewhere(entries, entry))
				continue;
			entry->why = NULL;
			entry->passed = more = true;
		}
	}
}

static void refuse(struct entry *entry, const char *why)
{
	entry->why = why;
	entry->at = 0;
	entry->passed = false;
}

/* Refuses functions that forward to one that is not hooked after all. */
static void refuse_callers(struct entries *entries)
{
	for (bool more = true; more;) {
		more = false;
		for (size_t i = 0; i < entries->count; i++) {
			struct entry *entry = &entries->entry[i];
			if (entry->at || entry->why || is_seen_elsewhere(entries, entry))
				continue;
			refuse(entry, callee);
			more = true;
		}
	}
}

/* A trace without its frees misleads: if a function that frees cannot be hooked, no function of its
 * allocator is hooked. Returns such a function of the entry's allocator that calls reach without a
 * slot; NULL: none. */
static const struct entry *unhooked_free(
	const struct survey *survey, const struct entries *entries, const struct entry *entry)
{
	const struct coverage_function *function = function_of(survey, entry);
	for (size_t i = 0; i < entries->count; i++) {
		const struct entry *other = &entries->entry[i];
		if (!other->why || !gives_back(other->hook))
			continue;
		const struct coverage_function *its = function_of(survey, other);
		if (passes_slots(its) && its->native->family == function->native->family &&
			(its->native->family->given || its->module == function->module))
			return other;
	}
	return NULL;
}

static void settle_function(struct survey *survey, struct coverage_function *function)
{
	survey->coverage.places -= function->places;
	function->places = 0;
	function->at_entry = true;
}

static void refuse_some(const struct survey *survey, struct entries *entries)
{
	pass_on(entries);
	for (size_t i = 0; i < entries->count; i++) {
		struct entry *entry = &entries->entry[i];
		if (entry->why)
			refuse(entry, entry->why);
		else if (entry->function != ENTRY_GUARD && unhooked_free(survey, entries, entry))
			refuse(entry, whole);
	}
	refuse_callers(entries);
}

static void settle(struct survey *survey, struct entries *entries)
{
	refuse_some(survey, entries);
	for (size_t i = 0; i < entries->count; i++) {
		struct entry *entry = &entries->entry[i];
		if (entry->function == ENTRY_GUARD) {
			if (entry->why)
				entries->unguarded = entry;
			continue;
		}
		entries->hooked += entry->at != 0;
		if (entry->at || entry->passed)
			settle_function(survey, &survey->coverage.function[entry->function]);
	}
	if (!entries->hooked) {
		memset(entries->near, 0, sizeof(entries->near));
		entries->near_count = 0;
	}
}

/* --- functions without a hook --- */

struct seen {
	const struct survey *survey;
	const struct entries *entries;
};

static bool is_seen(void *context, raddr_t addr, bool is_word)
{
	const struct seen *seen = context;
	const struct coverage *coverage = &seen->survey->coverage;
	if (is_word && ht_err_drop(memory_read_u64(&seen->survey->proc, addr, &addr)))
		return false;
	if (entries_has(seen->entries, addr))
		return true;
	for (size_t i = 0; i < coverage->count; i++)
		if (coverage->function[i].native->addr == addr && coverage->function[i].at_entry)
			return true;
	return false;
}

static bool calls_seen(struct seen *seen, const struct native *native)
{
	const struct proc *proc = &seen->survey->proc;
	uint8_t code[CALLER_MAX];
	size_t got = 0;
	if (!native->bytes || native->bytes > sizeof(code))
		return false;
	ht_err_free(memory_read_some(proc, native->addr, code, native->bytes, &got));
	return got == native->bytes &&
	       callees_any(code, native->addr, native->bytes, is_seen, seen);
}

/* Marks functions without a hook, such as operators new and delete, that call a function with an
 * entry hook: that hook sees their calls. */
static void settle_callers(struct survey *survey, const struct entries *entries)
{
	struct seen seen = {survey, entries};
	struct coverage *coverage = &survey->coverage;
	for (unsigned step = 0; step < CALLERS_STEPS; step++)
		for (size_t i = 0; i < coverage->count; i++) {
			struct coverage_function *function = &coverage->function[i];
			if (function->native->role == FAMILY_UNSEEN && !function->at_entry &&
				calls_seen(&seen, function->native))
				settle_function(survey, function);
		}
}

/* --- the whole plan --- */

struct ht_err *entries_plan(struct survey *survey, enum entries_mode mode, struct entries *ret)
{
	*ret = (struct entries){0};
	struct ht_err *err = collect(survey, mode, ret);
	if (!err && ret->count)
		err = read_all(survey, ret);
	if (!err && ret->count)
		err = place_all(survey, ret);
	if (err) {
		entries_deinit(ret);
		return err;
	}
	settle(survey, ret);
	if (ret->hooked)
		settle_callers(survey, ret);
	survey->entry_count = ret->hooked;
	return NULL;
}

/* A static program's trace misleads if malloc, or a function that frees or resizes, is called
 * directly and not hooked. Returns such a function, preferably one with a reason of its own (not
 * is_secondary); NULL: none. */
static const struct entry *find_missing(const struct survey *survey, const struct entries *entries)
{
	const struct entry *found = NULL;
	for (size_t i = 0; i < entries->count; i++) {
		const struct entry *entry = &entries->entry[i];
		if (!entry->why || entry->function == ENTRY_GUARD ||
			!function_of(survey, entry)->places)
			continue;
		bool needed = gives_back(entry->hook) || entry->hook == ABI_HOOK_MALLOC;
		if (needed && (!found || is_secondary(found->why)))
			found = entry;
	}
	return found;
}

struct ht_err *entries_check(
	const struct survey *survey, enum entries_mode mode, const struct entries *entries)
{
	pid_t pid = survey->proc.pid;
	if (!survey->is_static)
		return NULL;
	if (mode == ENTRIES_SLOT)
		return ht_err_new(HT_ERR_REFUSED,
			"process %d is statically linked: its calls of the allocator can only be "
			"recorded by changing the first bytes of the allocator's functions; allow "
			"that with --hook auto",
			pid);
	if (entries->unguarded)
		return ht_err_new(HT_ERR_REFUSED,
			"process %d is statically linked, and its %s, which could forbid what "
			"heaptap needs, cannot be hooked: %s",
			pid, entries->unguarded->name, entries->unguarded->why);
	const struct entry *missing = find_missing(survey, entries);
	if (missing)
		return ht_err_new(HT_ERR_REFUSED,
			"process %d is statically linked, and its %s cannot be hooked: %s", pid,
			missing->name, missing->why);
	return entries->hooked ? NULL
			       : ht_err_new(HT_ERR_REFUSED,
					 "process %d is statically linked, and no allocator in it "
					 "can be hooked",
					 pid);
}

void entries_deinit(struct entries *entries)
{
	free(entries->entry);
	*entries = (struct entries){0};
}

bool entries_has(const struct entries *entries, raddr_t addr)
{
	for (size_t i = 0; i < entries->count; i++)
		if (entries->entry[i].at && entries->entry[i].addr == addr)
			return true;
	return false;
}

raddr_t entries_past(const struct entries *entries, raddr_t addr)
{
	for (size_t i = 0; i < entries->count; i++)
		if (entries->entry[i].at && entries->entry[i].addr == addr &&
			entries->entry[i].bridge.entry == addr)
			return entries->entry[i].at + offsetof(struct abi_bridge, code);
	return addr;
}

void entries_write_bridges(const struct entries *entries, const struct image *image)
{
	for (size_t i = 0; i < entries->count; i++) {
		const struct entry *entry = &entries->entry[i];
		struct abi_bridge made;
		uint8_t *at = near_local(image, entries->near, entry->at);
		if (entry->at && at && bridge_make(&entry->bridge, entry->at, &made))
			memcpy(at, &made, sizeof(made));
	}
}

void entries_write_pad(const struct entries *entries, const struct entry *entry,
	const struct image *image, raddr_t thunk)
{
	bridge_make_pad(&entry->bridge, entry->at, thunk,
		near_local(image, entries->near, entry->bridge.pad));
}

char *entries_refused(const struct entries *entries)
{
	char *text = NULL;
	size_t bytes, count = 0;
	FILE *out = open_memstream(&text, &bytes);
	for (size_t i = 0; out && i < 2 * entries->count; i++) {
		const struct entry *entry = &entries->entry[i % entries->count];
		if (entry->why && is_secondary(entry->why) == (i >= entries->count))
			fprintf(out, "%s%s (%s)", count++ ? ", " : "", entry->name, entry->why);
	}
	if (!out || fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}
