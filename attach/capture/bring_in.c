/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/capture/bring_in.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "attach/stub/remote.h"
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
#define LOAD_WAIT_NS	  (100 * CLOCK_NS_PER_MS) /* longest, of a thread that loads a library */

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x8u
#endif

/* A high number, but not so high that the target's descriptor table must grow, since a table
 * never shrinks. If the table's size is unknown, the number is the lowest free one above
 * standard error. */
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

/* The memfd is mapped executable, which needs no executable file, and since Linux 6.3 executable
 * memfds may be forbidden (vm.memfd_noexec). Older kernels refuse MFD_NOEXEC_SEAL. */
static uint32_t memfd_flags(void)
{
	int fd = memfd_create("heaptap", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
	if (fd < 0)
		return 0;
	close(fd);
	return MFD_NOEXEC_SEAL;
}

/* Waits until the thread of the last attempt has left the stub, where it may still undo its calls;
 * the stub's memory holds the thread's registers. */
static struct ht_err *clear_slack(const struct bring_in_use *use, struct inside *inside)
{
	return detach_slack(&use->survey->proc, &inside->slack, use->survey->any_seccomp,
		clock_mono_ns() + use->options->detach_deadline_ns);
}

/* No second attempt if an image stays or may stay in the target, or if no other thread could do
 * better. */
static bool may_try_again(const struct inside *inside, const struct ht_err *err)
{
	return err->code == HT_ERR_REFUSED && inside->remote.tid && inside->remote.not_taken &&
	       !inside->remote.clock_forbidden;
}

static struct ht_err *hand_to_guardian(void *context, int memfd)
{
	return guardian_hand_image(context, memfd);
}

static struct ht_err *map_image(const struct bring_in_use *use, struct inside *inside)
{
	const struct remote_heir heir = {hand_to_guardian, use->guardian};
	struct stub_map map = {
		.image_bytes = abi_image_bytes(ABI_SLOT_MAX), .memfd_flags = memfd_flags()};
	struct ht_err *err = NULL;
	bool written = false;

	memcpy(map.near, use->entries->near, sizeof(map.near));
	map.near_count = use->entries->near_count;
	snprintf(map.name, sizeof(map.name), OURS_FILE "%d", getpid());
	for (unsigned attempt = 0; attempt < MAP_ATTEMPTS; attempt++) {
		ht_err_free(err);
		err = attempt ? clear_slack(use, inside) : NULL;
		if (!err && !use->survey->any_seccomp)
			err = proc_any_seccomp(&use->survey->proc, &use->survey->any_seccomp);
		HT_THEN(err,
			choose_range(&use->survey->maps, map.image_bytes, attempt, &map.image));
		if (err)
			return err;
		map.fd_floor = fd_floor(&use->survey->proc);
		map.lease_ns = LEASE_NS << attempt;
		err = remote_map(&use->survey->proc, &inside->slack, &map, use->survey->any_seccomp,
			&heir, &inside->remote);
		written |= inside->remote.tid != 0;
		if (!err || !may_try_again(inside, err))
			break;
	}
	/* If no thread was stopped, nothing was written; neither the target nor its children need
	 * cleaning. */
	inside->slack_written = written;
	if (inside->remote.memfd >= 0)
		err = ht_err_first(err, guardian_tell_image(use->guardian, inside->remote.memfd));
	if (err)
		return err;
	inside->mapped = true;
	int memfd = fcntl(inside->remote.memfd, F_DUPFD_CLOEXEC, 3);
	if (memfd < 0)
		return ht_err_sys(errno, "cannot keep the agent's memory");
	return image_init(&inside->image, use->elf, map.image, ABI_SLOT_MAX, memfd);
}

/* Names heaptap's end of the socket, so that `verify` recognizes the target's end when heaptap is
 * dead. Best effort. */
static void name_our_end(const struct proc *proc, int fd)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int length = snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1, "heaptap-agent-%d-%llx",
		proc->pid, (unsigned long long)arch_tsc());
	bind(fd, (struct sockaddr *)&addr,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length));
}

struct sockets {
	uint64_t cookie, agent_inode, daemon_inode;
};

static struct ht_err *identify_sockets(const struct remote_image *remote, struct sockets *ret)
{
	socklen_t length = sizeof(ret->cookie);
	struct stat agent, daemon;

	if (getsockopt(remote->agent_socket, SOL_SOCKET, SO_COOKIE, &ret->cookie, &length) < 0 ||
		fstat(remote->agent_socket, &agent) < 0 || fstat(remote->daemon_fd, &daemon) < 0)
		return ht_err_sys(errno, "cannot identify the agent's socket");
	ret->agent_inode = agent.st_ino;
	ret->daemon_inode = daemon.st_ino;
	return NULL;
}

