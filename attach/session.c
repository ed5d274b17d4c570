/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/session.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <x86intrin.h>

#include "attach/daemon/receiver.h"
#include "attach/guardian.h"
#include "attach/inject/remote.h"
#include "attach/survey.h"
#include "attach/symbols.h"
#include "attach/tap.h"
#include "attach/target/clock.h"
#include "attach/unwind/publish.h"
#include "attach/watch.h"

#define TICK_MS		  5
#define SEND_BUFFER_BYTES (4 << 20)
#define FD_FLOOR_MAX	  1000
#define LEASE_NS	  (50 * CLOCK_NS_PER_MS)
#define MAP_ATTEMPTS	  4u
#define TID_OFFSET_GLIBC  720u /* struct pthread.tid, glibc 2.4 and later on x86-64 */

#ifndef MFD_EXEC
#define MFD_EXEC 0x10u
#endif

struct session {
	const struct session_options *options;
	struct session_report *report;
	struct survey survey;
	struct agent_elf elf;
	struct publish *publish;
	struct residue *residue;
	struct sink *sink;
	struct guardian guardian;
	int lock_fd, signal_fd;
	struct remote_slack slack;
	bool slack_written;
	struct remote_image remote;
	bool mapped; /* the target has the image */
	struct image image;
	struct journal journal;
	struct receiver *receiver;
	struct watch *watch;
	struct tap tap;
	uint64_t start_ns, start_tsc, first_tap_ns;
	uint64_t end_ns, end_tsc; /* of the window: when the last slot was restored */
	uint64_t modules_put; /* highest module id in the trace */
	bool target_gone;
};

static HT_PRINTF(2, 3) void progress(const struct session *s, const char *fmt, ...)
{
	char line[256];
	va_list args;

	if (!s->options->progress)
		return;
	va_start(args, fmt);
	vsnprintf(line, sizeof(line), fmt, args);
	va_end(args);
	s->options->progress(line);
}

/* --- before anything is touched
 * ------------------------------------------------------------------------- */

/* One capture per process on this machine: a name that the kernel frees when we die. */
static struct ht_err *take_lock(struct session *s)
{
	struct sockaddr_un addr = {.sun_family = AF_UNIX};
	int length = snprintf(addr.sun_path + 1, sizeof(addr.sun_path) - 1, "heaptap-%d-%lu",
		s->options->pid, (unsigned long)s->survey.proc.start_ticks);
	s->lock_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (s->lock_fd < 0)
		return ht_err_sys(errno, "cannot make a socket");
	if (bind(s->lock_fd, (struct sockaddr *)&addr,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) == 0)
		return NULL;
	return ht_err_new(HT_ERR_REFUSED, "process %d is already being captured by another heaptap",
		s->options->pid);
}

static struct ht_err *open_signals(struct session *s)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	s->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return s->signal_fd < 0 ? ht_err_sys(errno, "cannot make a signalfd") : NULL;
}

static struct rec_string text_of(const char *text)
{
	return (struct rec_string){text, strlen(text)};
}

static struct ht_err *put_target(struct session *s)
{
	struct utsname kernel;
	char *exe = NULL;
	struct ht_err *err = proc_link(&s->survey.proc, "exe", &exe);
	ht_err_free(err);
	if (uname(&kernel) < 0)
		strcpy(kernel.release, "?");
	struct rec rec = {.kind = REC_TARGET};
	rec.target = (struct rec_target){
		.pid = (uint64_t)s->survey.proc.pid,
		.uid = s->survey.status.ruid,
		.start_ticks = s->survey.proc.start_ticks,
		.comm = text_of(s->survey.status.comm),
		.exe = text_of(exe ? exe : ""),
		.kernel = text_of(kernel.release),
		.heaptap_version = text_of(HEAPTAP_VERSION),
	};
	err = sink_put(s->sink, &rec, 0);
	free(exe);
	return err;
}

static struct ht_err *put_capture(struct session *s)
{
	struct rec rec = {.kind = REC_CAPTURE};
	rec.capture = (struct rec_capture){
		.start_unix_ns = clock_read_ns(CLOCK_REALTIME),
		.start_mono_ns = clock_mono_ns(),
		.start_tsc = __rdtsc(),
		.slots_tapped = s->survey.tap_count,
		.modules = s->survey.modules.count,
		.memory_total_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * HT_PAGE_BYTES,
	};
	return sink_put(s->sink, &rec, 0);
}

