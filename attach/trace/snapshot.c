/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/trace/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/trace/handover.h"
#include "attach/trace/symbols.h"
#include "attach/daemon/store.h"
#include "attach/elf/module.h"
#include "attach/memory/proc_maps.h"
#include "attach/proc/clock.h"
#include "attach/proc/fd.h"
#include "attach/process/proc_open.h"
#include "format/arch.h"
#include "format/reader.h"
#include "format/timebase.h"

#define PATIENCE_NS  (10 * CLOCK_NS_PER_S) /* longest wait for a new record */
#define PAUSE_NS     (20 * CLOCK_NS_PER_MS)
#define LOOK_RECORDS 1024u /* between two looks for a signal */

struct copy {
	const struct snapshot_options *options;
	uint64_t until_tsc; /* the copy ends when all events before this time are in it */
	struct store *store;
	struct timebase timebase;
	bool is_culled;	  /* the capture has --cull: its records come late */
	struct proc proc; /* the target; pid 0: it has ended */
	struct proc_maps maps;
	struct handover handover;
};

/* --- names ----------------------------------------------------------------------------------- */

/* Opens the process for its names: its files, its user, its root directory. */
static void open_process(struct copy *copy)
{
	if (ht_err_drop(proc_open(copy->options->pid, &copy->proc)) ||
		copy->proc.start_ticks != copy->options->start_ticks) {
		proc_close(&copy->proc);
		copy->proc.pid = 0;
		return;
	}
	handover_open(&copy->handover, &copy->proc);
	ht_err_free(proc_maps_read(&copy->proc, &copy->maps));
}

/* A deleted file, or a file in another mount namespace, can be reached only through its mapping. */
static void hand_over(struct copy *copy, const struct rec_module *module)
{
	const struct proc_map *map =
		copy->proc.pid ? proc_maps_find(&copy->maps, module->lo) : NULL;
	const struct module wanted = {
		.id = module->id, .executable = module->flags & REC_MODULE_EXECUTABLE};
	if (map)
		handover_add(&copy->handover, &copy->proc, &wanted, map);
}

static struct ht_err *append_names(struct copy *copy, char *problem, size_t problem_bytes)
{
	struct proc_status status;
	struct ht_err *err = copy->proc.pid ? proc_status(&copy->proc, 0, &status) : NULL;
	if (err || !copy->proc.pid) {
		ht_err_free(err);
		snprintf(problem, problem_bytes,
			"names are missing: process %d has ended; heaptap symbols --resolve may "
			"add them",
			(int)copy->options->pid);
		return NULL;
	}
	struct symbols_target target = symbols_target_of(&copy->proc, &status);
	target.has_root = copy->handover.root >= 0;
	handover_send(&copy->handover);
	return symbols_append(copy->store, &target, copy->handover.far, problem, problem_bytes);
}

/* --- records --------------------------------------------------------------------------------- */

static struct ht_err *open_trace(const char *path, int *ret)
{
	struct stat stat;
	*ret = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (*ret < 0)
		return ht_err_sys(errno, "cannot read the trace of the capture, %s", path);
	if (fstat(*ret, &stat) == 0 && S_ISREG(stat.st_mode))
		return NULL;
	fd_close(ret);
	return ht_err_new(HT_ERR_REFUSED,
		"the capture writes to %s, which is no file, so that nothing can be read back",
		path);
}

/* Without --cull all events are there until shortly before the clock pair; with it, until
 * complete_tsc. */
static struct ht_err *put_end(struct copy *copy, const struct rec_sync *sync)
{
	struct rec end = {.kind = REC_END, .end = {REC_END_SNAPSHOT, sync->mono_ns, sync->tsc}};
	if (copy->is_culled && sync->complete_tsc < sync->tsc) {
		end.end.tsc = sync->complete_tsc;
		end.end.mono_ns =
			copy->timebase.start_ns + timebase_ns(&copy->timebase, sync->complete_tsc);
	}
	return store_put(copy->store, &end, 0);
}

static void take_clock(struct copy *copy, const struct rec *rec)
{
	if (rec->kind == REC_SYNC)
		timebase_add(&copy->timebase, rec->sync.tsc, rec->sync.mono_ns);
	if (rec->kind != REC_CAPTURE)
		return;
	timebase_start(&copy->timebase, rec->capture.start_tsc, rec->capture.start_mono_ns);
	copy->is_culled = rec->capture.cull_ns != 0;
}

