/* SPDX-License-Identifier: Apache-2.0
 *
 * The threads that run stubs: which threads may, which must not even be stopped, and that a
 * cancelled stub leaves nothing.
 */
#include <dirent.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
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

/* --- an attempt that was given up ------------------------------------------------------------- */

static bool has_image(pid_t pid)
{
	HT_FREED char *ours = procsnap_ours(pid);
	bool has = strstr(ours, "memfd:heaptap-") != NULL;
	return has;
}

static volatile int *forked; /* 1: the thread must fork; then the child's PID */

static void *fork_when_told(void *arg)
{
	(void)arg;
	for (;;) {
		if (*forked != 1)
			continue;
		pid_t pid = fork();
		if (pid == 0)
			child_wait();
		*forked = pid;
	}
}

static void wait_beside(const void *arg)
{
	(void)arg;
	pthread_t thread;
	if (pthread_create(&thread, NULL, fork_when_told, NULL))
		return;
	child_ready(0);
	child_wait();
}

/* The process forks while its other thread runs the stub, which then undoes everything. The limit
 * makes a second attempt impossible. */
static void fork_and_limit(void *context)
{
	const struct child *child = context;
	const struct rlimit limit = {1 << 20, RLIM_INFINITY};
	*forked = 1;
	run_until(*forked != 1, ANSWER_MS);
	run_until(!has_image(child->pid), ANSWER_MS);
	ck_assert_int_eq(prlimit(child->pid, RLIMIT_FSIZE, &limit, NULL), 0);
}

HT_TEST(forked_in_an_attempt_that_was_given_up)
{
	struct sweep sweep;
	char *trace = tmpdir_path("trace");
	forked = mmap(
		NULL, sizeof(*forked), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ck_assert(forked != MAP_FAILED);
	struct child child = child_fork(wait_beside, NULL);
	child_sleeping(&child);
	struct procsnap *before = procsnap_take(child.pid, PROCSNAP_MASKS_CHANGE);
	sweep_attach(&sweep, child.pid, trace,
		&(struct sweep_plan){.action = SWEEP_CALL,
			.role = SWEEP_WORKER,
			.from = SYS_pidfd_getfd,
			.at = 1,
			.call = fork_and_limit,
			.context = &child});
	int status = sweep_wait(&sweep, HEAPTAP_MS);
	char *err = run_err(&sweep.run), *ours = procsnap_ours(*forked);
	ck_assert_msg(
		status == REFUSED && strstr(err, "RLIMIT_FSIZE"), "status %d: %s", status, err);
	ck_assert_msg(!ours[0], "%s", ours);
	procsnap_verify_but(before, child.pid, (const char *[]){"process limits", NULL});
	kill(*forked, SIGKILL);
	free(err);
	free(ours);
	sweep_deinit(&sweep);
	free(trace);
	child_kill(&child);
}

/* --- descriptors of its own
 * --------------------------------------------------------------------- */

static bool asleep_in(pid_t pid, long call)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *task = opendir(path);
	bool found = false;
	for (struct dirent *entry; (entry = readdir(task));) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
		found |= tid && tid != pid && child_call(tid) == call;
	}
	closedir(task);
	return found;
}

static sem_t *leave;

/* A thread that heaptap would prefer for its stub, because it only waits, but with its own
 * descriptor table. */
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

HT_TEST(a_table_of_descriptors_of_its_own)
{
	cycle_with_own_table(true);
}

HT_TEST(a_table_of_descriptors_of_its_own_while_tapped)
{
	cycle_with_own_table(false);
}

/* --- the main thread ends --------------------------------------------------------------------- */

#define FDS_LOOKED_AT 1024

struct sharing {
	pid_t main;
	sem_t own, end;	 /* posted once each, to start the action */
	bool own_is_old; /* the thread with its own table is older than the one that allocates */
};

static struct sharing *sharing;

static void *have_own_table_soon(void *arg)
{
	(void)arg;
	while (sem_wait(&sharing->own) != 0)
		;
	if (unshare(CLONE_FILES) == 0)
		for (;;)
			pause();
	return NULL;
}

static void *allocate(void *arg)
{
	for (;;)
		free(malloc(1));
	return arg;
}

static void end_main_thread(const void *arg)
{
	(void)arg;
	pthread_t thread;
	void *(*const body[])(void *) = {have_own_table_soon, allocate};
	for (size_t i = 0; i < HT_ARRAY_SIZE(body); i++)
		if (pthread_create(&thread, NULL, body[i ^ !sharing->own_is_old], NULL))
			return;
	child_ready(0);
	while (sem_wait(&sharing->end) != 0)
		;
	pthread_exit(NULL);
}

