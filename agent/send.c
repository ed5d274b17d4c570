/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/send.h"

#include "agent/sys.h"
#include "agent/thread.h"
#include "format/abi_event.h"

#define SEND_STEP_NS 1000000 /* between two looks at what the daemon has copied */

static bool is_drained(const struct abi_slot_head *head)
{
	return (int64_t)(load_acquire(&head->drained) - head->committed) >= 0;
}

/* Programs close descriptors they do not know, and get the number for something of their own. */
static bool is_our_socket(const struct abi_config *config)
{
	uint64_t cookie = 0;
	return sys_socket_cookie(config->socket_fd, &cookie) == 0 &&
	       cookie == config->socket_cookie;
}

/* One try: 0, or a negative error. */
static long message_send(const struct abi_config *config, const struct abi_slot *slot)
{
	const struct abi_slot_head *head = &slot->head;
	uint64_t start = head->buffer_start, length = head->committed - start;
	if (length > ABI_BUFFER_BYTES)
		return -SYS_EINVAL;
	struct abi_message header = {.magic = ABI_MESSAGE_MAGIC,
		.slot = (uint32_t)(slot - (const struct abi_slot *)config->slots),
		.position = start,
		.length = (uint32_t)length,
		.events = (uint32_t)head->buffer_events};
	struct sys_iovec iov[2] = {
		{&header, sizeof(header)},
		{(void *)slot->buffer, length},
	};
	struct sys_msghdr message = {.iov = iov, .iov_count = 2};
	long sent = sys_sendmsg(config->socket_fd, &message, SYS_MSG_DONTWAIT | SYS_MSG_NOSIGNAL);
	return sent < 0 ? sent : 0;
}

/*
 * A thread waits once for a daemon that stalls. After that its buffers are dropped without delay,
 * until one is taken again.
 */
static inline __attribute__((always_inline)) bool wait_is_over(const struct abi_config *config,
	const struct abi_slot_head *head, uint64_t since, bool may_be_endless)
{
	if (may_be_endless && config->flags & ABI_FLAG_LOSSLESS && !load_relaxed(&config->stop))
		return false;
	return load_relaxed(&head->gave_up) || sys_tsc() - since >= config->wait_cycles_max;
}

static bool wait_drained(
	const struct abi_config *config, const struct abi_slot *slot, enum abi_loss *ret_loss)
{
	uint64_t since = sys_tsc();
	/* Bounded even when lossless: without a system call a dead daemon looks like a slow one. */
	while (!is_drained(&slot->head) && thread_alive(config)) {
		if (wait_is_over(config, &slot->head, since, false)) {
			*ret_loss = ABI_LOSS_TIMEOUT;
			return false;
		}
		if (config->flags & ABI_FLAG_NO_SYSCALL || config->socket_fd < 0)
			sys_pause();
		else
			sys_wait_writable(-1, (struct sys_timespec){.nsec = SEND_STEP_NS});
	}
	return true;
}

bool send_buffer(
	const struct abi_config *config, const struct abi_slot *slot, enum abi_loss *ret_loss)
{
	if (is_drained(&slot->head))
		return true;
	if (config->flags & ABI_FLAG_NO_SYSCALL || config->socket_fd < 0)
		return wait_drained(config, slot, ret_loss);

	uint64_t since = sys_tsc();
	for (;;) {
		/* The daemon can do without: it also copies from memory. */
		if (!is_our_socket(config))
			return wait_drained(config, slot, ret_loss);
		long error = message_send(config, slot);
		if (error == 0 || is_drained(&slot->head) || !thread_alive(config))
			return true;
		if (error == -SYS_EINTR)
			continue;
		if (error != -SYS_EAGAIN && error != -SYS_ENOBUFS && error != -SYS_ENOMEM) {
			*ret_loss = ABI_LOSS_SOCKET;
			return false;
		}
		if (wait_is_over(config, &slot->head, since, true)) {
			*ret_loss = ABI_LOSS_TIMEOUT;
			return false;
		}
		/* Short of memory the socket is writable all the same: then only time helps. */
		int fd = error == -SYS_EAGAIN ? config->socket_fd : -1;
		sys_wait_writable(fd, (struct sys_timespec){.nsec = SEND_STEP_NS});
	}
}
