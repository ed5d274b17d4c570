/* SPDX-License-Identifier: Apache-2.0
 *
 * Stacks of real programs under load equal libunwind's, frame by frame. A preloaded library
 * (tests/targets/unwound.c) is called between the agent and the allocator, and unwinds some of the
 * calls that the agent is about to record.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/abi_control.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/tracefile.h"
#include "tests/support/victim.h"
#include "tests/targets/unwound.h"

#define ANSWER_MS  30000
#define LOAD_MS	   60000
#define SHOWN_MAX  5 /* differences that are printed in full */
#define WORDS_ROOM ((UNWOUND_BYTES - sizeof(struct unwound)) / 8)

/* --- the library's side --- */

/* Programs started between this and unwound_started() load the library. */
static struct unwound *unwound_start(void)
{
	HT_FREED char *path = tmpdir_path("unwound");
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ck_assert(fd >= 0 && !ftruncate(fd, UNWOUND_BYTES));
	void *at = mmap(NULL, UNWOUND_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ck_assert_ptr_ne(at, MAP_FAILED);
	close(fd);
	setenv("UNWOUND_FILE", path, 1);
	setenv("LD_PRELOAD", run_built("tests/targets/libunwound.so"), 1);
	return at;
}

static void unwound_started(void)
{
	unsetenv("LD_PRELOAD");
}

struct range {
	uint64_t lo, hi;
};

/* The target's modules: address ranges of mapped files. */
struct modules {
	struct range range[2048];
	size_t count;
};

static bool in_module(const struct modules *modules, uint64_t pc)
{
	for (size_t i = 0; i < modules->count; i++)
		if (pc >= modules->range[i].lo && pc < modules->range[i].hi)
			return true;
	return false;
}

/* Writes the address range of the agent's code for the library. */
static void read_maps(pid_t pid, struct unwound *unwound, struct modules *ret)
{
	char line[4400];
	snprintf(line, sizeof(line), "/proc/%d/maps", pid);
	FILE *maps = fopen(line, "re");
	ck_assert_ptr_nonnull(maps);
	unwound->agent_lo = UINT64_MAX;
	ret->count = 0;
	while (fgets(line, sizeof(line), maps)) {
		struct range range;
		char access[5];
		ck_assert_int_eq(sscanf(line, "%lx-%lx %4s", &range.lo, &range.hi, access), 3);
		if (strstr(line, "heaptap-") && access[2] == 'x') {
			unwound->agent_lo =
				range.lo < unwound->agent_lo ? range.lo : unwound->agent_lo;
			unwound->agent_hi = range.hi;
		} else if (strchr(line, '/')) {
			ck_assert_uint_lt(ret->count, HT_ARRAY_SIZE(ret->range));
			ret->range[ret->count++] = range;
		}
	}
	fclose(maps);
	ck_assert_uint_lt(unwound->agent_lo, unwound->agent_hi);
}

/* --- one event against one record --- */

static bool is_allocation(const struct event *event)
{
	return event->kind == ABI_EVENT_ALLOC || event->kind == ABI_EVENT_REALLOC_END;
}

static int by_thread_and_time(const void *a, const void *b)
{
	const struct event *x = a, *y = b;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	return (x->tsc > y->tsc) - (x->tsc < y->tsc);
}

/* Removes all other events, and sorts allocations by thread, then by time. */
static void sort_allocations(struct tracefile *file)
{
	size_t count = 0;
	for (size_t i = 0; i < file->event_count; i++)
		if (is_allocation(&file->event[i]))
			file->event[count++] = file->event[i];
	file->event_count = count;
	qsort(file->event, count, sizeof(*file->event), by_thread_and_time);
}

/* Index of the first event of thread `tid` that is stamped at `tsc` or later. */
static size_t first_at(const struct tracefile *file, uint64_t tid, uint64_t tsc)
{
	struct event key = {.tid = (uint32_t)tid, .tsc = tsc};
	size_t first = 0, count = file->event_count;
	while (count > 0) {
		size_t half = count / 2;
		if (by_thread_and_time(&file->event[first + half], &key) < 0) {
			first += half + 1;
			count -= half + 1;
		} else {
			count = half;
		}
	}
	return first;
}

enum verdict { EQUAL, CUT, DIFFERENT };

/* The trace has interpreted functions where libunwind sees frames of V8's interpreter. */
static bool is_frame(const struct tracefile_node *node, uint64_t pc)
{
	return node->flags & ABI_NODE_INTERPRETED || node->pc == pc;
}

/*
 * All frames must be equal. One exception: code that a JIT compiler made after the daemon's last
 * look is in no range that the agent knows. The agent's walk ends below such a frame, and is
 * counted; then libunwind's next frame must be in no module.
 */
static enum verdict judge(const struct tracefile *file, uint32_t id,
	const struct unwound_record *record, const struct modules *modules)
{
	uint64_t i = 0;
	for (; id != 0 && i < record->depth && is_frame(&file->node[id], record->pc[i]); i++)
		id = file->node[id].parent;
	if (id == 0 && i == record->depth)
		return EQUAL;
	return id == 0 && !in_module(modules, record->pc[i]) ? CUT : DIFFERENT;
}

/*
 * Finds the event of the call that wrote the record: the thread's next event, or one of those just
 * before, because several events may share a time stamp. If several of these have the same block,
 * one must have the stack.
 */
static const struct event *event_of(const struct tracefile *file,
	const struct unwound_record *record, const struct modules *modules, enum verdict *ret)
{
	size_t next = first_at(file, record->tid, record->tsc), first = next;
	const struct event *found = NULL;
	if (next > 0 && file->event[next - 1].tid == record->tid)
		first = first_at(file, record->tid, file->event[next - 1].tsc);
	for (size_t i = first; i <= next && i < file->event_count; i++) {
		const struct event *event = &file->event[i];
		if (event->tid != record->tid || event->addr != record->address ||
			event->size != record->bytes)
			continue;
		enum verdict verdict = judge(file, event->stack, record, modules);
		if (!found || verdict < *ret) {
			found = event;
			*ret = verdict;
		}
	}
	if (!found)
		ck_abort_msg("thread %lu: no event for the block %lx of %lu bytes", record->tid,
			record->address, record->bytes);
	return found;
}

static void show(const struct tracefile *file, uint32_t id, const struct unwound_record *record)
{
	fprintf(stderr, "block %lx of %lu bytes\n%20s %20s\n", record->address, record->bytes,
		"trace", "libunwind");
	for (uint64_t i = 0; id != 0 || i < record->depth; i++) {
		fprintf(stderr, "%20lx %20lx\n", id ? file->node[id].pc : 0,
			i < record->depth ? record->pc[i] : 0);
		id = id ? file->node[id].parent : 0;
	}
}

/* Judges every record; at least `least` stacks must be equal, and none different. */
static void compare(const struct unwound *unwound, const struct modules *modules, const char *trace,
	uint64_t least)
{
	struct tracefile file;
	uint64_t records = 0, count[] = {[EQUAL] = 0, [CUT] = 0, [DIFFERENT] = 0};
	tracefile_load(trace, &file);
	sort_allocations(&file);
	ck_assert_uint_le(unwound->used, WORDS_ROOM);
	for (uint64_t at = 0; at < unwound->used; records++) {
		const struct unwound_record *record = (const void *)&unwound->word[at];
		if (record->depth >= UNWOUND_FRAMES_MAX)
			ck_abort_msg("a stack of %lu frames", record->depth);
		enum verdict verdict = DIFFERENT;
		uint32_t stack = event_of(&file, record, modules, &verdict)->stack;
		if (count[verdict]++ < SHOWN_MAX && verdict == DIFFERENT)
			show(&file, stack, record);
		at += sizeof(*record) / 8 + record->depth;
	}
	ck_assert_uint_eq(records, unwound->records);
	ck_assert_msg(count[DIFFERENT] == 0, "%lu of %lu stacks differ from libunwind's",
		count[DIFFERENT], records);
	ck_assert_uint_ge(count[EQUAL], least);
	ck_assert_uint_le(count[CUT], file.counter[REC_COUNTER_TRUNC_NO_RULE]);
	ck_assert_uint_eq(file.counter[REC_COUNTER_TRUNC_DEPTH], 0);
	ck_assert_uint_eq(file.counter[REC_COUNTER_TRUNC_STACK], 0);
	ck_assert_uint_eq(file.counter[REC_COUNTER_TRUNC_NODES], 0);
	tracefile_deinit(&file);
}

/* --- programs --- */

/* Options for the two walkers: one keeps each thread's last stack, the other reads the whole stack
 * each time. */
#define KEPT ((const char *const[]){"--symbolize=later", NULL})
#define FULL ((const char *const[]){"--symbolize=later", "--unwind=full", NULL})

/* Captures the working process `pid`, with a record of one call in `every`, until there are enough
 * records. */
static void capture(pid_t pid, struct unwound *unwound, uint64_t every, uint64_t least,
	const char *const walker[])
{
	struct modules modules;
	struct tap tap;
	struct procsnap *before = procsnap_take(pid, PROCSNAP_FDS_CHANGE | PROCSNAP_THREADS_CHANGE |
							     PROCSNAP_MASKS_CHANGE | PROCSNAP_JIT |
							     PROCSNAP_MODULES_GROW);
	tap_start(&tap, pid, walker);
	tap_wait_any(&tap);
	read_maps(pid, unwound, &modules);
	unwound->every = every;
	__atomic_store_n(&unwound->recording, 1, __ATOMIC_RELEASE);
	run_until(__atomic_load_n(&unwound->records, __ATOMIC_ACQUIRE) >= 2 * least, LOAD_MS);
	__atomic_store_n(&unwound->recording, 0, __ATOMIC_RELEASE);
	tap_check_clean(tap_stop(&tap, 0));
	procsnap_verify(before, pid);
	compare(unwound, &modules, tap.trace, least);
}

static void compare_script(
	const char *const argv[], uint64_t every, uint64_t least, const char *const walker[])
{
	struct unwound *unwound = unwound_start();
	struct victim victim;
	victim_start(&victim, argv);
	unwound_started();
	capture(victim.pid, unwound, every, least, walker);
	victim_stop(&victim);
}

static bool has_said(const struct run *run, const char *text)
{
	HT_FREED char *out = run_out(run);
	bool said = strstr(out, text) != NULL;
	return said;
}

static void compare_redis(const char *const walker[])
{
	struct unwound *unwound = unwound_start();
	char *directory = tmpdir_path(""), *socket = tmpdir_path("socket");
	struct run server, load;
	run_start(
		&server, (const char *[]){"redis-server", "--port", "0", "--unixsocket", socket,
				 "--save", "", "--appendonly", "no", "--maxmemory", "200mb",
				 "--maxmemory-policy", "allkeys-random", "--dir", directory, NULL});
	unwound_started();
	run_until(has_said(&server, "ready to accept connections"), ANSWER_MS);
	run_start(&load, (const char *[]){"redis-benchmark", "-s", socket, "-l", "-q", "-n", "2000",
				 "-c", "20", "-r", "50000", "-d", "100", "-t",
				 "set,get,incr,lpush,rpop,sadd,hset,zadd,lrange_100,mset", NULL});
	capture(server.pid, unwound, 16, 10000, walker);
	ck_assert(!run_has_ended(&load));
	run_deinit(&load);
	kill(server.pid, SIGTERM);
	ck_assert_int_eq(run_wait(&server, ANSWER_MS), 0);
	free(directory);
	free(socket);
}

/* rocksdb's benchmark makes its own load, in many threads. */
static void compare_rocksdb(const char *const walker[])
{
	struct unwound *unwound = unwound_start();
	char *directory = tmpdir_path("db"), database[4096];
	snprintf(database, sizeof(database), "--db=%s", directory);
	free(directory);
	struct run bench;
	run_start(&bench, (const char *[]){"/usr/bin/db_bench", "--benchmarks=updaterandom",
				  "--write_buffer_size=500000", "--num=100000", "--threads=4",
				  "--duration=600", database, NULL});
	unwound_started();
	run_until(__atomic_load_n(&unwound->calls, __ATOMIC_RELAXED) > 100000, LOAD_MS);
	capture(bench.pid, unwound, 16, 10000, walker);
	ck_assert(!run_has_ended(&bench));
	run_deinit(&bench);
}

static void compare_cxx(const char *const walker[])
{
	compare_script((const char *[]){run_built("tests/targets/cxx"), NULL}, 16, 10000, walker);
}

static void compare_script_of(const char *node, const char *const walker[])
{
	compare_script((const char *[]){node, "tests/targets/script.js", NULL}, 4, 5000, walker);
}

static void compare_node(const char *const walker[])
{
	compare_script_of("/usr/bin/node", walker);
}

static void compare_node_22(const char *const walker[])
{
	const char *node = run_named("unwind", "HEAPTAP_NODE22");
	if (node)
		compare_script_of(node, walker);
}

static void compare_node_24(const char *const walker[])
{
	const char *node = run_named("unwind", "HEAPTAP_NODE24");
	if (node)
		compare_script_of(node, walker);
}

#define UNWIND_TEST(program)                                                                       \
	HT_TEST(program)                                                                           \
	{                                                                                          \
		compare_##program(KEPT);                                                           \
	}                                                                                          \
	HT_TEST(program##_full)                                                                    \
	{                                                                                          \
		compare_##program(FULL);                                                           \
	}

UNWIND_TEST(redis)
UNWIND_TEST(cxx)
UNWIND_TEST(rocksdb)
UNWIND_TEST(node)
UNWIND_TEST(node_22)
UNWIND_TEST(node_24)

HT_SUITE("integration/unwind")
