/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attach/helper/worker.h"
#include "attach/stub/choose.h"
#include "attach/inject/jump.h"
#include "attach/inject/near.h"
#include "attach/stub/remote.h"
#include "attach/memory/memory.h"
#include "attach/memory/proc_maps.h"
#include "attach/proc/clock.h"
#include "attach/proc/fd.h"
#include "attach/undo/verify.h"
#include "format/array.h"

/* For files on a network or served by the target itself, which may never answer. */
#define DEADLINE_NS (60 * CLOCK_NS_PER_S)
#define CHUNK_BYTES (1u << 20)

struct code {
	const struct proc *proc;
	const struct proc_maps *maps;
	const struct modules *modules;
	uint8_t *memory, *file; /* CHUNK_BYTES each */
	raddr_t stub, stub_end; /* this heaptap's stub behind a module's code; equal: none */
	size_t same, unreadable;
	struct verify_finding finding;
};

_Static_assert(sizeof(struct verify_finding) <= WORKER_REPLY_BYTES, "a finding fits a reply");

static bool is_code(const struct proc_map *map)
{
	return map->exec && !map->write && map->inode &&
	       strncmp(map->name, "/memfd:", strlen("/memfd:")) != 0;
}

/* Does a jump at the differing byte, or just before it, lead to heaptap's memory? */
static bool is_entry_hook(const struct code *code, raddr_t at)
{
	uint8_t bytes[2 * JUMP_BYTES - 1];
	size_t got = 0;
	raddr_t from = at - (JUMP_BYTES - 1);
	ht_err_free(memory_read_some(code->proc, from, bytes, sizeof(bytes), &got));
	for (size_t i = 0; i + JUMP_BYTES <= got; i++) {
		const struct proc_map *to =
			proc_maps_find(code->maps, jump_target(from + i, bytes + i));
		if (bytes[i] == JUMP_OPCODE && to && near_is_area(to))
			return true;
	}
	return false;
}

/* A difference behind a module's code is not always a stub: programs put code of their own there,
 * too. */
static void find_stub(struct code *code)
{
	struct choose_slack place;
	if (!remote_find_stub(code->proc, code->modules, code->maps, &place))
		return;
	code->stub = place.addr;
	code->stub_end = place.addr + place.bytes;
}

/* heaptap writes only behind a module's code and at the entry of a function: any other difference
 * is not its own. */
static void note_difference(struct code *code, const struct proc_map *map, raddr_t at)
{
	struct verify_finding *f = &code->finding;
	bool stub = at >= code->stub && at < code->stub_end;
	bool slack = choose_is_slack(code->modules, code->maps, at, 1);
	bool entry = !slack && is_entry_hook(code, at), ours = stub || entry;
	char *text = ours ? f->text : f->other;

	/* Report an entry hook even if another difference was found before. */
	if (text[0] && !entry)
		return;
	if (entry)
		snprintf(text, VERIFY_TEXT_BYTES,
			"code of %.120s jumps to heaptap's code at %lx: the first bytes of a "
			"recorded function",
			map->name, (unsigned long)at);
	else if (ours)
		snprintf(text, VERIFY_TEXT_BYTES,
			"bytes behind the code of %.120s, at %lx, differ from its file: heaptap's "
			"attach code",
			map->name, (unsigned long)at);
	else if (slack)
		snprintf(text, VERIFY_TEXT_BYTES,
			"bytes behind the code of %.90s, at %lx, differ from its file, and are not "
			"heaptap's attach code: the program's own?",
			map->name, (unsigned long)at);
	else
		snprintf(text, VERIFY_TEXT_BYTES,
			"code of %.100s differs from its file at %lx, where heaptap never writes "
			"(a debugger's breakpoint or a probe?)",
			map->name, (unsigned long)at);
	f->ours |= ours;
}

static struct ht_err *compare_map(
	struct code *code, const struct proc_map *map, int fd, bool *ret_same)
{
	uint64_t offset = map->offset;

	*ret_same = true;
	for (raddr_t at = map->lo; at < map->hi;) {
		size_t want = map->hi - at < CHUNK_BYTES ? map->hi - at : CHUNK_BYTES, got;
		ssize_t bytes = pread(fd, code->file, want, (off_t)offset);
		if (bytes <= 0)
			return NULL;
		struct ht_err *err =
			memory_read_some(code->proc, at, code->memory, (size_t)bytes, &got);
		if (err || got == 0)
			return err;
		for (size_t i = 0; i < got; i++) {
			if (code->memory[i] == code->file[i])
				continue;
			*ret_same = false;
			note_difference(code, map, at + i);
			/* Each kind is reported once: skip the rest of this page. */
			i |= HT_PAGE_BYTES - 1;
		}
		at += got;
		offset += got;
	}
	return NULL;
}

static struct ht_err *compare_all(struct code *code)
{
	const char *unread = NULL;
	struct ht_err *err = NULL;

	for (size_t i = 0; !err && i < code->maps->count; i++) {
		const struct proc_map *map = &code->maps->map[i];
		bool same = false;
		if (!is_code(map))
			continue;
		FD_GUARD int fd = -1;
		if (ht_err_drop(proc_open_mapped(code->proc, map, &fd))) {
			code->unreadable++;
			unread = map->name;
			continue;
		}
		err = compare_map(code, map, fd, &same);
		code->same += same;
	}
	struct verify_finding *f = &code->finding;
	if (!f->text[0])
		snprintf(f->text, sizeof(f->text), "%zu code mappings equal their files",
			code->same);
	if (unread && !f->other[0])
		snprintf(f->other, sizeof(f->other),
			"%zu files cannot be opened; their code is not compared (%.120s)",
			code->unreadable, unread);
	return err;
}

static struct ht_err *compare_job(void *context, struct worker_reply *reply)
{
	struct code *code = context;
	struct ht_err *err = compare_all(code);
	memcpy(reply->data, &code->finding, sizeof(code->finding));
	return err;
}

struct ht_err *verify_code(const struct proc *proc, const struct proc_maps *maps,
	const struct modules *modules, struct verify_finding *ret)
{
	HT_FREED uint8_t *memory = malloc(CHUNK_BYTES);
	HT_FREED uint8_t *file = malloc(CHUNK_BYTES);
	struct code code = {
		.proc = proc, .maps = maps, .modules = modules, .memory = memory, .file = file};
	struct worker_reply reply;

	if (!memory || !file)
		return ht_err_new(HT_ERR_NOMEM, "no memory to compare code with its files");
	find_stub(&code);
	HT_TRY(worker_run("comparing code with its files", clock_mono_ns() + DEADLINE_NS,
		compare_job, &code, &reply));
	memcpy(ret, reply.data, sizeof(*ret));
	return NULL;
}