static struct ht_err *put_module(struct session *s, const struct module *module, bool late)
{
	struct rec rec = {.kind = REC_MODULE};
	rec.module = (struct rec_module){
		.id = module->id,
		.epoch = publish_epoch(s->publish),
		.bias = module->bias,
		.lo = module->lo,
		.hi = module->hi,
		.path = text_of(module->path),
		.build_id = {(const char *)module->build_id, module->build_id_bytes},
		.flags = (module->executable ? REC_MODULE_EXECUTABLE : 0) |
			 (late ? REC_MODULE_UNTAPPED : 0),
		.segment_count = module->segment_count,
	};
	for (size_t i = 0; i < module->segment_count; i++) {
		const struct module_segment *from = &module->segment[i];
		rec.module.segment[i] =
			(struct rec_segment){from->vaddr, from->memsz, from->offset, from->flags};
	}
	return sink_put(s->sink, &rec, 0);
}

/* Puts the modules that the trace does not have yet. Ids ascend in order of discovery. */
static struct ht_err *put_new_modules(struct session *s, bool late)
{
	uint64_t highest = s->modules_put;
	for (size_t i = 0; i < s->survey.modules.count; i++) {
		const struct module *module = &s->survey.modules.module[i];
		if (module->id <= s->modules_put)
			continue;
		struct ht_err *err = put_module(s, module, late);
		if (err)
			return err;
		highest = module->id > highest ? module->id : highest;
		s->report->untapped_modules += late;
	}
	s->modules_put = highest;
	return NULL;
}

static struct ht_err *prepare(struct session *s)
{
	struct ht_err *err = agent_elf_read(&s->elf);
	if (!err)
		err = survey_take(s->options->pid, &s->survey);
	if (err)
		return err;
	memcpy(s->report->comm, s->survey.status.comm, sizeof(s->report->comm));
	err = take_lock(s);
	if (!err)
		err = open_signals(s);
	if (!err)
		err = publish_create(&s->publish);
	if (!err)
		err = publish_compile(s->publish, &s->survey.proc, &s->survey.modules);
	if (!err)
		err = residue_create(&s->survey.proc, &s->survey.modules, &s->residue);
	if (!err)
		err = sink_create(&(struct sink_options){.path = s->options->output,
					  .replace = s->options->replace},
			&s->sink);
	if (!err)
		err = guardian_start(&s->survey.proc, &s->guardian);
	return err;
}

/* --- bringing the agent in
 * -------------------------------------------------------------------------------- */

/* High, but not so high that the target's descriptor table has to grow. */
static int fd_floor(const struct proc *proc)
{
	char *limits = NULL;
	unsigned long soft = 1024;
	struct ht_err *err = proc_text(proc, "limits", &limits);

	ht_err_free(err);
	const char *line = limits ? strstr(limits, "Max open files") : NULL;
	if (line && sscanf(line + strlen("Max open files"), "%lu", &soft) != 1)
		soft = FD_FLOOR_MAX;
	free(limits);
	if (soft > FD_FLOOR_MAX)
		return FD_FLOOR_MAX - FD_FLOOR_MAX / 8;
	return (int)(soft - soft / 8);
}

/* Cycles of the time stamp counter in `ns`, by what has passed since the session's start. */
static uint64_t cycles_of(const struct session *s, uint64_t ns)
{
	double spent_ns = (double)(clock_mono_ns() - s->start_ns);
	double spent_cycles = (double)(__rdtsc() - s->start_tsc);
	return (uint64_t)((double)ns * spent_cycles / spent_ns);
}

static struct ht_err *map_image(struct session *s)
{
	struct stub_map map = {.image_bytes = abi_image_bytes(ABI_SLOT_MAX),
		.fd_floor = fd_floor(&s->survey.proc),
		.lease_cycles = cycles_of(s, LEASE_NS),
		.memfd_flags = MFD_EXEC};
	struct ht_err *err = NULL;

