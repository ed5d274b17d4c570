/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/capture/bring_in.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "attach/capture/loads.h"
#include "attach/capture/scripts.h"
#include "attach/inject/remote.h"
#include "attach/memory/memory.h"
#include "attach/memory/ours.h"
#include "attach/proc/clock.h"
#include "attach/proc/proc_living.h"
#include "attach/proc/proc_status.h"
#include "attach/process/room.h"
#include "attach/undo/detach.h"
#include "format/arch.h"

#define SEND_BUFFER_BYTES (4 << 20)
#define FD_FLOOR_MAX	  1000
#define LEASE_NS	  (50 * CLOCK_NS_PER_MS) /* twice as long in each further attempt */
#define MAP_ATTEMPTS	  4u
#define LOAD_WAIT_NS	  (100 * CLOCK_NS_PER_MS) /* of a thread that loads a library */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x8u
#endif

/* High, but not so high that the target's descriptor table has to grow: it never shrinks again.
 * Where that cannot be told the kernel takes the lowest that is no standard one. */
static int fd_floor(const struct proc *proc)
{
	uint64_t soft = proc_limit(proc, "Max open files");
	int below = (int)(soft > FD_FLOOR_MAX ? FD_FLOOR_MAX : soft);
	int size = room_descriptor_table(proc);

	if (size < below)
		below = size;
	int unused = room_free_descriptor(proc, below), high = below - below / 8;
	int floor = unused < high ? unused : high;
	return floor > STDERR_FILENO ? floor : STDERR_FILENO + 1;
}

/* Mapping it executable needs no executable file, and since Linux 6.3 the other kind may be
 * forbidden (vm.memfd_noexec). Older kernels refuse the flag. */
static uint32_t memfd_flags(void)
{
	int fd = memfd_create("heaptap", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
	if (fd < 0)
		return 0;
	close(fd);
	return MFD_NOEXEC_SEAL;
}

/* The thread of the last attempt may still be in the stub, undoing: its registers stand there. */
static struct ht_err *clear_slack(struct session *s)
{
	return detach_slack(&s->survey.proc, &s->slack, s->survey.any_seccomp,
		clock_mono_ns() + s->options->detach_deadline_ns);
}

/* Not where an image stays, or may stay, nor where no other thread could do. */
static bool may_try_again(const struct session *s, const struct ht_err *err)
{
	return err->code == HT_ERR_REFUSED && s->remote.tid && s->remote.not_taken &&
	       !s->remote.clock_forbidden;
}

static struct ht_err *hand_to_guardian(void *context, int memfd)
{
	return guardian_hand_image(context, memfd);
}

static struct ht_err *map_image(struct session *s)
{
	const struct remote_heir heir = {hand_to_guardian, &s->guardian};
	struct stub_map map = {
		.image_bytes = abi_image_bytes(ABI_SLOT_MAX), .memfd_flags = memfd_flags()};
	struct ht_err *err = NULL;
	bool written = false;

	memcpy(map.near, s->entries.near, sizeof(map.near));
	map.near_count = s->entries.near_count;
	snprintf(map.name, sizeof(map.name), OURS_FILE "%d", getpid());
	for (unsigned attempt = 0; attempt < MAP_ATTEMPTS; attempt++) {
		ht_err_free(err);
		err = attempt ? clear_slack(s) : NULL;
		if (!err && !s->survey.any_seccomp)
			err = proc_any_seccomp(&s->survey.proc, &s->survey.any_seccomp);
		if (!err)
			err = choose_range(&s->survey.maps, map.image_bytes, attempt, &map.image);
		if (err)
			return err;
		map.fd_floor = fd_floor(&s->survey.proc);
		map.lease_ns = LEASE_NS << attempt;
		err = remote_map(
			&s->survey.proc, &s->slack, &map, s->survey.any_seccomp, &heir, &s->remote);
		written |= s->remote.tid != 0;
		if (!err || !may_try_again(s, err))
			break;
	}
	/* If no thread was stopped, nothing was written; neither the target nor its children need
	 * cleaning. */
	s->slack_written = written;
	if (s->remote.memfd >= 0)
		err = ht_err_first(err, guardian_tell_image(&s->guardian, s->remote.memfd));
	if (err)
		return err;
	s->mapped = true;
	int memfd = fcntl(s->remote.memfd, F_DUPFD_CLOEXEC, 3);
	if (memfd < 0)
		return ht_err_sys(errno, "cannot keep the agent's memory");
	return image_init(&s->image, &s->elf, map.image, ABI_SLOT_MAX, memfd);
}

/* So that `verify` knows the other end, whoever is dead by then. Best effort: it is a help. */
static void name_our_end(const struct session *s)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int length = snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1, "heaptap-agent-%d-%llx",
		s->survey.proc.pid, (unsigned long long)arch_tsc());
	bind(s->remote.daemon_fd, (struct sockaddr *)&addr,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length));
}

struct sockets {
	uint64_t cookie, agent_inode, daemon_inode;
};