static size_t sockets_of_thread(pid_t pid, const char *tid)
{
	char path[300], link[64];
	size_t sockets = 0;
	for (int fd = 0; fd < FDS_LOOKED_AT; fd++) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/fd/%d", pid, tid, fd);
		sockets +=
			readlink(path, link, sizeof(link)) > 7 && strncmp(link, "socket:", 7) == 0;
	}
	return sockets;
}

static size_t sockets_of_threads(pid_t pid)
{
	char path[64];
	size_t sockets = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	DIR *task = opendir(path);
	ck_assert_ptr_nonnull(task);
	for (struct dirent *entry; (entry = readdir(task));)
		if (entry->d_name[0] != '.')
			sockets += sockets_of_thread(pid, entry->d_name);
	closedir(task);
	return sockets;
}

static bool main_has_ended(pid_t pid)
{
	char path[64], state = '?';
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	FILE *stat = fopen(path, "re");
	bool read = stat && fscanf(stat, "%*d (%*[^)]) %c", &state) == 1;
	if (stat)
		fclose(stat);
	return read && state == 'Z';
}

static void cycle_with_two_tables(bool own_is_old, bool own_before)
{
	struct tap tap;
	sharing = share(sizeof(*sharing));
	sharing->own_is_old = own_is_old;
	ck_assert(!sem_init(&sharing->own, 1, 0) && !sem_init(&sharing->end, 1, 0));
	struct child child = child_fork(end_main_thread, NULL);
	size_t before = sockets_of_threads(child.pid);
	for (int i = 0; i < 2; i++) {
		if (i == own_before) {
			tap_start(&tap, child.pid, (const char *[]){"--symbolize", "later", NULL});
			tap_wait_any(&tap);
		} else {
			sem_post(&sharing->own);
			run_until(asleep_in(child.pid, SYS_pause), ANSWER_MS);
		}
	}
	ck_assert_uint_gt(sockets_of_threads(child.pid), before);
	sem_post(&sharing->end);
	run_until(main_has_ended(child.pid), ANSWER_MS);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	json_decref(attach);
	ck_assert_uint_eq(sockets_of_threads(child.pid), before);
	child_kill(&child);
}

HT_TEST(the_oldest_left_has_a_table_of_its_own)
{
	cycle_with_two_tables(true, false);
	cycle_with_two_tables(true, true);
}

HT_TEST(the_youngest_left_has_a_table_of_its_own)
{
	cycle_with_two_tables(false, false);
}

/* --- the kernel's workers
 * ---------------------------------------------------------------------- */

struct worker_waits {
	char *fifo;
	bool polled; /* a kernel thread polls for submissions (SQPOLL) */
};

static void *map_ring(int fd, uint64_t what, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)what);
	return at == MAP_FAILED ? NULL : at;
}

static nlink_t thread_count(pid_t pid)
{
	char path[64];
	struct stat task;
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	return stat(path, &task) ? 0 : task.st_nlink - 2;
}

/* Lets an io_uring worker, a thread of the kernel, wait in open(2). A ptrace stop would end that
 * wait. */
static void wait_in_worker(const void *arg)
{
	const struct worker_waits *waits = arg;
	struct io_uring_params ring = {
		.flags = waits->polled ? IORING_SETUP_SQPOLL : 0, .sq_thread_idle = 100000};
	int fd = (int)syscall(SYS_io_uring_setup, 1, &ring);
	char *queue = map_ring(fd, IORING_OFF_SQ_RING, ring.sq_off.array + sizeof(uint32_t));
	char *done = map_ring(fd, IORING_OFF_CQ_RING,
		ring.cq_off.cqes + ring.cq_entries * sizeof(struct io_uring_cqe));
	struct io_uring_sqe *entry = map_ring(fd, IORING_OFF_SQES, sizeof(*entry));
	if (fd < 0 || !queue || !done || !entry)
		return;
	*entry = (struct io_uring_sqe){.opcode = IORING_OP_OPENAT,
		.flags = IOSQE_ASYNC,
		.fd = AT_FDCWD,
		.addr = (uint64_t)(uintptr_t)waits->fifo};
	__atomic_store_n((uint32_t *)(queue + ring.sq_off.tail), 1, __ATOMIC_RELEASE);
	unsigned flags = waits->polled ? IORING_ENTER_SQ_WAKEUP : 0;
	if (syscall(SYS_io_uring_enter, fd, 1, 0, flags, NULL, 0) != 1)
		return;
	child_ready(1);
	while (!__atomic_load_n((uint32_t *)(done + ring.cq_off.tail), __ATOMIC_ACQUIRE))
		free(malloc(1));
	const struct io_uring_cqe *cqe = (const void *)(done + ring.cq_off.cqes);
	_exit(cqe->res < 0 ? -cqe->res & 0x7f : 0);
}

