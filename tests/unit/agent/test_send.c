/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests what becomes of a full buffer when the daemon is slow or gone, or when the agent may not
 * send.
 */
#include "agent/send.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/stream.h"
#include "tests/unit/agent/world.h"

#define BUFFER_EVENTS 5u

static struct abi_slot *slot;
static struct {
	unsigned sends, waits, pauses;
	long error;		 /* result of the first `errors` sends */
	unsigned errors;	 /* later sends succeed */
	unsigned drain_at_wait;	 /* the daemon copies the buffer during this wait (1: the first) */
	unsigned stop_at_wait;	 /* the daemon sets `stop` during this wait */
	unsigned forbid_at_send; /* a guard closes the gate, and waits for this very call */
	unsigned fork_at_wait;	 /* a handler forks, and this is the child */
	unsigned mute_at_wait;	 /* a handler forbids the clock */
	uint64_t mute_forbids;
	uint64_t mute_tsc; /* the clock when it was forbidden */
	int waited_fd;
	uint64_t wait_cycles; /* that each wait takes */
} daemon_does;

static long fake_send(int fd, const struct sys_msghdr *message, int flags)
{
	ck_assert_uint_eq(slot->head.calling, 1);
	/* Sending neither blocks the program nor raises a signal, even with a dead daemon. */
	ck_assert_int_eq(flags, SYS_MSG_DONTWAIT | SYS_MSG_NOSIGNAL | SYS_MSG_FASTOPEN);
	if (daemon_does.sends + 1 == daemon_does.forbid_at_send)
		world_control->forbidden = ABI_FORBIDDEN_SYSCALL;
	if (daemon_does.sends++ < daemon_does.errors)
		return daemon_does.error;
	return world_receive(fd, message, flags);
}

static void wait_once(void)
{
	daemon_does.waits++;
	sys_fake.tsc += daemon_does.wait_cycles;
	if (daemon_does.waits == daemon_does.drain_at_wait)
		slot->head.drained = slot->head.committed;
	if (daemon_does.waits == daemon_does.stop_at_wait)
		world_config->stop = 1;
	if (daemon_does.waits == daemon_does.fork_at_wait)
		world_state->alive = 0;
	if (daemon_does.waits == daemon_does.mute_at_wait) {
		world_control->forbidden = daemon_does.mute_forbids;
		world_state->alive = ABI_MUTE;
		daemon_does.mute_tsc = sys_fake.tsc;
	}
}

static long fake_wait(int fd)
{
	daemon_does.waited_fd = fd;
	wait_once();
	return 0;
}

static void fake_pause(void)
{
	daemon_does.pauses++;
	wait_once();
}

static void put_events(void)
{
	for (unsigned i = 0; i < BUFFER_EVENTS; i++) {
		struct stream_event event = {.kind = ABI_EVENT_FREE, .addr = 16};
		stream_put(world_config, slot, &event);
	}
}

static void setup(void)
{
	world_make();
	memset(&daemon_does, 0, sizeof(daemon_does));
	sys_fake.sendmsg = fake_send;
	sys_fake.wait_writable = fake_wait;
	sys_fake.pause = fake_pause;
	slot = &world_slots[0];
	slot->head.key = sys_fake_thread_pointer;
	put_events();
}

/* Hands the buffer over: afterwards the buffer is empty, and its events are counted as lost for the
 * reason `loss` if `is_lost`, else not. */
static void check_flush(bool is_lost, enum abi_loss loss)
{
	uint64_t committed = slot->head.committed;
	stream_restart(world_config, slot);
	ck_assert_uint_eq(slot->head.buffer_start, committed);
	ck_assert_uint_eq(slot->head.committed, committed);
	ck_assert_uint_eq(slot->head.calling, 0);
	for (unsigned i = 0; i < ABI_LOSS_COUNT; i++)
		ck_assert_uint_eq(slot->head.lost[i], is_lost && i == loss ? BUFFER_EVENTS : 0);
}

HT_TEST(daemon_takes_it)
{
	setup();
	check_flush(false, 0);
	ck_assert_uint_eq(world_messages, 1);
	ck_assert_uint_eq(world_last_message.events, BUFFER_EVENTS);
}

HT_TEST(drained_needs_no_call)
{
	setup();
	slot->head.drained = slot->head.committed;
	check_flush(false, 0);
	ck_assert_uint_eq(sys_fake.calls, 0);
}