	snprintf(map.name, sizeof(map.name), "heaptap-%d", getpid());
	for (unsigned attempt = 0; attempt < MAP_ATTEMPTS; attempt++) {
		ht_err_free(err);
		err = choose_range(&s->survey.maps, map.image_bytes, attempt, &map.image);
		if (err)
			return err;
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
	config->wait_cycles_max = cycles_of(s, s->options->wait_ns);
	return memory_write(&s->survey.proc, s->image.base + ABI_STATE_OFF, &alive, sizeof(alive));
}

static struct ht_err *bring_in(struct session *s)
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

static struct ht_err *tap(struct session *s)
{
	s->tap = (struct tap){
		.survey = &s->survey, .elf = &s->elf, .image = &s->image, .journal = &s->journal};
	struct ht_err *err = put_target(s);
	if (!err)
		err = put_capture(s);
	if (!err)
		err = put_new_modules(s, false);
	if (err)
		return err;
	s->first_tap_ns = clock_mono_ns();
	journal_set_phase(&s->journal, JOURNAL_TAPPED);
	err = tap_slots(&s->tap);
	if (!err && s->tap.tapped == 0)
		err = ht_err_new(
			HT_ERR_REFUSED, "no slot of process %d could be tapped", s->options->pid);
	return err;
}

/* --- the window
 * -----------------------------------------------------------------------------------------------
 */

static struct ht_err *put_gone_modules(
	struct session *s, const uint64_t *old_id, size_t old_count, bool *ret_any)
{
	*ret_any = false;
	for (size_t i = 0; i < old_count; i++) {
		bool there = false;
		for (size_t m = 0; m < s->survey.modules.count && !there; m++)
			there = s->survey.modules.module[m].id == old_id[i];
		if (there)
			continue;
		*ret_any = true;
		struct rec rec = {.kind = REC_MODULE_GONE};
		rec.module_gone = (struct rec_module_gone){
			.id = old_id[i], .epoch = (uint64_t)publish_epoch(s->publish) + 1};
		struct ht_err *err = sink_put(s->sink, &rec, 0);
		if (err)
			return err;
	}
	return NULL;
}

/* Libraries came or went: look again, publish their tables, tap what is new. */
static struct ht_err *follow_modules(struct session *s)
{
	size_t old_count = s->survey.modules.count;
	uint64_t *old_id = calloc(old_count + 1, sizeof(*old_id));
	bool gone = false;
	if (!old_id)
		return ht_err_new(HT_ERR_NOMEM, "no memory for %zu modules", old_count);
	for (size_t i = 0; i < old_count; i++)
		old_id[i] = s->survey.modules.module[i].id;
	struct ht_err *err =
		survey_refresh(&s->survey, s->image.thunks, s->image.thunks + HT_PAGE_BYTES);
	if (!err)
		err = publish_compile(s->publish, &s->survey.proc, &s->survey.modules);
	if (!err)
		err = put_gone_modules(s, old_id, old_count, &gone);
	if (!err) {
		err = publish_snapshot(s->publish, s->image.local, s->image.base,
			&s->survey.modules, &s->survey.maps, gone);
		/* A full tables area costs stacks, not the capture. */
		if (err && err->code == HT_ERR_REFUSED) {
			ht_err_free(err);
			err = NULL;
		}
	}
	if (!err)
		err = put_new_modules(s, true);
	if (!err)
		err = tap_slots(&s->tap);
	free(old_id);
	return err;
}

static struct ht_err *tick(struct session *s)
{
	uint64_t now = clock_mono_ns();
	bool changed = false;
	struct ht_err *err = watch_modules(s->watch, now, &changed);

	if (!err && changed)
		err = follow_modules(s);
	if (!err)
		err = watch_threads(s->watch, now);
	if (!err)
		err = watch_memory(s->watch, now);
	if (!err)
		err = receiver_drain(s->receiver);
	if (!err)
		err = sink_tick(s->sink, now);
	return err;
}

enum turn { TURN_GO_ON, TURN_END };

static enum turn judge_turn(
	struct session *s, uint64_t end_ns, bool signalled, enum rec_end_reason *ret)
{
	enum proc_change change = proc_changed(&s->survey.proc);

	if (change != PROC_SAME) {
		*ret = change == PROC_EXITED ? REC_END_TARGET_EXIT : REC_END_TARGET_EXEC;
		s->target_gone = true;
	} else if (signalled) {
		*ret = REC_END_SIGNAL;
	} else if (end_ns && clock_mono_ns() >= end_ns) {
		*ret = REC_END_DURATION;
	} else if (sink_state(s->sink) != SINK_OK) {
		*ret = sink_state(s->sink) == SINK_FULL ? REC_END_DISK_FULL : REC_END_ERROR;
	} else {
		return TURN_GO_ON;
	}
	return TURN_END;
}

static bool take_signal(const struct session *s)
{
	struct signalfd_siginfo info;
	return read(s->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info);
}

static struct ht_err *run_window(struct session *s)
{
	uint64_t end_ns = s->options->duration_ns ? s->first_tap_ns + s->options->duration_ns : 0;
	uint64_t next_tick_ns = 0;
	struct ht_err *err = NULL;

