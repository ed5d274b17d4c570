/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/inject/escape.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/target/proc_file.h"

#define CHUNK_BYTES    (1u << 20)
#define OVERLAP	       8u
#define PAGEMAP_EXISTS (3ull << 62) /* present, or swapped out */
#define CALL_OPCODE    0xff
#define MODRM_CALL     0x15 /* call *disp32(%rip) */
#define MODRM_JMP      0x25 /* jmp *disp32(%rip) */

static bool is_libc(const struct module *module)
{
	const char *name = strrchr(module->path, '/');
	return name && (strncmp(name, "/libc.so.", 9) == 0 || strncmp(name, "/libc-2.", 8) == 0);
}

/* The tapped slots of one module, ascending. */
struct targets {
	raddr_t *addr;
	size_t count;
};

static int compare(const void *a, const void *b)
{
	raddr_t x = *(const raddr_t *)a, y = *(const raddr_t *)b;
	return (x > y) - (x < y);
}

static bool holds(const struct targets *targets, raddr_t addr)
{
	return addr >= targets->addr[0] && addr <= targets->addr[targets->count - 1] &&
	       bsearch(&addr, targets->addr, targets->count, sizeof(addr), compare) != NULL;
}

/* Looks for a RIP-relative operand that names a target and is neither a call nor a jump. */
static bool loads_target(
	const uint8_t *code, size_t bytes, raddr_t at, const struct targets *targets)
{
	for (size_t i = 2; i + 4 <= bytes; i++) {
		int32_t disp;
		memcpy(&disp, code + i, sizeof(disp));
		if (!holds(targets, at + i + 4 + (raddr_t)(int64_t)disp))
			continue;
		bool transfer = code[i - 2] == CALL_OPCODE &&
				(code[i - 1] == MODRM_CALL || code[i - 1] == MODRM_JMP);
		if (!transfer)
			return true;
	}
	return false;
}

static struct ht_err *scan_code(const struct proc *proc, const struct module *module,
	const struct targets *targets, uint8_t *buffer, bool *ret)
{
	*ret = false;
	for (raddr_t at = module->text_lo; at < module->text_hi && !*ret;) {
		size_t want =
			module->text_hi - at < CHUNK_BYTES ? module->text_hi - at : CHUNK_BYTES;
		size_t got = 0;
		struct ht_err *err = memory_read_some(proc, at, buffer, want, &got);
		if (err)
			return err;
		*ret = loads_target(buffer, got, at, targets);
		if (got < want || at + got >= module->text_hi)
			return NULL;
		at += got - OVERLAP;
	}
	return NULL;
}

static size_t collect(const struct module *module, const struct slots *slots,
	const struct journal *journal, raddr_t *addr, bool *ret_data)
{
	size_t count = 0;
	for (size_t i = 0; i < slots->count; i++) {
		const struct slot *slot = &slots->slot[i];
		if (slot->module_id != module->id || !journal_has(journal, slot->addr))
			continue;
		if (slot->type == R_X86_64_64)
			*ret_data = true;
		addr[count++] = slot->addr;
	}
	qsort(addr, count, sizeof(*addr), compare);
	return count;
}

struct ht_err *escape_is_possible(const struct proc *proc, const struct modules *modules,
	const struct slots *slots, const struct journal *journal, bool *ret)
{
	raddr_t *addr = calloc(slots->count + 1, sizeof(*addr));
	uint8_t *buffer = malloc(CHUNK_BYTES);
	struct ht_err *err = NULL;
	bool possible = false;

	if (!addr || !buffer)
		err = ht_err_new(HT_ERR_NOMEM, "no memory to look for escaped addresses");
	for (size_t i = 0; !err && !possible && i < modules->count; i++) {
		const struct module *module = &modules->module[i];
		if (is_libc(module))
			continue;
		struct targets targets = {.addr = addr};
		targets.count = collect(module, slots, journal, addr, &possible);
		if (!possible && targets.count)
			err = scan_code(proc, module, &targets, buffer, &possible);
	}
	free(buffer);
	free(addr);
	if (!err)
		*ret = possible;
	return err;
}

