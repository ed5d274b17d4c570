/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/tap.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/abi_control.h"
#include "tests/support/child.h"
#include "tests/support/gotwords.h"
#include "tests/support/looks.h"
#include "tests/support/report.h"
#include "tests/support/tmpdir.h"

#define ARGUMENTS_MAX	  24
#define TARGET_ENDED	  5
#define DETACH_INCOMPLETE 6
#define DROPPED		  7
#define ATTACH_MS	  30000
#define DETACH_MS	  90000 /* includes the lookup of symbols of large programs */

static void start(struct tap *tap, pid_t target, const char *const extra[])
{
	static unsigned traces;
	char name[32], pid[16];
	snprintf(name, sizeof(name), "%u.htap", traces++);
	snprintf(pid, sizeof(pid), "%d", target);
	char *path = tmpdir_path(name);
	snprintf(tap->trace, sizeof(tap->trace), "%s", path);
	free(path);
	const char *argv[ARGUMENTS_MAX] = {
		run_built("heaptap"), "attach", "-p", pid, "-o", tap->trace, "--json"};
	for (size_t i = 0; extra && extra[i]; i++) {
		ck_assert_uint_lt(7 + i, ARGUMENTS_MAX - 1);
		argv[7 + i] = extra[i];
	}
	run_start(&tap->run, argv);
}

/* A zombie does not count: /proc shows no memory of a process whose main thread has ended. */
static bool has_target(const struct tap *tap)
{
	return kill(tap->target, 0) == 0 && child_state(tap->target) != 'Z';
}

/* glibc creates a thread with all signals blocked but SIGKILL and SIGSTOP. The mask stays until the
 * thread first runs, which may be long after the program is ready. */
static bool has_newborn(pid_t pid)
{
	char line[300];
	bool found = false;
	snprintf(line, sizeof(line), "/proc/%d/task", pid);
	DIR *task = opendir(line);
	for (struct dirent *entry; task && (entry = readdir(task));) {
		snprintf(line, sizeof(line), "/proc/%d/task/%s/status", pid, entry->d_name);
		FILE *status = entry->d_name[0] == '.' ? NULL : fopen(line, "re");
		while (status && fgets(line, sizeof(line), status))
			found |= !strcmp(line, "SigBlk:\tfffffffffffbfeff\n");
		if (status)
			fclose(status);
	}
	if (task)
		closedir(task);
	return found;
}

void tap_look(struct tap *tap, unsigned changes)
{
	tap->before = NULL;
	if (looks_has(tap->target) || !has_target(tap))
		return;
	if (!(changes & PROCSNAP_MASKS_CHANGE))
		run_until(!has_newborn(tap->target), ATTACH_MS);
	tap->before = procsnap_take(tap->target, changes);
}

void tap_start(struct tap *tap, pid_t target, const char *const extra[])
{
	tap_start_changing(tap, target, 0, extra);
}

void tap_start_changing(struct tap *tap, pid_t target, unsigned changes, const char *const extra[])
{
	tap->target = target;
	tap_look(tap, changes);
	start(tap, target, extra);
}

static bool is_traced(pid_t pid)
{
	char line[256];
	snprintf(line, sizeof(line), "/proc/%d/status", pid);
	FILE *status = fopen(line, "re");
	int tracer = -1;
	while (status && tracer < 0 && fgets(line, sizeof(line), status))
		sscanf(line, "TracerPid: %d", &tracer);
	if (status)
		fclose(status);
	return tracer != 0;
}

static void check_running(struct tap *tap)
{
	if (run_has_ended(&tap->run))
		ck_abort_msg("heaptap ended early: %s", run_err(&tap->run));
}

bool tap_is_on(pid_t target, const char *module)
{
	size_t all;
	size_t tapped = gotwords_tapped(target, module, &all);
	ck_assert_msg(all > 0, "no allocator slot in %s", module);
	return tapped == all && !is_traced(target);
}

