/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/capture/memory.h"

#include <sys/stat.h>

#include "attach/capture/session_state.h"
#include "attach/proc/clock.h"

#define PERIOD_NS   (100 * CLOCK_NS_PER_MS)
#define BLOCK_BYTES 512u /* of st_blocks: stat(2) */

/* The resident part of the agent's memfd: the target has no more of it resident. */
static void add_own(const struct session *s, struct memory *memory)
{
	struct stat info;
	if (s->remote.memfd >= 0 && fstat(s->remote.memfd, &info) == 0)
		memory_set(memory, MEMORY_HEAPTAP, (uint64_t)info.st_blocks * BLOCK_BYTES);
}

struct ht_err *memory_put(struct session *s, const struct memory *memory, uint64_t mono_ns)
{
	struct rec rec = {.kind = REC_MEMORY};
	rec.memory.mono_ns = mono_ns;
	for (unsigned kind = 0; kind < MEMORY_KIND_COUNT; kind++)
		if (memory->is_known[kind])
			rec.memory.value[rec.memory.value_count++] =
				(struct rec_value){kind, memory->number[kind]};
	return rec.memory.value_count ? sink_put(s->sink, &rec, 0) : NULL;
}

static struct ht_err *put(struct session *s, uint64_t now_ns)
{
	struct memory memory = {0};
	/* A process that is ending has no memory: that is not 0 bytes. */
	if (!memuse_read(&s->memuse, now_ns, &memory))
		return NULL;
	add_own(s, &memory);
	return memory_put(s, &memory, now_ns);
}

_Static_assert(MEMORY_KIND_COUNT <= TRACE_MEMORY_MAX, "all kinds fit a record");

struct ht_err *memory_begin(struct session *s)
{
	memuse_open(&s->memuse, &s->survey.proc);
	return memory_look(s, clock_mono_ns());
}

struct ht_err *memory_look(struct session *s, uint64_t now_ns)
{
	if (now_ns < s->next_memory_ns)
		return NULL;
	s->next_memory_ns = now_ns + PERIOD_NS;
	return put(s, now_ns);
}

struct ht_err *memory_end(struct session *s)
{
	struct ht_err *err = s->target_gone ? NULL : put(s, clock_mono_ns());
	memuse_close(&s->memuse);
	return err;
}