struct scan {
	const struct proc *proc;
	const struct stackscan_ranges *ranges;
	int pagemap_fd; /* -1: not readable */
	uint64_t *buffer;
	struct escape_found found;
};

static int open_pagemap(const struct proc *proc)
{
	char path[PROC_PATH_BYTES];
	struct ht_err *err = proc_file_path(proc, "pagemap", path);
	int fd = err ? -1 : openat(proc->dir_fd, path, O_RDONLY | O_CLOEXEC);
	ht_err_free(err);
	return fd;
}

/*
 * The bytes from `at` on, of `want`, that are alike: pages that exist, in memory or swapped out, or
 * pages that do not. To read one of these would make it: gigabytes of a shared memory that the
 * target has only reserved.
 */
static size_t like_pages(const struct scan *scan, raddr_t at, size_t want, bool *ret_exist)
{
	uint64_t entry[CHUNK_BYTES / HT_PAGE_BYTES];
	size_t count = want / HT_PAGE_BYTES, same = 1;
	ssize_t got = scan->pagemap_fd < 0
			      ? -1
			      : pread(scan->pagemap_fd, entry, count * sizeof(entry[0]),
					(off_t)(at / HT_PAGE_BYTES * sizeof(entry[0])));
	*ret_exist = true;
	if (got < (ssize_t)sizeof(entry[0]))
		return want;
	count = (size_t)got / sizeof(entry[0]);
	*ret_exist = entry[0] & PAGEMAP_EXISTS;
	while (same < count && !(entry[same] & PAGEMAP_EXISTS) == !*ret_exist)
		same++;
	return same * HT_PAGE_BYTES;
}

static struct ht_err *scan_pages(struct scan *scan, raddr_t at, size_t want, size_t *ret_got)
{
	struct ht_err *err = memory_read_some(scan->proc, at, scan->buffer, want, ret_got);
	if (err)
		return err;
	for (size_t i = 0; i < *ret_got / sizeof(scan->buffer[0]); i++) {
		if (!stackscan_is_entry(scan->ranges, scan->buffer[i]))
			continue;
		if (scan->found.count++ == 0)
			scan->found.addr = at + i * sizeof(scan->buffer[0]);
	}
	return NULL;
}

static struct ht_err *scan_map(struct scan *scan, const struct proc_map *map)
{
	for (raddr_t at = map->lo; at < map->hi;) {
		size_t want = map->hi - at < CHUNK_BYTES ? map->hi - at : CHUNK_BYTES;
		size_t got;
		bool exist;
		want = got = like_pages(scan, at, want, &exist);
		struct ht_err *err = exist ? scan_pages(scan, at, want, &got) : NULL;
		if (err)
			return err;
		/* A page in the middle that cannot be read (a guard that came since): go on behind
		 * it. */
		at += got < want ? ht_align_up(got + 1, HT_PAGE_BYTES) : got;
	}
	return NULL;
}

struct ht_err *escape_scan_memory(const struct proc *proc, const struct stackscan_ranges *ranges,
	raddr_t image_lo, raddr_t image_hi, struct escape_found *ret)
{
	struct proc_maps maps;
	struct ht_err *err = proc_maps_read(proc, &maps);
	if (err)
		return err;
	struct scan scan = {.proc = proc,
		.ranges = ranges,
		.pagemap_fd = open_pagemap(proc),
		.buffer = malloc(CHUNK_BYTES)};
	if (!scan.buffer)
		err = ht_err_new(HT_ERR_NOMEM, "no memory to search the target");
	for (size_t i = 0; !err && i < maps.count; i++) {
		const struct proc_map *map = &maps.map[i];
		bool ours = map->lo >= image_lo && map->hi <= image_hi;
		if (map->write && map->read && !ours)
			err = scan_map(&scan, map);
	}
	if (scan.pagemap_fd >= 0)
		close(scan.pagemap_fd);
	free(scan.buffer);
	proc_maps_deinit(&maps);
	if (!err)
		*ret = scan.found;
	return err;
}
