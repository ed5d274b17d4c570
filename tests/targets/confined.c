/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that confines itself, before it says "ready" or later, and counts its allocations:
 *
 *      confined [alone] [CONFINEMENT...]     alone: without the threads that work
 *      confine CONFINEMENT   answers "confined"
 *      work N CONFINEMENT    as work, and confines itself in the middle of it
 *      work N                N rounds in each of three threads; answers {"allocations", "bytes"} of
 *                            these. The third runs on stacks of its own making
 *
 * With "pid" it goes on in a child, the first process of a new PID namespace. The parent prints
 * "inside PID", the child's PID outside of this namespace. Blocks are filled and checked: the
 * program exits with 2 if one has changed.
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "tests/targets/forget.h"
#include "tests/targets/speak.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif

#ifndef SYS_mseal
#define SYS_mseal 462
#endif

#define THREADS	    3
#define MAPPINGS    60000 /* most of vm.max_map_count's default of 65,530 */
#define STACK_BYTES (256 << 10)
#define LENGTH(a)   (sizeof(a) / sizeof((a)[0]))

/* --- the counts
 * ------------------------------------------------------------------------------------ */

static struct worker {
	pthread_t thread;
	volatile unsigned long wanted; /* rounds; 0: none */
	unsigned long allocations, bytes;
	ucontext_t outside, inside;
	char stack[STACK_BYTES];
	int (*confine)(void); /* the thread calls this in the middle of its work, or of the next
				 work; NULL: nothing */
} workers[THREADS];

static volatile sig_atomic_t trapped;

static void confine(const char *name);

static void *take(struct worker *worker, size_t bytes)
{
	unsigned char *block = malloc(bytes);
	if (!block)
		speak_fail("no memory for %zu bytes", bytes);
	memset(block, (int)bytes, bytes);
	worker->allocations++;
	worker->bytes += bytes;
	return block;
}

static void give(unsigned char *block, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (block[i] != (unsigned char)bytes)
			speak_fail("a block changed");
	free(block);
}

static void confine_itself(struct worker *worker)
{
	int (*enter)(void) = __atomic_exchange_n(&worker->confine, NULL, __ATOMIC_ACQ_REL);
	if (enter && enter())
		speak_fail("confinement failed in a thread: errno %d", errno);
}

static void rounds(struct worker *worker)
{
	for (unsigned long i = 0; i < worker->wanted; i++) {
		if (__atomic_load_n(&worker->confine, __ATOMIC_RELAXED))
			confine_itself(worker);
		size_t first = 16 + i % 500, second = 20 + i % 3000;
		void *a = take(worker, first), *b = take(worker, second);
		give(a, first);
		give(b, second);
	}
	forget_frames();
}

static void on_own_stack(void)
{
	struct worker *worker = &workers[THREADS - 1];
	for (;;) {
		rounds(worker);
		swapcontext(&worker->inside, &worker->outside);
	}
}

/* Waits with sched_yield alone, which no filter forbids. */
static void *work(void *arg)
{
	struct worker *worker = arg;
	for (;;) {
		while (!__atomic_load_n(&worker->wanted, __ATOMIC_ACQUIRE))
			sched_yield();
		if (worker == &workers[THREADS - 1])
			swapcontext(&worker->outside, &worker->inside);
		else
			rounds(worker);
		__atomic_store_n(&worker->wanted, 0, __ATOMIC_RELEASE);
	}
	return NULL;
}

static void start_workers(void)
{
	struct worker *last = &workers[THREADS - 1];
	getcontext(&last->inside);
	last->inside.uc_stack = (stack_t){.ss_sp = last->stack, .ss_size = sizeof(last->stack)};
	makecontext(&last->inside, on_own_stack, 0);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			speak_fail("no thread");
}

static void run_workers(unsigned long count, const char *then)
{
	for (int i = 0; i < THREADS; i++) {
		workers[i].allocations = workers[i].bytes = 0;
		__atomic_store_n(&workers[i].wanted, count, __ATOMIC_RELEASE);
	}
	if (then) {
		while (__atomic_load_n(&workers[1].allocations, __ATOMIC_RELAXED) < count / 2)
			sched_yield();
		confine(then);
	}
	for (int i = 0; i < THREADS; i++)
		while (__atomic_load_n(&workers[i].wanted, __ATOMIC_ACQUIRE))
			sched_yield();
	if (trapped)
		speak_fail("the filter caught %d calls that are not ours", trapped);
}

