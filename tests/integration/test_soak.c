/* SPDX-License-Identifier: Apache-2.0
 *
 * Attach, capture for a random moment, detach: over and over, on seven kinds of target under load.
 * By default only a few cycles; scripts/soak sets the environment for all:
 *
 *      HEAPTAP_SOAK_CYCLES   cycles of each kind          HEAPTAP_SOAK_SEED   of all that is random
 *      HEAPTAP_SOAK_SECONDS  end each kind after so long instead
 *      HEAPTAP_SOAK_KEEP     directory for everything about a failure
 *
 * No failure in N cycles says, at 95 %, that fewer than 3/N of them fail.
 */
#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/random.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/sample.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define SLICE_CYCLES  30
#define FEW_CYCLES    4	 /* in a sample */
#define CHECKPOINT    15 /* cycles between two full comparisons */
#define WINDOW_MAX_MS 50
#define SIGNAL_MAX_MS 100 /* latest time of SIGINT: during attach, capture or detach */
#define CYCLE_MS      120000
#define MET_CYCLES    100 /* from this number of cycles on, check_met applies */
#define PROGRAMS_MAX  2

struct kind {
	const char *name;
	const char *program[PROGRAMS_MAX][5]; /* the cycles are shared among them */
	const char *hook;		      /* the value of attach's --hook */
	unsigned flags;			      /* of procsnap */
	bool stores; /* the target's code keeps addresses from slots: a jump page may stay, and is
			counted */
	unsigned meets; /* enum met: states of threads that detaches must have found */
};

enum met {
	ASLEEP = 1, /* a thread that waits for commands */
	INSIDE = 2, /* a thread that was or may have been in a hook */
};

/* The results of all cycles of one kind. */
struct tally {
	uint64_t cycles, events, tombstones;
	uint64_t dropping;			   /* cycles in which events were dropped */
	uint64_t *attach_ns, *detach_ns, *stop_ns; /* of each cycle */
	uint64_t asleep, awake, inside; /* numbers of threads by the state in which the proof of
					   detach found them */
};

static struct soak {
	const struct kind *kind;
	uint64_t seed, random, cycle, limit, end_ms;
	cpu_set_t cores; /* that the test may use */
	struct victim victim;
	struct tap tap;
	bool tombstone; /* a jump page stayed after the last cycle */
	bool failing;	/* if the process exits now, the test has failed */
} soak;

