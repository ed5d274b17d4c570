/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/trace/memory.h"

#include <sys/stat.h>

#include "attach/daemon/sink.h"
#include "attach/proc/clock.h"

#define PERIOD_NS   (100 * CLOCK_NS_PER_MS)
#define BLOCK_BYTES 512u /* of st_blocks: stat(2) */

/* Adds the resident part of the agent's memfd: the target cannot have more of it resident. */
static void add_own(const struct memory_figures *figures, struct memory *memory)
{
	struct stat info;
	if (figures->agent_fd >= 0 && fstat(figures->agent_fd, &info) == 0)
		memory_set(memory, MEMORY_HEAPTAP, (uint64_t)info.st_blocks * BLOCK_BYTES);
}

struct ht_err *memory_put(struct sink *sink, const struct memory *memory, uint64_t mono_ns)
{
	struct rec rec = {.kind = REC_MEMORY};
	rec.memory.mono_ns = mono_ns;
	for (unsigned kind = 0; kind < MEMORY_KIND_COUNT; kind++)
		if (memory->is_known[kind])
			rec.memory.value[rec.memory.value_count++] =
				(struct rec_value){kind, memory->number[kind]};
	return rec.memory.value_count ? sink_put(sink, &rec, 0) : NULL;
}

/* RSS without heaptap's own memory, which comes and goes with the capture. */
static void note_rss(struct memory_figures *figures, const struct memory *memory)
{
	const uint64_t own_bytes = memory->number[MEMORY_HEAPTAP];
	const uint64_t rss_bytes = memory->number[MEMORY_RSS];
	figures->rss_bytes = rss_bytes > own_bytes ? rss_bytes - own_bytes : rss_bytes;
	if (!figures->rss_first_bytes)
		figures->rss_first_bytes = figures->rss_bytes;
}

static struct ht_err *put(struct memory_figures *figures, uint64_t now_ns)
{
	struct memory memory = {0};
	/* A process that is ending has no memory: that is not 0 bytes. */
	if (!memuse_read(&figures->use, now_ns, &memory))
		return NULL;
	add_own(figures, &memory);
	note_rss(figures, &memory);
	return memory_put(figures->sink, &memory, now_ns);
}

_Static_assert(MEMORY_KIND_COUNT <= TRACE_MEMORY_MAX, "all kinds fit a record");

struct ht_err *memory_begin(
	struct memory_figures *figures, const struct proc *proc, struct sink *sink, int agent_fd)
{
	*figures = (struct memory_figures){.proc = proc, .sink = sink, .agent_fd = agent_fd};
	memuse_open(&figures->use, proc);
	return memory_look(figures, clock_mono_ns());
}

struct ht_err *memory_look(struct memory_figures *figures, uint64_t now_ns)
{
	if (now_ns < figures->next_ns)
		return NULL;
	figures->next_ns = now_ns + PERIOD_NS;
	return put(figures, now_ns);
}

struct ht_err *memory_end(struct memory_figures *figures, bool is_gone)
{
	struct ht_err *err = is_gone ? NULL : put(figures, clock_mono_ns());
	memuse_close(&figures->use);
	return err;
}
