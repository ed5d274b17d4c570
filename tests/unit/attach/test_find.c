/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes found in a fake /proc by name, unit and container, whatever its files hold.
 */
#include "attach/process/find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/files.h"
#include "tests/support/ht_check.h"

#define ID_A "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID_B "0123ffff89abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static char *root;
static struct found_list list;

struct made {
	int pid, parent;
	const char *comm, *exe, *groups, *ns_pid;
	char state;
	unsigned flags;
};

static void write_file(const char *directory, const char *name, const char *text)
{
	HT_FREED char *path = files_path(directory, name);
	files_write(path, text);
}

static void make(const struct made *made)
{
	char number[16], text[1024];
	if (!root)
		root = files_directory();
	snprintf(number, sizeof(number), "%d", made->pid);
	HT_FREED char *directory = files_path(root, number);
	ck_assert_int_eq(mkdir(directory, 0700), 0);
	snprintf(text, sizeof(text), "%s\n", made->comm);
	write_file(directory, "comm", text);
	snprintf(text, sizeof(text),
		"%d (%s) %c %d 1 1 0 -1 %u 0 0 0 0 0 0 0 0 20 0 1 0 7%d 1 2 3\n", made->pid,
		made->comm, made->state ? made->state : 'S', made->parent, made->flags, made->pid);
	write_file(directory, "stat", text);
	snprintf(text, sizeof(text),
		"Name:\tx\\nUid:\t9\nState:\tS\nUid:\t5\t33\t5\t5\nNSpid:\t%s\nVmRSS:\t 12 kB\n",
		made->ns_pid ? made->ns_pid : number);
	write_file(directory, "status", text);
	write_file(directory, "cgroup", made->groups ? made->groups : "0::/\n");
	write_file(directory, "cmdline", "prog\n-x");
	HT_FREED char *link = files_path(directory, "exe");
	if (made->exe)
		ck_assert_int_eq(symlink(made->exe, link), 0);
}

/* Returns the PIDs that are found, as "1 2 ", in static memory. */
static const char *find(const struct find_query *query)
{
	static char pids[256];
	size_t length = 0;
	found_list_deinit(&list);
	ck_no_err(find_processes(root, query, &list));
	*pids = '\0';
	for (size_t i = 0; i < list.count; i++)
		length += (size_t)snprintf(
			pids + length, sizeof(pids) - length, "%d ", (int)list.process[i].pid);
	return pids;
}

/* --- names ----------------------------------------------------------------------------------- */

HT_TEST(a_name_is_that_of_the_process_or_of_its_program)
{
	make(&(struct made){.pid = 30, .comm = "server", .exe = "/usr/bin/python3.11"});
	make(&(struct made){.pid = 4, .comm = "MainThread", .exe = "/opt/server"});
	make(&(struct made){.pid = 5, .comm = "worker", .exe = "/opt/server (deleted)"});
	make(&(struct made){.pid = 6, .comm = "server2", .exe = "/opt/server/other"});
	make(&(struct made){.pid = 7, .comm = "serve"});
	ck_assert_str_eq(find(&(struct find_query){.name = "server"}), "4 5 30 ");
	ck_assert_str_eq(find(&(struct find_query){.name = "other"}), "6 ");
	ck_assert_str_eq(find(&(struct find_query){.name = "serv"}), "");
}

HT_TEST(what_does_not_run_is_not_found)
{
	make(&(struct made){.pid = 3, .comm = "server", .state = 'Z'});
	make(&(struct made){.pid = 4, .comm = "server", .flags = 0x00200040});
	make(&(struct made){.pid = getpid(), .comm = "server"});
	make(&(struct made){.pid = 8, .comm = "server", .state = 'T'});
	ck_assert_str_eq(find(&(struct find_query){.name = "server"}), "8 ");
}

