/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/send.h"

#include "agent/config.h"
#include "agent/gate.h"
#include "agent/sys.h"
#include "format/abi_event.h"

#define SEND_STEP_NS	  1000000 /* between two looks at what the daemon has copied */
#define SEND_SILENT_WAITS 32u	  /* of wait_cycles_max: some ten seconds without a reader */

static bool is_drained(const struct abi_slot_head *head)
{
	return (int64_t)(load_acquire(&head->drained) - head->committed) >= 0;
}

/* Programs close descriptors they do not know, and get the number for something of their own. */
static HT_NOINLINE bool is_our_socket(const struct abi_config *config, struct abi_slot *slot)
{
	uint64_t cookie = 0, before;
	if (config->socket_fd < 0 || !gate_enter(config, slot, &before))
		return false;
	long error = sys_socket_cookie(config->socket_fd, &cookie);
	gate_leave(config, slot, before);
	return error == 0 && cookie == config->socket_cookie;
}

/*
 * One try: 0, or a negative error. Its number may have become another's since it was looked at. An
 * address of one byte is none to any socket, and ignored by ours, as by all connected ones of its
 * kind; TCP looks at addresses only where it is asked to connect.
 */
static HT_NOINLINE long message_send(const struct abi_config *config, struct abi_slot *slot)
{
	const struct abi_slot_head *head = &slot->head;
	uint64_t before, start = head->buffer_start, length = head->committed - start;
	if (length > ABI_BUFFER_BYTES)
		return -SYS_EINVAL;
	struct abi_message header = {.magic = ABI_MESSAGE_MAGIC,
		.slot = (uint32_t)(slot - config_slots(config)),
		.position = start,
		.length = (uint32_t)length,
		.events = (uint32_t)(head->events - head->first_event)};
	struct sys_iovec iov[2] = {
		{&header, sizeof(header)},
		{(void *)slot->buffer, length},
	};
	uint8_t nowhere = 0;
	struct sys_msghdr message = {
		.name = &nowhere, .name_bytes = sizeof(nowhere), .iov = iov, .iov_count = 2};
	if (!gate_enter(config, slot, &before))
		return -SYS_EINTR;
	long sent = sys_sendmsg(config->socket_fd, &message,
		SYS_MSG_DONTWAIT | SYS_MSG_NOSIGNAL | SYS_MSG_FASTOPEN);
	gate_leave(config, slot, before);
	return sent < 0 ? sent : 0;
}

/* Until `fd` (negative: nothing) takes a message or some time has passed. */
static HT_NOINLINE void wait_step(const struct abi_config *config, struct abi_slot *slot, int fd)
{
	uint64_t before;
	if (config->socket_fd < 0 || !gate_enter(config, slot, &before)) {
		sys_pause();
		return;
	}
	sys_wait_writable(fd, (struct sys_timespec){.nsec = SEND_STEP_NS});
	gate_leave(config, slot, before);
}

static inline bool wait_is_endless(const struct abi_config *config)
{
	return config->flags & ABI_FLAG_LOSSLESS && !load_relaxed(&config->stop);
}

/*
 * A thread waits once for a daemon that stalls. After that its buffers are dropped without delay,
 * until one is taken again.
 */
static inline __attribute__((always_inline)) bool wait_is_over(
	const struct abi_config *config, const struct abi_slot_head *head, uint64_t since)
{
	return load_relaxed(&head->gave_up) || sys_tsc() - since >= config->wait_cycles_max;
}

/*
 * There is no other end: heaptap and its guardian have ended, or the program has shut the socket.
 * In the latter case the daemon still looks at the memory, unless it was stopped as well.
 */
static HT_NOINLINE void note_no_reader(const struct abi_config *config, struct abi_slot_head *head)
{
	uint64_t tick = load_relaxed(&config_control(config)->tick);
	uint64_t now = sys_tsc();
	if (head->silent_since && head->silent_tick == tick) {
		if (now - head->silent_since >= SEND_SILENT_WAITS * config->wait_cycles_max)
			config_give_up(config);
		return;
	}
	store_relaxed(&head->silent_tick, tick);
	store_relaxed(&head->silent_since, now);
}

static bool wait_drained(const struct abi_config *config, struct abi_slot *slot, uint64_t since,
	enum abi_loss *ret_loss)
{
	/* Bounded even when lossless: without a system call a dead daemon looks like a slow one. */
	while (!is_drained(&slot->head) && config_recording(config)) {
		if (wait_is_over(config, &slot->head, since)) {
			*ret_loss = ABI_LOSS_TIMEOUT;
			return false;
		}
		wait_step(config, slot, -1);
	}
	return true;
}

bool send_buffer(const struct abi_config *config, struct abi_slot *slot, enum abi_loss *ret_loss)
{
	/* From here on a handler may forbid the clock whenever we wait. */
	if (is_drained(&slot->head) || !config_recording(config))
		return true;
	uint64_t since = sys_tsc();
	for (;;) {
		/* The daemon can do without: it also copies from memory. */
		if (!is_our_socket(config, slot))
			return wait_drained(config, slot, since, ret_loss);
		long error = message_send(config, slot);
		if (error == 0 || is_drained(&slot->head) || !config_recording(config))
			return true;
		if (error == -SYS_EINTR)
			continue;
		if (error != -SYS_EAGAIN && error != -SYS_ENOBUFS && error != -SYS_ENOMEM) {
			if (error == -SYS_EPIPE)
				note_no_reader(config, &slot->head);
			*ret_loss = ABI_LOSS_SOCKET;
			return false;
		}
		/* Whatever ends it, the bound counts from there: the daemon is emptying buffers. */
		if (wait_is_endless(config)) {
			since = sys_tsc();
		} else if (wait_is_over(config, &slot->head, since)) {
			*ret_loss = ABI_LOSS_TIMEOUT;
			return false;
		}
		/* Short of memory the socket is writable all the same: then only time helps. */
		wait_step(config, slot, error == -SYS_EAGAIN ? config->socket_fd : -1);
	}
}
