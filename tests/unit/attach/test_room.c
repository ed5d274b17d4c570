/* SPDX-License-Identifier: Apache-2.0
 *
 * How much a process has left of its limits, by made-up files of /proc, and which descriptors are
 * free in it.
 */
#include "attach/process/room.h"

#include <stdio.h>
#include <unistd.h>

#include "attach/memory/proc_map.h"
#include "attach/process/proc_open.h"
#include "tests/support/ht_check.h"
#include "tests/support/procstage.h"

#define KIB 1024ull
/* The file "limits" with these soft limits, in the columns of the kernel. */
#define LIMITS(file, data, nofile, locked, address)                                                \
	"Limit                     Soft Limit           Hard Limit           Units     \n"         \
	"Max file size             " file "            unlimited            bytes     \n"          \
	"Max data size             " data "            unlimited            bytes     \n"          \
	"Max open files            " nofile "                 524288               files     \n"   \
	"Max locked memory         " locked "              8388608              bytes     \n"      \
	"Max address space         " address "            unlimited            bytes     \n"
#define NO_LIMITS LIMITS("unlimited", "unlimited", "unlimited", "unlimited", "unlimited")

static struct proc proc;

static void stage(const char *status, const char *limits)
{
	char text[512];
	if (!proc.pid) {
		ck_no_err(proc_open(getpid(), &proc));
		procstage_init(&proc);
		procstage_folder("fd");
	}
	snprintf(text, sizeof(text), "State:\tS\nTgid:\t1\n%s", status);
	procstage_file("status", text);
	procstage_file("limits", limits);
}

static struct room room_with(size_t mappings)
{
	struct room room;
	ck_no_err(room_read(&proc, &(struct proc_maps){.count = mappings}, &room));
	return room;
}

static struct room room_of(const char *status, const char *limits)
{
	stage(status, limits);
	return room_with(0);
}

HT_TEST(subtracts_used_memory)
{
	struct room room = room_of("VmSize:\t100 kB\nVmData:\t 30 kB\n",
		LIMITS("5000", "40960", "64", "1000", "1048576"));
	ck_assert_uint_eq(room.file_bytes, 5000);
	ck_assert_uint_eq(room.address_bytes, 1048576 - 100 * KIB);
	ck_assert_uint_eq(room.data_bytes, 40960 - 30 * KIB);
	ck_assert_uint_eq(room.descriptors, 64);
	procstage_file("fd/0", "");
	procstage_file("fd/17", "");
	procstage_file("fd/1000", "");
	ck_assert_uint_eq(room_with(0).descriptors, 61);
}

/* A limit may be lowered below what is used. */
HT_TEST(nothing_is_left_of_what_is_used_up)
{
	struct room room = room_of("VmSize:\t100 kB\nVmData:\t 30 kB\nVmLck:\t 90 kB\n",
		LIMITS("0", "30720", "1", "1000", "102399"));
	ck_assert_uint_eq(room.file_bytes, 0);
	ck_assert_uint_eq(room.address_bytes, 0);
	ck_assert_uint_eq(room.data_bytes, 0);
	ck_assert_uint_eq(room.locked_bytes, 0);
	procstage_file("fd/0", "");
	procstage_file("fd/1", "");
	ck_assert_uint_eq(room_with(0).descriptors, 0);
}

HT_TEST(without_limits_there_is_no_end)
{
	struct room room = room_of("VmSize:\t100 kB\nVmData:\t 30 kB\nVmLck:\t 90 kB\n", NO_LIMITS);
	ck_assert_uint_eq(room.file_bytes, UINT64_MAX);
	ck_assert_uint_eq(room.address_bytes, UINT64_MAX);
	ck_assert_uint_eq(room.data_bytes, UINT64_MAX);
	ck_assert_uint_eq(room.locked_bytes, UINT64_MAX);
	ck_assert_uint_eq(room.descriptors, UINT64_MAX);
	/* Nor where its control groups cannot be seen. */
	ck_assert_uint_eq(room.memory_bytes, UINT64_MAX);
}

