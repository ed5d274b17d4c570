/* SPDX-License-Identifier: Apache-2.0
 *
 * Simulates for the agent's parts what the agent finds in a target: an image, a thread record
 * (struct abi_slot), unwind tables, and a stack that exists only as words. Included once, by
 * parts.c, which is linked with the agent as it is shipped.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/rules.h"
#include "agent/step.h"
#include "agent/sys.h"
#include "agent/walk.h"
#include "format/abi_hooks.h"
#include "format/abi_thunk.h"

#define STAGE_SLOTS	 16u
#define STAGE_FUNCTIONS	 512u /* each fills one granule; the last is the outermost */
#define STAGE_CODE	 0x10000000u
#define STAGE_RANGES	 200u /* modules at lower addresses than the one that runs */
#define STAGE_WORDS	 4u   /* of each frame; the last one is the return address */
#define STAGE_RULE	 abi_rule_make(ABI_RULE_RSP, STAGE_WORDS, 0)
#define STAGE_SITES	 4u /* call sites in each function */
#define STAGE_SITE_BYTES 32u
#define STAGE_DEPTH_MAX	 16000u /* more than functions: they call each other in turn */

struct stage_table {
	struct abi_table header;
	uint32_t granule[STAGE_FUNCTIONS + 1];
	uint16_t row_pc[STAGE_FUNCTIONS + ABI_ROW_PAD];
	uint16_t row_rule[STAGE_FUNCTIONS];
	uint32_t rule[2];
};

static struct abi_config *stage_config;
static struct abi_control *stage_control;
static struct abi_snapshot *stage_snapshot;
static struct abi_slot *stage_slot;
static struct abi_thunk *stage_thunks; /* of malloc, of free, and of malloc without a hook */
static int stage_peer;		       /* the daemon's end of the socket */
static uint64_t stage_stack[STAGE_WORDS * (STAGE_DEPTH_MAX + 1)];
static struct walk_start stage_start;

/* Symbols that the agent's linker script defines in the shipped agent. */
extern const uint8_t agent_code_lo[], agent_frames_lo[], agent_code_hi[];
HT_HIDDEN const uint8_t agent_code_lo[1], agent_frames_lo[1], agent_code_hi[1];

static void stage_fail(const char *what)
{
	perror(what);
	exit(1);
}

/* The offset from the thread pointer where the C library keeps the TID; 0: not found. */
static uint32_t stage_tid_offset(void)
{
	for (uint32_t at = 0; at < 2048; at += 4) {
		if (*(const uint32_t *)(sys_thread_pointer() + at) == (uint32_t)sys_gettid())
			return at;
	}
	return 0;
}

