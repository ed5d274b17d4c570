/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap leaves nothing on the machine but its trace and its cache of unwind tables: not while it
 * captures, except for its socket, not after its end, and not when killed. The test looks in its
 * own mount, network and IPC namespaces, which are otherwise empty.
 */
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/mounts.h"
#include "tests/support/run.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define GUARDIAN_MS 30000

/* Directories in which programs leave temporary files. The test mounts an empty file system on
 * each; NULL: it cannot mount one there. */
static const char *places[] = {"/dev/shm", "/run", "/tmp", "/var/tmp", "/var/cache"};

/* Paths that may exist: the test's directory, and in it the trace and the cache of unwind
 * tables. */
static char *own, *trace, *cache;
static char found[4096];

static void find(const char *what)
{
	size_t used = strlen(found);
	snprintf(found + used, sizeof(found) - used, "%s\n", what);
}

/* A capture is running: its socket may exist in its directory in /run. */
static bool is_capturing;

static int find_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type;
	if (is_capturing && strncmp(path, "/run/heaptap", 12) == 0)
		return 0;
	if (ftw->level && strcmp(path, own) != 0 && strcmp(path, trace) != 0 &&
		strncmp(path, cache, strlen(cache)) != 0)
		find(path);
	return 0;
}

/* Adds all lines of the file except the first `heads` to `found`. */
static void find_lines(const char *path, unsigned heads)
{
	char line[512];
	FILE *file = fopen(path, "re");
	ck_assert_ptr_nonnull(file);
	for (unsigned i = 0; fgets(line, sizeof(line), file); i++) {
		line[strcspn(line, "\n")] = '\0';
		if (i >= heads)
			find(line);
	}
	fclose(file);
}

/* Fails if there are unexpected files or System V objects. */
static void check_no_files(void)
{
	found[0] = '\0';
	for (size_t i = 0; i < HT_ARRAY_SIZE(places); i++)
		if (places[i])
			nftw(places[i], find_file, 16, FTW_PHYS);
	find_lines("/proc/sysvipc/shm", 1);
	find_lines("/proc/sysvipc/sem", 1);
	find_lines("/proc/sysvipc/msg", 1);
	ck_assert_msg(!found[0], "found:\n%s", found);
}

/* Fails also if there is a Unix socket. */
static void check_nothing(void)
{
	check_no_files();
	find_lines("/proc/net/unix", 1);
	ck_assert_msg(!found[0], "found:\n%s", found);
}

static bool is_in(const char *path, const char *place)
{
	size_t length = strlen(place);
	return !strncmp(path, place, length) && path[length] == '/';
}

static bool be_alone(void)
{
#ifdef __SANITIZE_ADDRESS__
	printf("skipped: machine: a sanitizer makes a directory for its reports\n");
	return false;
#endif
	char *heaptap = realpath(run_built("heaptap"), NULL);
	bool alone = mounts_unshare() && !unshare(CLONE_NEWNET | CLONE_NEWIPC);
	for (size_t i = 0; alone && i < HT_ARRAY_SIZE(places); i++) {
		bool here = is_in(heaptap, places[i]);
		if (here)
			printf("skipped: machine: this build lies in %s\n", places[i]);
		if (here || access(places[i], F_OK))
			places[i] = NULL;
		else
			alone = !mount("alone", places[i], "tmpfs", 0, NULL);
	}
	free(heaptap);
	trace = tmpdir_path("0.htap");
	cache = tmpdir_path("cache");
	own = strndup(trace, (size_t)(strrchr(trace, '/') - trace));
	if (!alone)
		printf("skipped: machine: no namespaces may be made\n");
	return alone;
}

static void capture(struct victim *victim, struct tap *tap)
{
	victim_start(victim, (const char *[]){run_built("tests/targets/actor"), NULL});
	check_nothing();
	tap_start(tap, victim->pid, NULL);
	tap_wait_on(tap, "/actor");
	is_capturing = true;
	check_no_files();
	is_capturing = false;
}

HT_TEST(nothing_after_detach)
{
	struct victim victim;
	struct tap tap;
	if (!be_alone())
		return;
	capture(&victim, &tap);
	tap_check_clean(tap_stop(&tap, 0));
	check_nothing();
	victim_stop(&victim);
}

HT_TEST(nothing_after_death)
{
	struct victim victim;
	struct tap tap;
	if (!be_alone())
		return;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	capture(&victim, &tap);
	kill(tap.run.pid, SIGKILL);
	run_wait(&tap.run, GUARDIAN_MS);
	run_deinit(&tap.run);
	run_until(tap_guardian_is_done(victim.pid), GUARDIAN_MS);
	tap_verify(&tap);
	check_nothing();
	victim_stop(&victim);
}

HT_SUITE("integration/machine")
