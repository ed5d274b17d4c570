/* SPDX-License-Identifier: Apache-2.0
 *
 * The filter of --cull, a process between the queue and the process that writes the trace.
 */
#include "attach/daemon/filter.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/daemon/sink.h"
#include "format/abi_hooks.h"
#include "format/cull/culled.h"
#include "format/reader.h"
#include "tests/support/child.h"
#include "tests/support/ht_check.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"
#include "tests/support/tracebuild.h"

#define PAIRS	 1000u /* blocks that live 16 ns */
#define STAY	 10u   /* blocks that stay */
#define EVENTS	 (2 * PAIRS + STAY)
#define LIMIT_MS 30000u

static char *path;
static struct sink *sink;

static void open_sink(uint64_t patience_ns)
{
	path = tmpdir_path("trace");
	signal(SIGPIPE, SIG_IGN);
	ck_no_err(sink_create(&(struct sink_options){.path = path,
				      .reserve_bytes = 1,
				      .cull_ns = 1000000000,
				      .patience_ns = patience_ns},
		&sink));
}

/* Puts each record of a small trace, which has no REC_END. */
static void put_trace(void)
{
	struct tracebuild build;
	struct eventbuild events = {0};
	struct trace_reader *reader;
	static struct rec rec;
	enum trace_end end;
	uint64_t tsc = 1000;
	tracebuild_init(&build);
	tracebuild_start(&build, 7, 0, tsc);
	uint32_t stack = tracebuild_node(&build, 0, 0x401000);
	eventbuild_thread(&events, 7, 0);
	for (uint64_t i = 0; i < PAIRS + STAY; i++) {
		eventbuild_alloc(&events, ABI_EVENT_ALLOC, ABI_HOOK_MALLOC, tsc += 16,
			0x10000 + 64 * i, 48, stack);
		if (i >= STAY)
			eventbuild_free(&events, ABI_EVENT_FREE, ABI_HOOK_FREE, tsc += 16,
				0x10000 + 64 * i, 0);
	}
	tracebuild_events(&build, 0, &events);
	tracebuild_sync(&build, tsc + 16, 1000000);
	int fd = tracebuild_finish(&build);
	ck_no_err(trace_reader_create(fd, "trace", &reader));
	for (;;) {
		ck_no_err(trace_reader_next(reader, &rec, &end));
		if (end != TRACE_MORE)
			break;
		ck_no_err(sink_put(sink, &rec, rec.kind == REC_EVENTS ? EVENTS : 0));
	}
	trace_reader_destroy(reader);
	eventbuild_deinit(&events);
	tracebuild_deinit(&build);
}

struct content {
	uint64_t event_records, culled_events;
	enum trace_end end;
};

