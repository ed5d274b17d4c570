/* SPDX-License-Identifier: Apache-2.0
 *
 * Which mappings are slow, by made-up files of /proc; that heaptap reads the files of these
 * mappings and no others; and which addresses a process avoids.
 */
#include "attach/memory/slow.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attach/memory/proc_maps.h"
#include "attach/process/proc_open.h"
#include "tests/support/files.h"
#include "tests/support/ht_check.h"
#include "tests/support/procstage.h"
#include "tests/support/tmpdir.h"

#define MOUNT_OF(type) "36 35 0:42 / /mnt rw,noatime shared:7 - " type " source rw\n"
/* The device 00:2a is 0:42 in mountinfo. */
#define MAP_OF(name) "7f0000000000-7f0000002000 r-xp 00000000 00:2a 77 " name "\n"
/* The largest number of a device: no machine has so many. */
#define MAP_OF_GONE(name) "7f0000000000-7f0000002000 r-xp 00000000 fff:fffff 77 " name "\n"

static struct proc proc;
static struct proc_maps maps;

static void stage(const char *mountinfo, const char *text)
{
	if (!proc.pid) {
		ck_no_err(proc_open(getpid(), &proc));
		procstage_init(&proc);
	}
	procstage_file("mountinfo", mountinfo);
	procstage_file("maps", text);
	proc_maps_deinit(&maps);
	ck_no_err(proc_maps_read(&proc, &maps));
}

static void check_found(const char *mountinfo, const char *text, const char *expected)
{
	HT_FREED char *found;
	stage(mountinfo, text);
	ck_no_err(slow_find(&proc, &maps, &found));
	ck_assert_msg(expected ? found && !strcmp(found, expected) : !found, "%s%s: %s", mountinfo,
		text, found ? found : "none");
}

HT_TEST(slow_by_the_type_of_the_file_system)
{
	static const char *const slow[] = {MOUNT_OF("fuse"), MOUNT_OF("fuse.sshfs"),
		MOUNT_OF("fuseblk"), MOUNT_OF("nfs"), MOUNT_OF("nfs4"), MOUNT_OF("cifs"),
		MOUNT_OF("smb3"), MOUNT_OF("9p"), MOUNT_OF("ceph"), MOUNT_OF("virtiofs"),
		MOUNT_OF("autofs")};
	static const char *const quick[] = {MOUNT_OF("ext4"), MOUNT_OF("overlay"),
		MOUNT_OF("tmpfs"), MOUNT_OF("xfs"), MOUNT_OF("btrfs"), MOUNT_OF("proc")};
	for (size_t i = 0; i < HT_ARRAY_SIZE(slow); i++)
		check_found(slow[i], MAP_OF("/mnt/lib.so"), "/mnt/lib.so");
	for (size_t i = 0; i < HT_ARRAY_SIZE(quick); i++)
		check_found(quick[i], MAP_OF("/mnt/lib.so"), NULL);
}

HT_TEST(slow_by_the_device_of_the_mapping)
{
	static const char others[] = "20 1 0:41 / / rw - ext4 /dev/sda rw\n" MOUNT_OF(
		"nfs4") "40 1 0:43 / /fuse rw - tmpfs fuse rw\n";
	static const char two[] = "1000-2000 r-xp 0 00:29 5 /bin/quick\n"
				  "3000-4000 r-xp 0 00:2a 6 /mnt/first\n"
				  "5000-6000 r-xp 0 00:2a 7 /mnt/second\n";
	check_found(others, two, "/mnt/first");
	check_found(others, "1000-2000 r-xp 0 00:2b 5 /fuse/none\n", NULL);
	check_found(others, "1000-2000 r-xp 0 01:2a 5 /elsewhere\n", "/elsewhere");
	check_found("no such line\n" MOUNT_OF("fuse"), MAP_OF("/mnt/x"), "/mnt/x");
}

/* No file system is mounted from the device of these mappings: the kernel made them, or the file
 * system was unmounted. */