static uint8_t *stage_image(void)
{
	uint8_t *image = mmap(NULL, abi_image_bytes(STAGE_SLOTS), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (image == MAP_FAILED)
		stage_fail("mmap");
	return image;
}

static void stage_configure(uint8_t *image)
{
	int fds[2];
	uint64_t cookie = 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
		stage_fail("socketpair");
	stage_peer = fds[0];
	sys_socket_cookie(fds[1], &cookie);
	((struct abi_state *)(image + ABI_STATE_OFF))->alive = ABI_ALIVE;
	stage_control = (struct abi_control *)(image + ABI_CONTROL_OFF);
	stage_config = (struct abi_config *)(image + ABI_CONFIG_OFF);
	*stage_config = (struct abi_config){
		.magic = ABI_MAGIC,
		.version = ABI_VERSION,
		.tid_offset = stage_tid_offset(),
		.unwind = (uint64_t)(image + ABI_UNWIND_OFF),
		.table_mask = ABI_TABLE_WORDS - 1,
		.node_max = ABI_NODE_MAX,
		.slot_mask = STAGE_SLOTS - 1,
		.socket_fd = fds[1],
		.frames_max = ABI_FRAMES_MAX,
		.socket_cookie = cookie,
		.wait_cycles_max = 1000000000,
	};
}

/* Functions with frames of STAGE_WORDS words and no saved registers, as gcc -O2 makes most. */
static uint64_t stage_make_table(uint8_t *image)
{
	struct stage_table *table = (struct stage_table *)(image + ABI_UNWIND_OFF + 0x10000);
	table->header = (struct abi_table){
		.magic = ABI_TABLE_MAGIC,
		.bytes = sizeof(*table),
		.hi = STAGE_FUNCTIONS * ABI_GRANULE_BYTES,
		.granule_count = STAGE_FUNCTIONS,
		.row_count = STAGE_FUNCTIONS,
		.rule_count = HT_ARRAY_SIZE(table->rule),
		.granule_off = offsetof(struct stage_table, granule),
		.pc_off = offsetof(struct stage_table, row_pc),
		.index_off = offsetof(struct stage_table, row_rule),
		.rule_off = offsetof(struct stage_table, rule),
	};
	for (uint32_t i = 0; i <= STAGE_FUNCTIONS; i++)
		table->granule[i] = i;
	table->row_rule[STAGE_FUNCTIONS - 1] = 1;
	table->rule[0] = STAGE_RULE;
	table->rule[1] = abi_rule_make(ABI_RULE_END, 0, 0);
	return (uint64_t)table;
}

/* Sets the unwind rule of all frames but the outermost. */
static void stage_set_rule(uint32_t rule)
{
	const struct abi_range *range = &stage_snapshot->range[STAGE_RANGES];
	((struct stage_table *)range->table)->rule[0] = rule;
	memset((void *)stage_snapshot->cache, 0, ABI_CACHE_BYTES);
}

static void stage_make_snapshot(uint8_t *image)
{
	stage_snapshot = (struct abi_snapshot *)(image + ABI_UNWIND_OFF);
	*stage_snapshot = (struct abi_snapshot){
		.generation = 1,
		.epoch = 1,
		.range_count = STAGE_RANGES + 1,
		.cache_sets = ABI_CACHE_SETS,
		.cache = (uint64_t)image + ABI_CACHES_OFF,
	};
	for (uint64_t i = 0; i < STAGE_RANGES; i++)
		stage_snapshot->range[i] = (struct abi_range){.lo = i << 12, .hi = (i + 1) << 12};
	stage_snapshot->range[STAGE_RANGES] = (struct abi_range){
		.lo = STAGE_CODE,
		.hi = STAGE_CODE + STAGE_FUNCTIONS * ABI_GRANULE_BYTES,
		.bias = STAGE_CODE,
		.table = stage_make_table(image),
	};
}

/* Makes a thunk as attach/inject/image.c does. */
static void stage_make_thunk(
	struct abi_thunk *thunk, enum abi_hook hook, const void *target, const void *real)
{
	static const uint8_t code[ABI_THUNK_CODE_BYTES] = {0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8d, 0x35,
		0xcd, 0xff, 0xff, 0xff, 0xff, 0x25, 0xc7, 0xff, 0xff, 0xff, 0x0f, 0x0b};
	*thunk = (struct abi_thunk){
		.target = (uint64_t)target,
		.real = (uint64_t)real,
		.config = (uint64_t)stage_config,
		.real_lo = (uint64_t)real,
		.hook = hook,
		.usable_index = ABI_USABLE_MAX,
	};
	memcpy(thunk->code, code, sizeof(code));
}

static const void *stage_entry(unsigned thunk)
{
	return stage_thunks[thunk].code;
}

/* The return address of a call from site `site` of the function at `depth`. */
static uint64_t stage_site(unsigned depth, unsigned site)
{
	return STAGE_CODE + depth % (STAGE_FUNCTIONS - 1) * ABI_GRANULE_BYTES +
	       (site + 1) * STAGE_SITE_BYTES;
}

static void stage_call_from(unsigned depth, unsigned site)
{
	if (depth == 0)
		stage_start.pc = stage_site(0, site);
	else
		stage_stack[depth * STAGE_WORDS - 1] = stage_site(depth, site);
}

/* Each frame but the outermost has the saved rbp below its return address. */
static void stage_save_fps(unsigned depth)
{
	stage_start.fp = (uint64_t)&stage_stack[STAGE_WORDS - 2];
	for (unsigned i = 1; i < depth; i++)
		stage_stack[i * STAGE_WORDS - 2] =
			(uint64_t)&stage_stack[(i + 1) * STAGE_WORDS - 2];
}

/* Makes a stack of `depth` frames, including the agent's caller. */
static void stage_descend(unsigned depth)
{
	for (unsigned i = 0; i + 1 < depth; i++)
		stage_call_from(i, 0);
	stage_stack[(depth - 1) * STAGE_WORDS - 1] =
		STAGE_CODE + (STAGE_FUNCTIONS - 1) * ABI_GRANULE_BYTES + 8;
	stage_start.sp = (uint64_t)stage_stack;
	stage_slot->head.stack_lo = (uint64_t)stage_stack;
	stage_slot->head.stack_hi = (uint64_t)(stage_stack + HT_ARRAY_SIZE(stage_stack));
	stage_slot->head.bounds_incarnation = stage_slot->head.incarnation;
}

/* Marks the stream as drained up to `position`, so that the agent need not send before. */
static void stage_drain(uint64_t position)
{
	stage_slot->head.drained = position;
}

/* Clears the agent's known stacks. */
static void stage_forget(void)
{
	memset((void *)config_at(stage_config, ABI_TABLE_OFF), 0,
		ABI_TABLE_WORDS * sizeof(uint64_t));
	stage_control->node_count = 0;
	stage_snapshot->generation++;
}

static void stage_make(const void *hooks[2], const void *reals[2])
{
	uint8_t *image = stage_image();
	stage_configure(image);
	stage_make_snapshot(image);
	stage_thunks = mmap(
		NULL, HT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stage_thunks == MAP_FAILED)
		stage_fail("mmap");
	stage_make_thunk(&stage_thunks[0], ABI_HOOK_MALLOC, hooks[0], reals[0]);
	stage_make_thunk(&stage_thunks[1], ABI_HOOK_FREE, hooks[1], reals[1]);
	/* A thunk as it is without a capture: it leads to the real function. */
	stage_make_thunk(&stage_thunks[2], ABI_HOOK_MALLOC, reals[0], reals[0]);
	if (mprotect(stage_thunks, HT_PAGE_BYTES, PROT_READ | PROT_EXEC) != 0)
		stage_fail("mprotect");
	struct thread_frame frame = {0};
	stage_slot = thread_enter(&stage_thunks[0], &frame, ABI_SLOT_RECORDING);
	if (!stage_slot)
		stage_fail("thread_enter");
	thread_leave(stage_config, stage_slot);
}

/* Fails if the agent has cut stacks or dropped events: then the benchmark measured something
 * else. */
static void stage_check(const char *part)
{
	uint64_t bad = 0;
	for (unsigned i = 0; i < ABI_TRUNC_COUNT; i++)
		bad += stage_slot->head.trunc[i];
	for (unsigned i = 0; i < ABI_LOSS_COUNT; i++)
		bad += stage_slot->head.lost[i] + stage_control->lost[i];
	if (bad == 0)
		return;
	fprintf(stderr, "parts: %s: %lu stacks or events were not whole\n", part,
		(unsigned long)bad);
	exit(1);
}
