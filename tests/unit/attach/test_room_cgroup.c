/* SPDX-License-Identifier: Apache-2.0
 *
 * How much memory made-up control groups leave to a process, in a mount namespace in which
 * /proc/self/mountinfo names them.
 */
#include "attach/process/room.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/process/proc_open.h"
#include "tests/support/files.h"
#include "tests/support/ht_check.h"
#include "tests/support/mounts.h"
#include "tests/support/procstage.h"
#include "tests/support/tmpdir.h"

static struct proc proc;

/* Puts the process in /a/b of a hierarchy that is mounted as `type` with `options`. Returns false
 * if that is not possible here. */
static bool stage(const char *type, const char *options, const char *groups)
{
	char text[4400];
	char *top = files_directory(), *mountinfo = tmpdir_path("mountinfo");
	char *a = files_path(top, "a"), *b = files_path(top, "a/b");
	ck_assert_int_eq(mkdir(a, 0700), 0);
	ck_assert_int_eq(mkdir(b, 0700), 0);
	snprintf(text, sizeof(text), "30 20 0:26 / %s rw - %s x %s\n", top, type, options);
	files_write(mountinfo, text);
	free(a);
	free(b);
	free(top);
	bool staged =
		mounts_unshare() && !mount(mountinfo, "/proc/self/mountinfo", NULL, MS_BIND, NULL);
	free(mountinfo);
	if (!staged) {
		printf("skipped: room_cgroup: no mount namespace here\n");
		return false;
	}
	ck_no_err(proc_open(getpid(), &proc));
	procstage_init(&proc);
	procstage_file("cgroup", groups);
	return true;
}

static bool stage_unified(void)
{
	return stage("cgroup2", "rw", "0::/a/b\n");
}

/* Writes `text` to the file `name`, a path below the top of the hierarchy. */
static void put(const char *name, const char *text)
{
	char below[64];
	snprintf(below, sizeof(below), "directory/%s", name);
	HT_FREED char *path = tmpdir_path(below);
	files_write(path, text);
}

HT_TEST(subtracts_a_groups_use)
{
	if (!stage_unified())
		return;
	put("a/b/memory.max", "1000000\n");
	ck_assert_uint_eq(room_of_cgroups(&proc), 1000000);
	put("a/b/memory.current", "400000\n");
	ck_assert_uint_eq(room_of_cgroups(&proc), 600000);
	put("a/b/memory.current", "1000001\n");
	ck_assert_uint_eq(room_of_cgroups(&proc), 0);
}

HT_TEST(caches_that_can_be_dropped_are_room)
{
	if (!stage_unified())
		return;
	put("a/b/memory.max", "1000000\n");
	put("a/b/memory.current", "400000\n");
	put("a/b/memory.stat", "anon 1\nxinactive_file 7\ninactive_file 300000\nslab 3\n");
	ck_assert_uint_eq(room_of_cgroups(&proc), 900000);
	/* memory.current and memory.stat are not read at the same moment. */
	put("a/b/memory.stat", "anon 1\ninactive_file 500000\n");
	ck_assert_uint_eq(room_of_cgroups(&proc), 1000000);
}

HT_TEST(the_least_of_all_groups_above)
{
	if (!stage_unified())
		return;
	put("a/b/memory.max", "1000000\n");
	put("a/memory.max", "1200000\n");
	put("a/memory.current", "900000\n");
	put("memory.max", "max\n");
	ck_assert_uint_eq(room_of_cgroups(&proc), 300000);
	put("memory.max", "400000\n");
	ck_assert_uint_eq(room_of_cgroups(&proc), 300000);
	put("memory.max", "200000\n");
	ck_assert_uint_eq(room_of_cgroups(&proc), 200000);
}

HT_TEST(without_limit_there_is_no_end)
{
	if (!stage_unified())
		return;
	ck_assert_uint_eq(room_of_cgroups(&proc), UINT64_MAX);
	put("a/b/memory.max", "max\n");
	put("a/b/memory.current", "400000\n");
	ck_assert_uint_eq(room_of_cgroups(&proc), UINT64_MAX);
	procstage_file("cgroup", "0::/../beside\n");
	put("memory.max", "1\n");
	ck_assert_uint_eq(room_of_cgroups(&proc), UINT64_MAX);
}

HT_TEST(the_older_version_has_other_names)
{
	if (!stage("cgroup", "rw,memory", "4:memory:/a/b\n0::/elsewhere\n"))
		return;
	put("a/b/memory.max", "1\n");
	put("a/b/memory.limit_in_bytes", "9223372036854771712\n");
	ck_assert_uint_eq(room_of_cgroups(&proc), UINT64_MAX);
	put("a/b/memory.limit_in_bytes", "1000000\n");
	put("a/b/memory.usage_in_bytes", "400000\n");
	/* inactive_file counts only the group itself, total_inactive_file the groups below it too.
	 */
	put("a/b/memory.stat", "cache 1\ninactive_file 7\ntotal_inactive_file 300000\n");
	ck_assert_uint_eq(room_of_cgroups(&proc), 900000);
}

HT_TEST(other_controllers_do_not_count)
{
	if (!stage("cgroup", "rw,cpu", "4:cpu:/a/b\n"))
		return;
	put("a/b/memory.limit_in_bytes", "1000000\n");
	ck_assert_uint_eq(room_of_cgroups(&proc), UINT64_MAX);
}

HT_SUITE("attach/process/room_cgroup")