/* Where `pid` has the part of the image mapped that begins at `offset`; 0: nowhere. */
static uint64_t image_part(pid_t pid, uint64_t offset)
{
	char line[4400];
	uint64_t lo, start, found = 0;
	snprintf(line, sizeof(line), "/proc/%d/maps", pid);
	FILE *maps = fopen(line, "re");
	while (maps && !found && fgets(line, sizeof(line), maps))
		if (strstr(line, "/memfd:heaptap-") &&
			sscanf(line, "%" SCNx64 "-%*x rw-s %" SCNx64, &lo, &start) == 2 &&
			start == offset)
			found = lo;
	if (maps)
		fclose(maps);
	return found;
}

static int open_memory(pid_t pid, int flags)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	return open(path, flags | O_CLOEXEC);
}

uint64_t tap_control(pid_t target, size_t offset)
{
	uint64_t word = 0, control = image_part(target, ABI_CONTROL_OFF);
	int memory = control ? open_memory(target, O_RDONLY) : -1;
	if (memory < 0)
		return 0;
	bool read = pread(memory, &word, sizeof(word), (off_t)(control + offset)) ==
		    (ssize_t)sizeof(word);
	close(memory);
	return read ? word : 0;
}

/* Writes through heaptap's mapping of the image, because the target's mapping is read-only. */
void tap_configure(const struct tap *tap, size_t offset, uint64_t word)
{
	uint64_t image = image_part(tap->run.pid, 0);
	ck_assert_uint_ne(image, 0);
	int memory = open_memory(tap->run.pid, O_RDWR);
	ck_assert_int_ge(memory, 0);
	off_t at = (off_t)(image + ABI_CONFIG_OFF + offset);
	ck_assert_int_eq(pwrite(memory, &word, sizeof(word), at), sizeof(word));
	close(memory);
}

/* The daemon starts to count its passes over the shared memory (`tick`) when everything is
 * tapped. */
bool tap_is_recording(pid_t target)
{
	return tap_control(target, offsetof(struct abi_control, tick)) != 0;
}

static bool is_on(struct tap *tap, const char *module)
{
	check_running(tap);
	return tap_is_on(tap->target, module) && tap_is_recording(tap->target);
}

void tap_wait_on(struct tap *tap, const char *module)
{
	run_until(is_on(tap, module), ATTACH_MS);
}

static bool is_any_on(struct tap *tap)
{
	check_running(tap);
	return gotwords_tapped(tap->target, "", NULL) > 0 && !is_traced(tap->target) &&
	       tap_is_recording(tap->target);
}

void tap_wait_any(struct tap *tap)
{
	run_until(is_any_on(tap), ATTACH_MS);
}

json_t *tap_stop(struct tap *tap, int expected_status)
{
	kill(tap->run.pid, SIGINT);
	return tap_wait(tap, expected_status);
}

void tap_verify_but(struct tap *tap, const char *const expected[])
{
	ck_assert_ptr_nonnull(tap->before);
	procsnap_verify_but(tap->before, tap->target, expected);
	tap->before = NULL;
}

void tap_verify(struct tap *tap)
{
	tap_verify_but(tap, (const char *[]){NULL});
}

void tap_drop(struct tap *tap, const char *why)
{
	ck_assert(why[0]);
	procsnap_drop(tap->before);
	tap->before = NULL;
}

void tap_verify_soon(struct tap *tap, unsigned limit_ms)
{
	ck_assert_ptr_nonnull(tap->before);
	procsnap_wait(tap->before, tap->target, limit_ms);
	procsnap_destroy(tap->before);
	tap->before = NULL;
}

/* True if heaptap refused the target for any reason, or reports no leftover. */
static bool should_be_unchanged(const json_t *attach, int status)
{
	if (!attach)
		return status != TARGET_ENDED && status != DETACH_INCOMPLETE;
	if (status == TARGET_ENDED && strcmp(report_text(attach, "ended"), "forbidden") != 0)
		return false;
	return status != DETACH_INCOMPLETE && report_u64(attach, "level") <= 1;
}

/* The jump page may stay with any exit status. */
static bool has_left_page(const json_t *attach)
{
	const json_t *level = attach ? json_object_get(attach, "level") : NULL;
	return json_is_integer(level) && json_integer_value(level) == 2;
}