	for (;;) {
		struct pollfd wait[] = {{.fd = receiver_socket(s->receiver), .events = POLLIN},
			{.fd = s->survey.proc.pidfd, .events = POLLIN},
			{.fd = s->signal_fd, .events = POLLIN}};
		poll(wait, HT_ARRAY_SIZE(wait), TICK_MS);
		if (wait[0].revents & POLLIN)
			err = receiver_read_socket(s->receiver);
		if (err)
			break;
		bool signalled = take_signal(s);
		uint64_t now = clock_mono_ns();
		if (now < next_tick_ns && !signalled && !(wait[1].revents & POLLIN))
			continue;
		next_tick_ns = now + TICK_MS * CLOCK_NS_PER_MS;
		if (judge_turn(s, end_ns, signalled, &s->report->ended) == TURN_END)
			break;
		err = tick(s);
		if (err && err->code == HT_ERR_TARGET_GONE) {
			ht_err_free(err);
			err = NULL;
		}
		if (err)
			break;
	}
	return err;
}

/* --- taking it out
 * ---------------------------------------------------------------------------------------------- */

static void pump(void *context)
{
	struct session *s = context;
	struct ht_err *err = receiver_read_socket(s->receiver);
	if (!err)
		err = receiver_drain(s->receiver);
	ht_err_free(err);
}

static bool target_gone(struct session *s, struct ht_err **err)
{
	if (!*err || proc_changed(&s->survey.proc) == PROC_SAME)
		return false;
	ht_err_free(*err);
	*err = NULL;
	s->target_gone = true;
	return true;
}

static struct ht_err *take_out(struct session *s)
{
	struct session_report *report = s->report;
	struct detach detach = {.proc = &s->survey.proc,
		.image = &s->image,
		.journal = s->journal,
		.suspend_seccomp = s->survey.any_seccomp,
		.deadline_mono_ns = clock_mono_ns() + s->options->detach_deadline_ns,
		.pump = s->receiver ? pump : NULL,
		.context = s};
	struct detach_report result = {0};
	uint64_t start = clock_mono_ns();

	struct ht_err *err = detach_untap(&detach, &result);
	s->end_ns = clock_mono_ns();
	s->end_tsc = __rdtsc();
	report->capture_ns = s->end_ns - s->first_tap_ns;
	if (!err)
		err = detach_unmap(&detach, &result);
	if (target_gone(s, &err))
		return NULL;
	report->detach_ns = clock_mono_ns() - start;
	if (err)
		return err;
	report->detached = true;
	report->level = result.level;
	memcpy(report->why, result.why, sizeof(report->why));
	report->slots_tapped = result.patch.tapped;
	report->slots_restored = result.patch.restored;
	if (result.stop_max_ns > report->stop_ns)
		report->stop_ns = result.stop_max_ns;
	s->mapped = result.level == DETACH_INCOMPLETE;
	err = residue_compare(s->residue, &s->survey.proc, &s->journal,
		result.level == DETACH_TOMBSTONE, &report->verify);
	if (target_gone(s, &err))
		report->detached = false;
	return err;
}

/* --- the end of the trace
 * --------------------------------------------------------------------------------------- */

static void fill_totals(struct session *s)
{
	struct receiver_totals totals = receiver_totals(s->receiver);
	struct session_report *report = s->report;

	report->events = totals.events;
	report->nested_events = totals.nested;
	report->threads = totals.threads;
	report->dropped_events = sink_dropped_events(s->sink);
	for (size_t i = 0; i < ABI_LOSS_COUNT; i++)
		report->dropped_events += totals.lost[i];
	for (size_t i = 0; i < ABI_TRUNC_COUNT; i++)
		report->truncated_stacks += totals.trunc[i];
}

static struct ht_err *put_counter(struct session *s, enum rec_counter counter, uint64_t total)
{
	struct rec rec = {.kind = REC_LOSS};
	rec.loss = (struct rec_loss){.counter = counter, .total = total};
	return sink_put(s->sink, &rec, 0);
}

static struct ht_err *finish_trace(struct session *s)
{
	struct session_report *report = s->report;
	struct rec end = {.kind = REC_END};

