/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/patch.h"

#include <sys/sysmacros.h>

#include "attach/inject/jump.h"
#include "attach/memory/memory.h"
#include "attach/proc/clock.h"
#include "attach/process/proc_open.h"

/* An older look may be outdated, as heaptap may have been preempted since: look again. If every
 * look takes that long (under a tracer, say), the last one counts. */
#define LOOK_NS	  20000u
#define LOOKS_MAX 16u
#define READS_MAX 3u

struct ht_err *patch_begin(const struct proc *proc, struct patch *ret)
{
	ret->proc = proc;
	HT_TRY(proc_lookup_begin(proc, &ret->lookup));
	/* After an exec the open descriptor still writes to the memory from before, in which other
	 * processes may run. */
	struct ht_err *err = proc_check_same(proc);
	if (err)
		proc_lookup_end(&ret->lookup);
	return err;
}

void patch_end(struct patch *patch)
{
	proc_lookup_end(&patch->lookup);
}

struct patch_place patch_place_of(const struct proc_map *map, raddr_t addr)
{
	return map->inode ? (struct patch_place){makedev(map->dev_major, map->dev_minor),
				    map->inode, map->offset + (addr - map->lo)}
			  : (struct patch_place){0};
}

static bool origin_of(const struct patch *patch, raddr_t addr, struct patch_place *ret)
{
	struct proc_map map;

	*ret = (struct patch_place){0};
	if (!proc_lookup_find(&patch->lookup, addr, &map))
		return false;
	*ret = patch_place_of(&map, addr);
	return true;
}

static bool same_origin(const struct journal_slot *entry, const struct patch_place *origin)
{
	return entry->dev == origin->dev && entry->inode == origin->inode &&
	       entry->offset == origin->offset;
}

/* How a word compares with its journal entry. */
enum found { FOUND_EXPECTED, FOUND_OTHER, FOUND_NOTHING };

static struct ht_err *look(const struct patch *patch, const struct journal_slot *entry,
	uint64_t expected, uint64_t *ret_value, enum found *ret)
{
	struct patch_place origin;
	size_t got;

	*ret = FOUND_NOTHING;
	/* A single failed read proves nothing. */
	for (unsigned tries = 0; tries < READS_MAX; tries++) {
		if (!origin_of(patch, entry->addr, &origin) || !same_origin(entry, &origin))
			return NULL;
		struct ht_err *err = memory_read_own(
			patch->proc, entry->addr, ret_value, sizeof(*ret_value), &got);
		if (!err && got == sizeof(*ret_value))
			*ret = *ret_value == expected ? FOUND_EXPECTED : FOUND_OTHER;
		if (err || *ret != FOUND_NOTHING)
			return err;
	}
	return NULL;
}

/* If one byte differs, stores that byte alone: the store is never torn, and leaves the bytes beside
 * it as they are. */
static struct ht_err *store(
	const struct patch *patch, raddr_t addr, uint64_t expected, uint64_t value)
{
	unsigned at = expected == value ? 0 : (unsigned)__builtin_ctzll(expected ^ value) / 8;
	uint8_t byte = (uint8_t)(value >> 8 * at);

	return (expected ^ value) >> 8 * at <= UINT8_MAX
		       ? memory_write(patch->proc, addr + at, &byte, sizeof(byte))
		       : memory_write_u64(patch->proc, addr, value);
}

/* If the store goes by the process's number rather than by the open file, check the number. */
static struct ht_err *check_number(const struct patch *patch, raddr_t addr)
{
	return memory_stores_by_pid(addr) ? proc_check_same(patch->proc) : NULL;
}

/* Replaces `expected` by `value`. FOUND_EXPECTED: it was replaced. */
static struct ht_err *exchange(const struct patch *patch, const struct journal_slot *entry,
	uint64_t expected, uint64_t value, uint64_t *ret_value, enum found *ret)
{
	struct ht_err *err;
	uint64_t began_ns;

	for (unsigned looks = 0;;) {
		err = check_number(patch, entry->addr);
		began_ns = clock_mono_ns();
		HT_THEN(err, look(patch, entry, expected, ret_value, ret));
		if (err || *ret != FOUND_EXPECTED)
			return err;
		if (clock_mono_ns() - began_ns < LOOK_NS || ++looks == LOOKS_MAX)
			break;
	}
	struct ht_err *failed = store(patch, entry->addr, expected, value);
	if (!failed || failed->code != HT_ERR_SYS)
		return failed;
	/* The store failed: was the word unmapped at this moment? */
	err = look(patch, entry, expected, ret_value, ret);
	if (err || *ret != FOUND_EXPECTED) {
		ht_err_free(failed);
		return err;
	}
	return failed;
}