/* "N" or "N CONFINEMENT" */
static void tell_work(const char *what)
{
	unsigned long allocations = 0, bytes = 0;
	char *then;
	unsigned long count = strtoul(what, &then, 10);
	run_workers(count, *then ? then + 1 : NULL);
	for (int i = 0; i < THREADS; i++) {
		allocations += workers[i].allocations;
		bytes += workers[i].bytes;
	}
	speak_add("{\"allocations\": %lu, \"bytes\": %lu}", allocations, bytes);
}

/* --- filters
 * --------------------------------------------------------------------------------------- */

/* The calls that this program makes, and none that only heaptap's agent makes. */
static const unsigned own_calls[] = {SYS_read, SYS_write, SYS_brk, SYS_mmap, SYS_munmap,
	SYS_mprotect, SYS_madvise, SYS_futex, SYS_sched_yield, SYS_rt_sigprocmask, SYS_rt_sigreturn,
	SYS_exit_group};

/* The calls that Docker's default list forbids a container without capabilities. */
static const unsigned docker_forbids[] = {SYS_acct, SYS_add_key, SYS_bpf, SYS_clock_adjtime,
	SYS_clock_settime, SYS_delete_module, SYS_finit_module, SYS_get_mempolicy, SYS_init_module,
	SYS_ioperm, SYS_iopl, SYS_kcmp, SYS_kexec_file_load, SYS_kexec_load, SYS_keyctl,
	SYS_lookup_dcookie, SYS_mbind, SYS_mount, SYS_move_pages, SYS_name_to_handle_at,
	SYS_open_by_handle_at, SYS_perf_event_open, SYS_personality, SYS_pivot_root,
	SYS_process_vm_readv, SYS_process_vm_writev, SYS_ptrace, SYS_quotactl, SYS_reboot,
	SYS_request_key, SYS_set_mempolicy, SYS_setns, SYS_settimeofday, SYS_swapon, SYS_swapoff,
	SYS_syslog, SYS_umount2, SYS_unshare, SYS_userfaultfd, SYS_vhangup};

struct rule {
	const unsigned *call;
	size_t count;
	unsigned for_these, for_others; /* SECCOMP_RET_* */
};

static const struct rule docker = {
	docker_forbids, LENGTH(docker_forbids), SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW};

static int enter(const struct rule *rule, unsigned flags, bool by_prctl)
{
	struct sock_filter code[LENGTH(docker_forbids) + 3] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	for (size_t i = 0; i < rule->count; i++)
		code[i + 1] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, rule->call[i], (uint8_t)(rule->count - i), 0);
	code[rule->count + 1] = (struct sock_filter)BPF_STMT(BPF_RET, rule->for_others);
	code[rule->count + 2] = (struct sock_filter)BPF_STMT(BPF_RET, rule->for_these);
	struct sock_fprog program = {(unsigned short)(rule->count + 3), code};
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		return -1;
	if (by_prctl)
		return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) < 0 ? -1 : 0;
}

static int only_own_calls(unsigned for_others, unsigned flags, bool by_prctl)
{
	struct rule rule = {own_calls, LENGTH(own_calls), SECCOMP_RET_ALLOW, for_others};
	return enter(&rule, flags, by_prctl);
}

static void on_trap(int signal)
{
	(void)signal;
	trapped++;
}

static int filter_kill(void)
{
	return only_own_calls(SECCOMP_RET_KILL_PROCESS, SECCOMP_FILTER_FLAG_TSYNC, false);
}

static int filter_kill_thread(void)
{
	return only_own_calls(SECCOMP_RET_KILL_THREAD, SECCOMP_FILTER_FLAG_TSYNC, false);
}

static int filter_trap(void)
{
	signal(SIGSYS, on_trap);
	return only_own_calls(SECCOMP_RET_TRAP, SECCOMP_FILTER_FLAG_TSYNC, false);
}

static int filter_errno(void)
{
	return only_own_calls(SECCOMP_RET_ERRNO | EPERM, SECCOMP_FILTER_FLAG_TSYNC, false);
}

/* The supervisor never answers: the calls that this filter catches never return. */
static int filter_notify(void)
{
	return only_own_calls(SECCOMP_RET_USER_NOTIF, SECCOMP_FILTER_FLAG_NEW_LISTENER, false);
}

static int filter_by_prctl(void)
{
	return only_own_calls(SECCOMP_RET_KILL_PROCESS, 0, true);
}

