/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/residue.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/target/clock.h"

#define SETTLE_NS   (1000 * CLOCK_NS_PER_MS)
#define CHUNK_BYTES (1u << 20)
#define OUR_MEMFD   "/memfd:heaptap-"

struct text_hash {
	raddr_t lo, hi;
	uint64_t inode;
	uint64_t hash;
};

struct thread_signals {
	pid_t tid;
	uint64_t blocked;
	bool unstable; /* it changed its mask while we only looked */
};

struct residue {
	struct proc_maps maps;
	struct text_hash *text;
	size_t text_count;
	struct thread_signals *thread;
	size_t thread_count;
	uint64_t *module_inode;
	size_t module_count;
};

static HT_PRINTF(2, 3) void say(char text[RESIDUE_TEXT_BYTES], const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, RESIDUE_TEXT_BYTES, fmt, args);
	va_end(args);
}

/* --- text
 * ----------------------------------------------------------------------------------------- */

static uint64_t hash_words(uint64_t hash, const uint64_t *word, size_t count)
{
	for (size_t i = 0; i < count; i++)
		hash = (hash ^ word[i]) * 0x9e3779b97f4a7c15ull;
	return hash;
}

static struct ht_err *hash_range(
	const struct proc *proc, raddr_t lo, raddr_t hi, uint64_t *buffer, uint64_t *ret)
{
	uint64_t hash = 0;
	for (raddr_t at = lo; at < hi;) {
		size_t want = hi - at < CHUNK_BYTES ? hi - at : CHUNK_BYTES;
		size_t got = 0;
		struct ht_err *err = memory_read_some(proc, at, buffer, want, &got);
		if (err)
			return err;
		hash = hash_words(hash, buffer, got / sizeof(*buffer));
		if (got < want)
			break;
		at += got;
	}
	*ret = hash;
	return NULL;
}

static struct ht_err *take_text(const struct proc *proc, struct residue *residue)
{
	uint64_t *buffer = malloc(CHUNK_BYTES);
	struct ht_err *err = NULL;

	residue->text = calloc(residue->maps.count + 1, sizeof(*residue->text));
	if (!buffer || !residue->text)
		err = ht_err_new(HT_ERR_NOMEM, "no memory for the picture of the target");
	for (size_t i = 0; !err && i < residue->maps.count; i++) {
		const struct proc_map *map = &residue->maps.map[i];
		struct text_hash *text = &residue->text[residue->text_count];
		if (!map->exec || map->write || !map->inode || strstr(map->name, OUR_MEMFD))
			continue;
		*text = (struct text_hash){.lo = map->lo, .hi = map->hi, .inode = map->inode};
		err = hash_range(proc, map->lo, map->hi, buffer, &text->hash);
		residue->text_count++;
	}
	free(buffer);
	return err;
}

static struct ht_err *compare_text(const struct residue *residue, const struct proc *proc,
	const struct proc_maps *now, char text[RESIDUE_TEXT_BYTES])
{
	uint64_t *buffer = malloc(CHUNK_BYTES);
	struct ht_err *err = NULL;
	if (!buffer)
		return ht_err_new(HT_ERR_NOMEM, "no memory to compare the target's code");
	for (size_t i = 0; !err && i < residue->text_count; i++) {
		const struct text_hash *before = &residue->text[i];
		const struct proc_map *map = proc_maps_find(now, before->lo);
		uint64_t hash;
		/* Unloaded, or another file there now: the target's own doing. */
		if (!map || map->inode != before->inode || map->hi < before->hi)
			continue;
		err = hash_range(proc, before->lo, before->hi, buffer, &hash);
		if (!err && hash != before->hash)
			say(text, "code of %s differs", map->name);
	}
	free(buffer);
	return err;
}

/* --- threads and signals
 * --------------------------------------------------------------------------- */