static void configure_sockets(const struct proc *proc, struct remote_image *remote)
{
	int size = SEND_BUFFER_BYTES;

	/* The target and heaptap share each end's open file description, so the options can be set
	 * here. */
	if (setsockopt(remote->agent_socket, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) < 0)
		setsockopt(remote->agent_socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	close(remote->agent_socket);
	remote->agent_socket = -1;
	name_our_end(proc, remote->daemon_fd);
	fcntl(remote->daemon_fd, F_SETFL, O_NONBLOCK);
}

/* heaptap cannot see, without stopping every thread, which threads have their system calls
 * dispatched to the program (Syscall User Dispatch). A program that uses it catches SIGSYS. */
static bool catches_calls(const struct survey *survey)
{
	return survey->status.sig_cgt >> (SIGSYS - 1) & 1;
}

static struct ht_err *configure(const struct bring_in_use *use, struct inside *inside)
{
	struct abi_config *config = image_config(&inside->image);
	uint64_t alive = 1;
	struct sockets sockets;

	/* The journal must name the sockets from its beginning: undo goes by the journal. */
	struct ht_err *err = identify_sockets(&inside->remote, &sockets);
	if (!err && use->survey->found.tombstone)
		err = image_adopt(&inside->image, &use->survey->proc, use->survey->found.base);
	if (err)
		return err;
	journal_show(use->journal, inside->image.local);
	journal_begin(use->journal, inside->image.base, inside->image.bytes, inside->image.thunks);
	if (use->entries->near_count)
		journal_set_near(use->journal, use->entries->near);
	journal_set_slack(use->journal, inside->slack.addr, inside->slack.left,
		inside->slack.original, inside->slack.bytes);
	journal_set_sockets(
		use->journal, inside->remote.agent_fd, sockets.agent_inode, sockets.daemon_inode);
	configure_sockets(&use->survey->proc, &inside->remote);
	memcpy(config->near, use->entries->near, sizeof(config->near));
	entries_write_bridges(use->entries, &inside->image);
	config->socket_fd = inside->remote.agent_fd;
	config->socket_cookie = sockets.cookie;
	config->tid_offset = inside->remote.tid_offset;
	config->sample_bytes = use->options->sample_bytes;
	scripts_configure(use->scripts,
		(struct interpreted_use){.survey = use->survey,
			.image = &inside->image,
			.remote = &inside->remote,
			.is_gone = &use->change->is_gone,
			.publish = use->publish,
			.sink = use->sink},
		config);
	config->flags =
		(use->survey->any_seccomp || catches_calls(use->survey) ? ABI_FLAG_NO_SYSCALL : 0) |
		(use->options->lossless ? ABI_FLAG_LOSSLESS : 0) |
		(use->options->full_unwind ? ABI_FLAG_FULL_UNWIND : 0);
	HT_TRY(publish_snapshot(use->publish, inside->image.local, inside->image.base,
		&use->survey->modules, &use->survey->maps, false));
	/* The number in the target's own pid namespace: its first thread has that number. */
	bool follows = use->options->child && use->options->child->hold;
	config->follow = follows ? (uint64_t)use->survey->status.ns_tid : 0;
	config->follow_forks =
		use->options->forks && use->options->forks->is_open(use->options->forks);
	loads_configure(
		use->loads, use->survey, &inside->image, times_cycles(use->times, LOAD_WAIT_NS));
	config->wait_cycles_max = times_cycles(use->times, use->options->wait_ns);
	return memory_write(
		&use->survey->proc, inside->image.base + ABI_STATE_OFF, &alive, sizeof(alive));
}

struct ht_err *bring_in(const struct bring_in_use *use, struct inside *inside)
{
	HT_TRY(remote_slack_prepare(&use->survey->proc, &use->survey->modules, &use->survey->maps,
		use->entries->near_count, &inside->slack));
	HT_TRY(guardian_tell_slack(use->guardian, &inside->slack));
	inside->slack_written = true;
	HT_TRY(map_image(use, inside));
	HT_TRY(configure(use, inside));
	struct receiver_options receiver = {.image = inside->image.local,
		.image_bytes = inside->image.bytes,
		.slot_max = inside->image.slot_max,
		.socket_fd = inside->remote.daemon_fd,
		.sink = use->sink,
		.node_seen = use->scripts->names ? scripts_see : NULL,
		.context = use->scripts};
	HT_TRY(receiver_create(&receiver, &inside->receiver));
	return watch_create(
		&(struct watch_options){
			.survey = use->survey, .receiver = inside->receiver, .sink = use->sink},
		&inside->watch);
}
