/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/proof/residue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attach/inject/ownfds.h"
#include "attach/memory/checksum.h"
#include "attach/memory/memory.h"
#include "attach/memory/ours.h"
#include "attach/memory/proc_maps.h"
#include "attach/proc/clock.h"
#include "attach/proof/residue_state.h"
#include "format/array.h"

#define CHUNK_BYTES (256u << 10) /* fits the processor's cache */

static bool same_map(const struct proc_map *a, const struct proc_map *b)
{
	return a->lo == b->lo && a->hi == b->hi && a->offset == b->offset && a->inode == b->inode &&
	       a->read == b->read && a->write == b->write && a->exec == b->exec &&
	       a->shared == b->shared;
}

/* --- text
 * ----------------------------------------------------------------------------------------- */

/* Hashes the readable bytes from `lo` on, at most `bytes`, and counts them. */
static struct ht_err *hash_range(
	const struct proc *proc, raddr_t lo, uint64_t bytes, uint8_t *buffer, struct text_hash *ret)
{
	ret->hash = ret->bytes = 0;
	while (ret->bytes < bytes) {
		uint64_t left = bytes - ret->bytes;
		size_t want = left < CHUNK_BYTES ? left : CHUNK_BYTES, got = 0;
		struct ht_err *err = memory_read_some(proc, lo + ret->bytes, buffer, want, &got);
		if (err || !got)
			return err;
		ret->hash = checksum(ret->hash, buffer, got);
		ret->bytes += got;
		if (got < want)
			break;
	}
	return NULL;
}

static struct ht_err *take_text(const struct proc *proc, struct residue *residue)
{
	HT_FREED uint8_t *buffer = malloc(CHUNK_BYTES);

	residue->text = calloc(residue->maps.count + 1, sizeof(*residue->text));
	if (!buffer || !residue->text)
		return ht_err_new(HT_ERR_NOMEM, "no memory to remember the state of the process");
	for (size_t i = 0; i < residue->maps.count; i++) {
		const struct proc_map *map = &residue->maps.map[i];
		struct text_hash *text = &residue->text[residue->text_count];
		/* Skip shared code: a JIT compiler writes to it through another mapping. In no
		 * other way can a program write code that is executable and not writable. */
		if (!map->exec || map->write || map->shared || !map->inode || ours_is(map->name))
			continue;
		*text = (struct text_hash){
			.lo = map->lo, .hi = map->hi, .inode = map->inode, .offset = map->offset};
		HT_TRY(hash_range(proc, map->lo, map->hi - map->lo, buffer, text));
		residue->text_count++;
	}
	return NULL;
}

static struct ht_err *compare_text(const struct residue *residue, const struct proc *proc,
	const struct proc_maps *now, char text[RESIDUE_TEXT_BYTES])
{
	HT_FREED uint8_t *buffer = malloc(CHUNK_BYTES);
	if (!buffer)
		return ht_err_new(HT_ERR_NOMEM, "no memory to compare the code of the process");
	for (size_t i = 0; i < residue->text_count; i++) {
		const struct text_hash *before = &residue->text[i];
		const struct proc_map *map = proc_maps_find(now, before->lo);
		struct text_hash after;
		/* The target itself unloaded the code, or mapped something else there. */
		if (!map || map->inode != before->inode || map->offset != before->offset ||
			map->hi < before->hi)
			continue;
		HT_TRY(hash_range(proc, before->lo, before->bytes, buffer, &after));
		if (after.bytes != before->bytes || after.hash != before->hash)
			residue_say(text, "code of %s differs", map->name);
	}
	return NULL;
}

/* --- descriptors
 * ------------------------------------------------------------------------------------ */

struct fds {
	char *text; /* of the report */
	char socket[48];
};

static struct ht_err *compare_fd(void *context, pid_t tid, int fd, const char *link)
{
	const struct fds *fds = context;

	if (!ours_is(link) && strcmp(link, fds->socket) != 0)
		return NULL;
	if (tid)
		residue_say(fds->text, "descriptor %d of thread %d is still heaptap's (%s)", fd,
			tid, link);
	else
		residue_say(fds->text, "descriptor %d is still heaptap's (%s)", fd, link);
	return NULL;
}