static int filter_alone(void)
{
	return only_own_calls(SECCOMP_RET_KILL_PROCESS, 0, false);
}

static int filter_alone_in_thread(void)
{
	__atomic_store_n(&workers[0].confine, filter_alone, __ATOMIC_RELEASE);
	return 0;
}

static int filter_in_thread(void)
{
	__atomic_store_n(&workers[0].confine, filter_by_prctl, __ATOMIC_RELEASE);
	return 0;
}

static int filter_docker(void)
{
	return enter(&docker, SECCOMP_FILTER_FLAG_TSYNC, false);
}

static int strict(void)
{
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
}

static void *wait_strictly(void *arg)
{
	int *pair = arg;
	char byte = 0;
	if (strict() || write(pair[1], &byte, 1) != 1)
		speak_fail("not strict: errno %d", errno);
	while (read(pair[0], &byte, 1) >= 0)
		;
	return NULL;
}

static int strict_in_thread(void)
{
	static int there[2], back[2], ends[2];
	char byte;
	if (pipe(there) || pipe(back))
		return -1;
	ends[0] = there[0];
	ends[1] = back[1];
	return pthread_create(&(pthread_t){0}, NULL, wait_strictly, ends) ||
	       read(back[0], &byte, 1) != 1;
}

static int no_clock(void)
{
	return prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
}

static int no_clock_and_filter(void)
{
	return no_clock() || filter_kill();
}

static int no_clock_in_thread(void)
{
	__atomic_store_n(&workers[1].confine, no_clock, __ATOMIC_RELEASE);
	return 0;
}

/* --- privileges, namespaces
 * ------------------------------------------------------------------------ */

static int no_new_privs(void)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

static int undumpable(void)
{
	return prctl(PR_SET_DUMPABLE, 0);
}

static int write_execute(void)
{
	return prctl(PR_SET_MDWE, 1, 0, 0, 0);
}

static int other_user(void)
{
	return setgid(65534) || setuid(65534);
}

static int drop_capabilities(void)
{
	for (int i = 0; prctl(PR_CAPBSET_READ, i) >= 0; i++)
		if (prctl(PR_CAPBSET_DROP, i))
			return -1;
	return 0;
}

static int empty_root(void)
{
	char directory[] = "/tmp/confined.XXXXXX";
	if (!mkdtemp(directory) || chroot(directory) || chdir("/"))
		return -1;
	return 0;
}

static int user_ns(void)
{
	return unshare(CLONE_NEWUSER);
}