HT_TEST(what_is_known_of_a_process)
{
	make(&(struct made){.pid = 8, .parent = 2, .comm = "a) R 9 (b"});
	ck_assert_str_eq(find(&(struct find_query){.name = "a) R 9 (b"}), "8 ");
	const struct found *found = &list.process[0];
	ck_assert_int_eq(found->parent, 2);
	ck_assert_uint_eq(found->user, 33);
	ck_assert_uint_eq(found->start_ticks, 78);
	ck_assert_uint_eq(found->rss_bytes, 12 * 1024);
	ck_assert_str_eq(found->command, "prog -x");
}

/* A process may end between two reads, or belong to another user. */
HT_TEST(files_that_are_missing_or_odd_are_no_process)
{
	root = files_directory();
	HT_FREED char *directory = files_path(root, "17");
	ck_assert_int_eq(mkdir(directory, 0700), 0);
	write_file(directory, "comm", "server\n");
	write_file(root, "18", "no directory");
	write_file(root, "version", "text");
	ck_assert_str_eq(find(&(struct find_query){.name = "server"}), "");
	static const char *const stats[] = {
		"", "17", "17 (", ")", ") ", "17 (server)", "17 (server) Z", "17 (server)S 1"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(stats); i++) {
		write_file(directory, "stat", stats[i]);
		ck_assert_msg(!*find(&(struct find_query){.name = "server"}), "%s", stats[i]);
	}
}

HT_TEST(a_name_may_hold_any_byte)
{
	make(&(struct made){.pid = 8, .comm = "x\033[2J\n%s"});
	ck_assert_str_eq(find(&(struct find_query){.name = "x\033[2J\n%s"}), "8 ");
	ck_assert_str_eq(list.process[0].comm, "x\033[2J\n%s");
}

HT_TEST(a_proc_that_cannot_be_read_is_an_error)
{
	root = files_directory();
	HT_FREED char *path = files_path(root, "none");
	struct ht_err *err = find_processes(path, &(struct find_query){.name = "x"}, &list);
	ck_assert_ptr_nonnull(err);
	ck_assert_ptr_nonnull(strstr(err->message, path));
	ht_err_free(err);
}

/* --- units ----------------------------------------------------------------------------------- */

HT_TEST(a_unit_is_a_part_of_a_group)
{
	static const char v2[] = "0::/system.slice/system-web.slice/web@a.service/sub\n";
	static const char v1[] = "4:memory:/\n1:name=systemd:/system.slice/nginx.service\n0::/\n";
	ck_assert(find_unit_matches(v2, "web@a.service"));
	ck_assert(find_unit_matches(v2, "web@a"));
	ck_assert(find_unit_matches(v2, "system.slice"));
	ck_assert(find_unit_matches(v1, "nginx"));
	ck_assert(!find_unit_matches(v2, "web@a.servic"));
	ck_assert(!find_unit_matches(v2, "eb@a"));
	ck_assert(!find_unit_matches(v1, "systemd"));
	ck_assert(!find_unit_matches(v1, "memory.service"));
	static const char *const odd[] = {
		"", "\n", ":", "0:", "0::", "0::/", "1\n:x.service", "x.service", "0:x.service"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(odd); i++)
		ck_assert_msg(!find_unit_matches(odd[i], "x"), "%s", odd[i]);
}

HT_TEST(of_a_unit_the_process_from_outside)
{
	static const char group[] = "0::/system.slice/nginx.service\n";
	make(&(struct made){.pid = 1, .comm = "systemd", .groups = "0::/init.scope\n"});
	make(&(struct made){.pid = 50, .parent = 1, .comm = "nginx", .groups = group});
	make(&(struct made){.pid = 40, .parent = 50, .comm = "nginx", .groups = group});
	make(&(struct made){.pid = 60, .parent = 40, .comm = "helper", .groups = group});
	make(&(struct made){.pid = 70, .parent = 1, .comm = "nginx"});
	ck_assert_str_eq(find(&(struct find_query){.unit = "nginx"}), "50 ");
	ck_assert_str_eq(find(&(struct find_query){.unit = "nginx", .name = "helper"}), "60 ");
	/* Two processes match: both are found, and the caller reports that. */
	make(&(struct made){.pid = 80, .parent = 1, .comm = "nginx", .groups = group});
	ck_assert_str_eq(find(&(struct find_query){.unit = "nginx"}), "50 80 ");
}