static void compare_fds(
	const struct proc *proc, const struct journal *journal, char text[RESIDUE_TEXT_BYTES])
{
	struct fds fds = {.text = text};
	snprintf(fds.socket, sizeof(fds.socket), "socket:[%lu]",
		(unsigned long)journal->header->agent_fd_inode);
	struct ht_err *err = ownfds_visit(proc, compare_fd, &fds);
	if (err && residue_is_equal(text))
		residue_say(text, "descriptors could not be read: %s", err->message);
	ht_err_free(err);
}

/* --- mappings
 * ----------------------------------------------------------------------------------------- */

/* A mapping of a module's file outside the module's span belongs to the program: V8 maps its own
 * file again for each of its heaps. */
static bool is_of_module(const struct residue *residue, const struct proc_map *map)
{
	for (size_t i = 0; i < residue->module_count; i++) {
		const struct loaded *module = &residue->module[i];
		if (module->inode == map->inode && map->lo >= module->lo && map->lo < module->hi)
			return true;
	}
	return false;
}

/* A library that was being loaded has been relocated since, and its words are read-only now
 * (RELRO). */
static bool is_protected(const struct proc_map *before, const struct proc_map *map)
{
	struct proc_map since = *before;
	since.write = false;
	since.hi = map->hi;
	return before->write && map->hi <= before->hi && same_map(&since, map);
}

/* Are the library's headers still at the same address? If not, the library was unloaded, and
 * perhaps loaded elsewhere. */
static bool is_still_there(const struct proc_map *headers, const struct proc_maps *now)
{
	const struct proc_map *map = proc_maps_find(now, headers->lo);
	return map && map->lo == headers->lo && map->inode == headers->inode && map->offset == 0;
}

static void compare_modules(
	const struct residue *residue, const struct proc_maps *now, char text[RESIDUE_TEXT_BYTES])
{
	bool there = false;
	for (size_t i = 0; i < residue->maps.count; i++) {
		const struct proc_map *before = &residue->maps.map[i];
		if (!before->inode || !is_of_module(residue, before))
			continue;
		if (before->offset == 0)
			there = is_still_there(before, now);
		const struct proc_map *map = proc_maps_find(now, before->lo);
		if (there && (!map || !(same_map(before, map) || is_protected(before, map))))
			residue_say(text, "mapping of %s at %lx differs", before->name,
				(unsigned long)before->lo);
	}
}

/* Names in `text` what is still mapped of heaptap. `ret_page`: `text` names the jump page that was
 * to stay; any other difference is named in preference to the page. */
static void find_ours(const struct proc_maps *now, const struct journal *journal, bool keep,
	char text[RESIDUE_TEXT_BYTES], bool *ret_page)
{
	*ret_page = false;
	for (size_t i = 0; i < now->count; i++) {
		const struct proc_map *map = &now->map[i];
		bool page = keep && map->lo == journal->header->thunks &&
			    map->hi == map->lo + HT_PAGE_BYTES;
		if (!ours_is(map->name) || (page && !residue_is_equal(text)))
			continue;
		if (page)
			residue_say(text, "one page of jumps stays at %lx", (unsigned long)map->lo);
		else
			residue_say(text, "%s is still mapped at %lx", map->name,
				(unsigned long)map->lo);
		*ret_page = page;
	}
}

/* Was the library of a slot that cannot be read unloaded? */
static bool is_unloaded(const struct proc *proc, const struct journal_slot *slot)
{
	HT_CLEANUP(proc_lookup_end) struct proc_lookup lookup = {.fd = -1};
	struct proc_map map;
	if (ht_err_drop(proc_lookup_begin(proc, &lookup)))
		return false;
	return !proc_lookup_find(&lookup, slot->addr, &map) || map.inode != slot->inode;
}

enum look { LOOK_READ, LOOK_GONE, LOOK_UNREAD };

/* Tries until `deadline`: a library that is reloaded between two looks, or is half loaded, can be
 * read soon. */