/* Checks the target itself when heaptap reports that nothing is left. */
static void check_nothing_stayed(struct tap *tap, const json_t *attach, int status)
{
	if (!should_be_unchanged(attach, status) || !has_target(tap))
		return;
	char *ours = procsnap_ours(tap->target);
	ck_assert_msg(!ours[0], "of heaptap, which says that nothing is left: %s", ours);
	free(ours);
	if (tap->before)
		tap_verify(tap);
}

json_t *tap_wait(struct tap *tap, int expected_status)
{
	int status = run_wait(&tap->run, DETACH_MS);
	char *out = run_out(&tap->run), *err = run_err(&tap->run);
	json_t *attach = out[0] == '{' ? report_parse(out) : NULL;
	if (expected_status == TAP_MAY_DROP)
		expected_status = attach && report_u64(attach, "dropped_events") ? DROPPED : 0;
	ck_assert_msg(status == expected_status, "heaptap ended with %d instead of %d: %s%s",
		status, expected_status, out, err);
	check_nothing_stayed(tap, attach, status);
	if (status != DETACH_INCOMPLETE && !has_left_page(attach))
		tap_drop(tap, "the target has ended, or is another program");
	free(out);
	free(err);
	run_deinit(&tap->run);
	return attach;
}

void tap_check_clean(const json_t *attach)
{
	tap_check_equal(attach);
	ck_assert_uint_eq(report_u64(attach, "dropped_events"), 0);
	ck_assert_uint_eq(report_u64(attach, "slots_restored"), report_u64(attach, "slots_tapped"));
}

void tap_check_equal(const json_t *attach)
{
	ck_assert_ptr_nonnull(attach);
	ck_assert_str_eq(report_text(attach, "schema"), "heaptap.attach/1");
	ck_assert_uint_le(report_u64(attach, "level"), 1);
	ck_assert_str_eq(report_text(attach, "why"), "");
	ck_assert_uint_eq(
		report_u64(attach, "slots_restored") + report_u64(attach, "slots_changed"),
		report_u64(attach, "slots_tapped"));
	const char *part;
	json_t *verdict;
	json_object_foreach(report_at(attach, "verify"), part, verdict) ck_assert_msg(
		json_is_string(verdict) && !strcmp(json_string_value(verdict), "equal"), "%s: %s",
		part, json_string_value(verdict));
	ck_assert_uint_eq(json_object_size(report_at(attach, "verify")), 6);
}

void tap_check_balance(const json_t *attach, uint64_t calls)
{
	uint64_t events = report_u64(attach, "events"),
		 dropped = report_u64(attach, "dropped_events");
	ck_assert_msg(events + dropped == calls, "%lu events and %lu dropped of %lu calls", events,
		dropped, calls);
}

/* The guardian is heaptap's first child. */
pid_t tap_guardian(const struct tap *tap)
{
	char path[64];
	pid_t guardian = 0;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", tap->run.pid, tap->run.pid);
	FILE *children = fopen(path, "re");
	ck_assert_ptr_nonnull(children);
	ck_assert_int_eq(fscanf(children, "%d", &guardian), 1);
	fclose(children);
	return guardian;
}

pid_t tap_kill_daemon(struct tap *tap)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	pid_t guardian = tap_guardian(tap);
	kill(guardian, SIGSTOP);
	kill(tap->run.pid, SIGKILL);
	ck_assert_int_eq(run_wait(&tap->run, ATTACH_MS), 128 + SIGKILL);
	run_deinit(&tap->run);
	return guardian;
}

void tap_abandon(struct tap *tap)
{
	pid_t guardian = tap_kill_daemon(tap);
	kill(guardian, SIGKILL);
	ck_assert_int_eq(waitpid(guardian, NULL, 0), guardian);
}

bool tap_guardian_is_done(pid_t victim)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	FILE *children = fopen(path, "re");
	ck_assert_ptr_nonnull(children);
	bool done = true;
	for (pid_t pid; fscanf(children, "%d", &pid) == 1;)
		if (pid != victim && waitpid(pid, NULL, WNOHANG) == 0)
			done = false;
	fclose(children);
	return done;
}
