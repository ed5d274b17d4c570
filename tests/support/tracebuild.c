/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/tracebuild.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/ht_check.h"

static struct rec_string text(const char *s)
{
	return (struct rec_string){.data = s, .length = s ? strlen(s) : 0};
}

static int make_memfd(void)
{
	int fd = memfd_create("trace", MFD_CLOEXEC);
	ck_need(fd >= 0);
	return fd;
}

static void rewind_fd(int fd)
{
	ck_need(lseek(fd, 0, SEEK_SET) == 0);
}

void tracebuild_init(struct tracebuild *build)
{
	*build = (struct tracebuild){.fd = make_memfd()};
	ck_no_err(trace_writer_create(build->fd, &build->writer));
}

void tracebuild_deinit(struct tracebuild *build)
{
	trace_writer_destroy(build->writer);
	close(build->fd);
}

void tracebuild_put(struct tracebuild *build, const struct rec *rec)
{
	ck_no_err(trace_writer_put(build->writer, rec));
}

void tracebuild_start(struct tracebuild *build, uint64_t pid, uint64_t mono_ns, uint64_t tsc)
{
	const struct rec target = {
		.kind = REC_TARGET,
		.target.pid = pid,
		.target.uid = 1000,
		.target.start_ticks = 4242,
		.target.comm = text("target"),
		.target.exe = text("/usr/bin/target"),
		.target.kernel = text("6.1.0"),
		.target.heaptap_version = text("0.1.0"),
	};
	const struct rec capture = {
		.kind = REC_CAPTURE,
		.capture.start_unix_ns = 1700000000000000000u + mono_ns,
		.capture.start_mono_ns = mono_ns,
		.capture.start_tsc = tsc,
		.capture.slots_tapped = 11,
		.capture.modules = 1,
		.capture.memory_total_bytes = 8ull << 30,
		.capture.sample_bytes = build->sample_bytes,
		.capture.flags = build->capture_flags,
	};
	tracebuild_put(build, &target);
	tracebuild_put(build, &capture);
}

void tracebuild_module(struct tracebuild *build, uint64_t id, const char *path,
	const char *build_id, uint64_t lo, uint64_t hi)
{
	const struct rec rec = {
		.kind = REC_MODULE,
		.module.id = id,
		.module.bias = lo,
		.module.lo = lo,
		.module.hi = hi,
		.module.path = text(path),
		.module.build_id = text(build_id),
		.module.flags = id == 1 ? REC_MODULE_EXECUTABLE : 0,
		.module.segment_count = 1,
		.module.segment[0].memsz = hi - lo,
		.module.segment[0].flags = PF_R | PF_X,
	};
	tracebuild_put(build, &rec);
}

void tracebuild_module_gone(struct tracebuild *build, uint64_t id, uint64_t epoch)
{
	const struct rec rec = {
		.kind = REC_MODULE_GONE,
		.module_gone.id = id,
		.module_gone.epoch = epoch,
	};
	tracebuild_put(build, &rec);
}

void tracebuild_thread(struct tracebuild *build, uint64_t tid, const char *name)
{
	const struct rec rec = {
		.kind = REC_THREAD,
		.thread.tid = tid,
		.thread.name = text(name),
	};
	tracebuild_put(build, &rec);
}

uint32_t tracebuild_node(struct tracebuild *build, uint32_t parent, uint64_t pc)
{
	struct bytes_out body = {0};
	uint32_t id = ++build->node_count;
	ck_no_err(rec_node_append(&body, &(struct rec_node){.pc = pc, .parent = parent}));
	const struct rec rec = {
		.kind = REC_NODES,
		.nodes.first_id = id,
		.nodes.count = 1,
		.nodes.body = bytes_of(body.data, body.length),
	};
	tracebuild_put(build, &rec);
	bytes_out_deinit(&body);
	return id;
}

uint32_t tracebuild_stack(struct tracebuild *build, const uint64_t *pc, size_t count)
{
	uint32_t id = 0;
	while (count--)
		id = tracebuild_node(build, id, pc[count]);
	return id;
}

void tracebuild_events(struct tracebuild *build, uint32_t slot, struct eventbuild *events)
{
	ck_need(slot < TRACEBUILD_SLOTS);
	const struct rec rec = {
		.kind = REC_EVENTS,
		.events.slot = slot,
		.events.position = build->position[slot],
		.events.flags = REC_EVENTS_RESTART,
		.events.body = bytes_of(events->out.data, events->out.length),
	};
	tracebuild_put(build, &rec);
	build->position[slot] += events->out.length;
	events->out.length = 0;
	eventbuild_restart(events);
}

void tracebuild_sync(struct tracebuild *build, uint64_t tsc, uint64_t mono_ns)
{
	const struct rec rec = {
		.kind = REC_SYNC,
		.sync.tsc = tsc,
		.sync.mono_ns = mono_ns,
		.sync.complete_tsc = tsc,
	};
	tracebuild_put(build, &rec);
}

void tracebuild_rss(struct tracebuild *build, uint64_t mono_ns, uint64_t rss_bytes)
{
	const struct rec rec = {
		.kind = REC_RSS,
		.rss.mono_ns = mono_ns,
		.rss.rss_bytes = rss_bytes,
	};
	tracebuild_put(build, &rec);
}

void tracebuild_loss(struct tracebuild *build, enum rec_counter counter, uint64_t total)
{
	const struct rec rec = {
		.kind = REC_LOSS,
		.loss.counter = counter,
		.loss.total = total,
	};
	tracebuild_put(build, &rec);
}

void tracebuild_symbol(struct tracebuild *build, uint64_t module_id, uint64_t offset,
	const char *function, const char *file, uint64_t line)
{
	const struct rec rec = {
		.kind = REC_SYMBOL,
		.symbol.module_id = module_id,
		.symbol.offset = offset,
		.symbol.frame_count = 1,
		.symbol.frame[0].function = text(function),
		.symbol.frame[0].file = text(file),
		.symbol.frame[0].line = line,
	};
	tracebuild_put(build, &rec);
}

void tracebuild_end(
	struct tracebuild *build, enum rec_end_reason reason, uint64_t mono_ns, uint64_t tsc)
{
	const struct rec rec = {
		.kind = REC_END,
		.end.reason = reason,
		.end.mono_ns = mono_ns,
		.end.tsc = tsc,
	};
	tracebuild_put(build, &rec);
}

int tracebuild_finish(struct tracebuild *build)
{
	ck_no_err(trace_writer_finish(build->writer));
	rewind_fd(build->fd);
	return build->fd;
}

int tracebuild_memfd(const void *data, size_t length)
{
	int fd = make_memfd();
	ck_need(write(fd, data, length) == (ssize_t)length);
	rewind_fd(fd);
	return fd;
}

void tracebuild_slurp(int fd, struct bytes_out *out)
{
	struct stat st;
	ck_need(fstat(fd, &st) == 0);
	size_t length = (size_t)st.st_size;
	*out = (struct bytes_out){0};
	ck_no_err(bytes_out_reserve(out, length));
	ck_need(pread(fd, out->data, length, 0) == (ssize_t)length);
	out->length = length;
}
