/* SPDX-License-Identifier: Apache-2.0
 *
 * The control groups of a process are read from its mountinfo and cgroup files, whatever the names
 * in these are.
 */
#include "attach/process/cgroup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/files.h"
#include "tests/support/ht_check.h"

static struct cgroup_hierarchy hierarchy;

static bool parse(const char *line, const char *controller)
{
	memset(&hierarchy, 'x', sizeof(hierarchy));
	return cgroup_parse_mount(line, controller, &hierarchy);
}

HT_TEST(mounts)
{
	ck_assert(
		parse("30 20 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n", "memory"));
	ck_assert(hierarchy.unified);
	ck_assert_str_eq(hierarchy.root, "/");
	ck_assert_str_eq(hierarchy.point, "/sys/fs/cgroup");
	ck_assert(parse("9 8 0:7 /pod /mnt rw - cgroup cgroup rw,cpu,memory\n", "memory"));
	ck_assert(!hierarchy.unified);
	ck_assert_str_eq(hierarchy.root, "/pod");
	ck_assert_str_eq(hierarchy.point, "/mnt");
	ck_assert(parse("9 8 0:7 / /mnt rw master:1 shared:2 - cgroup x rw,freezer\n", "freezer"));
}

HT_TEST(other_mounts)
{
	ck_assert(!parse("9 8 0:7 / /mnt rw - cgroup cgroup rw,cpu,memory\n", "freezer"));
	ck_assert(!parse("9 8 0:7 / /mnt rw - cgroup cgroup rw,memory2,xmemory\n", "memory"));
	ck_assert(!parse("9 8 0:7 / /mnt rw - tmpfs memory rw,memory\n", "memory"));
	ck_assert(!parse("9 8 0:7 / /mnt rw - cgroup3 memory rw,memory\n", "memory"));
	ck_assert(!parse("9 8 0:7 / /mnt rw cgroup2 cgroup2 rw\n", "memory"));
	ck_assert(!parse("9 8 0:7 - cgroup2 cgroup2\n", "memory"));
	ck_assert(!parse("", "memory"));
	ck_assert(!parse(" - ", "memory"));
}

/* A path longer than any is cut, and then leads nowhere. */
HT_TEST(long_mounts)
{
	static char line[30000], name[9000];
	memset(name, 'n', sizeof(name) - 1);
	snprintf(line, sizeof(line), "9 8 0:7 /%s /%s rw - cgroup2 cgroup2 rw\n", name, name);
	if (parse(line, "memory")) {
		ck_assert_uint_lt(strnlen(hierarchy.root, sizeof(hierarchy.root)), 4096);
		ck_assert_uint_lt(strnlen(hierarchy.point, sizeof(hierarchy.point)), 4096);
	}
}

/* Returns the path, malloc'd; NULL: none. */
static char *path_of(bool unified, const char *groups)
{
	size_t length = 0;
	hierarchy.unified = unified;
	const char *path = cgroup_parse_path(&hierarchy, groups, "memory", &length);
	return path ? strndup(path, length) : NULL;
}

static void check_path(bool unified, const char *groups, const char *expected)
{
	HT_FREED char *path = path_of(unified, groups);
	ck_assert_msg(path && !strcmp(path, expected), "%s: %s", groups, path ? path : "none");
}

HT_TEST(paths)
{
	check_path(true, "0::/a/b\n", "/a/b");
	check_path(true, "4:memory:/m\n0::/", "/");
	check_path(false, "0::/a\n4:cpu,memory:/m\n", "/m");
	check_path(false, "4:memory,cpu:/m:n\n", "/m:n");
	check_path(false, "4:memory:\n", "");
	/* A named hierarchy has no controllers. */
	check_path(false, "5:name=memory:/wrong\n4:memory:/m", "/m");
}

HT_TEST(no_paths)
{
	static const char *const groups[] = {"", "\n", "\n\n", ":", "::", "4:memory",
		"4:memory\n:/m", "4\n:memory\n:/m\n", "4:memor:/m", "4:memory2:/m", "4:mem\nory:/m",
		"memory"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(groups); i++)
		ck_assert_msg(!path_of(false, groups[i]), "\"%s\"", groups[i]);
	ck_assert_ptr_null(path_of(true, "4:memory:/m\n"));
	ck_assert_ptr_null(path_of(true, "0:"));
	ck_assert_ptr_null(cgroup_parse_path(&hierarchy, NULL, "memory", NULL));
}

HT_TEST(numbers)
{
	char *directory = files_directory(), *path = files_path(directory, "file");
	files_write(path, "frozen 0\npopulated 7\n");
	ck_assert_uint_eq(cgroup_number(directory, "file", "populated ", 3), 7);
	ck_assert_uint_eq(cgroup_number(directory, "file", "thawed ", 3), 3);
	ck_assert_uint_eq(cgroup_number(directory, "file", NULL, 3), 3);
	ck_assert_uint_eq(cgroup_number(directory, "none", NULL, 3), 3);
	files_write(path, "max\n");
	ck_assert_uint_eq(cgroup_number(directory, "file", NULL, 3), 3);
	files_write(path, "");
	ck_assert_uint_eq(cgroup_number(directory, "file", "key ", 3), 3);
	files_write(path, "12 of more\n");
	ck_assert_uint_eq(cgroup_number(directory, "file", NULL, 3), 12);
	free(path);
	free(directory);
}

HT_SUITE("unit/attach/cgroup")