/* Copies one record. `*ret_done`: the copy is complete. */
static struct ht_err *copy_one(struct copy *copy, const struct rec *rec, bool *ret_done)
{
	if (rec->kind == REC_END)
		return ht_err_new(HT_ERR_REFUSED,
			"the capture of process %d has just ended; its trace has everything",
			(int)copy->options->pid);
	struct ht_err *err = store_put(copy->store, rec, 0);
	take_clock(copy, rec);
	if (!err && rec->kind == REC_MODULE)
		hand_over(copy, &rec->module);
	else if (!err && rec->kind == REC_MODULE_GONE)
		handover_gone(&copy->handover, rec->module_gone.id);
	*ret_done = !err && rec->kind == REC_SYNC && rec->sync.complete_tsc >= copy->until_tsc;
	return err || !*ret_done ? err : put_end(copy, &rec->sync);
}

/* An error if SIGINT, SIGTERM or SIGHUP is pending. The caller has blocked them. */
static struct ht_err *check_interrupted(void)
{
	sigset_t set;
	bool is_pending =
		sigpending(&set) == 0 && (sigismember(&set, SIGINT) || sigismember(&set, SIGTERM) ||
						 sigismember(&set, SIGHUP));
	return is_pending ? ht_err_new(HT_ERR_REFUSED, "a signal ended the copying") : NULL;
}

static struct ht_err *await_more(struct trace_reader *reader, enum trace_end how_ended,
	uint64_t *since_ns, const struct copy *copy)
{
	if (how_ended != TRACE_TRUNCATED)
		return ht_err_new(HT_ERR_FORMAT, "the trace of the capture cannot be read: %s",
			how_ended == TRACE_COMPLETE ? "it is complete already"
						    : trace_reader_problem(reader));
	if (clock_mono_ns() - *since_ns > PATIENCE_NS)
		return ht_err_new(HT_ERR_SYS,
			"the capture of process %d has written nothing for 10 s: its disk is slow, "
			"or it is stopped",
			(int)copy->options->pid);
	clock_sleep_ns(PAUSE_NS);
	return trace_reader_continue(reader);
}

static struct ht_err *copy_records(struct copy *copy, struct trace_reader *reader)
{
	uint64_t since_ns = clock_mono_ns(), seen = 0;
	bool is_done = false;
	struct rec *rec = malloc(sizeof(*rec));
	struct ht_err *err = rec ? NULL : ht_err_new(HT_ERR_NOMEM, "no memory for a record");
	while (!err && !is_done) {
		enum trace_end how_ended;
		err = trace_reader_next(reader, rec, &how_ended);
		if (!err && how_ended == TRACE_MORE) {
			err = copy_one(copy, rec, &is_done);
			if (!err && trace_reader_records(reader) % LOOK_RECORDS == 0)
				err = check_interrupted();
			continue;
		}
		if (seen != trace_reader_records(reader))
			since_ns = clock_mono_ns();
		seen = trace_reader_records(reader);
		HT_THEN(err, check_interrupted());
		HT_THEN(err, await_more(reader, how_ended, &since_ns, copy));
	}
	free(rec);
	return err;
}

static struct ht_err *fill(
	struct copy *copy, struct trace_reader *reader, struct snapshot_report *ret)
{
	trace_reader_keep_columns(reader);
	struct ht_err *err = copy_records(copy, reader);
	HT_THEN(err, append_names(copy, ret->problem, sizeof(ret->problem)));
	HT_THEN(err, store_finish(copy->store));
	const struct store_status status = store_status(copy->store);
	if (!err && status.state != STORE_OK)
		err = ht_err_new(
			HT_ERR_SYS, "cannot write %s: %s", copy->options->output, status.problem);
	ret->bytes = status.bytes;
	return err;
}

struct ht_err *snapshot_write(const struct snapshot_options *options, struct snapshot_report *ret)
{
	struct copy copy = {.options = options,
		.until_tsc = arch_tsc(),
		.proc = {.pidfd = -1, .dir_fd = -1, .mem_fd = -1},
		.handover = {.near = -1, .far = -1, .root = -1}};
	struct trace_reader *reader = NULL;
	int trace = -1;
	*ret = (struct snapshot_report){0};
	struct ht_err *err = open_trace(options->trace, &trace);
	HT_THEN(err, trace_reader_create(trace, options->trace, &reader));
	HT_THEN(err, store_create(&(struct store_options){.path = options->output,
					  .replace = options->replace},
			     &copy.store));
	if (!err) {
		open_process(&copy);
		err = fill(&copy, reader, ret);
		if (err)
			store_discard(copy.store);
		store_destroy(copy.store);
	}
	trace_reader_destroy(reader);
	handover_close(&copy.handover);
	proc_maps_deinit(&copy.maps);
	if (copy.proc.pid)
		proc_close(&copy.proc);
	fd_close(&trace);
	return err;
}
