/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/stub/stub.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "attach/stub/stub_layout.h"
#include "attach/memory/memory.h"
#include "attach/memory/proc_maps.h"
#include "attach/proc/proc_living.h"
#include "attach/process/proc_open.h"
#include "format/abi_control.h"
#include "tests/support/child.h"
#include "tests/support/cpu.h"
#include "tests/support/ht_check.h"

#define SLOTS	       2u
#define IMAGE_BYTES    abi_image_bytes(SLOTS)
#define FD_FLOOR       100
#define SMALLEST_SLACK 1984u /* musl 1.2.3 (Debian 12): the least that a libc is known to offer */
#define LONG_LEASE     (1ull << 62)
#define NOWHERE	       (1ull << 45) /* where no library, stack or shadow of a sanitizer ever is */

/* --- code in a page that can only be read and executed, as the slack is ----------------------- */

static uint8_t *place(void)
{
	static uint8_t *page;
	if (!page)
		page = mmap(NULL, HT_PAGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(page, MAP_FAILED);
	return page;
}

static raddr_t place_addr(void)
{
	return (raddr_t)(uintptr_t)place();
}

static void put(const struct stub *stub)
{
	ck_assert_uint_le(stub->length, sizeof(stub->bytes));
	ck_assert_int_eq(mprotect(place(), HT_PAGE_BYTES, PROT_READ | PROT_WRITE), 0);
	memset(place(), 0xcc, HT_PAGE_BYTES);
	memcpy(place(), stub->bytes, stub->length);
	ck_assert_int_eq(mprotect(place(), HT_PAGE_BYTES, PROT_READ | PROT_EXEC), 0);
}

HT_TEST(every_flag_comes_back)
{
	static const struct stub_unmap nothing = {.fd_count = 0};
	static const uint64_t flag[] = {CPU_CF, CPU_PF, CPU_AF, CPU_ZF, CPU_SF, CPU_DF, CPU_OF};
	struct user_regs_struct regs = cpu_odd_regs();
	struct stub stub;

	for (unsigned set = 0; set < 1u << HT_ARRAY_SIZE(flag); set++) {
		regs.eflags = 0x202;
		for (size_t i = 0; i < HT_ARRAY_SIZE(flag); i++)
			regs.eflags |= set >> i & 1 ? flag[i] : 0;
		ck_no_err(stub_make_unmap(
			&nothing, place_addr(), &(struct stub_thread){.resume = regs}, &stub));
		put(&stub);
		cpu_enter(place(), cpu_odd_fx());
		cpu_check(&cpu_before, &cpu_after, cpu_entry_sp, &regs);
	}
}

HT_TEST(stub_fits_its_requested_bytes)
{
	struct stub_map map = {.image = 1ull << 40, .image_bytes = IMAGE_BYTES};
	struct stub_thread thread = {.resume = cpu_odd_regs(), .hold_ms = 50};
	struct stub stub;

	memset(map.name, 'x', sizeof(map.name) - 1);
	ck_no_err(stub_make_map(&map, place_addr(), &thread, &stub));
	ck_assert_uint_eq(stub.length, stub_map_bytes(0));
	ck_assert_uint_le(stub.length, SMALLEST_SLACK);
	map.near_count = ABI_NEAR_MAX;
	ck_no_err(stub_make_map(&map, place_addr(), &thread, &stub));
	ck_assert_uint_eq(stub.length, stub_map_bytes(ABI_NEAR_MAX));
	ck_assert_uint_le(stub_map_bytes(ABI_NEAR_MAX), STUB_BYTES_MAX);
	struct stub_unmap most = {.fd_count = STUB_UNMAP_FDS};
	/* The ranges are two parts of the image, then the areas. */
	for (size_t i = 0; i < STUB_UNMAP_RANGES; i++) {
		most.hi[i] = 0x1000;
		if (i == 0)
			continue;
		ck_no_err(stub_make_unmap(&most, place_addr(), &thread, &stub));
		ck_assert_uint_le(stub.length, stub_map_bytes(i - 1));
	}
}

/* --- a target --------------------------------------------------------------------------------- */

static int go[2], done[2], taking[2], taken[2];

struct limits {
	int resource; /* -1: none */
	rlim_t above; /* the limit, counted from what is in use when it is set */
};

static rlim_t in_use(int resource)
{
	unsigned long pages = 0;
	if (resource == RLIMIT_NOFILE) {
		int fd = dup(0);
		close(fd);
		return (rlim_t)fd;
	}
	FILE *file = fopen("/proc/self/statm", "re");
	if (!file || fscanf(file, "%lu", &pages) != 1)
		_exit(1);
	fclose(file);
	return pages * HT_PAGE_BYTES;
}

/* Reads descriptor numbers, puts another file in the place of each, and confirms. */
static void *take_numbers(void *arg)
{
	int fd[4];

	if (write(taken[1], "", 1) != 1)
		_exit(1);
	while (read(taking[0], fd, sizeof(fd)) == sizeof(fd)) {
		for (size_t i = 0; i < HT_ARRAY_SIZE(fd); i++)
			if (dup3(taking[0], fd[i], O_CLOEXEC) < 0)
				_exit(1);
		if (write(taken[1], fd, 1) != 1)
			_exit(1);
	}
	return arg;
}

/* Waits for a byte, runs the code at place(), reports, and waits. */
static void target(const void *arg)
{
	const struct limits *limits = arg;
	pthread_t other;
	char byte = 0;

	/* Begins before the limit is set: a sanitizer maps something when a thread begins. */
	if (pthread_create(&other, NULL, take_numbers, NULL) != 0 || read(taken[0], &byte, 1) != 1)
		_exit(1);

	if (limits->resource >= 0) {
		rlim_t limit = in_use(limits->resource) + limits->above;
		setrlimit((__rlimit_resource_t)limits->resource, &(struct rlimit){limit, limit});
	}
	child_ready(0);
	if (read(go[0], &byte, 1) != 1)
		_exit(1);
	cpu_enter(place(), cpu_odd_fx());
	if (write(done[1], &byte, 1) != 1)
		_exit(1);
	child_wait();
}

struct snap {
	char *maps;
	char fds[8192];
};

struct stage {
	struct child child;
	struct proc proc;
	struct snap before;
	struct stub_map map;
	struct user_regs_struct regs;
};

static void take_snap(const struct proc *proc, struct snap *ret)
{
	int fd = openat(proc->dir_fd, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fdopendir(fd);
	size_t at = 0;

	ck_assert_ptr_nonnull(dir);
	ck_no_err(proc_text(proc, "maps", &ret->maps));
	ret->fds[0] = '\0';
	for (const struct dirent *entry; (entry = readdir(dir));) {
		char link[256] = "";
		if (readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1) > 0)
			at += (size_t)snprintf(ret->fds + at, sizeof(ret->fds) - at, "%s %s\n",
				entry->d_name, link);
	}
	closedir(dir);
}

static void check_untouched(struct stage *stage)
{
	struct snap after;
	take_snap(&stage->proc, &after);
	ck_assert_str_eq(after.maps, stage->before.maps);
	ck_assert_str_eq(after.fds, stage->before.fds);
	free(after.maps);
}

/* Returns a map with all near areas, no two of which adjoin. */
static struct stub_map usual_map(void)
{
	struct stub_map map = {.image = NOWHERE,
		.image_bytes = IMAGE_BYTES,
		.near_count = ABI_NEAR_MAX,
		.fd_floor = FD_FLOOR,
		.lease_ns = LONG_LEASE,
		.name = "heaptap-test"};
	place();
	for (size_t i = 0; i < ABI_NEAR_MAX; i++)
		map.near[i] = NOWHERE + (1ull << 40) + i * 2 * ABI_NEAR_BYTES;
	return map;
}

static void start(struct stage *stage, const struct stub *stub, const struct limits *limits)
{
	static const struct limits none = {.resource = -1};
	put(stub);
	ck_assert_int_eq(pipe2(go, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(done, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(taking, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(taken, O_CLOEXEC), 0);
	stage->child = child_fork(target, limits ? limits : &none);
	ck_no_err(proc_open(stage->child.pid, &stage->proc));
	ck_no_err(proc_open_mem(&stage->proc));
	take_snap(&stage->proc, &stage->before);
}

static bool together;

static void start_map(struct stage *stage, const struct stub_map *map, const struct limits *limits)
{
	const struct stub_thread thread = {.resume = cpu_odd_regs(), .together = together};
	struct stub stub;
	stage->map = *map;
	stage->regs = thread.resume;
	ck_no_err(stub_make_map(map, place_addr(), &thread, &stub));
	start(stage, &stub, limits);
}

static void let_go(const struct stage *stage)
{
	(void)stage;
	ck_assert_int_eq(write(go[1], "x", 1), 1);
}

/* Waits until the thread has come back from the stub; checks that all its registers are as before.
 */
static void check_back(const struct stage *stage)
{
	struct cpu before, after;
	uint64_t entry_sp;
	char byte;

	ck_assert_int_eq(read(done[0], &byte, 1), 1);
	ck_no_err(memory_read(
		&stage->proc, (raddr_t)(uintptr_t)&cpu_before, &before, sizeof(before)));
	ck_no_err(memory_read(&stage->proc, (raddr_t)(uintptr_t)&cpu_after, &after, sizeof(after)));
	ck_no_err(memory_read_u64(&stage->proc, (raddr_t)(uintptr_t)&cpu_entry_sp, &entry_sp));
	cpu_check(&before, &after, entry_sp, &stage->regs);
}

static void finish(struct stage *stage)
{
	free(stage->before.maps);
	proc_close(&stage->proc);
	child_kill(&stage->child);
}

/* --- the daemon's side of the handshake ------------------------------------------------------- */

static void read_control(const struct stage *stage, struct abi_control *ret, size_t *ret_got)
{
	ck_no_err(memory_read_some(&stage->proc, stage->map.image + ABI_CONTROL_OFF, ret,
		offsetof(struct abi_control, claimed), ret_got));
}

static struct abi_control wait_status(const struct stage *stage, int64_t status)
{
	struct abi_control control = {0};
	size_t got = 0;
	do
		read_control(stage, &control, &got);
	while (!got || control.stub_status < status);
	ck_assert_int_eq(control.stub_status, status);
	return control;
}

static void say_taken(const struct stage *stage)
{
	ck_no_err(memory_write_u64(&stage->proc,
		stage->map.image + ABI_CONTROL_OFF + offsetof(struct abi_control, taken),
		STUB_TAKEN));
}

static int take(const struct stage *stage, int fd)
{
	int here = (int)syscall(SYS_pidfd_getfd, stage->proc.pidfd, fd, 0);
	ck_assert_msg(here >= 0, "descriptor %d: %s", fd, strerror(errno));
	ck_assert_int_eq(fcntl(here, F_GETSIG), STUB_MARK);
	return here;
}

static void check_map(const struct proc_maps *maps, raddr_t at, uint64_t bytes, const char *rights,
	const char *name)
{
	const struct proc_map *map = proc_maps_find(maps, at);
	ck_assert_ptr_nonnull(map);
	ck_assert_uint_eq(map->lo, at);
	ck_assert_uint_eq(map->hi, at + bytes);
	char got[] = {map->read ? 'r' : '-', map->write ? 'w' : '-', map->exec ? 'x' : '-',
		map->shared ? 's' : 'p', '\0'};
	ck_assert_str_eq(got, rights);
	ck_assert_str_eq(map->name, name);
}

static void check_layout(const struct stage *stage)
{
	static const char memfd[] = "/memfd:heaptap-test (deleted)";
	raddr_t image = stage->map.image;
	struct proc_maps maps;

	ck_no_err(proc_maps_read(&stage->proc, &maps));
	check_map(&maps, image + ABI_THUNKS_OFF, HT_PAGE_BYTES, "r-xp", memfd);
	check_map(&maps, image + ABI_TEXT_OFF, ABI_TEXT_MAX, "r-xs", memfd);
	check_map(&maps, image + ABI_STATE_OFF, HT_PAGE_BYTES, "rw-p", "");
	check_map(&maps, image + ABI_TABLES_OFF, ABI_TABLES_BYTES, "r--s", memfd);
	check_map(&maps, image + ABI_SHARED_OFF, IMAGE_BYTES - ABI_SHARED_OFF, "rw-s", memfd);
	for (size_t i = 0; i < stage->map.near_count; i++) {
		check_map(&maps, stage->map.near[i], ABI_NEAR_BYTES, "r-xp", memfd);
		ck_assert_uint_eq(proc_maps_find(&maps, stage->map.near[i])->offset,
			ABI_NEAR_OFF + i * ABI_NEAR_BYTES);
	}
	for (size_t i = 0; i < maps.count; i++)
		if (maps.map[i].lo >= image && maps.map[i].hi <= image + IMAGE_BYTES &&
			maps.map[i].inode)
			ck_assert_uint_eq(maps.map[i].offset, maps.map[i].lo - image);
	proc_maps_deinit(&maps);
}

/* Returns true if the mapping that begins at `lo` has this flag in its VmFlags. */
static bool has_vm_flag(const struct stage *stage, raddr_t lo, const char *flag)
{
	char *smaps, begin[40];
	ck_no_err(proc_text(&stage->proc, "smaps", &smaps));
	snprintf(begin, sizeof(begin), "%lx-", (unsigned long)lo);
	const char *map = strstr(smaps, begin);
	ck_assert_ptr_nonnull(map);
	const char *flags = strstr(map, "VmFlags:");
	ck_assert_ptr_nonnull(flags);
	const char *found = strstr(flags, flag);
	bool has = found && found < strchr(flags, '\n');
	free(smaps);
	return has;
}

static void check_connected(int a, int b)
{
	char got[8] = "";
	ck_assert_int_eq(send(a, "hello", 6, 0), 6);
	ck_assert_int_eq(recv(b, got, sizeof(got), MSG_DONTWAIT), 6);
	ck_assert_str_eq(got, "hello");
}

static void check_cloexec(const struct stage *stage, int fd)
{
	char name[32], *info;
	unsigned flags = 0;
	snprintf(name, sizeof(name), "fdinfo/%d", fd);
	ck_no_err(proc_text(&stage->proc, name, &info));
	ck_assert_int_eq(sscanf(strstr(info, "flags:"), "flags: %o", &flags), 1);
	ck_assert_msg(flags & O_CLOEXEC, "descriptor %d: flags %o", fd, flags);
	free(info);
}

HT_TEST(a_taken_lease_completes)
{
	struct stage stage;
	struct stub_map map = usual_map();
	struct stat stat;

	together = true;
	start_map(&stage, &map, NULL);
	let_go(&stage);
	struct abi_control control = wait_status(&stage, STUB_READY);
	while (child_call(stage.child.pid) != SYS_select)
		sched_yield();
	int memfd = take(&stage, control.stub_fds[1]), agent = take(&stage, control.stub_fds[0]);
	int daemon = take(&stage, control.stub_fds[3]);
	for (int i = 0; i < 4; i++)
		check_cloexec(&stage, control.stub_fds[i]);
	check_layout(&stage);
	say_taken(&stage);
	check_back(&stage);
	wait_status(&stage, STUB_DONE);
	check_layout(&stage);

	ck_assert_int_ge(control.stub_fds[0], FD_FLOOR);
	ck_assert_int_eq(fstat(memfd, &stat), 0);
	ck_assert_uint_eq((uint64_t)stat.st_size, IMAGE_BYTES);
	ck_assert_int_eq(fcntl(memfd, F_GET_SEALS) & F_SEAL_SEAL, 0);
	check_connected(daemon, agent);
	check_connected(agent, daemon);
	ck_assert(has_vm_flag(&stage, map.image + ABI_STATE_OFF, " wf"));
	ck_assert(has_vm_flag(&stage, map.image + ABI_TABLES_OFF, " dd"));
	ck_assert(has_vm_flag(&stage, map.image + ABI_SHARED_OFF, " dd"));

	/* The agent's end is the only new descriptor left. */
	struct snap after;
	char ours[32];
	take_snap(&stage.proc, &after);
	snprintf(ours, sizeof(ours), "%d socket:", control.stub_fds[0]);
	char *line = strstr(after.fds, ours);
	ck_assert_ptr_nonnull(line);
	char *next = strchr(line, '\n') + 1;
	memmove(line, next, strlen(next) + 1);
	ck_assert_str_eq(after.fds, stage.before.fds);
	free(after.maps);
	finish(&stage);
}

static void end_lease(const struct stage *stage)
{
	ck_no_err(memory_write_u64(&stage->proc,
		stage->map.image + ABI_CONTROL_OFF + offsetof(struct abi_control, taken),
		STUB_EXPIRED));
}

/* Programs close descriptors that they do not know, and then reuse the numbers for their own files.
 */
HT_TEST(an_expired_lease_closes_only_what_is_its_own)
{
	struct stage stage;
	struct stub_map map = usual_map();
	struct snap after;
	char byte, line[64], link[64] = "";

	start_map(&stage, &map, NULL);
	let_go(&stage);
	struct abi_control control = wait_status(&stage, STUB_READY);
	ck_assert_int_eq(write(taking[1], control.stub_fds, sizeof(control.stub_fds)),
		sizeof(control.stub_fds));
	ck_assert_int_eq(read(taken[0], &byte, 1), 1);
	end_lease(&stage);
	check_back(&stage);
	snprintf(line, sizeof(line), "/proc/self/fd/%d", taking[0]);
	ck_assert_int_gt(readlink(line, link, sizeof(link) - 1), 0);
	take_snap(&stage.proc, &after);
	for (int i = 0; i < 4; i++) {
		snprintf(line, sizeof(line), "\n%d %s\n", control.stub_fds[i], link);
		ck_assert_msg(strstr(after.fds, line), "%d: %s", i, after.fds);
	}
	free(after.maps);
	finish(&stage);
}

HT_TEST(an_expired_lease_undoes_everything)
{
	struct stage stage;
	struct stub_map map = usual_map();
	map.lease_ns = 0;
	start_map(&stage, &map, NULL);
	let_go(&stage);
	check_back(&stage);
	check_untouched(&stage);
	finish(&stage);
}

/* Each step in turn fails because no descriptor is free: the memfd, the socket pair (both ends or
 * one), and the agent's descriptor, whose number is above the limit. */
HT_TEST(want_of_descriptors_undoes_everything)
{
	for (rlim_t above = 0; above < 4; above++) {
		struct stage stage;
		struct stub_map map = usual_map();
		struct limits limits = {.resource = RLIMIT_NOFILE, .above = above};
		start_map(&stage, &map, &limits);
		let_go(&stage);
		check_back(&stage);
		check_untouched(&stage);
		finish(&stage);
	}
}

HT_TEST(want_of_address_space_undoes_everything)
{
	struct stage stage;
	struct stub_map map = usual_map();
	struct limits limits = {.resource = RLIMIT_AS, .above = 1 << 20};
	start_map(&stage, &map, &limits);
	let_go(&stage);
	check_back(&stage);
	check_untouched(&stage);
	finish(&stage);
}

HT_TEST(existing_mappings_are_never_unmapped)
{
	static const uint64_t offsets[] = {0, ABI_STATE_OFF, ABI_SHARED_OFF + HT_PAGE_BYTES};
	for (size_t i = 0; i < HT_ARRAY_SIZE(offsets) + ABI_NEAR_MAX; i++) {
		struct stage stage;
		struct stub_map map = usual_map();
		uint64_t word = 0;
		raddr_t at = i < ABI_NEAR_MAX ? map.near[i] + HT_PAGE_BYTES
					      : map.image + offsets[i - ABI_NEAR_MAX];
		uint64_t *there = mmap((void *)(uintptr_t)at, HT_PAGE_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		ck_assert_ptr_ne(there, MAP_FAILED);
		*there = 0x746865726521;
		start_map(&stage, &map, NULL);
		let_go(&stage);
		check_back(&stage);
		check_untouched(&stage);
		ck_no_err(memory_read_u64(&stage.proc, at, &word));
		ck_assert_uint_eq(word, 0x746865726521);
		munmap(there, HT_PAGE_BYTES);
		finish(&stage);
	}
}

HT_TEST(unmapping_takes_out_what_is_named)
{
	struct stage stage = {.regs = cpu_odd_regs()};
	struct stub stub;
	struct proc_maps maps;
	char gone[32], left_open[32];
	raddr_t at;

	place();
	void *map = mmap(NULL, 5 * HT_PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	at = (raddr_t)(uintptr_t)map;
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	/* The program reused this descriptor's number, so the file has no mark. */
	int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
	ck_assert_int_eq(fcntl(fd, F_SETSIG, STUB_MARK), 0);
	struct stub_unmap unmap = {.lo = {at, at + 3 * HT_PAGE_BYTES},
		.hi = {at + HT_PAGE_BYTES, at + 4 * HT_PAGE_BYTES},
		.fd = {fd, other},
		.fd_count = 2};
	ck_no_err(stub_make_unmap(
		&unmap, place_addr(), &(struct stub_thread){.resume = stage.regs}, &stub));
	start(&stage, &stub, NULL);
	snprintf(gone, sizeof(gone), "\n%d ", fd);
	snprintf(left_open, sizeof(left_open), "\n%d ", other);
	ck_assert_ptr_nonnull(strstr(stage.before.fds, gone));
	let_go(&stage);
	check_back(&stage);
	struct snap after;
	take_snap(&stage.proc, &after);
	ck_assert_ptr_null(strstr(after.fds, gone));
	ck_assert_ptr_nonnull(strstr(after.fds, left_open));
	free(after.maps);
	ck_no_err(proc_maps_read(&stage.proc, &maps));
	static const bool left[] = {false, true, true, false, true};
	for (size_t i = 0; i < HT_ARRAY_SIZE(left); i++)
		ck_assert(!proc_maps_find(&maps, at + i * HT_PAGE_BYTES) == !left[i]);
	proc_maps_deinit(&maps);
	finish(&stage);
}

/* A call that fails during unmapping does not stop the rest. */
HT_TEST(unmapping_goes_on_past_a_failure)
{
	struct stage stage = {.regs = cpu_odd_regs()};
	struct stub stub;
	place();
	struct stub_unmap unmap = {
		.lo = {1, 0}, .hi = {HT_PAGE_BYTES, 0}, .fd = {9999}, .fd_count = 1};
	ck_no_err(stub_make_unmap(
		&unmap, place_addr(), &(struct stub_thread){.resume = stage.regs}, &stub));
	start(&stage, &stub, NULL);
	let_go(&stage);
	check_back(&stage);
	check_untouched(&stage);
	finish(&stage);
}

HT_SUITE("attach/stub/stub")
