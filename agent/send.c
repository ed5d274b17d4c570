/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/send.h"

#include "agent/config.h"
#include "agent/gate.h"
#include "agent/sys.h"
#include "format/abi_event.h"

/* between two checks whether the daemon has copied the buffer */
#define SEND_STEP_NS	  1000000
#define SEND_SILENT_WAITS 32u /* times wait_cycles_max: about ten seconds without a reader */

static bool is_drained(const struct abi_slot_head *head)
{
	return (int64_t)(load_acquire(&head->drained) - head->committed) >= 0;
}

/* Whether socket_fd is still the agent's socket. Programs close unknown descriptors and then reuse
 * the number. */
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
 * Tries to send once: 0, or a negative error. The program may have reused the descriptor since the
 * check, so the message carries a one-byte address: other sockets refuse such an address, while a
 * connected SOCK_SEQPACKET socket, as the agent's is, ignores it. MSG_FASTOPEN makes TCP read the
 * address, too.
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

/* Waits until `fd` takes a message (negative `fd`: only sleeps), at most SEND_STEP_NS. */
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
 * A thread waits once for a stalled daemon. After that it drops its buffers without delay until the
 * daemon takes a buffer again.
 */
static inline __attribute__((always_inline)) bool wait_is_over(
	const struct abi_config *config, const struct abi_slot_head *head, uint64_t since)
{
	return load_relaxed(&head->gave_up) || sys_tsc() - since >= config->wait_cycles_max;
}

/*
 * The socket has no other end: heaptap and its guardian have ended, or the program has shut the
 * socket down. In the second case the daemon still reads the shared memory, unless it is stopped.
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
	/* Bounded even with ABI_FLAG_LOSSLESS: without system calls a dead daemon looks like a slow
	 * one. */
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
	/* A signal handler may forbid the clock during any wait below. */
	if (is_drained(&slot->head) || !config_recording(config))
		return true;
	uint64_t since = sys_tsc();
	for (;;) {
		/* The daemon does not need the socket: it also copies from memory. */
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
		/* When the endless wait ends, the bound counts from that moment: the daemon is
		 * emptying buffers. */
		if (wait_is_endless(config)) {
			since = sys_tsc();
		} else if (wait_is_over(config, &slot->head, since)) {
			*ret_loss = ABI_LOSS_TIMEOUT;
			return false;
		}
		/* If the kernel is short of memory, the socket is still writable: only waiting
		 * helps. */
		wait_step(config, slot, error == -SYS_EAGAIN ? config->socket_fd : -1);
	}
}
