/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads that run stubs: which of them may, and what is left of one whose stub was given up.
 */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/child.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/sweep.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"

#define ANSWER_MS  20000
#define HEAPTAP_MS 60000
#define REFUSED	   3

static void *share(size_t bytes)
{
	void *shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(shared != MAP_FAILED);
	return shared;
}

/* --- descriptors of its own
 * --------------------------------------------------------------------- */

static bool asleep_in(pid_t pid, long call)
{
	char path[300], text[64] = "";
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *task = opendir(path);
	bool found = false;
	for (struct dirent *entry; (entry = readdir(task));) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
		if (tid == 0 || tid == pid)
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/syscall", pid, entry->d_name);
		FILE *file = fopen(path, "re");
		found |= file && fgets(text, sizeof(text), file) && strtol(text, NULL, 10) == call;
		if (file)
			fclose(file);
	}
	closedir(task);
	return found;
}

static sem_t *leave;

/* A thread that nothing is easier to stop than, with a table of descriptors of its own. */
static void *have_own_table(void *arg)
{
	(void)arg;
	while (sem_wait(leave) != 0)
		;
	if (unshare(CLONE_FILES) == 0)
		for (;;)
			pause();
	return NULL;
}

static void compute_beside(const void *arg)
{
	(void)arg;
	pthread_t thread;
	if (pthread_create(&thread, NULL, have_own_table, NULL))
		return;
	child_ready(0);
	for (volatile unsigned long turns = 0;; turns++)
		;
}

static void leave_table(pid_t pid)
{
	sem_post(leave);
	run_until(asleep_in(pid, SYS_pause), ANSWER_MS);
}

static void cycle_with_own_table(bool before_the_attach)
{
	leave = share(sizeof(*leave));
	ck_assert_int_eq(sem_init(leave, 1, 0), 0);
	struct child child = child_fork(compute_beside, NULL);
	struct tap tap;
	if (before_the_attach)
		leave_table(child.pid);
	struct procsnap *before = procsnap_take(child.pid, PROCSNAP_MASKS_CHANGE);
	tap_start(&tap, child.pid, (const char *[]){"--symbolize", "later", NULL});
	tap_wait_any(&tap);
	if (!before_the_attach)
		leave_table(child.pid);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	json_decref(attach);
	procsnap_verify(before, child.pid);
	child_kill(&child);
}

START_TEST(a_table_of_descriptors_of_its_own)
{
	cycle_with_own_table(true);
}
END_TEST

START_TEST(a_table_of_descriptors_of_its_own_while_tapped)
{
	cycle_with_own_table(false);
}
END_TEST

HT_SUITE("integration/stub_thread", 
	a_table_of_descriptors_of_its_own, a_table_of_descriptors_of_its_own_while_tapped)