HT_TEST(locked_memory_counts_where_all_is_locked)
{
	static const char limits[] =
		LIMITS("unlimited", "unlimited", "unlimited", "65536", "unlimited");
	ck_assert_uint_eq(
		room_of("VmSize:\t40 kB\nVmLck:\t21 kB\n", limits).locked_bytes, 65536 - 21 * KIB);
	ck_assert_uint_eq(
		room_of("VmSize:\t40 kB\nVmLck:\t20 kB\n", limits).locked_bytes, UINT64_MAX);
	/* CAP_IPC_LOCK is bit 14. */
	ck_assert_uint_eq(
		room_of("VmSize:\t40 kB\nVmLck:\t40 kB\nCapEff:\t0000000000004000\n", limits)
			.locked_bytes,
		UINT64_MAX);
	ck_assert_uint_eq(
		room_of("VmSize:\t40 kB\nVmLck:\t40 kB\nCapEff:\t000001ffffffbfff\n", limits)
			.locked_bytes,
		65536 - 40 * KIB);
}

HT_TEST(mappings_are_those_that_the_kernel_allows)
{
	unsigned long max;
	FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
	ck_assert(file && fscanf(file, "%lu", &max) == 1);
	fclose(file);
	stage("", NO_LIMITS);
	ck_assert_uint_eq(room_with(0).mappings, max);
	ck_assert_uint_eq(room_with(max - 1).mappings, 1);
	ck_assert_uint_eq(room_with(max + 1).mappings, 0);
}

/* A process without CAP_SYS_ADMIN gets up to 136 MiB less than the kernel could promise. */
HT_TEST(what_the_kernel_promises)
{
	static const char meminfo[] = "MemTotal:       12342044 kB\n"
				      "CommitLimit:     1048576 kB\n"
				      "Committed_AS:     524288 kB\n"
				      "VmallocTotal:   34359738367 kB\n";
	ck_assert_uint_eq(room_of_commit("2\n", meminfo), (512 - 136) * KIB * KIB);
	ck_assert_uint_eq(room_of_commit("0\n", meminfo), UINT64_MAX);
	ck_assert_uint_eq(room_of_commit("1\n", meminfo), UINT64_MAX);
	ck_assert_uint_eq(room_of_commit("", meminfo), UINT64_MAX);
	ck_assert_uint_eq(room_of_commit("2\n", "MemTotal: 1 kB\n"), UINT64_MAX);
	ck_assert_uint_eq(
		room_of_commit("2\n", "\nCommitLimit: 300 kB\nCommitted_AS: 301 kB\n"), 0);
}

HT_TEST(a_status_that_says_nothing_is_an_error)
{
	struct room room;
	stage("", NO_LIMITS);
	procstage_file("status", "Name:\tx\n");
	ck_err(room_read(&proc, &(struct proc_maps){0}, &room), HT_ERR_FORMAT);
}

HT_TEST(the_table_of_descriptors)
{
	stage("FDSize:\t256\n", NO_LIMITS);
	ck_assert_int_eq(room_descriptor_table(&proc), 256);
	stage("Name:\tFDSize\n", NO_LIMITS);
	ck_assert_int_eq(room_descriptor_table(&proc), 0);
	stage("FDSize:\tmany\n", NO_LIMITS);
	ck_assert_int_eq(room_descriptor_table(&proc), 0);
}

HT_TEST(the_highest_free_descriptor)
{
	stage("", NO_LIMITS);
	ck_assert_int_eq(room_free_descriptor(&proc, 8), 7);
	procstage_file("fd/7", "");
	procstage_file("fd/6", "");
	procstage_file("fd/4", "");
	procstage_file("fd/8", "");
	ck_assert_int_eq(room_free_descriptor(&proc, 8), 5);
	ck_assert_int_eq(room_free_descriptor(&proc, 9), 5);
	ck_assert_int_eq(room_free_descriptor(&proc, 10), 9);
	ck_assert_int_eq(room_free_descriptor(&proc, 1), 0);
	ck_assert_int_eq(room_free_descriptor(&proc, 0), 0);
	for (int fd = 0; fd < 8; fd++) {
		char name[16];
		snprintf(name, sizeof(name), "fd/%d", fd);
		procstage_file(name, "");
	}
	ck_assert_int_eq(room_free_descriptor(&proc, 8), 0);
}

HT_TEST(descriptors_that_cannot_be_seen)
{
	ck_no_err(proc_open(getpid(), &proc));
	procstage_init(&proc);
	procstage_file("status", "State:\tS\nTgid:\t1\n");
	procstage_file("limits", LIMITS("1", "1", "64", "1", "1"));
	ck_assert_int_eq(room_free_descriptor(&proc, 8), 0);
	ck_assert_uint_eq(room_with(0).descriptors, 64);
}

HT_SUITE("attach/process/room")