static struct ht_err *take_threads(const struct proc *proc, struct residue *residue)
{
	struct proc_tids tids;
	struct ht_err *err = proc_tids_read(proc, &tids);
	if (err)
		return err;
	residue->thread = calloc(tids.count + 1, sizeof(*residue->thread));
	if (!residue->thread)
		err = ht_err_new(HT_ERR_NOMEM, "no memory for %zu threads", tids.count);
	for (size_t i = 0; !err && i < tids.count; i++) {
		struct proc_status status;
		struct ht_err *gone = proc_status(proc, tids.tid[i], &status);
		ht_err_free(gone);
		if (gone)
			continue;
		residue->thread[residue->thread_count++] =
			(struct thread_signals){.tid = tids.tid[i], .blocked = status.sig_blk};
	}
	proc_tids_deinit(&tids);
	return err;
}

void residue_look_again(struct residue *residue, const struct proc *proc)
{
	for (size_t i = 0; i < residue->thread_count; i++) {
		struct thread_signals *thread = &residue->thread[i];
		struct proc_status status;
		struct ht_err *gone = proc_status(proc, thread->tid, &status);
		ht_err_free(gone);
		thread->unstable |= !gone && status.sig_blk != thread->blocked;
	}
}

static bool thread_equal(
	const struct proc *proc, const struct thread_signals *before, struct residue_report *report)
{
	struct proc_status status;
	struct ht_err *gone = proc_status(proc, before->tid, &status);
	ht_err_free(gone);
	if (gone)
		return true;
	if (status.tracer != 0) {
		say(report->threads, "thread %d is traced by %d", before->tid, status.tracer);
		return false;
	}
	if (before->unstable)
		return true;
	/* A thread seen within a signal handler blocked what the handler does not want to be
	 * interrupted by; the handler may have returned since. */
	uint64_t more = status.sig_blk & ~before->blocked, less = before->blocked & ~status.sig_blk;
	if (more || less & ~status.sig_cgt) {
		say(report->signals, "thread %d blocked signals %lx, now %lx", before->tid,
			(unsigned long)before->blocked, (unsigned long)status.sig_blk);
		return false;
	}
	return true;
}

/* Dispositions are not compared: nothing in the agent can change one, and programs do (the first
 * pthread_create, for one). Threads block signals for moments (in pthread_create, for one): a
 * difference has to last to count. */
static void compare_threads(
	const struct residue *residue, const struct proc *proc, struct residue_report *report)
{
	uint64_t deadline = clock_mono_ns() + SETTLE_NS;
	for (size_t i = 0; i < residue->thread_count; i++) {
		while (!thread_equal(proc, &residue->thread[i], report)) {
			if (clock_mono_ns() > deadline)
				return;
			clock_sleep_ns(CLOCK_NS_PER_MS);
		}
		say(report->threads, "equal");
		say(report->signals, "equal");
	}
}

/* --- descriptors
 * ------------------------------------------------------------------------------------ */

static void compare_fds(
	const struct proc *proc, const struct journal *journal, char text[RESIDUE_TEXT_BYTES])
{
	char ours[48];
	int fd = openat(proc->dir_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	snprintf(
		ours, sizeof(ours), "socket:[%lu]", (unsigned long)journal->header->agent_fd_inode);
	for (const struct dirent *entry; (entry = readdir(dir));) {
		char link[128] = "";
		if (readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1) < 0)
			continue;
		if (strncmp(link, OUR_MEMFD, strlen(OUR_MEMFD)) == 0 || strcmp(link, ours) == 0)
			say(text, "descriptor %s is still ours (%s)", entry->d_name, link);
	}
	closedir(dir);
}

/* --- mappings
 * ----------------------------------------------------------------------------------------- */

static bool is_module(const struct residue *residue, uint64_t inode)
{
	for (size_t i = 0; i < residue->module_count; i++)
		if (residue->module_inode[i] == inode)
			return true;
	return false;
}

static bool same_map(const struct proc_map *a, const struct proc_map *b)
{
	return a->lo == b->lo && a->hi == b->hi && a->offset == b->offset && a->inode == b->inode &&
	       a->read == b->read && a->write == b->write && a->exec == b->exec &&
	       a->shared == b->shared;
}

static bool has_inode(const struct proc_maps *maps, uint64_t inode)
{
	for (size_t i = 0; i < maps->count; i++)
		if (maps->map[i].inode == inode)
			return true;
	return false;
}

