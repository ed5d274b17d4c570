/* SPDX-License-Identifier: Apache-2.0
 *
 * `heaptap run --follow-forks`: each child has its own trace; if the child execs, from its
 * program's first allocation. Children run as without heaptap, also those above the limit, which
 * are counted, and also when processes of heaptap are killed.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/command.h"
#include "tests/support/files.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/random.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/tap.h"
#include "tests/support/tracefile.h"

#define RUN_MS	     120000
#define WORDS_MAX    24
#define EARLY_BLOCKS 39 /* all blocks that early allocates */
#define ROUND_BYTES  5000
#define ROUND_BLOCKS 8
#define LAST_ROUNDS  20
#define TRACES_MAX   129 /* traces of the command, and of children that exit or exec once */
#define KILLS	     12

static char *directory;

struct words {
	const char *argv[WORDS_MAX];
};

static struct words words_of(const char *const words[])
{
	static char path[4096];
	directory = directory ? directory : files_directory();
	snprintf(path, sizeof(path), "%s/x.htap", directory);
	struct words ret = {
		{run_built("heaptap"), "run", "--follow-forks", "-f", "-o", path, "--"}};
	for (size_t at = 7; *words && at < WORDS_MAX - 1; words++)
		ret.argv[at++] = *words;
	return ret;
}

/* Calls `look` for each trace but the command's own; returns the number of calls. */
static unsigned each_child(void (*look)(void *context, const char *path), void *context)
{
	unsigned count = 0;
	DIR *dir = opendir(directory);
	for (const struct dirent *entry; (entry = readdir(dir));) {
		if (entry->d_name[0] == '.' || !strcmp(entry->d_name, "x.htap"))
			continue;
		char *path = files_path(directory, entry->d_name);
		count++;
		if (look)
			look(context, path);
		free(path);
	}
	closedir(dir);
	return count;
}

static void remove_one(void *context, const char *path)
{
	(void)context;
	unlink(path);
}

static void note_early(void *context, const char *path)
{
	json_auto_t *report = report_load(path);
	unsigned *found = context;
	*found += report_u64(report, "totals.allocations") == EARLY_BLOCKS &&
		  report_u64(report, "capture.dropped_events") == 0;
}

/* --- what they become --- */

static void check_way(const char *way, bool early)
{
	struct words all = words_of((const char *[]){
		run_built("tests/targets/brood"), way, run_built("tests/targets/early"), NULL});
	unsigned found = 0;
	HT_FREED char *out, *err;
	int status = run_program(all.argv, RUN_MS, &out, &err);
	ck_assert_msg(status == 0, "%s: %d: %s%s", way, status, out, err);
	unsigned children = each_child(note_early, &found);
	if (early)
		ck_assert_msg(found == 1 && !strstr(err, "had begun"), "%s: %u of %u: %s", way,
			found, children, err);
	each_child(remove_one, NULL);
}

HT_TEST(child_by_any_function)
{
	static const char *const ways[] = {
		"fork", "vfork", "posix_spawn", "posix_spawnp", "system", "popen", "forkpty"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(ways); i++)
		check_way(ways[i], true);
}

/* heaptap finds a child of a clone system call only when it looks; there is no bound on how
 * late. */
HT_TEST(child_by_a_system_call)
{
	check_way("clone", false);
}

/* The child ignores these signals; heaptap traces it until its exec and must not deliver them. */
HT_TEST(signals_that_are_ignored)
{
	for (unsigned i = 0; i < 10; i++)
		check_way("winch", false);
}

HT_TEST(through_wrappers)
{
	static const char *const lines[] = {"\"$1\" x; \"$1\" x",
		"\"$1\" x | cat; :", "timeout 60 \"$1\" x; :", "echo \"$1\" x | sh"};
	static const unsigned earlies[] = {2, 1, 1, 1};
	for (size_t i = 0; i < HT_ARRAY_SIZE(lines); i++) {
		struct words all = words_of((const char *[]){
			"sh", "-c", lines[i], "sh", run_built("tests/targets/early"), NULL});
		unsigned found = 0;
		char *err;
		ck_assert_int_eq(run_program(all.argv, RUN_MS, NULL, &err), 0);
		each_child(note_early, &found);
		/* Two children start at the same time, and heaptap may be late for one of them, and
		 * then says so. */
		ck_assert_msg(found == earlies[i] || strstr(err, "had begun") ||
				      strstr(err, "not recorded"),
			"%s: %u: %s", lines[i], found, err);
		each_child(remove_one, NULL);
		free(err);
	}
}

