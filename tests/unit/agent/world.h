/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory that the agent finds in a target, for hosted tests: a whole image with config, state,
 * control, table, nodes and slots (thread records) in their places, one fake thread, and a fake
 * system (tests/hosted/agent/sys.h). Included once by each test program.
 */
#pragma once

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/atomic.h"
#include "agent/sys.h"
#include "format/abi_control.h"
#include "format/abi_event.h"
#include "format/abi_hooks.h"
#include "format/abi_thunk.h"
#include "format/abi_unwind.h"
#include "format/event.h"
#include "tests/support/ht_check.h"

#define WORLD_SLOTS	 16u
#define WORLD_TID	 4711u
#define WORLD_TID_OFFSET 16u
#define WORLD_COOKIE	 0xc00c1eu
#define WORLD_EVENTS_MAX 20000u

struct sys_fake sys_fake;
_Thread_local uint64_t sys_fake_thread_pointer;

/* A thread control block: the agent reads the TID in it, at WORLD_TID_OFFSET. */
struct world_tcb {
	_Alignas(32) uint64_t self;
	uint64_t unused;
	uint32_t tid;
};

static struct world_tcb world_tcb;
static uint8_t *world_image;
static struct abi_config *world_config;
static struct abi_control *world_control;
static struct abi_state *world_state;
static struct abi_slot *world_slots;
static struct abi_node *world_nodes;

/* The data of all messages that the daemon received, without their headers. */
static struct bytes_out world_received;
static unsigned world_messages;
static struct abi_message world_last_message;

HT_UNUSED
static void world_become(struct world_tcb *tcb, uint32_t tid)
{
	tcb->self = (uint64_t)tcb;
	tcb->tid = tid;
	sys_fake_thread_pointer = (uint64_t)tcb;
}

HT_UNUSED
static long world_receive(int fd, const struct sys_msghdr *message, int flags)
{
	ck_assert_int_eq(fd, world_config->socket_fd);
	ck_assert_int_eq(flags, SYS_MSG_DONTWAIT | SYS_MSG_NOSIGNAL | SYS_MSG_FASTOPEN);
	ck_assert_uint_eq(message->iov_count, 2);
	ck_assert_uint_eq(message->iov[0].bytes, sizeof(world_last_message));
	memcpy(&world_last_message, message->iov[0].base, sizeof(world_last_message));
	ck_assert_uint_eq(world_last_message.magic, ABI_MESSAGE_MAGIC);
	ck_assert_uint_eq(world_last_message.length, message->iov[1].bytes);
	ck_no_err(bytes_out_put(&world_received, message->iov[1].base, message->iov[1].bytes));
	world_messages++;
	return (long)(message->iov[0].bytes + message->iov[1].bytes);
}

/* Makes a new world. The one before is unmapped. */
HT_UNUSED
static void world_make(void)
{
	uint64_t bytes = abi_image_bytes(WORLD_SLOTS);
	if (world_image)
		munmap(world_image, bytes);
	world_image = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	ck_assert_ptr_ne(world_image, MAP_FAILED);
	world_state = (struct abi_state *)(world_image + ABI_STATE_OFF);
	world_config = (struct abi_config *)(world_image + ABI_CONFIG_OFF);
	world_control = (struct abi_control *)(world_image + ABI_CONTROL_OFF);
	world_slots = (struct abi_slot *)(world_image + ABI_SLOTS_OFF);
	world_nodes = (struct abi_node *)(world_image + ABI_NODES_OFF);
	world_state->alive = 1;
	*world_config = (struct abi_config){
		.magic = ABI_MAGIC,
		.version = ABI_VERSION,
		.tid_offset = WORLD_TID_OFFSET,
		.table_mask = ABI_TABLE_WORDS - 1,
		.node_max = ABI_NODE_MAX,
		.slot_mask = WORLD_SLOTS - 1,
		.socket_fd = 1000,
		.frames_max = 64,
		.socket_cookie = WORLD_COOKIE,
		.wait_cycles_max = 1000,
	};
	sys_fake = (struct sys_fake){
		.cookie = WORLD_COOKIE,
		.tsc = 1000000,
		.tsc_step = 10,
		.sendmsg = world_receive,
	};
	world_received.length = 0;
	world_messages = 0;
	world_become(&world_tcb, WORLD_TID);
}

/* Returns the slot of a key; NULL if there is none. */
HT_UNUSED
static struct abi_slot *world_slot(uint64_t key)
{
	for (unsigned i = 0; i < WORLD_SLOTS; i++) {
		if (world_slots[i].head.key == key)
			return &world_slots[i];
	}
	return NULL;
}

HT_UNUSED
static struct abi_slot *world_my_slot(unsigned level)
{
	return world_slot(sys_fake_thread_pointer + level);
}

/* Decodes bytes that begin at a buffer start. Returns the number of events, which must not exceed
 * `max`. Malformed bytes fail the test. */
HT_UNUSED
static size_t world_decode(const uint8_t *data, size_t length, struct event *events, size_t max)
{
	struct event_decoder decoder = {0};
	struct bytes in = bytes_of(data, length);
	size_t count = 0;
	event_decoder_restart(&decoder);
	for (;;) {
		struct event event;
		enum event_result result = event_next(&decoder, &in, &event);
		if (result == EVENT_NONE_LEFT)
			return count;
		ck_assert_int_eq(result, EVENT_OK);
		ck_assert_uint_lt(count, max);
		events[count++] = event;
	}
}

/* As world_decode, of the slot's buffer. */
HT_UNUSED
static size_t world_events(const struct abi_slot *slot, struct event *events, size_t max)
{
	return world_decode(
		slot->buffer, slot->head.committed - slot->head.buffer_start, events, max);
}

/* Returns a thunk for `hook` whose real function is `real`. */
HT_UNUSED
static struct abi_thunk world_thunk(enum abi_hook hook, const void *real)
{
	return (struct abi_thunk){
		.real = (uint64_t)real,
		.config = (uint64_t)world_config,
		.real_lo = (uint64_t)real,
		.hook = hook,
	};
}

/* Returns how many samples the filter counts. */
static inline uint64_t world_filter_sum(void)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < ABI_FILTER_BYTES; i++)
		sum += world_image[ABI_FILTER_OFF + i];
	return sum;
}