	struct ht_err *err = receiver_drain_last(s->receiver);
	if (!err)
		err = receiver_put_totals(s->receiver);
	if (!err)
		err = put_counter(s, REC_COUNTER_UNTAPPED, report->untapped_modules);
	fill_totals(s);
	if (s->end_ns == 0) {
		s->end_ns = clock_mono_ns();
		s->end_tsc = __rdtsc();
		report->capture_ns = s->end_ns - s->first_tap_ns;
	}
	end.end = (struct rec_end){
		.reason = report->ended, .mono_ns = s->end_ns, .tsc = s->end_tsc};
	if (!err)
		err = sink_put(s->sink, &end, 0);
	if (!err && s->options->symbolize && sink_state(s->sink) == SINK_OK) {
		progress(s, "looking up names");
		err = symbols_append(s->sink, s->survey.status.ruid, s->survey.status.rgid,
			report->symbols_problem, sizeof(report->symbols_problem));
	}
	if (!err)
		err = sink_finish(s->sink);
	report->sink_state = sink_state(s->sink);
	if (sink_problem(s->sink))
		snprintf(report->sink_problem, sizeof(report->sink_problem), "%s",
			sink_problem(s->sink));
	report->trace_bytes = sink_bytes(s->sink);
	return err;
}

/* --- the whole
 * ----------------------------------------------------------------------------------------------------
 */

static void release(struct session *s)
{
	watch_destroy(s->watch);
	receiver_destroy(s->receiver);
	if (s->mapped || s->image.local) {
		close(s->remote.daemon_fd);
		if (s->remote.agent_socket >= 0)
			close(s->remote.agent_socket);
	}
	image_deinit(&s->image);
	/* What is still mapped is the guardian's business only if we could not say what it is. */
	guardian_dismiss(&s->guardian);
	sink_destroy(s->sink);
	residue_destroy(s->residue);
	publish_destroy(s->publish);
	if (s->signal_fd >= 0)
		close(s->signal_fd);
	if (s->lock_fd >= 0)
		close(s->lock_fd);
	survey_deinit(&s->survey);
}

/* After a failed attach: nothing may be left. */
static struct ht_err *roll_back(struct session *s)
{
	if (!s->slack_written || s->target_gone)
		return NULL;
	if (s->image.local && s->journal.header)
		return take_out(s);
	struct recover_report report;
	struct ht_err *err = recover_run(&s->survey.proc, -1, &s->slack, &report);
	if (err || report.outcome != RECOVER_NOTHING)
		return err;
	return detach_slack(
		&s->survey.proc, &s->slack, clock_mono_ns() + s->options->detach_deadline_ns);
}

static struct ht_err *capture(struct session *s)
{
	struct ht_err *err = prepare(s);
	if (err)
		return err;
	progress(s, "attaching to %d (%s): %zu slots in %zu modules", s->options->pid,
		s->report->comm, s->survey.tap_count, s->survey.modules.count);
	err = bring_in(s);
	if (!err)
		err = tap(s);
	s->report->attach_ns = clock_mono_ns() - s->start_ns;
	if (err)
		return ht_err_first(err, roll_back(s));
	progress(s, "capturing%s", s->options->duration_ns ? "" : " until Ctrl-C");
	struct ht_err *window = run_window(s);
	if (window)
		s->report->ended = REC_END_ERROR;
	progress(s, "detaching");
	err = s->target_gone ? NULL : take_out(s);
	s->report->slots_foreign = s->survey.foreign_count;
	err = ht_err_first(window, err);
	return ht_err_first(err, finish_trace(s));
}

struct ht_err *session_run(const struct session_options *options, struct session_report *ret)
{
	struct session session = {.options = options,
		.report = ret,
		.guardian = {.fd = -1},
		.lock_fd = -1,
		.signal_fd = -1,
		.remote = {.memfd = -1, .daemon_fd = -1, .agent_socket = -1},
		.start_ns = clock_mono_ns(),
		.start_tsc = __rdtsc()};

	*ret = (struct session_report){0};
	struct ht_err *err = capture(&session);
	release(&session);
	return err;
}