/* Is the word where its module's headers say, in the module's file? */
static bool is_at_home(
	const struct module *module, const struct slot *slot, const struct patch_place *origin)
{
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *segment = &module->segment[i];
		uint64_t at = slot->addr - module->bias - segment->vaddr;
		if (slot->addr - module->bias < segment->vaddr || at >= segment->memsz)
			continue;
		if (!module->inode || at >= segment->filesz)
			return true;
		return origin->dev == module->dev && origin->inode == module->inode &&
		       origin->offset == segment->offset + at;
	}
	return false;
}

static struct journal_slot entry_at(raddr_t addr, const struct patch_place *origin)
{
	return (struct journal_slot){
		.addr = addr, .dev = origin->dev, .inode = origin->inode, .offset = origin->offset};
}

struct ht_err *patch_replace(const struct patch *patch, const struct module *module,
	const struct slot *slot, uint64_t value)
{
	struct patch_place origin;
	uint64_t now;
	enum found found;

	if (!origin_of(patch, slot->addr, &origin) || !is_at_home(module, slot, &origin))
		return NULL;
	struct journal_slot entry = entry_at(slot->addr, &origin);
	return exchange(patch, &entry, slot->value, value, &now, &found);
}

/* Journals the change from entry->original to entry->thunk, and makes it. */
static struct ht_err *change(const struct patch *patch, const struct journal_slot *entry,
	struct journal *journal, bool *ret_done)
{
	uint64_t now;
	enum found found;
	struct ht_err *err = look(patch, entry, entry->original, &now, &found);
	*ret_done = false;
	if (err || found != FOUND_EXPECTED)
		return err;
	HT_TRY(journal_add(journal, entry));
	err = exchange(patch, entry, entry->original, entry->thunk, &now, &found);
	*ret_done = !err && found == FOUND_EXPECTED;
	return err;
}

struct ht_err *patch_tap(const struct patch *patch, const struct module *module,
	const struct slot *slot, raddr_t thunk, struct journal *journal, bool *ret_done)
{
	struct patch_place origin;

	*ret_done = false;
	if (!origin_of(patch, slot->addr, &origin) || !is_at_home(module, slot, &origin))
		return NULL;
	struct journal_slot entry = entry_at(slot->addr, &origin);
	entry.original = slot->value;
	entry.thunk = thunk;
	entry.real = slot->real;
	entry.hook = (uint16_t)slot->hook;
	return change(patch, &entry, journal, ret_done);
}

struct ht_err *patch_code(const struct patch *patch, const struct patch_code *code,
	struct journal *journal, bool *ret_done)
{
	struct journal_slot entry = entry_at(code->word, &code->place);
	entry.original = code->before;
	entry.thunk = code->after;
	entry.real = code->pad;
	entry.hook = (uint16_t)code->hook;
	entry.code_at = (uint8_t)code->at;
	entry.code_bytes = (uint8_t)code->count;
	return change(patch, &entry, journal, ret_done);
}

static struct ht_err *has_our_jump(
	const struct patch *patch, const struct journal_slot *entry, bool *ret)
{
	uint8_t code[JUMP_BYTES] = {0};
	raddr_t function = entry->addr + entry->code_at;
	size_t got = 0;
	struct ht_err *err = memory_read_some(patch->proc, function, code, sizeof(code), &got);
	*ret = !err && got == sizeof(code) && jump_leads(function, code, entry->real);
	return err;
}

/* Has the word's library been unloaded? Changed code may be in another mapping by now: see
 * find_code. */
static bool is_gone(const struct patch *patch, const struct journal_slot *entry)
{
	struct patch_place origin;
	bool ours = false;

	if (!origin_of(patch, entry->addr, &origin))
		return true;
	if (same_origin(entry, &origin) || !entry->code_bytes)
		return !same_origin(entry, &origin);
	return !ht_err_drop(has_our_jump(patch, entry, &ours)) && !ours;
}

void patch_forget_unloaded(const struct patch *patch, struct journal *journal)
{
	for (uint32_t i = 0; i < journal->header->slot_count; i++)
		if (is_gone(patch, &journal->slot[i]))
			journal_set_state(journal, i, JOURNAL_SLOT_GONE);
}

/* May the dynamic linker have stored `value` since: the function itself, its PLT entry in a library
 * that was loaded again, or no address of code yet? Any other function is the program's choice. */
static bool is_the_linkers(
	const struct patch *patch, const struct journal_slot *entry, uint64_t value)
{
	struct proc_map map;
	bool lazy;

	if (value == entry->original || value == entry->real)
		return true;
	if (!proc_lookup_find(&patch->lookup, value, &map) || !map.exec)
		return true;
	return ht_err_drop(slots_is_lazy(patch->proc, value, &lazy)) || lazy;
}