static uint64_t setting(const char *name, uint64_t otherwise)
{
	const char *text = getenv(name);
	return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

/* --- when it fails -------------------------------------------------------------------------- */

static void keep_file(const char *directory, const char *name, const char *source)
{
	static char buffer[1 << 16];
	char path[4400];
	snprintf(path, sizeof(path), "%s/%s", directory, name);
	int from = open(source, O_RDONLY | O_CLOEXEC);
	int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	for (ssize_t got; from >= 0 && (got = read(from, buffer, sizeof(buffer))) > 0;)
		if (write(to, buffer, (size_t)got) != got)
			break;
	close(from);
	close(to);
}

static void keep_threads(const char *directory)
{
	static const char *const facts[] = {"status", "syscall", "wchan", "stack", "stat"};
	char path[400], name[400];
	snprintf(path, sizeof(path), "/proc/%d/task", soak.victim.pid);
	DIR *dir = opendir(path);
	for (struct dirent *entry; dir && (entry = readdir(dir));)
		for (size_t i = 0; entry->d_name[0] != '.' && i < HT_ARRAY_SIZE(facts); i++) {
			snprintf(path, sizeof(path), "/proc/%d/task/%s/%s", soak.victim.pid,
				entry->d_name, facts[i]);
			snprintf(name, sizeof(name), "thread-%s-%s", entry->d_name, facts[i]);
			keep_file(directory, name, path);
		}
	if (dir)
		closedir(dir);
}

/* Keeps output, trace and /proc files of the target, before they disappear with the test. */
static void keep_everything(void)
{
	static const char *const facts[] = {"maps", "smaps", "status", "limits"};
	const char *keep = getenv("HEAPTAP_SOAK_KEEP");
	char path[4200], fact[64];
	if (!soak.failing)
		return;
	printf("soak: %s failed in cycle %lu; again: scripts/soak --kind %s --seed %lu\n",
		soak.kind->name, (unsigned long)soak.cycle, soak.kind->name,
		(unsigned long)soak.seed);
	if (!keep || !*keep)
		return;
	snprintf(path, sizeof(path), "%s/%s-%lu", keep, soak.kind->name, (unsigned long)soak.cycle);
	mkdir(keep, 0700);
	mkdir(path, 0700);
	for (size_t i = 0; i < HT_ARRAY_SIZE(facts); i++) {
		snprintf(fact, sizeof(fact), "/proc/%d/%s", soak.victim.pid, facts[i]);
		keep_file(path, facts[i], fact);
	}
	keep_threads(path);
	keep_file(path, "trace.htap", soak.tap.trace);
	snprintf(fact, sizeof(fact), "/proc/self/fd/%d", soak.tap.run.out_fd);
	keep_file(path, "stdout", fact);
	snprintf(fact, sizeof(fact), "/proc/self/fd/%d", soak.tap.run.err_fd);
	keep_file(path, "stderr", fact);
	printf("soak: kept in %s\n", path);
}

/* --- one cycle ------------------------------------------------------------------------------ */

static uint64_t below(uint64_t limit)
{
	return random_below(&soak.random, limit);
}

/* Restricts target and heaptap to one common core, or lifts the restriction. */
static void pin(bool one_core)
{
	char path[64];
	cpu_set_t set = soak.cores;
	if (one_core) {
		int core = (int)below((uint64_t)CPU_COUNT(&soak.cores)), cpu = 0;
		for (; !CPU_ISSET(cpu, &soak.cores) || core-- > 0; cpu++)
			;
		CPU_ZERO(&set);
		CPU_SET(cpu, &set);
	}
	sched_setaffinity(0, sizeof(set), &set); /* heaptap inherits it */
	snprintf(path, sizeof(path), "/proc/%d/task", soak.victim.pid);
	DIR *dir = opendir(path);
	ck_assert_ptr_nonnull(dir);
	for (struct dirent *entry; (entry = readdir(dir));)
		if (entry->d_name[0] != '.')
			sched_setaffinity(
				(pid_t)strtol(entry->d_name, NULL, 10), sizeof(set), &set);
	closedir(dir);
}

static void pause_until(uint64_t end_ms)
{
	while (run_now_ms() < end_ms && !run_has_ended(&soak.tap.run))
		run_pause();
}

/* Was the only problem that events were dropped, because other load kept the daemon from its core?
 * A failed output or damaged shared memory has the same exit code, and is a failure. */
static bool only_drops(const char *out)
{
	if (out[0] != '{')
		return false;
	json_auto_t *attach = report_parse(out);
	const char *ended = report_text(attach, "ended");
	bool only = report_u64(attach, "dropped_events") > 0 && report_u64(attach, "damage") == 0 &&
		    (!strcmp(ended, "duration") || !strcmp(ended, "signal"));
	return only;
}

static void check_status(int status)
{
	char *out = run_out(&soak.tap.run), *err = run_err(&soak.tap.run);
	ck_assert_msg(status == 0 || (status == 6 && soak.kind->stores) ||
			      (status == 7 && only_drops(out)),
		"heaptap ended with %d in cycle %lu of seed %lu: %s%s", status,
		(unsigned long)soak.cycle, (unsigned long)soak.seed, out, err);
	free(out);
	free(err);
}

static void run_cycle(void)
{
	char window[32];
	const char *extra[] = {"--linger", "0", "--symbolize", "later", "-f", "--hook",
		soak.kind->hook, NULL, NULL, NULL};
	bool by_signal = below(2), one_core = below(4) == 0;
	uint64_t after_ms = by_signal ? below(SIGNAL_MAX_MS + 1) : 1 + below(WINDOW_MAX_MS);
	int nice = below(3) ? 0 : (int)below(20);

	if (!by_signal) {
		snprintf(window, sizeof(window), "%lums", (unsigned long)after_ms);
		extra[7] = "-d";
		extra[8] = window;
	}
	pin(one_core);
	/* Block SIGINT across the start: the signal may come before heaptap handles it. */
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, NULL);
	tap_start(&soak.tap, soak.victim.pid, extra);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	setpriority(PRIO_PROCESS, (id_t)soak.tap.run.pid, nice);
	if (by_signal) {
		pause_until(run_now_ms() + after_ms);
		kill(soak.tap.run.pid, SIGINT);
	}
	int status = run_wait(&soak.tap.run, CYCLE_MS);
	if (one_core)
		pin(false);
	check_status(status);
}

/* No mapping of heaptap, no traced thread: a check that is cheap enough for every cycle. */
static void check_quickly(void)
{
	HT_FREED char *ours = procsnap_ours(soak.victim.pid);
	ck_assert_msg(!ours[0], "after cycle %lu of seed %lu: %s", (unsigned long)soak.cycle,
		(unsigned long)soak.seed, ours);
}

