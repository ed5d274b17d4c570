/* SPDX-License-Identifier: Apache-2.0
 *
 * The place of the stub behind a text segment: found, prepared, looked at, restored.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "attach/stub/remote_slack.h"
#include "attach/memory/memory.h"
#include "attach/memory/pagemap.h"
#include "attach/memory/proc_maps.h"
#include "attach/memory/slow.h"
#include "attach/proc/fd.h"

struct ht_err *remote_slack_refuse(const struct proc *proc)
{
	return ht_err_new(HT_ERR_REFUSED,
		"another heaptap is attaching to process %d, or was killed while it did; in that "
		"case run heaptap recover -p %d",
		proc->pid, proc->pid);
}

struct unused {
	const struct proc *proc;
	const struct proc_maps *maps;
	struct remote_slack *slack; /* the last one that was accepted */
	const char *altered;	    /* file of a place with other bytes than its file; NULL: none */
	struct ht_err *err;
};

/* Does the place hold what its file has? The program may have put code or data there. A page that
 * the process has not copied has the file's content. If the file cannot be read, zeros are
 * expected. */
static bool is_as_in_file(
	const struct unused *unused, const struct proc_map *map, const struct remote_slack *slack)
{
	uint8_t file[STUB_BYTES_MAX] = {0};
	if (pagemap_own(unused->proc, slack->addr, slack->bytes) == PAGEMAP_OWN_NONE)
		return true;
	/* Beyond the file's end, mapped bytes are zeros. */
	memory_read_file(
		unused->proc, map, map->offset + (slack->addr - map->lo), file, slack->bytes);
	return memcmp(slack->original, file, slack->bytes) == 0;
}

static bool is_unused(void *context, const struct choose_slack *place)
{
	struct unused *unused = context;
	const struct proc_map *map = proc_maps_find(unused->maps, place->addr);
	struct remote_slack slack = {
		.addr = place->addr, .bytes = place->bytes, .left = place->left};

	if (unused->err)
		return false;
	unused->err = memory_read(unused->proc, slack.addr, slack.original, slack.bytes);
	/* These bytes are another heaptap's stub: they must not be kept and restored in the end. */
	if (!unused->err && stub_is_at_start(slack.original, slack.bytes))
		unused->err = remote_slack_refuse(unused->proc);
	if (unused->err)
		return false;
	if (!is_as_in_file(unused, map, &slack)) {
		unused->altered = map->name;
		return false;
	}
	*unused->slack = slack;
	return true;
}

struct ht_err *remote_slack_choose(const struct proc *proc, const struct modules *modules,
	const struct proc_maps *maps, size_t near_count, struct remote_slack *ret)
{
	struct unused unused = {.proc = proc, .maps = maps, .slack = ret};
	struct choose_slack place;
	struct ht_err *err =
		choose_slack(modules, maps, stub_map_bytes(near_count), is_unused, &unused, &place);

	if (unused.err) {
		ht_err_free(err);
		return unused.err;
	}
	if (!err || !unused.altered)
		return err;
	ht_err_free(err);
	return ht_err_new(HT_ERR_REFUSED,
		"process %d has changed the bytes behind the code of %s, which may be in use. "
		"No other library that was loaded at the start has %zu unused bytes, so heaptap "
		"cannot enter the process safely",
		proc->pid, unused.altered, stub_map_bytes(near_count));
}

struct ht_err *remote_slack_prepare(const struct proc *proc, const struct modules *modules,
	const struct proc_maps *maps, size_t near_count, struct remote_slack *ret)
{
	struct remote_slack slack;
	HT_TRY(remote_slack_choose(proc, modules, maps, near_count, &slack));
	HT_TRY(memory_write(proc, slack.addr, slack.original, slack.bytes));
	*ret = slack;
	return NULL;
}

/* A mapped page that cannot be read may hold a stub. No stub is there if nothing is mapped, or only
 * a file on a stalled file system that no process wrote to. */
static struct ht_err *check_unreadable(const struct proc *proc, const struct remote_slack *slack)
{
	HT_CLEANUP(proc_lookup_end) struct proc_lookup lookup = {.fd = -1};
	struct proc_map map;
	HT_TRY(proc_lookup_begin(proc, &lookup));
	if (!proc_lookup_find(&lookup, slack->addr, &map) || slow_is_in(slack->addr, slack->bytes))
		return NULL;
	return ht_err_sys(EIO, "cannot read the bytes behind the code at %lx in process %d",
		(unsigned long)slack->addr, proc->pid);
}

struct ht_err *remote_slack_holds_stub(
	const struct proc *proc, const struct remote_slack *slack, bool *ret)
{
	uint8_t bytes[STUB_BYTES_MAX];
	size_t got = 0;
	struct ht_err *err = memory_read_some(proc, slack->addr, bytes, slack->bytes, &got);

	*ret = !err && stub_is_at_start(bytes, got);
	return err || *ret || got == slack->bytes ? err : check_unreadable(proc, slack);
}

struct search {
	const struct proc *proc;
	struct choose_slack *found;
};

static bool holds_stub(void *context, const struct choose_slack *place)
{
	struct search *search = context;
	struct remote_slack slack = {.addr = place->addr, .bytes = place->bytes};
	bool holds = false;

	ht_err_free(remote_slack_holds_stub(search->proc, &slack, &holds));
	*search->found = *place;
	return holds;
}

bool remote_find_stub(const struct proc *proc, const struct modules *modules,
	const struct proc_maps *maps, struct choose_slack *ret)
{
	struct search search = {.proc = proc, .found = ret};
	if (!choose_slack_any(modules, maps, stub_map_bytes(0), holds_stub, &search))
		return false;
	/* A stub that maps near areas is longer. The length may be too large: the file's bytes are
	 * restored in any case. */
	for (size_t near = ABI_NEAR_MAX; near > 0; near--)
		if (choose_is_slack(modules, maps, ret->addr, stub_map_bytes(near))) {
			ret->bytes = stub_map_bytes(near);
			break;
		}
	return true;
}

struct ht_err *remote_slack_from_file(const struct proc *proc, const struct proc_maps *maps,
	const struct choose_slack *place, struct remote_slack *ret)
{
	const struct proc_map *map = proc_maps_find(maps, place->addr);
	FD_GUARD int fd = -1;

	*ret = (struct remote_slack){
		.addr = place->addr, .bytes = place->bytes, .left = place->left};
	HT_TRY(proc_open_mapped(proc, map, &fd));
	/* Beyond the file's end, mapped bytes are zeros. */
	off_t offset = (off_t)(map->offset + (place->addr - map->lo));
	return pread(fd, ret->original, ret->bytes, offset) < 0
		       ? ht_err_sys(errno, "cannot read %s", map->name)
		       : NULL;
}

struct ht_err *remote_slack_restore(const struct proc *proc, const struct remote_slack *slack)
{
	bool stub;
	struct ht_err *err = remote_slack_holds_stub(proc, slack, &stub);
	return err || !stub ? err : memory_write(proc, slack->addr, slack->original, slack->bytes);
}