HT_TEST(slow_daemon_is_waited_for)
{
	static const long errors[] = {-SYS_EAGAIN, -SYS_ENOBUFS, -SYS_ENOMEM};
	for (size_t i = 0; i < HT_ARRAY_SIZE(errors); i++) {
		setup();
		daemon_does.error = errors[i];
		daemon_does.errors = 3;
		check_flush(false, 0);
		ck_assert_uint_eq(world_messages, 1);
		ck_assert_uint_eq(daemon_does.waits, 3);
		ck_assert_int_eq(daemon_does.waited_fd, i ? -1 : world_config->socket_fd);
	}
}

HT_TEST(too_slow_daemon_loses_it)
{
	setup();
	daemon_does.error = -SYS_EAGAIN;
	daemon_does.errors = UINT32_MAX;
	uint64_t since = sys_fake.tsc;
	check_flush(true, ABI_LOSS_TIMEOUT);
	ck_assert_uint_le(sys_fake.tsc - since, world_config->wait_cycles_max + 100);
}

/* A thread waits once for a daemon that stalls, not at each full buffer; once a buffer is taken, it
 * may wait again. */
HT_TEST(one_wait_is_enough)
{
	setup();
	daemon_does.error = -SYS_EAGAIN;
	daemon_does.errors = UINT32_MAX;
	check_flush(true, ABI_LOSS_TIMEOUT);
	unsigned waits = daemon_does.waits;
	ck_assert_uint_gt(waits, 0);
	for (unsigned i = 0; i < 3; i++) {
		put_events();
		stream_restart(world_config, slot);
	}
	ck_assert_uint_eq(daemon_does.waits, waits);
	daemon_does.errors = daemon_does.sends;
	put_events();
	stream_restart(world_config, slot);
	ck_assert_uint_eq(world_messages, 1);
	daemon_does.errors = UINT32_MAX;
	put_events();
	stream_restart(world_config, slot);
	ck_assert_uint_eq(daemon_does.waits, 2 * waits);
}

/* The program may have overwritten the length: what lies behind the buffer is never sent. */
HT_TEST(no_more_than_a_buffer_is_sent)
{
	static const uint64_t lengths[] = {ABI_BUFFER_BYTES + 1, 1u << 30, UINT64_MAX / 2};
	for (size_t i = 0; i < HT_ARRAY_SIZE(lengths); i++) {
		enum abi_loss loss;
		setup();
		slot->head.committed = slot->head.buffer_start + lengths[i];
		ck_assert(!send_buffer(world_config, slot, &loss));
		ck_assert_int_eq(loss, ABI_LOSS_SOCKET);
		ck_assert_uint_eq(daemon_does.sends, 0);
	}
}

HT_TEST(drained_during_the_wait)
{
	setup();
	daemon_does.error = -SYS_EAGAIN;
	daemon_does.errors = UINT32_MAX;
	daemon_does.drain_at_wait = 4;
	check_flush(false, 0);
	ck_assert_uint_eq(daemon_does.waits, 4);
}

HT_TEST(lossless_waits_on)
{
	setup();
	world_config->flags = ABI_FLAG_LOSSLESS;
	daemon_does.error = -SYS_EAGAIN;
	daemon_does.errors = 5000;
	check_flush(false, 0);
	ck_assert_uint_eq(world_messages, 1);
}

/* Otherwise a thread would hang after heaptap stops reading. */
HT_TEST(lossless_ends_with_stop)
{
	setup();
	world_config->flags = ABI_FLAG_LOSSLESS;
	daemon_does.error = -SYS_EAGAIN;
	daemon_does.errors = UINT32_MAX;
	daemon_does.stop_at_wait = 5000;
	check_flush(true, ABI_LOSS_TIMEOUT);
	ck_assert_uint_le(daemon_does.waits, 5000 + world_config->wait_cycles_max);
}

/* However long a thread has waited before the stop, the detach does not lose what it has recorded.
 */
HT_TEST(lossless_has_time_after_stop)
{
	setup();
	world_config->flags = ABI_FLAG_LOSSLESS;
	daemon_does.error = -SYS_EAGAIN;
	daemon_does.errors = UINT32_MAX;
	daemon_does.stop_at_wait = 5000;
	daemon_does.drain_at_wait = 5003;
	daemon_does.wait_cycles = 1;
	check_flush(false, 0);
	ck_assert_uint_eq(daemon_does.waits, 5003);
}