/* Mask of the bytes that heaptap has changed in a word of code. */
static uint64_t code_mask(const struct journal_slot *entry)
{
	uint64_t bytes = entry->code_bytes < 8 ? (1ull << 8 * entry->code_bytes) - 1 : UINT64_MAX;
	return bytes << 8 * (entry->code_at & 7);
}

/* The present address of the code. A program may have replaced the mapping of its file by a copy of
 * its own in large pages; heaptap's jump is copied with it, and still leads to the pad. */
static struct ht_err *find_code(
	const struct patch *patch, const struct journal_slot *entry, struct journal_slot *ret)
{
	struct patch_place origin;
	bool ours = false;
	*ret = *entry;
	if (!origin_of(patch, entry->addr, &origin) || same_origin(entry, &origin))
		return NULL;
	struct ht_err *err = has_our_jump(patch, entry, &ours);
	if (!err && ours) {
		ret->dev = origin.dev;
		ret->inode = origin.inode;
		ret->offset = origin.offset;
	}
	return err;
}

/* Another tool may have put a breakpoint beside heaptap's byte, or changed that byte. A tool that
 * keeps the bytes it found may restore heaptap's jump later: then nothing may be unmapped. */
static struct ht_err *restore_code(
	const struct patch *patch, const struct journal_slot *entry, enum journal_state *ret)
{
	struct journal_slot here;
	uint64_t mask = code_mask(entry), expected = entry->thunk, now;
	enum found found;
	bool ours = true;

	struct ht_err *err = find_code(patch, entry, &here);
	for (unsigned tries = 0; !err && tries < READS_MAX; tries++) {
		err = look(patch, &here, expected, &now, &found);
		if (err)
			break;
		*ret = found == FOUND_NOTHING ? JOURNAL_SLOT_GONE : JOURNAL_SLOT_RESTORED;
		if (found == FOUND_NOTHING || (now & mask) == (entry->original & mask))
			return NULL;
		err = has_our_jump(patch, entry, &ours);
		if (err || !ours)
			break;
		uint64_t value = (now & ~mask) | (entry->original & mask);
		expected = now;
		err = exchange(patch, &here, expected, value, &now, &found);
		if (!err && found == FOUND_EXPECTED)
			return NULL;
	}
	return err ? err
		   : ht_err_new(HT_ERR_INCOMPLETE,
			     "another tool has changed the code at %lx, which heaptap had changed "
			     "before: heaptap cannot restore it until that tool has undone its "
			     "change",
			     (unsigned long)entry->addr);
}

static struct ht_err *restore(const struct patch *patch, struct journal *journal, uint32_t index)
{
	const struct journal_slot *entry = &journal->slot[index];
	enum journal_state state = JOURNAL_SLOT_CHANGED;
	uint64_t now;
	enum found found;

	if (entry->state != JOURNAL_SLOT_INTENDED)
		return NULL;
	if (entry->code_bytes) {
		struct ht_err *failed = restore_code(patch, entry, &state);
		if (!failed)
			journal_set_state(journal, index, state);
		return failed;
	}
	HT_TRY(exchange(patch, entry, entry->thunk, entry->original, &now, &found));
	if (found == FOUND_NOTHING)
		state = JOURNAL_SLOT_GONE;
	else if (found == FOUND_EXPECTED || is_the_linkers(patch, entry, now))
		state = JOURNAL_SLOT_RESTORED;
	journal_set_state(journal, index, state);
	return NULL;
}

struct ht_err *patch_untap_all(
	const struct proc *proc, struct journal *journal, struct patch_report *ret)
{
	struct patch_report report = {.unloaded = journal->header->unloaded};
	struct patch patch;
	struct ht_err *first = NULL;
	HT_TRY(patch_begin(proc, &patch));
	/* Frees were hooked first and are restored last, so that no recorded allocation loses its
	 * free. */
	for (uint32_t i = journal->header->slot_count; i-- > 0;)
		first = ht_err_first(first, restore(&patch, journal, i));
	for (uint32_t i = 0; i < journal->header->slot_count; i++) {
		uint32_t state = journal->slot[i].state;
		report.tapped += state != JOURNAL_SLOT_GONE;
		report.restored += state == JOURNAL_SLOT_RESTORED;
		report.changed += state == JOURNAL_SLOT_CHANGED;
		report.unloaded += state == JOURNAL_SLOT_GONE;
	}
	patch_end(&patch);
	*ret = report;
	return first;
}