/* --- what is forked, and goes on --- */

/* The PID in the name of heaptap's memfd in the process; 0: the process has none. */
static pid_t daemon_of(pid_t pid)
{
	char path[32], line[4200];
	pid_t daemon = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	FILE *file = fopen(path, "re");
	while (file && !daemon && fgets(line, sizeof(line), file)) {
		const char *name = strstr(line, "memfd:heaptap-");
		daemon = name ? (pid_t)strtol(name + strlen("memfd:heaptap-"), NULL, 10) : 0;
	}
	if (file)
		fclose(file);
	return daemon;
}

static bool is_own(pid_t parent, pid_t child)
{
	pid_t daemon = daemon_of(child);
	return daemon && daemon != daemon_of(parent) && tap_is_on(child, "brood");
}

struct keeper {
	struct command command;
	struct run run;
	pid_t child;
};

static void keeper_start(struct keeper *keeper)
{
	struct words all =
		words_of((const char *[]){run_built("tests/targets/brood"), "keep", NULL});
	command_start(&keeper->command, &keeper->run, all.argv, RUN_MS);
	char *line = victim_line(&keeper->command.victim, RUN_MS);
	ck_assert_int_eq(sscanf(line, "child %d", &keeper->child), 1);
	free(line);
	run_until(is_own(keeper->command.victim.pid, keeper->child), RUN_MS);
}

static unsigned keeper_stop(struct keeper *keeper)
{
	unsigned rounds;
	victim_send(&keeper->command.victim, "stop");
	HT_FREED char *line = victim_line(&keeper->command.victim, RUN_MS);
	ck_assert_int_eq(sscanf(line, "rounds %u", &rounds), 1);
	return rounds;
}

static void keeper_deinit(struct keeper *keeper)
{
	each_child(remove_one, NULL);
	run_deinit(&keeper->run);
	command_deinit(&keeper->command);
}

/* From the first round after the child was hooked, the trace must have every block. */
static void check_rounds(const char *path, unsigned rounds)
{
	unsigned *blocks = calloc(rounds, sizeof(*blocks)), first = 0;
	struct tracefile file;
	tracefile_load(path, &file);
	for (size_t i = 0; i < file.event_count; i++) {
		const struct event *event = &file.event[i];
		uint64_t round = event->size - ROUND_BYTES;
		if (event->kind == ABI_EVENT_ALLOC && round < rounds)
			blocks[round]++;
	}
	while (first < rounds && !blocks[first])
		first++;
	/* "stop" may come before the hooks are set, and after the first of the last rounds has
	 * allocated. */
	ck_assert_uint_le(first, rounds - LAST_ROUNDS + 1);
	for (unsigned i = first + 1; i < rounds; i++)
		ck_assert_msg(
			blocks[i] == ROUND_BLOCKS, "%u in round %u of %u", blocks[i], i, rounds);
	tracefile_deinit(&file);
	free(blocks);
}

HT_TEST(exact_from_its_tap_on)
{
	struct keeper keeper;
	char name[64];
	keeper_start(&keeper);
	unsigned rounds = keeper_stop(&keeper);
	ck_assert_int_eq(run_wait(&keeper.run, RUN_MS), 0);
	snprintf(name, sizeof(name), "x.%d.htap", keeper.child);
	char *path = files_path(directory, name);
	check_rounds(path, rounds);
	free(path);
	keeper_deinit(&keeper);
}

/* When the command ends, heaptap ends; the command's children run on, clean. */
HT_TEST(the_command_ends_first)
{
	struct keeper keeper;
	keeper_start(&keeper);
	kill(keeper.run.pid, SIGTERM);
	ck_assert_int_eq(run_wait(&keeper.run, RUN_MS), 128 + SIGTERM);
	ck_assert(procsnap_is_clean(keeper.child));
	ck_assert_uint_eq(each_child(NULL, NULL), 1);
	(void)keeper_stop(&keeper);
	keeper_deinit(&keeper);
}

static void each_of(pid_t pid, void (*act)(void *context, pid_t child), void *context)
{
	char path[64];
	int child;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	FILE *file = fopen(path, "re");
	while (file && fscanf(file, "%d", &child) == 1)
		act(context, child);
	if (file)
		fclose(file);
}