static enum look read_slot(
	const struct proc *proc, const struct journal_slot *slot, uint64_t deadline, uint64_t *ret)
{
	for (;;) {
		if (!ht_err_drop(memory_read_u64(proc, slot->addr, ret)))
			return LOOK_READ;
		if (is_unloaded(proc, slot))
			return LOOK_GONE;
		if (clock_mono_ns() > deadline)
			return LOOK_UNREAD;
		clock_sleep_ns(CLOCK_NS_PER_MS);
	}
}

static void compare_slots(
	const struct proc *proc, const struct journal *journal, char text[RESIDUE_TEXT_BYTES])
{
	uint64_t deadline = clock_mono_ns() + RESIDUE_SETTLE_NS;
	size_t tapped = 0, unread = 0;

	for (uint32_t i = 0; i < journal->header->slot_count; i++) {
		const struct journal_slot *slot = &journal->slot[i];
		uint64_t now;
		if (slot->state == JOURNAL_SLOT_GONE)
			continue;
		enum look look = read_slot(proc, slot, deadline, &now);
		unread += look == LOOK_UNREAD;
		tapped += look == LOOK_READ && now == slot->thunk;
	}
	if (unread)
		residue_say(text, "%zu addresses of allocator functions could not be read", unread);
	if (tapped)
		residue_say(text,
			"%zu addresses of allocator functions still lead to heaptap's code",
			tapped);
}

/* --- the whole
 * ------------------------------------------------------------------------------------------ */

/* The dynamic linker first maps a file as a whole with the protection of its first segment, then
 * maps the other segments over it one by one. Has it mapped this segment yet? */
static bool is_mapped_over(const struct proc_map *map, const struct module *module,
	const struct module_segment *segment)
{
	raddr_t at = ht_align_down(module->bias + segment->vaddr, HT_PAGE_BYTES);
	return map->inode != module->inode || !segment->filesz ||
	       (map->exec == !!(segment->flags & PF_X) &&
		       map->offset + (at - map->lo) ==
			       ht_align_down(segment->offset, HT_PAGE_BYTES));
}

static bool is_mapped_whole(const struct proc_maps *maps, const struct module *module)
{
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *segment = &module->segment[i];
		const struct proc_map *map = proc_maps_find(maps, module->bias + segment->vaddr);
		if (!map || !is_mapped_over(map, module, segment))
			return false;
	}
	return true;
}

/* Leaves out a module that is being loaded: its mappings will still change. */
static struct ht_err *take_modules(const struct modules *modules, struct residue *residue)
{
	residue->module = calloc(modules->count + 1, sizeof(*residue->module));
	if (!residue->module)
		return ht_err_new(HT_ERR_NOMEM, "no memory for %zu modules", modules->count);
	for (size_t i = 0; i < modules->count; i++) {
		const struct module *module = &modules->module[i];
		if (module->inode && is_mapped_whole(&residue->maps, module))
			residue->module[residue->module_count++] = (struct loaded){
				.lo = module->lo, .hi = module->hi, .inode = module->inode};
	}
	return NULL;
}

static bool has_all_within(
	const struct proc_maps *maps, const struct proc_maps *other, raddr_t lo, raddr_t hi)
{
	for (size_t i = 0; i < maps->count; i++) {
		const struct proc_map *map = &maps->map[i];
		/* A mapping without a file, behind a module's variables, may grow into the module's
		 * span. */
		if (map->hi <= lo || map->lo >= hi || !map->inode)
			continue;
		const struct proc_map *its = proc_maps_find(other, map->lo);
		if (!its || !same_map(map, its))
			return false;
	}
	return true;
}

static bool is_steady(
	const struct residue *residue, const struct proc_maps *now, raddr_t lo, raddr_t hi)
{
	return has_all_within(&residue->maps, now, lo, hi) &&
	       has_all_within(now, &residue->maps, lo, hi);
}

/* Drops modules and code whose mappings changed while the picture was taken: a library was loaded
 * or unloaded then, and the picture shows it in parts, or mixed with another. */