HT_TEST(interrupted_send_is_repeated)
{
	setup();
	daemon_does.error = -SYS_EINTR;
	daemon_does.errors = 3;
	check_flush(false, 0);
	ck_assert_uint_eq(world_messages, 1);
}

HT_TEST(dead_socket)
{
	static const long errors[] = {-SYS_EPIPE, -104, -9, -88, -SYS_EINVAL, -90};
	for (size_t i = 0; i < HT_ARRAY_SIZE(errors); i++) {
		setup();
		daemon_does.error = errors[i];
		daemon_does.errors = 1;
		check_flush(true, ABI_LOSS_SOCKET);
		ck_assert_uint_eq(daemon_does.sends, 1);
	}
}

static void flush_without_reader(void)
{
	put_events();
	stream_restart(world_config, slot);
}

/* As long as the daemon looks at the memory, the events have a reader. */
HT_TEST(stops_when_the_reader_is_gone)
{
	setup();
	const uint64_t long_cycles = 33 * world_config->wait_cycles_max;
	daemon_does.error = -SYS_EPIPE;
	daemon_does.errors = ~0u;
	for (unsigned i = 0; i < 3; i++) {
		world_control->tick++;
		flush_without_reader();
		sys_fake.tsc += long_cycles;
	}
	ck_assert_uint_eq(world_state->alive, ABI_ALIVE);
	world_control->tick++;
	flush_without_reader();
	sys_fake.tsc += long_cycles / 2;
	flush_without_reader();
	ck_assert_uint_eq(world_state->alive, ABI_ALIVE);
	sys_fake.tsc += long_cycles / 2;
	flush_without_reader();
	ck_assert_uint_eq(world_state->alive, ABI_MUTE);
	ck_assert_uint_eq(world_control->given_up, ABI_GIVEN_UP);
	ck_assert_uint_eq(world_control->forbidden, 0);
	ck_assert_uint_eq(slot->head.lost[ABI_LOSS_SOCKET], daemon_does.sends * BUFFER_EVENTS);
}

HT_TEST(foreign_socket_is_not_written)
{
	for (unsigned drain_at = 0; drain_at < 4; drain_at += 3) {
		setup();
		sys_fake.cookie = WORLD_COOKIE + 1;
		daemon_does.drain_at_wait = drain_at;
		check_flush(drain_at == 0, ABI_LOSS_TIMEOUT);
		ck_assert_uint_eq(daemon_does.sends, 0);
	}
}

static int other_end[2];

static long really_send(int fd, const struct sys_msghdr *message, int flags)
{
	(void)fd;
	daemon_does.sends++;
	long sent = syscall(SYS_sendmsg, other_end[0], message, flags);
	return sent < 0 ? -errno : sent;
}

static void connect_over(int family, int type)
{
	struct sockaddr_storage at = {.ss_family = (sa_family_t)family};
	socklen_t bytes = sizeof(at);
	int peer = socket(family, type, 0);

	other_end[0] = socket(family, type, 0);
	ck_assert_int_eq(bind(peer, (struct sockaddr *)&at,
				 family == AF_INET ? sizeof(struct sockaddr_in)
						   : sizeof(struct sockaddr_in6)),
		0);
	if (type == SOCK_STREAM)
		ck_assert_int_eq(listen(peer, 1), 0);
	ck_assert_int_eq(getsockname(peer, (struct sockaddr *)&at, &bytes), 0);
	ck_assert_int_eq(connect(other_end[0], (struct sockaddr *)&at, bytes), 0);
	other_end[1] = type == SOCK_STREAM ? accept(peer, NULL, NULL) : peer;
	ck_assert_int_ge(other_end[1], 0);
}

static void connect_pair(int family, int type)
{
	if (family == AF_UNIX)
		ck_assert_int_eq(socketpair(family, type, 0, other_end), 0);
	else
		connect_over(family, type);
}