static void cycle_with_worker(bool polled)
{
	struct worker_waits waits = {.fifo = tmpdir_path("fifo"), .polled = polled};
	struct tap tap;
	int status;
	ck_assert_int_eq(mkfifo(waits.fifo, 0600), 0);
	struct child child = child_fork(wait_in_worker, &waits);
	if (!child.value) {
		printf("skipped: io_uring is not there\n");
		return;
	}
	run_until(thread_count(child.pid) >= (polled ? 3u : 2u), ANSWER_MS);
	struct procsnap *before = procsnap_take(child.pid, PROCSNAP_MASKS_CHANGE);
	tap_start(&tap, child.pid, (const char *[]){"--symbolize", "later", NULL});
	tap_wait_any(&tap);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	json_decref(attach);
	procsnap_verify(before, child.pid);
	/* The worker must still be waiting to open the FIFO: then this open finds a reader. */
	int fd = open(waits.fifo, O_WRONLY | O_CLOEXEC | O_NONBLOCK);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(waitpid(child.pid, &status, 0), child.pid);
	ck_assert_int_eq(status, 0);
	close(fd);
	unlink(waits.fifo);
	free(waits.fifo);
}

HT_TEST(workers_of_io_uring)
{
	cycle_with_worker(false);
}

HT_TEST(workers_of_a_polled_io_uring)
{
	cycle_with_worker(true);
}

/* --- a virtual machine ---------------------------------------------------------------------------
 */

#define GUEST_AT 0x1000u

static int make_guest(struct kvm_run **ret)
{
	static const uint8_t code[] = {0x66, 0xb9, 0, 0, 4, 0, /* mov $0x40000, %ecx */
		0x66, 0x49,				       /* 1: dec %ecx */
		0x75, 0xfc,				       /* jnz 1b */
		0xe6, 0x10,				       /* out %al, $0x10 */
		0xeb, 0xf2};				       /* jmp, back to the start */
	int kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC), vm = ioctl(kvm, KVM_CREATE_VM, 0);
	uint8_t *memory = mmap(
		NULL, HT_PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct kvm_userspace_memory_region region = {.guest_phys_addr = GUEST_AT,
		.memory_size = HT_PAGE_BYTES,
		.userspace_addr = (uint64_t)(uintptr_t)memory};
	struct kvm_regs regs = {.rip = GUEST_AT, .rflags = 2};
	struct kvm_sregs sregs;

	memcpy(memory, code, sizeof(code));
	int cpu = ioctl(vm, KVM_CREATE_VCPU, 0), bytes = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	if (cpu < 0 || bytes <= 0 || ioctl(vm, KVM_SET_USER_MEMORY_REGION, &region) < 0 ||
		ioctl(cpu, KVM_GET_SREGS, &sregs) < 0)
		return -1;
	sregs.cs.base = sregs.cs.selector = 0;
	*ret = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, cpu, 0);
	return ioctl(cpu, KVM_SET_SREGS, &sregs) || ioctl(cpu, KVM_SET_REGS, &regs) ? -1 : cpu;
}

static void run_guest(const void *arg)
{
	struct kvm_run *run;
	int cpu = make_guest(&run);
	(void)arg;
	bool runs = cpu >= 0 && ioctl(cpu, KVM_RUN, 0) == 0 && run->exit_reason == KVM_EXIT_IO;
	child_ready(runs);
	while (runs && ioctl(cpu, KVM_RUN, 0) == 0 && run->exit_reason == KVM_EXIT_IO)
		free(malloc(1));
}

/* The kernel thread of a virtual machine runs no code of the program, and the guest must not notice
 * stops. */
HT_TEST(a_virtual_machine)
{
	struct child child = child_fork(run_guest, NULL);
	struct tap tap;
	if (!child.value) {
		printf("skipped: stub_thread: KVM is not there\n");
		child_kill(&child);
		return;
	}
	struct procsnap *before = procsnap_take(child.pid, 0);
	tap_start(&tap, child.pid, (const char *[]){"--symbolize", "later", NULL});
	tap_wait_any(&tap);
	json_t *attach = tap_stop(&tap, 0);
	tap_check_clean(attach);
	json_decref(attach);
	procsnap_verify(before, child.pid);
	ck_assert(!strchr("ZX", child_state(child.pid)));
	child_kill(&child);
}

HT_SUITE("integration/stub_thread")