static struct ht_err *drop_unsteady(const struct proc *proc, struct residue *residue)
{
	HT_CLEANUP(proc_maps_deinit) struct proc_maps now = {0};
	size_t modules = 0, texts = 0;
	HT_TRY(proc_maps_read(proc, &now));
	for (size_t i = 0; i < residue->module_count; i++)
		if (is_steady(residue, &now, residue->module[i].lo, residue->module[i].hi))
			residue->module[modules++] = residue->module[i];
	for (size_t i = 0; i < residue->text_count; i++)
		if (is_steady(residue, &now, residue->text[i].lo, residue->text[i].hi))
			residue->text[texts++] = residue->text[i];
	residue->module_count = modules;
	residue->text_count = texts;
	return NULL;
}

struct ht_err *residue_create(
	const struct proc *proc, const struct modules *modules, struct residue **ret)
{
	struct residue *residue = calloc(1, sizeof(*residue));
	if (!residue)
		return ht_err_new(HT_ERR_NOMEM, "no memory to remember the state of the process");
	struct ht_err *err = proc_maps_read(proc, &residue->maps);
	HT_THEN(err, take_modules(modules, residue));
	HT_THEN(err, take_text(proc, residue));
	HT_THEN(err, drop_unsteady(proc, residue));
	HT_THEN(err, residue_take_threads(proc, residue));
	if (err)
		residue_destroy(residue);
	else
		*ret = residue;
	return err;
}

void residue_look_again(struct residue *residue, const struct proc *proc)
{
	residue_look_at_threads(residue, proc);
}

void residue_destroy(struct residue *residue)
{
	if (!residue)
		return;
	proc_maps_deinit(&residue->maps);
	free(residue->text);
	free(residue->thread);
	free(residue->module);
	free(residue);
}

/* Compares the mappings and the code of modules. While the target loads or unloads libraries, a
 * look may show one half loaded: only a difference that lasts counts. */
static struct ht_err *compare_loaded(const struct residue *residue, const struct proc *proc,
	const struct journal *journal, bool keep, struct residue_report *report)
{
	uint64_t deadline = clock_mono_ns() + RESIDUE_SETTLE_NS;
	struct ht_err *err = NULL;
	bool equal = false;

	while (!err && !equal) {
		HT_CLEANUP(proc_maps_deinit) struct proc_maps now = {0};
		HT_TRY(proc_maps_read(proc, &now));
		residue_say(report->maps, "equal");
		residue_say(report->text, "equal");
		compare_modules(residue, &now, report->maps);
		err = compare_text(residue, proc, &now, report->text);
		equal = residue_is_equal(report->maps) && residue_is_equal(report->text);
		if (!err && (equal || clock_mono_ns() > deadline)) {
			find_ours(&now, journal, keep, report->maps, &report->page_only);
			equal = true;
		}
		if (!equal)
			clock_sleep_ns(CLOCK_NS_PER_MS);
	}
	return err;
}

/* Returns the first difference, other than `skipped`. */
static const char *difference_beside(const struct residue_report *report, const char *skipped)
{
	const char *all[] = {report->maps, report->fds, report->slots, report->text,
		report->threads, report->signals};
	for (size_t i = 0; i < HT_ARRAY_SIZE(all); i++)
		if (all[i] != skipped && !residue_is_equal(all[i]))
			return all[i];
	return "";
}

struct ht_err *residue_compare(const struct residue *residue, const struct proc *proc,
	const struct journal *journal, bool keep, struct residue_report *ret)
{
	struct residue_report report = {
		"equal", "equal", "equal", "equal", "equal", "equal", false, false};
	struct ht_err *err = compare_loaded(residue, proc, journal, keep, &report);
	if (err && err->code == HT_ERR_TARGET_GONE)
		return err;
	if (err) {
		residue_say(report.maps, "could not be compared: %s", err->message);
		residue_say(report.text, "could not be compared: %s", err->message);
	}
	ht_err_free(err);
	compare_fds(proc, journal, report.fds);
	compare_slots(proc, journal, report.slots);
	residue_compare_threads(residue, proc, &report);
	report.equal = residue_difference(&report)[0] == '\0';
	report.page_only &= !difference_beside(&report, report.maps)[0];
	*ret = report;
	return NULL;
}

const char *residue_difference(const struct residue_report *report)
{
	return difference_beside(report, NULL);
}