/* Only the jump page may stay. The next attach takes it over. */
static void check_tombstone(const json_t *attach)
{
	const char *part;
	json_t *verdict;
	ck_assert_uint_eq(report_u64(attach, "level"), 2);
	json_object_foreach(report_at(attach, "verify"), part, verdict)
		ck_assert_msg(!strcmp(part, "maps") || !strcmp(json_string_value(verdict), "equal"),
			"%s: %s", part, json_string_value(verdict));
}

static void take_note(struct tally *tally)
{
	char *out = run_out(&soak.tap.run);
	json_t *attach = report_parse(out);
	soak.tombstone = report_u64(attach, "level") == 2;
	ck_assert(!soak.tombstone || soak.kind->stores);
	if (soak.tombstone) {
		check_tombstone(attach);
		tally->tombstones++;
	} else {
		tap_check_equal(attach);
		check_quickly();
	}
	uint64_t at = tally->cycles++;
	tally->attach_ns[at] = report_u64(attach, "attach_ns");
	tally->detach_ns[at] = report_u64(attach, "detach_ns");
	tally->stop_ns[at] = report_u64(attach, "stop_ns");
	tally->events += report_u64(attach, "events");
	tally->dropping += report_u64(attach, "dropped_events") > 0;
	tally->asleep += report_u64(attach, "threads_met.asleep");
	tally->awake += report_u64(attach, "threads_met.awake");
	tally->inside += report_u64(attach, "threads_met.inside");
	json_decref(attach);
	free(out);
	run_deinit(&soak.tap.run);
	unlink(soak.tap.trace);
}

/* --- one kind of target --------------------------------------------------------------------- */

static void start_victim(const char *const program[])
{
	char path[64];
	const char *argv[5] = {0};
	for (size_t i = 0; i < 4 && program[i]; i++)
		argv[i] = program[i];
	snprintf(path, sizeof(path), "tests/targets/%s", argv[0]);
	if (argv[0][0] != '/')
		argv[0] = run_built(path);
	victim_start(&soak.victim, argv);
}

static bool more(uint64_t done, uint64_t cycles)
{
	return soak.end_ms ? run_now_ms() < soak.end_ms : done < cycles;
}