static struct ht_err *identify_sockets(const struct session *s, struct sockets *ret)
{
	socklen_t length = sizeof(ret->cookie);
	struct stat agent, daemon;

	if (getsockopt(s->remote.agent_socket, SOL_SOCKET, SO_COOKIE, &ret->cookie, &length) < 0 ||
		fstat(s->remote.agent_socket, &agent) < 0 ||
		fstat(s->remote.daemon_fd, &daemon) < 0)
		return ht_err_sys(errno, "cannot identify the agent's socket");
	ret->agent_inode = agent.st_ino;
	ret->daemon_inode = daemon.st_ino;
	return NULL;
}

static void configure_sockets(struct session *s)
{
	int size = SEND_BUFFER_BYTES;

	/* Both ends are one open file description each, so their options can be set from here. */
	if (setsockopt(s->remote.agent_socket, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) < 0)
		setsockopt(s->remote.agent_socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	close(s->remote.agent_socket);
	s->remote.agent_socket = -1;
	name_our_end(s);
	fcntl(s->remote.daemon_fd, F_SETFL, O_NONBLOCK);
}

/* Which of its threads have their system calls dispatched to the program cannot be seen without
 * stopping each; the program gets them by SIGSYS. */
static bool catches_calls(const struct session *s)
{
	return s->survey.status.sig_cgt >> (SIGSYS - 1) & 1;
}

static struct ht_err *configure(struct session *s)
{
	struct abi_config *config = image_config(&s->image);
	uint64_t alive = 1;
	struct sockets sockets;

	/* A journal that has begun must know them: it is what the way back goes by. */
	struct ht_err *err = identify_sockets(s, &sockets);
	if (!err && s->survey.found.tombstone)
		err = image_adopt(&s->image, &s->survey.proc, s->survey.found.base);
	if (err)
		return err;
	journal_show(&s->journal, s->image.local);
	journal_begin(&s->journal, s->image.base, s->image.bytes, s->image.thunks);
	if (s->entries.near_count)
		journal_set_near(&s->journal, s->entries.near);
	journal_set_slack(
		&s->journal, s->slack.addr, s->slack.left, s->slack.original, s->slack.bytes);
	journal_set_sockets(
		&s->journal, s->remote.agent_fd, sockets.agent_inode, sockets.daemon_inode);
	configure_sockets(s);
	memcpy(config->near, s->entries.near, sizeof(config->near));
	entries_write_bridges(&s->entries, &s->image);
	config->socket_fd = s->remote.agent_fd;
	config->socket_cookie = sockets.cookie;
	config->tid_offset = s->remote.tid_offset;
	config->sample_bytes = s->options->sample_bytes;
	scripts_configure(&s->scripts,
		&(struct scripts_use){.survey = &s->survey,
			.image = &s->image,
			.remote = &s->remote,
			.change = &s->change,
			.publish = s->publish,
			.sink = s->outlet.sink},
		config);
	config->flags = (s->survey.any_seccomp || catches_calls(s) ? ABI_FLAG_NO_SYSCALL : 0) |
			(s->options->lossless ? ABI_FLAG_LOSSLESS : 0) |
			(s->options->full_unwind ? ABI_FLAG_FULL_UNWIND : 0);
	err = publish_snapshot(s->publish, s->image.local, s->image.base, &s->survey.modules,
		&s->survey.maps, false);
	if (err)
		return err;
	/* As it numbers itself: its first thread has its number. */
	bool follows = s->options->child && s->options->child->hold;
	config->follow = follows ? (uint64_t)s->survey.status.ns_tid : 0;
	config->follow_forks = s->options->forks && s->options->forks->is_open(s->options->forks);
	loads_configure(&s->loads, &s->survey, &s->image, times_cycles(&s->times, LOAD_WAIT_NS));
	config->wait_cycles_max = times_cycles(&s->times, s->options->wait_ns);
	return memory_write(&s->survey.proc, s->image.base + ABI_STATE_OFF, &alive, sizeof(alive));
}

struct ht_err *bring_in(struct session *s)
{
	struct ht_err *err = remote_slack_prepare(&s->survey.proc, &s->survey.modules,
		&s->survey.maps, s->entries.near_count, &s->slack);
	if (!err)
		err = guardian_tell_slack(&s->guardian, &s->slack);
	if (err)
		return err;
	s->slack_written = true;
	err = map_image(s);
	if (!err)
		err = configure(s);
	if (err)
		return err;
	s->report->stop_ns = s->remote.stop_ns;
	struct receiver_options receiver = {.image = s->image.local,
		.image_bytes = s->image.bytes,
		.slot_max = s->image.slot_max,
		.socket_fd = s->remote.daemon_fd,
		.sink = s->outlet.sink,
		.node_seen = s->scripts.names ? scripts_see : NULL,
		.context = &s->scripts};
	err = receiver_create(&receiver, &s->receiver);
	if (err)
		return err;
	return watch_create(
		&(struct watch_options){
			.survey = &s->survey, .receiver = s->receiver, .sink = s->outlet.sink},
		&s->watch);
}