static void compare_maps(const struct residue *residue, const struct proc_maps *now,
	const struct journal *journal, bool keep, char text[RESIDUE_TEXT_BYTES])
{
	for (size_t i = 0; i < residue->maps.count; i++) {
		const struct proc_map *before = &residue->maps.map[i];
		if (!before->inode || !is_module(residue, before->inode) ||
			!has_inode(now, before->inode))
			continue;
		const struct proc_map *map = proc_maps_find(now, before->lo);
		if (!map || !same_map(before, map))
			say(text, "mapping of %s at %lx differs", before->name,
				(unsigned long)before->lo);
	}
	for (size_t i = 0; i < now->count; i++) {
		const struct proc_map *map = &now->map[i];
		if (strncmp(map->name, OUR_MEMFD, strlen(OUR_MEMFD)) != 0)
			continue;
		if (keep && map->lo == journal->header->thunks)
			say(text, "one page of jump stubs stays at %lx", (unsigned long)map->lo);
		else
			say(text, "%s is still mapped at %lx", map->name, (unsigned long)map->lo);
	}
}

static void compare_slots(
	const struct proc *proc, const struct journal *journal, char text[RESIDUE_TEXT_BYTES])
{
	size_t lost = 0, tapped = 0;

	for (uint32_t i = 0; i < journal->header->slot_count; i++) {
		const struct journal_slot *slot = &journal->slot[i];
		uint64_t now;
		struct ht_err *err = memory_read_u64(proc, slot->addr, &now);
		ht_err_free(err);
		if (!err && now == slot->thunk)
			tapped++;
		lost += slot->state == JOURNAL_SLOT_LOST;
	}
	if (tapped)
		say(text, "%zu slots still hold a hook", tapped);
	else if (lost)
		say(text, "%zu slots were changed or unloaded by the target and left alone", lost);
}

/* --- the whole
 * ------------------------------------------------------------------------------------------ */

static struct ht_err *take_modules(const struct modules *modules, struct residue *residue)
{
	residue->module_inode = calloc(modules->count + 1, sizeof(*residue->module_inode));
	if (!residue->module_inode)
		return ht_err_new(HT_ERR_NOMEM, "no memory for %zu modules", modules->count);
	for (size_t i = 0; i < modules->count; i++)
		if (modules->module[i].inode)
			residue->module_inode[residue->module_count++] = modules->module[i].inode;
	return NULL;
}

struct ht_err *residue_create(
	const struct proc *proc, const struct modules *modules, struct residue **ret)
{
	struct residue *residue = calloc(1, sizeof(*residue));
	if (!residue)
		return ht_err_new(HT_ERR_NOMEM, "no memory for the picture of the target");
	struct ht_err *err = proc_maps_read(proc, &residue->maps);
	if (!err)
		err = take_modules(modules, residue);
	if (!err)
		err = take_text(proc, residue);
	if (!err)
		err = take_threads(proc, residue);
	if (err)
		residue_destroy(residue);
	else
		*ret = residue;
	return err;
}

void residue_destroy(struct residue *residue)
{
	if (!residue)
		return;
	proc_maps_deinit(&residue->maps);
	free(residue->text);
	free(residue->thread);
	free(residue->module_inode);
	free(residue);
}

struct ht_err *residue_compare(const struct residue *residue, const struct proc *proc,
	const struct journal *journal, bool keep, struct residue_report *ret)
{
	struct residue_report report = {
		"equal", "equal", "equal", "equal", "equal", "equal", false};
	struct proc_maps now;
	struct ht_err *err = proc_maps_read(proc, &now);
	if (err)
		return err;
	compare_maps(residue, &now, journal, keep, report.maps);
	compare_fds(proc, journal, report.fds);
	compare_slots(proc, journal, report.slots);
	compare_threads(residue, proc, &report);
	err = compare_text(residue, proc, &now, report.text);
	proc_maps_deinit(&now);
	if (err)
		return err;
	const char *all[] = {
		report.maps, report.fds, report.slots, report.text, report.threads, report.signals};
	report.equal = true;
	for (size_t i = 0; i < HT_ARRAY_SIZE(all); i++)
		report.equal &= strcmp(all[i], "equal") == 0;
	*ret = report;
	return NULL;
}