static struct content read_content(void)
{
	struct trace_reader *reader;
	static struct rec rec;
	struct content ret = {0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_no_err(trace_reader_create(fd, "trace", &reader));
	for (;;) {
		ck_no_err(trace_reader_next(reader, &rec, &ret.end));
		if (ret.end != TRACE_MORE)
			break;
		ret.event_records += rec.kind == REC_EVENTS;
		ret.culled_events += rec.kind == REC_CULLED ? rec.culled.events : 0;
	}
	trace_reader_destroy(reader);
	close(fd);
	return ret;
}

/* A process has its name shortly after the fork. */
static pid_t await_child(const char *name)
{
	run_until(child_named(getpid(), name) != 0, LIMIT_MS);
	return child_named(getpid(), name);
}

HT_TEST(what_lives_shortly_becomes_sums)
{
	open_sink(0);
	put_trace();
	sink_finish(sink, false);
	ck_assert_int_eq(sink_state(sink), STORE_OK);
	ck_assert_uint_eq(sink_dropped_events(sink), 0);
	ck_assert_uint_eq(sink_filtered(sink).live_blocks, STAY);
	sink_destroy(sink);
	struct content content = read_content();
	ck_assert_int_eq(content.end, TRACE_COMPLETE);
	ck_assert_uint_eq(content.event_records, 1);
	ck_assert_uint_eq(content.culled_events, 2 * PAIRS);
}

static bool filter_has_all(void)
{
	sink_tick(sink);
	return sink_filtered(sink).live_blocks == STAY;
}

/* The events in a killed filter are lost: they are counted and reported, and the rest is whole. */
HT_TEST(what_a_killed_filter_held_is_counted)
{
	open_sink(0);
	put_trace();
	run_until(filter_has_all(), LIMIT_MS);
	kill(await_child("heaptap-filter"), SIGKILL);
	sink_finish(sink, false);
	ck_assert_int_eq(sink_state(sink), STORE_BROKEN);
	ck_assert_msg(strstr(sink_problem(sink), "the filter of --cull was ended") &&
			      strstr(sink_problem(sink), "2010 events are not in the trace"),
		"%s", sink_problem(sink));
	ck_assert_uint_eq(sink_dropped_events(sink), EVENTS);
	sink_destroy(sink);
	ck_assert_int_eq(read_content().end, TRACE_TRUNCATED);
}

HT_TEST(the_writer_behind_it_is_killed)
{
	open_sink(0);
	put_trace();
	kill(await_child("heaptap-writer"), SIGKILL);
	sink_finish(sink, false);
	ck_assert_int_eq(sink_state(sink), STORE_BROKEN);
	ck_assert_msg(strstr(sink_problem(sink), "the process that writes it was ended"), "%s",
		sink_problem(sink));
	sink_destroy(sink);
}

/* sink_finish continues a filter that was stopped. */
HT_TEST(a_filter_is_stopped)
{
	open_sink(200000000);
	put_trace();
	kill(await_child("heaptap-filter"), SIGSTOP);
	sink_finish(sink, false);
	ck_assert_int_eq(sink_state(sink), STORE_OK);
	sink_destroy(sink);
	ck_assert_uint_eq(read_content().culled_events, 2 * PAIRS);
}

HT_TEST(a_discarded_trace_leaves_no_file)
{
	open_sink(0);
	put_trace();
	sink_discard(sink);
	ck_assert_int_ne(access(path, F_OK), 0);
	sink_destroy(sink);
}

HT_TEST(a_wrong_record_is_named)
{
	open_sink(0);
	put_trace();
	struct rec rec = {.kind = REC_CAPTURE, .capture.sample_bytes = 4096};
	ck_no_err(sink_put(sink, &rec, 0));
	sink_finish(sink, false);
	ck_assert_int_eq(sink_state(sink), STORE_BROKEN);
	ck_assert_msg(strstr(sink_problem(sink),
			      "the filter of --cull failed: a sample cannot be culled"),
		"%s", sink_problem(sink));
	sink_destroy(sink);
}

static unsigned open_files(pid_t pid)
{
	char directory[64];
	unsigned count = 0;
	snprintf(directory, sizeof(directory), "/proc/%d/fd", pid);
	DIR *dir = opendir(directory);
	ck_assert_ptr_nonnull(dir);
	for (const struct dirent *entry; (entry = readdir(dir));)
		count += entry->d_name[0] != '.';
	closedir(dir);
	return count;
}

static void check_status(pid_t pid, const char *expected)
{
	char file[64], text[8192] = "";
	snprintf(file, sizeof(file), "/proc/%d/status", pid);
	FILE *from = fopen(file, "re");
	ck_assert_ptr_nonnull(from);
	size_t length = fread(text, 1, sizeof(text) - 1, from);
	fclose(from);
	text[length] = '\0';
	ck_assert_msg(strstr(text, expected), "not \"%s\": %s", expected, text);
}

/* The filter reads what the target wrote, so it runs without privileges. */
HT_TEST(it_has_no_rights)
{
	open_sink(0);
	put_trace();
	run_until(filter_has_all(), LIMIT_MS);
	pid_t pid = await_child("heaptap-filter");
	check_status(pid, "CapPrm:\t0000000000000000");
	check_status(pid, "CapEff:\t0000000000000000");
	check_status(pid, "NoNewPrivs:\t1");
	if (geteuid() == 0)
		check_status(pid, "Uid:\t65534\t65534\t65534\t65534");
	/* /dev/null three times, and two pipes. */
	ck_assert_uint_eq(open_files(pid), 5);
	sink_finish(sink, false);
	ck_assert_int_eq(sink_state(sink), STORE_OK);
	sink_destroy(sink);
}

HT_SUITE("attach/filter")