static void run_program_of_kind(const char *const program[], uint64_t cycles, struct tally *tally)
{
	start_victim(program);
	struct procsnap *before = procsnap_take(soak.victim.pid, soak.kind->flags);
	for (uint64_t i = 0; more(i, cycles); i++, soak.cycle++) {
		if (tally->cycles == soak.limit)
			break;
		run_cycle();
		take_note(tally);
		if (i % CHECKPOINT == CHECKPOINT - 1 && !soak.tombstone) {
			victim_prove_alive(&soak.victim);
			procsnap_verify(before, soak.victim.pid);
			before = procsnap_take(soak.victim.pid, soak.kind->flags);
		}
	}
	victim_prove_alive(&soak.victim);
	if (!soak.tombstone)
		procsnap_verify(before, soak.victim.pid);
	victim_stop(&soak.victim);
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

static void print_spread(const char *what, uint64_t *value, uint64_t count)
{
	qsort(value, count, sizeof(*value), compare);
	printf("  %s %.1f/%.1f/%.1f ms", what, (double)value[count / 2] / 1e6,
		(double)value[count - 1 - count / 100] / 1e6, (double)value[count - 1] / 1e6);
}

static void print_tally(struct tally *tally, uint64_t took_ms)
{
	uint64_t n = tally->cycles;
	printf("soak: %s N %lu failures 0 bound %.5f (3/N, 95 %%) seed %lu, %.0f ms a cycle\n",
		soak.kind->name, (unsigned long)n, 3.0 / (double)n, (unsigned long)soak.seed,
		(double)took_ms / (double)n);
	printf("  median/99 %%/longest:");
	print_spread("attach", tally->attach_ns, n);
	print_spread("detach", tally->detach_ns, n);
	print_spread("stop", tally->stop_ns, n);
	if (tally->tombstones)
		printf("\n  %lu times a page of jumps stayed until the next attach",
			(unsigned long)tally->tombstones);
	if (tally->dropping)
		printf("\n  %lu cycles with events dropped (exit code 7)",
			(unsigned long)tally->dropping);
	printf("\n  %lu events; threads met at detach: %lu asleep, %lu awake, %lu inside the "
	       "agent\n",
		(unsigned long)tally->events, (unsigned long)tally->asleep,
		(unsigned long)tally->awake, (unsigned long)tally->inside);
	fflush(stdout);
}

/* Many cycles must have found threads in each state, or their success would not test the proof of
 * detach. */
static void check_met(const struct tally *tally)
{
	if (tally->cycles < MET_CYCLES)
		return;
	ck_assert_uint_gt(tally->awake, 0);
	ck_assert_msg(tally->asleep > 0 || !(soak.kind->meets & ASLEEP), "no thread was asleep");
	ck_assert_msg(tally->inside > 0 || !(soak.kind->meets & INSIDE), "no thread was inside");
}

#define CYCLES_MAX (1u << 22)

static void run_kind(const struct kind *kind)
{
	uint64_t seconds = setting("HEAPTAP_SOAK_SECONDS", 0);
	uint64_t cycles = setting("HEAPTAP_SOAK_CYCLES", sample_size(SLICE_CYCLES, FEW_CYCLES));
	size_t programs = kind->program[1][0] ? 2 : 1;

	soak = (struct soak){.kind = kind,
		.seed = setting("HEAPTAP_SOAK_SEED", sample_seed(1)),
		.limit = seconds ? CYCLES_MAX : cycles,
		.failing = true};
	ck_assert_int_eq(sched_getaffinity(0, sizeof(soak.cores), &soak.cores), 0);
	/* Each kind has its own random numbers. */
	soak.random = soak.seed;
	for (const char *c = kind->name; *c; c++)
		soak.random = random_next(&soak.random) ^ (uint64_t)*c;
	free(tmpdir_path("")); /* atexit handlers run in reverse: remove the directory after
				  keep_everything */
	atexit(keep_everything);
	struct tally tally = {.attach_ns = calloc(soak.limit, sizeof(uint64_t)),
		.detach_ns = calloc(soak.limit, sizeof(uint64_t)),
		.stop_ns = calloc(soak.limit, sizeof(uint64_t))};
	ck_assert(tally.attach_ns && tally.detach_ns && tally.stop_ns);
	uint64_t start_ms = run_now_ms();
	for (size_t i = 0; i < programs; i++) {
		soak.end_ms = seconds ? run_now_ms() + seconds * 1000 / programs : 0;
		run_program_of_kind(kind->program[i],
			cycles / programs + (i == 0 ? cycles % programs : 0), &tally);
	}
	ck_assert_uint_gt(tally.cycles, 0);
	print_tally(&tally, run_now_ms() - start_ms);
	check_met(&tally);
	soak.failing = false;
}

#define KIND(id, hook_, stores_, meets_, flags_, ...)                                              \
	HT_TEST(id)                                                                                \
	{                                                                                          \
		static const struct kind kind = {.name = #id,                                      \
			.program = __VA_ARGS__,                                                    \
			.hook = hook_,                                                             \
			.flags = flags_,                                                           \
			.meets = meets_,                                                           \
			.stores = stores_};                                                        \
		const char *only = getenv("HEAPTAP_SOAK_KIND");                                    \
		if (!soak.failing && (!only || !*only || !strcmp(only, #id)))                      \
			run_kind(&kind);                                                           \
	}

KIND(threads, "slot", false, ASLEEP, PROCSNAP_MASKS_CHANGE, {{"busy", "-t", "3"}})
KIND(signals, "slot", false, ASLEEP, PROCSNAP_MASKS_CHANGE, {{"busy", "-t", "2", "-s"}})
KIND(loads, "slot", false, ASLEEP,
	PROCSNAP_MASKS_CHANGE | PROCSNAP_FDS_CHANGE | PROCSNAP_PLUG_CHANGES,
	{{"busy", "-t", "1", "-l"}})
KIND(forks, "slot", false, ASLEEP | INSIDE, PROCSNAP_MASKS_CHANGE | PROCSNAP_FDS_CHANGE,
	{{"busy", "-t", "1", "-f"}})
KIND(node, "slot", false, 0,
	PROCSNAP_MASKS_CHANGE | PROCSNAP_JIT | PROCSNAP_THREADS_CHANGE | PROCSNAP_FDS_CHANGE |
		PROCSNAP_MODULES_GROW,
	{{"/usr/bin/env", "node", "tests/targets/script.js"}})
KIND(hoisted, "slot", true, 0, PROCSNAP_MASKS_CHANGE, {{"hoist", "-r"}, {"rust-lto"}})

KIND(linked, "auto", false, ASLEEP, PROCSNAP_MASKS_CHANGE,
	{{"busy-static", "-t", "2", "-s"}, {"busy-static-pie", "-t", "3"}})

HT_SUITE("integration/soak")