/* The program has just closed the agent's socket, and has a socket of its own with that number. */
HT_TEST(a_socket_that_has_its_number_since_takes_nothing)
{
	static const int kind[][2] = {{AF_UNIX, SOCK_STREAM}, {AF_UNIX, SOCK_DGRAM},
		{AF_INET, SOCK_STREAM}, {AF_INET, SOCK_DGRAM}, {AF_INET6, SOCK_STREAM},
		{AF_INET6, SOCK_DGRAM}};
	char byte;
	for (size_t i = 0; i < HT_ARRAY_SIZE(kind); i++) {
		setup();
		sys_fake.sendmsg = really_send;
		connect_pair(kind[i][0], kind[i][1]);
		check_flush(true, ABI_LOSS_SOCKET);
		ck_assert_uint_eq(daemon_does.sends, 1);
		ck_assert_int_eq(recv(other_end[1], &byte, 1, MSG_DONTWAIT), -1);
		ck_assert_int_eq(send(other_end[0], "x", 1, 0), 1);
		ck_assert_int_eq(recv(other_end[1], &byte, 1, 0), 1);
	}
	setup();
	sys_fake.sendmsg = really_send;
	connect_pair(AF_UNIX, SOCK_SEQPACKET); /* as the agent's socket */
	check_flush(false, 0);
	ck_assert_int_gt(recv(other_end[1], &byte, 1, MSG_DONTWAIT | MSG_TRUNC), 1);
}

HT_TEST(without_system_calls)
{
	for (unsigned drain_at = 0; drain_at < 4; drain_at += 3) {
		for (unsigned i = 0; i < 3; i++) {
			setup();
			if (i == 2)
				world_control->forbidden = ABI_FORBIDDEN_SYSCALL;
			else if (i == 1)
				world_config->socket_fd = -1;
			else
				world_config->flags = ABI_FLAG_NO_SYSCALL | ABI_FLAG_LOSSLESS;
			daemon_does.drain_at_wait = drain_at;
			check_flush(drain_at == 0, ABI_LOSS_TIMEOUT);
			ck_assert_uint_eq(sys_fake.calls, 0);
			ck_assert_uint_le(daemon_does.pauses, drain_at ? drain_at : 101);
		}
	}
}

/* A send that is under way when sending is forbidden is the last one. */
HT_TEST(forbidden_during_a_call)
{
	setup();
	daemon_does.error = -SYS_EAGAIN;
	daemon_does.errors = UINT32_MAX;
	daemon_does.forbid_at_send = 2;
	check_flush(true, ABI_LOSS_TIMEOUT);
	ck_assert_uint_eq(daemon_does.sends, 2);
	ck_assert_uint_eq(sys_fake.calls, 5); /* cookie, send, wait, cookie, send */
	ck_assert_uint_gt(daemon_does.pauses, 0);
}

HT_TEST(forked_child_leaves_the_slot)
{
	for (unsigned i = 0; i < 2; i++) {
		setup();
		world_config->flags = i ? ABI_FLAG_NO_SYSCALL : 0;
		daemon_does.error = -SYS_EAGAIN;
		daemon_does.errors = UINT32_MAX;
		daemon_does.fork_at_wait = 2;
		struct abi_slot_head before = slot->head;
		stream_restart(world_config, slot);
		before.calling = i ? 0 : 1; /* 1 for the parent, which is still in the call */
		ck_assert_mem_eq(&slot->head, &before, sizeof(before));
		ck_assert_uint_le(daemon_does.waits, 3);
	}
}

/* The daemon copies from memory what the buffer holds. */
HT_TEST(no_clock_after_it_was_forbidden)
{
	for (unsigned i = 0; i < 4; i++) {
		setup();
		world_config->flags = i % 2 ? ABI_FLAG_NO_SYSCALL : 0;
		daemon_does.error = -SYS_EAGAIN;
		daemon_does.errors = UINT32_MAX;
		daemon_does.mute_at_wait = 2;
		daemon_does.mute_forbids = i < 2 ? ABI_FORBIDDEN_CLOCK : 0;
		struct abi_slot_head before = slot->head;
		stream_restart(world_config, slot);
		ck_assert_mem_eq(&slot->head, &before, sizeof(before));
		ck_assert_uint_eq(daemon_does.waits, 2);
		ck_assert_uint_eq(sys_fake.tsc, daemon_does.mute_tsc);
		stream_restart(world_config, slot);
		ck_assert_uint_eq(sys_fake.tsc, daemon_does.mute_tsc);
	}
}

HT_SUITE("agent/send")