static int mount_ns(void)
{
	return unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

/* Changes the root to an empty file system, without files and /proc. */
static int bare_mounts(void)
{
	return mount_ns() || mount("none", "/tmp", "tmpfs", 0, NULL) || chroot("/tmp") ||
	       chdir("/");
}

static int net_ns(void)
{
	return unshare(CLONE_NEWNET);
}

static int ipc_ns(void)
{
	return unshare(CLONE_NEWIPC | CLONE_NEWUTS);
}

static int pid_ns(void)
{
	if (unshare(CLONE_NEWPID))
		return -1;
	pid_t child = fork();
	if (child <= 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		return child;
	}
	speak_ready();
	speak_add("inside %d", child);
	speak_send();
	int status;
	waitpid(child, &status, 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/* Sets vm.memfd_noexec=2 for this PID namespace. */
static int no_memfd_exec(void)
{
	if (mount_ns() || mount("proc", "/proc", "proc", 0, NULL))
		return -1;
	int fd = open("/proc/sys/vm/memfd_noexec", O_WRONLY);
	int failed = fd < 0 || write(fd, "2", 1) != 1;
	close(fd);
	return failed;
}

/* --- limits
 * ---------------------------------------------------------------------------------------- */

/* Reads a figure of /proc/self/status without the allocator, because the program would not count
 * such calls. */
static unsigned long used_kib(const char *field)
{
	char text[4096];
	const char *line =
		speak_read("/proc/self/status", text, sizeof(text)) ? strstr(text, field) : NULL;
	return line ? strtoul(line + strlen(field), NULL, 10) : 0;
}

static int limit(int resource, rlim_t value)
{
	return setrlimit((__rlimit_resource_t)resource, &(struct rlimit){value, value});
}

static int little_address_space(void)
{
	return limit(RLIMIT_AS, (used_kib("VmSize:") << 10) + (400 << 20));
}

static int no_data(void)
{
	return limit(RLIMIT_DATA, used_kib("VmData:") << 10);
}

static int no_descriptors(void)
{
	if (limit(RLIMIT_NOFILE, 40))
		return -1;
	while (open("/dev/null", O_RDONLY) >= 0)
		;
	return errno != EMFILE;
}

/* Leaves only descriptors 20 to 59 of 200 free, all in the lower half. */
static int high_descriptors(void)
{
	if (limit(RLIMIT_NOFILE, 200))
		return -1;
	while (open("/dev/null", O_RDONLY) >= 0)
		;
	for (int fd = 20; fd < 60; fd++)
		close(fd);
	return 0;
}

static int no_mappings(void)
{
	for (int i = 0;; i++)
		if (mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0) == MAP_FAILED)
			return errno != ENOMEM;
}

/* Makes mappings up to just below the limit, with room for those of a capture. */
static int many_mappings(void)
{
	for (int i = 0; i < MAPPINGS; i++)
		if (mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0) == MAP_FAILED)
			return errno;
	return 0;
}

/* Seals all mappings of files: what a dynamic linker may seal, and more. */
static int seal_files(void)
{
	static char text[65536];
	char *rest = text;
	unsigned long lo, hi;
	speak_read("/proc/self/maps", text, sizeof(text));
	for (char *line; (line = strsep(&rest, "\n"));)
		if (strchr(line, '/') && !strstr(line, "/memfd:") &&
			sscanf(line, "%lx-%lx", &lo, &hi) == 2 &&
			syscall(SYS_mseal, lo, hi - lo, 0))
			return errno;
	return 0;
}

static int lock_all(void)
{
	return mlockall(MCL_CURRENT | MCL_FUTURE);
}

/* Locks memory, then gives up the right to lock more; existing locks stay. */
static int lock_little(void)
{
	return lock_all() || other_user() || prctl(PR_SET_DUMPABLE, 1);
}

static const struct confinement {
	const char *name;
	int (*enter)(void);
} confinements[] = {
	{"filter-kill", filter_kill},
	{"filter-kill-thread", filter_kill_thread},
	{"filter-trap", filter_trap},
	{"filter-errno", filter_errno},
	{"filter-notify", filter_notify},
	{"filter-by-prctl", filter_by_prctl},
	{"filter-in-thread", filter_in_thread},
	{"filter-alone-in-thread", filter_alone_in_thread},
	{"filter-docker", filter_docker},
	{"strict", strict},
	{"strict-in-thread", strict_in_thread},
	{"no-clock", no_clock},
	{"no-clock-and-filter", no_clock_and_filter},
	{"no-clock-in-thread", no_clock_in_thread},
	{"no-new-privs", no_new_privs},
	{"undumpable", undumpable},
	{"mdwe", write_execute},
	{"other-user", other_user},
	{"no-capabilities", drop_capabilities},
	{"chroot", empty_root},
	{"user", user_ns},
	{"mount", mount_ns},
	{"bare", bare_mounts},
	{"net", net_ns},
	{"ipc", ipc_ns},
	{"pid", pid_ns},
	{"no-memfd-exec", no_memfd_exec},
	{"address-space", little_address_space},
	{"data", no_data},
	{"descriptors", no_descriptors},
	{"high-descriptors", high_descriptors},
	{"mappings", no_mappings},
	{"many-mappings", many_mappings},
	{"sealed", seal_files},
	{"lock", lock_all},
	{"lock-little", lock_little},
};

static void confine(const char *name)
{
	for (size_t i = 0; i < LENGTH(confinements); i++)
		if (!strcmp(confinements[i].name, name)) {
			if (confinements[i].enter())
				speak_fail("%s: errno %d", name, errno);
			return;
		}
	speak_fail("%s: no such confinement", name);
}

static int talk(void)
{
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		if (!strncmp(command, "work ", 5)) {
			tell_work(command + 5);
		} else if (!strncmp(command, "confine ", 8)) {
			confine(command + 8);
			speak_add("confined");
		}
		speak_send();
	}
	_exit(0);
}

int main(int argc, char **argv)
{
	bool inside = false;
	free(malloc(1));
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "alone"))
			confine(argv[i]);
		inside |= !strcmp(argv[i], "pid");
	}
	if (argc < 2 || strcmp(argv[1], "alone") != 0) {
		start_workers();
		/* Have each thread allocate before a filter comes: its first allocation makes calls
		 * that the filters forbid. */
		run_workers(1, NULL);
	}
	if (!inside)
		speak_ready();
	return talk();
}