HT_TEST(kernel_named_mappings_are_quick)
{
	static const char *const quick[] = {MAP_OF("/memfd:x (deleted)"), MAP_OF("/SYSV00000000"),
		MAP_OF("/dev/zero (deleted)"), MAP_OF("/dev/shm/x"), MAP_OF("anon_inode:[x]"),
		"1000-2000 rw-p 0 00:00 0 [heap]\n", "1000-2000 rw-p 0 00:00 0 \n"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(quick); i++)
		check_found("20 1 8:1 / / rw - ext4 /dev/sda rw\n", quick[i], NULL);
	check_found("20 1 8:1 / / rw - ext4 /dev/sda rw\n", MAP_OF_GONE("/mnt/gone"), "/mnt/gone");
	check_found("", MAP_OF_GONE("/mnt/gone"), "/mnt/gone");
}

/* The mountinfo of a process in a chroot lacks the mount of its own files; that of this process has
 * it. */
HT_TEST(mounts_outside_a_chroot_are_known)
{
	FILE *file = fopen("/proc/self/mountinfo", "re");
	char line[4096], map[128], type[32];
	unsigned major, minor, found = 0;
	ck_assert_ptr_nonnull(file);
	while (fgets(line, sizeof(line), file)) {
		const char *dash = strstr(line, " - ");
		if (!dash || sscanf(line, "%*u %*u %u:%u", &major, &minor) != 2 ||
			sscanf(dash, " - %31s", type) != 1 || strcmp(type, "proc") != 0)
			continue;
		snprintf(
			map, sizeof(map), "1000-2000 r-xp 0 %02x:%02x 5 /lib/x.so\n", major, minor);
		check_found("", map, NULL);
		check_found("20 1 8:1 / /dev rw - tmpfs dev rw\n", map, NULL);
		snprintf(line, sizeof(line), "20 1 %u:%u / / rw - nfs4 x rw\n", major, minor);
		check_found(line, map, "/lib/x.so");
		found++;
		break;
	}
	fclose(file);
	ck_assert_uint_eq(found, 1);
}

/* --- reading the files behind them --- */

static int watch_fd;

/* Makes a file whose opens and reads watched() reports. Returns its path, malloc'd. */
static char *watched_file(const char *name)
{
	char *path = tmpdir_path(name);
	files_write(path, "what is in it");
	ck_assert_int_ge(inotify_add_watch(watch_fd, path, IN_OPEN | IN_ACCESS), 0);
	return path;
}

