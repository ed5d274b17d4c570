/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/bring_in.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <x86intrin.h>

#include "attach/inject/detach.h"
#include "attach/inject/remote.h"
#include "attach/target/clock.h"

#define SEND_BUFFER_BYTES (4 << 20)
#define FD_FLOOR_MAX	  1000
#define LEASE_NS	  (50 * CLOCK_NS_PER_MS) /* twice as long in each further attempt */
#define MAP_ATTEMPTS	  4u
#define TID_OFFSET_GLIBC  720u /* struct pthread.tid, glibc 2.4 and later on x86-64 */

#ifndef MFD_EXEC
#define MFD_EXEC 0x10u
#endif

/* High, but not so high that the target's descriptor table has to grow. */
static int fd_floor(const struct proc *proc)
{
	uint64_t soft = proc_limit(proc, "Max open files");
	if (soft > FD_FLOOR_MAX)
		soft = FD_FLOOR_MAX;
	return (int)(soft - soft / 8);
}

uint64_t bring_in_cycles(const struct session *s, uint64_t ns)
{
	double spent_ns = (double)(clock_mono_ns() - s->start_ns);
	double spent_cycles = (double)(__rdtsc() - s->start_tsc);
	return (uint64_t)((double)ns * spent_cycles / spent_ns);
}

/* The thread of the last attempt may still be in the stub, undoing: its registers stand there. */
static struct ht_err *clear_slack(struct session *s)
{
	return detach_slack(&s->survey.proc, &s->slack, s->survey.any_seccomp,
		clock_mono_ns() + s->options->detach_deadline_ns);
}

static struct ht_err *map_image(struct session *s)
{
	struct stub_map map = {.image_bytes = abi_image_bytes(ABI_SLOT_MAX),
		.fd_floor = fd_floor(&s->survey.proc),
		.memfd_flags = MFD_EXEC};
	struct ht_err *err = NULL;

	snprintf(map.name, sizeof(map.name), "heaptap-%d", getpid());
	for (unsigned attempt = 0; attempt < MAP_ATTEMPTS; attempt++) {
		ht_err_free(err);
		err = attempt ? clear_slack(s) : NULL;
		if (!err)
			err = choose_range(&s->survey.maps, map.image_bytes, attempt, &map.image);
		if (err)
			return err;
		map.lease_cycles = bring_in_cycles(s, LEASE_NS << attempt);
		err = remote_map(
			&s->survey.proc, &s->slack, &map, s->survey.any_seccomp, &s->remote);
		if (!err || err->code != HT_ERR_REFUSED)
			break;
	}
	if (err)
		return err;
	s->mapped = true;
	return image_init(&s->image, &s->elf, map.image, ABI_SLOT_MAX, s->remote.memfd);
}

static struct ht_err *configure_socket(struct session *s, struct abi_config *config)
{
	int size = SEND_BUFFER_BYTES;
	socklen_t length = sizeof(config->socket_cookie);
	struct stat stat;

	/* Both ends are one open file description each, so their options can be set from here. */
	if (setsockopt(s->remote.agent_socket, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) < 0)
		setsockopt(s->remote.agent_socket, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	if (getsockopt(s->remote.agent_socket, SOL_SOCKET, SO_COOKIE, &config->socket_cookie,
		    &length) < 0 ||
		fstat(s->remote.agent_socket, &stat) < 0)
		return ht_err_sys(errno, "cannot identify the agent's socket");
	config->socket_fd = s->remote.agent_fd;
	s->journal.header->agent_fd = s->remote.agent_fd;
	s->journal.header->agent_fd_inode = stat.st_ino;
	close(s->remote.agent_socket);
	s->remote.agent_socket = -1;
	fcntl(s->remote.daemon_fd, F_SETFL, O_NONBLOCK);
	return NULL;
}

/* Where a thread's control block holds its tid: found by looking for a tid that we know. */
static uint32_t find_tid_offset(const struct session *s)
{
	uint32_t block[1024];
	uint32_t found = 0, count = 0;
	size_t got = 0;
	struct proc_status status;
	struct ht_err *err = proc_status(&s->survey.proc, s->remote.tid, &status);

	if (!err)
		err = memory_read_some(
			&s->survey.proc, s->remote.thread_pointer, block, sizeof(block), &got);
	ht_err_free(err);
	if (err)
		return 0;
	for (uint32_t i = 0; i < got / sizeof(block[0]); i++) {
		if (block[i] != (uint32_t)status.ns_tid)
			continue;
		if (i * sizeof(block[0]) == TID_OFFSET_GLIBC)
			return TID_OFFSET_GLIBC;
		found = i * (uint32_t)sizeof(block[0]);
		count++;
	}
	return count == 1 ? found : 0;
}

static struct ht_err *configure(struct session *s)
{
	struct abi_config *config = image_config(&s->image);
	uint64_t alive = 1;

	s->journal = journal_of(s->image.local);
	if (s->survey.found.tombstone) {
		struct ht_err *refused =
			image_adopt(&s->image, &s->survey.proc, s->survey.found.base);
		if (refused)
			return refused;
	}
	journal_begin(&s->journal, s->image.base, s->image.bytes, s->image.thunks);
	s->journal.header->slack = s->slack.addr;
	s->journal.header->slack_bytes = (uint32_t)s->slack.bytes;
	memcpy(s->journal.header->slack_original, s->slack.original, sizeof(s->slack.original));
	struct ht_err *err = configure_socket(s, config);
	if (err)
		return err;
	config->tid_offset = find_tid_offset(s);
	config->flags = (s->survey.any_seccomp ? ABI_FLAG_NO_SYSCALL : 0) |
			(s->options->lossless ? ABI_FLAG_LOSSLESS : 0) |
			(s->options->full_unwind ? ABI_FLAG_FULL_UNWIND : 0);
	err = publish_snapshot(s->publish, s->image.local, s->image.base, &s->survey.modules,
		&s->survey.maps, false);
	if (err)
		return err;
	config->wait_cycles_max = bring_in_cycles(s, s->options->wait_ns);
	return memory_write(&s->survey.proc, s->image.base + ABI_STATE_OFF, &alive, sizeof(alive));
}

struct ht_err *bring_in(struct session *s)
{
	struct ht_err *err = remote_slack_prepare(
		&s->survey.proc, &s->survey.modules, &s->survey.maps, &s->slack);
	if (!err)
		err = guardian_tell_slack(&s->guardian, &s->slack);
	if (err)
		return err;
	s->slack_written = true;
	err = map_image(s);
	if (!err)
		err = guardian_tell_image(&s->guardian, s->image.memfd);
	if (!err)
		err = configure(s);
	if (err)
		return err;
	s->report->stop_ns = s->remote.stop_ns;
	struct receiver_options receiver = {.image = s->image.local,
		.image_bytes = s->image.bytes,
		.slot_max = s->image.slot_max,
		.socket_fd = s->remote.daemon_fd,
		.sink = s->sink};
	err = receiver_create(&receiver, &s->receiver);
	if (err)
		return err;
	return watch_create(
		&(struct watch_options){
			.survey = &s->survey, .receiver = s->receiver, .sink = s->sink},
		&s->watch);
}