static void kill_all(void *context, pid_t pid)
{
	pid_t spared = *(pid_t *)context;
	if (pid == spared)
		return;
	kill(pid, SIGSTOP);
	each_of(pid, kill_all, context);
	kill(pid, SIGKILL);
}

HT_TEST(heaptap_is_killed_while_a_child_is_recorded)
{
	struct keeper keeper;
	keeper_start(&keeper);
	kill(keeper.run.pid, SIGKILL);
	run_until(procsnap_is_clean(keeper.child), RUN_MS);
	run_until(procsnap_is_clean(keeper.command.victim.pid), RUN_MS);
	(void)keeper_stop(&keeper);
	keeper_deinit(&keeper);
}

/* heaptap waits neither for the command's child nor for that child's child. */
HT_TEST(does_not_wait_for_children)
{
	struct words all =
		words_of((const char *[]){"sh", "-c", "(sleep 600; :) & sleep 1; echo $!", NULL});
	pid_t none = 0, child;
	HT_FREED char *out, *err;
	ck_assert_int_eq(run_program(all.argv, RUN_MS, &out, &err), 0);
	ck_assert_int_eq(sscanf(out, "%d", &child), 1);
	ck_assert_msg(procsnap_is_clean(child), "%s", err);
	kill_all(&none, child);
	each_child(remove_one, NULL);
}

/* heaptap must not delay a child's end for its parent: when the pidfd is readable, waitpid must
 * succeed at once. */
HT_TEST(their_ends_are_seen_at_once)
{
	struct words all =
		words_of((const char *[]){run_built("tests/targets/brood"), "ends", "60", NULL});
	HT_FREED char *out, *err;
	int status = run_program(all.argv, RUN_MS, &out, &err);
	ck_assert_msg(status == 0, "%d: %s%s", status, out, err);
	each_child(remove_one, NULL);
}

/* --- storms --- */

static unsigned wrong_of(struct victim *victim)
{
	unsigned wrong = ~0u;
	while (wrong == ~0u) {
		char *line = victim_line(victim, RUN_MS);
		(void)sscanf(line, "wrong %u", &wrong);
		free(line);
	}
	return wrong;
}

HT_TEST(over_the_bound_they_run_unrecorded)
{
	struct words all =
		words_of((const char *[]){run_built("tests/targets/brood"), "storm", "600", NULL});
	HT_FREED char *err;
	ck_assert_int_eq(run_program(all.argv, RUN_MS, NULL, &err), 0);
	ck_assert_msg(strstr(err, "child processes were not recorded"), "%.2000s", err);
	unsigned children = each_child(NULL, NULL);
	ck_assert_uint_le(children, TRACES_MAX);
	each_child(remove_one, NULL);
}

struct pick {
	unsigned skip;
	pid_t command, picked;
};

static void pick_one(void *context, pid_t pid)
{
	struct pick *pick = context;
	if (pid != pick->command && (!pick->picked || pick->skip--))
		pick->picked = pid;
}

/* Kills processes of heaptap when a random child has started. `what` 0: the main process; 1: one of
 * its children; 2: all. */
static void check_killed(uint64_t *random, unsigned what)
{
	struct words all =
		words_of((const char *[]){run_built("tests/targets/brood"), "storm", "24", NULL});
	unsigned at = (unsigned)random_below(random, 20), made = ~0u;
	struct command command;
	struct run run;
	command_start(&command, &run, all.argv, RUN_MS);
	struct pick pick = {
		.skip = (unsigned)random_below(random, 4), .command = command.victim.pid};
	while (made != at) {
		char *line = victim_line(&command.victim, RUN_MS);
		(void)sscanf(line, "made %u", &made);
		free(line);
	}
	if (what == 1)
		each_of(run.pid, pick_one, &pick);
	if (what == 2) {
		kill(run.pid, SIGSTOP);
		each_of(run.pid, kill_all, &pick.command);
	}
	kill(what == 1 && pick.picked ? pick.picked : run.pid, SIGKILL);
	ck_assert_uint_eq(wrong_of(&command.victim), 0);
	each_child(remove_one, NULL);
	run_deinit(&run);
	command_deinit(&command);
}

HT_TEST(survives_the_kill_of_any_process)
{
	uint64_t random = 1;
	for (unsigned i = 0; i < KILLS; i++)
		check_killed(&random, i % 3);
}

HT_SUITE("integration/run_forks")