/* --- containers ------------------------------------------------------------------------------ */

HT_TEST(a_container_is_known_by_its_group)
{
	static const char *const groups[] = {
		"12:memory:/docker/" ID_A "\n",
		"0::/system.slice/docker-" ID_A ".scope\n",
		"0::/machine.slice/libpod-" ID_A ".scope/container\n",
		"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" ID_A ".scope\n",
		"0::/kubepods/pod1/" ID_A "\n",
		"3:cpu:/system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:" ID_A
		"\n",
		"0::/user.slice/crio-" ID_A ".scope",
	};
	char id[FIND_CONTAINER_MAX + 1];
	for (size_t i = 0; i < HT_ARRAY_SIZE(groups); i++) {
		ck_assert_msg(find_container_matches(groups[i], "01234567", id), "%s", groups[i]);
		ck_assert_str_eq(id, ID_A);
		ck_assert(find_container_matches(groups[i], ID_A, id));
		ck_assert(!find_container_matches(groups[i], "1234", id));
		ck_assert(!find_container_matches(groups[i], ID_A "0", id));
	}
	static const char *const others[] = {
		"0::/machine.slice/libpod-conmon-" ID_A ".scope\n",
		"0::/x" ID_A "\n",
		"0::/docker/0123456789\n",
		"0::/docker/" ID_A "0\n",
		"0123456789:x:\n",
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(others); i++)
		ck_assert_msg(!find_container_matches(others[i], "0123", id), "%s", others[i]);
}

HT_TEST(of_a_container_its_first_process)
{
	static const char group[] = "0::/system.slice/docker-" ID_A ".scope\n";
	make(&(struct made){
		.pid = 30, .parent = 2, .comm = "init", .groups = group, .ns_pid = "30\t1"});
	make(&(struct made){
		.pid = 31, .parent = 30, .comm = "app", .groups = group, .ns_pid = "31\t7"});
	/* docker exec: the parent of this process is outside the container as well. */
	make(&(struct made){
		.pid = 32, .parent = 2, .comm = "sh", .groups = group, .ns_pid = "32\t9"});
	ck_assert_str_eq(find(&(struct find_query){.container = "0123"}), "30 ");
	ck_assert_str_eq(find(&(struct find_query){.container = "0123", .name = "app"}), "31 ");
	/* The same digits begin two IDs. */
	make(&(struct made){.pid = 40,
		.parent = 2,
		.comm = "init",
		.groups = "0::/docker/" ID_B "\n",
		.ns_pid = "40\t1"});
	ck_assert_str_eq(find(&(struct find_query){.container = "0123"}), "30 40 ");
	ck_assert_str_eq(find(&(struct find_query){.container = "01234"}), "30 ");
}

/* docker run --pid=host */
HT_TEST(a_container_without_a_namespace)
{
	static const char group[] = "0::/docker/" ID_A "\n";
	make(&(struct made){.pid = 30, .parent = 2, .comm = "app", .groups = group});
	make(&(struct made){.pid = 31, .parent = 30, .comm = "app", .groups = group});
	ck_assert_str_eq(find(&(struct find_query){.container = "0123"}), "30 ");
}

/* --- waiting --------------------------------------------------------------------------------- */

HT_TEST(looking_takes_a_thirtieth_of_a_core)
{
	ck_assert_uint_eq(find_pause_ns(0), 10000000);
	ck_assert_uint_eq(find_pause_ns(2000000), 60000000);
	ck_assert_uint_eq(find_pause_ns(UINT64_MAX), 1000000000);
}

HT_SUITE("unit/attach/find")