/* Returns the inotify events of the watched files since the last call. */
static uint32_t watched(void)
{
	char events[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	uint32_t done = 0;
	ssize_t got = read(watch_fd, events, sizeof(events));
	for (ssize_t at = 0; at < got;) {
		const struct inotify_event *event = (const void *)(events + at);
		done |= event->mask;
		at += (ssize_t)(sizeof(*event) + event->len);
	}
	return done;
}

/* Calls slow_touch for a process with one mapping of `bytes` bytes, of the file `name` with this
 * inode. */
static void touch(const char *mountinfo, uint64_t bytes, ino_t inode, const char *name)
{
	char text[4300];
	snprintf(text, sizeof(text), "7f0000000000-%lx r-xp 00000000 00:2a %lu %s\n",
		0x7f0000000000 + bytes, (unsigned long)inode, name);
	stage(mountinfo, text);
	ck_no_err(slow_touch(&proc, &maps));
}

static ino_t inode_of(const char *path)
{
	struct stat file;
	ck_assert_int_eq(stat(path, &file), 0);
	return file.st_ino;
}

HT_TEST(slow_files_are_read)
{
	watch_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	HT_FREED char *path = watched_file("file");
	touch(MOUNT_OF("ext4"), 4096, inode_of(path), path);
	ck_assert_uint_eq(watched(), 0);
	touch(MOUNT_OF("fuse"), 4096, inode_of(path), path);
	ck_assert_uint_eq(watched() & IN_ACCESS, IN_ACCESS);
	/* The mapping is larger than any program. */
	touch(MOUNT_OF("fuse"), (1ull << 28) + 4096, inode_of(path), path);
	ck_assert_uint_eq(watched(), 0);
}

/* Another file took the name, or the file has no name: the mapping leads to the file all the same.
 */
HT_TEST(the_file_is_that_of_the_mapping)
{
	watch_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	HT_FREED char *path = watched_file("file");
	touch(MOUNT_OF("fuse"), 4096, inode_of(path) + 1, path);
	ck_assert_uint_eq(watched() & IN_ACCESS, 0);
	procstage_folder("map_files");
	HT_FREED char *link = tmpdir_path("proc/map_files/7f0000000000-7f0000001000");
	ck_assert_int_eq(symlink(path, link), 0);
	touch(MOUNT_OF("fuse"), 4096, inode_of(path), "/nowhere (deleted)");
	ck_assert_uint_eq(watched() & IN_ACCESS, IN_ACCESS);
}

HT_TEST(unreadable_mappings_are_skipped)
{
	char *fifo = tmpdir_path("fifo"), text[9000];
	ck_assert_int_eq(mkfifo(fifo, 0600), 0);
	watch_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	HT_FREED char *path = watched_file("file");
	snprintf(text, sizeof(text),
		"1000-2000 r-xp 0 00:2a 5 /nowhere/at/all\n3000-4000 r-xp 0 00:2a %lu %s\n"
		"5000-6000 r-xp 0 00:2a %lu %s\n",
		(unsigned long)inode_of(fifo), fifo, (unsigned long)inode_of(path), path);
	stage(MOUNT_OF("fuse"), text);
	ck_no_err(slow_touch(&proc, &maps));
	ck_assert_uint_eq(watched() & IN_ACCESS, IN_ACCESS);
	free(fifo);
}

/* --- what a process avoids --- */

HT_TEST(nothing_is_avoided_unless_it_is_asked_for)
{
	stage(MOUNT_OF("fuse"), MAP_OF("/mnt/x"));
	ck_assert(!slow_is_avoided());
	ck_assert(!slow_is_in(0x7f0000000000, 1));
	slow_avoid();
	ck_assert(slow_is_avoided());
	ck_assert(!slow_is_in(0x7f0000000000, 1)); /* as of the last look */
	stage(MOUNT_OF("fuse"), MAP_OF("/mnt/x"));
	ck_assert(slow_is_in(0x7f0000000000, 1));
}

HT_TEST(every_byte_of_them_is_avoided)
{
	slow_avoid();
	stage(MOUNT_OF("fuse") "20 1 0:41 / / rw - ext4 /dev/sda rw\n",
		"1000-3000 r-xp 0 00:2a 5 /mnt/x\n3000-5000 r-xp 0 00:29 5 /bin/x\n"
		"5000-6000 r--p 0 00:2a 6 /mnt/y\n");
	ck_assert(!slow_is_in(0xff8, 8) && slow_is_in(0xff8, 9));
	ck_assert(slow_is_in(0x1000, 8) && slow_is_in(0x2fff, 1) && slow_is_in(0x0, 0x10000));
	ck_assert(!slow_is_in(0x3000, 0x2000) && slow_is_in(0x3000, 0x2001));
	ck_assert(slow_is_in(0x5fff, 1) && !slow_is_in(0x6000, 8));
	/* The next look replaces what this one found; a look that fails does not. */
	stage(MOUNT_OF("fuse"), "8000-9000 r-xp 0 00:2a 5 /mnt/x\n");
	ck_assert(!slow_is_in(0x1000, 8) && slow_is_in(0x8000, 8));
	HT_FREED char *mountinfo = tmpdir_path("proc/mountinfo");
	ck_assert_int_eq(unlink(mountinfo), 0);
	proc_maps_deinit(&maps);
	ck_err(proc_maps_read(&proc, &maps), HT_ERR_SYS);
	ck_assert(slow_is_in(0x8000, 8));
}

HT_SUITE("attach/memory/slow")
