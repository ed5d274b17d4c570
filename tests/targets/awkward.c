/* SPDX-License-Identifier: Apache-2.0
 *
 * A program that treats a profiler's parts like any unknown part of its process. Commands:
 *
 *      fork       makes a child, which allocates without end and ends with this process; answers
 *                 the child's PID
 *      take       closes every descriptor from 3 on, and opens 3 to 1009 on a file of its own
 *      check      answers "fine" if all of these are still open on a file of one byte
 *      filter     installs a seccomp filter that kills the process at all but seven calls
 *      doze N     sleeps N times, and checks that no sleep is cut short
 *      null N     makes N threads that do nothing but free(NULL)
 *      settle N   writes functions into the unused end of the last code page of N loaded files,
 *                 those with most room (of all with enough room, at most 16, if N is large), and
 *                 makes a thread that calls all of them again and again; answers how many files
 *      runs       answers how often this thread has called all of them
 */
#include <fcntl.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <signal.h>
#include <time.h>

#include "tests/targets/speak.h"

#define FD_LO  3
#define FD_HI  1010
#define NAP_NS 20000000

static void work(void)
{
	for (unsigned i = 0; i < 50; i++)
		free(malloc(16 + i));
	usleep(100);
}

static void fork_child(void)
{
	pid_t parent = getpid(), child = fork();
	if (child < 0)
		speak_fail("no child");
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		while (getppid() == parent)
			work();
		_exit(0);
	}
	speak_add("%d", child);
}

static void take_descriptors(void)
{
	closefrom(FD_LO);
	int file = memfd_create("own", 0);
	if (write(file, "x", 1) != 1)
		speak_fail("no file");
	for (int fd = FD_LO; fd < FD_HI; fd++)
		if (fd != file && dup2(file, fd) != fd)
			speak_fail("no descriptor %d", fd);
	speak_add("taken");
}

static void check_descriptors(void)
{
	struct stat stat;
	for (int fd = FD_LO; fd < FD_HI; fd++)
		if (fstat(fd, &stat) || stat.st_size != 1)
			speak_fail("descriptor %d is not what it was", fd);
	speak_add("fine");
}

static void enter_filter(void)
{
	static const unsigned allowed[] = {SYS_read, SYS_write, SYS_brk, SYS_mmap,
		SYS_clock_nanosleep, SYS_rt_sigreturn, SYS_exit_group};
	enum { COUNT = sizeof(allowed) / sizeof(allowed[0]) };
	struct sock_filter code[COUNT + 3] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
	for (unsigned i = 0; i < COUNT; i++)
		code[i + 1] = (struct sock_filter)BPF_JUMP(
			BPF_JMP | BPF_JEQ | BPF_K, allowed[i], (uint8_t)(COUNT - i), 0);
	code[COUNT + 1] = (struct sock_filter)BPF_STMT(BPF_RET, SECCOMP_RET_KILL_PROCESS);
	code[COUNT + 2] = (struct sock_filter)BPF_STMT(BPF_RET, SECCOMP_RET_ALLOW);
	struct sock_fprog program = {COUNT + 3, code};
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		speak_fail("no filter");
	speak_add("filtered");
}

/* The filter forbids restart_syscall(2). If a sleep is cut short, the program fails. */
static void doze(unsigned long naps)
{
	struct timespec begin, end, nap = {.tv_nsec = NAP_NS};
	for (; naps > 0; naps--) {
		clock_gettime(CLOCK_MONOTONIC, &begin);
		int error = clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
		clock_gettime(CLOCK_MONOTONIC, &end);
		long long took =
			(end.tv_sec - begin.tv_sec) * 1000000000ll + end.tv_nsec - begin.tv_nsec;
		if (error || took < NAP_NS)
			speak_fail("a nap of %lld ns: errno %d", took, error);
		work();
	}
	speak_add("dozed");
}

static void *free_null(void *arg)
{
	void *volatile null = arg;
	free(malloc(1));
	for (;;)
		free(null);
	return NULL;
}

/* --- code of its own behind that of loaded files ---
 */

#define PAGE	     4096ul
#define FUNCTION_GAP 64u
#define ROOM_MIN     1024u
#define RESTS_MAX    16u
#define RETURNED     0x5eedu

struct rest {
	unsigned char *lo, *hi;
};

static struct rest rest[RESTS_MAX];
static size_t rests;
static atomic_ulong runs;

static int note_rests(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	for (unsigned i = 0; i < info->dlpi_phnum && !strstr(info->dlpi_name, "vdso"); i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		unsigned long end = info->dlpi_addr + segment->p_vaddr + segment->p_memsz;
		unsigned long lo = (end + FUNCTION_GAP - 1) & -(unsigned long)FUNCTION_GAP;
		unsigned long hi = (end + PAGE - 1) & -PAGE;
		if (segment->p_type == PT_LOAD && segment->p_flags & PF_X && lo + ROOM_MIN < hi &&
			rests < RESTS_MAX)
			rest[rests++] = (struct rest){(unsigned char *)lo, (unsigned char *)hi};
	}
	return 0;
}

static int by_room(const void *a, const void *b)
{
	const struct rest *x = a, *y = b;
	long room_x = x->hi - x->lo, room_y = y->hi - y->lo;
	return (room_x < room_y) - (room_x > room_y);
}

static void settle_in(const struct rest *place)
{
	static const unsigned char code[] = {0xb8, RETURNED & 0xff, RETURNED >> 8, 0, 0, 0xc3};
	unsigned char *page = place->hi - PAGE;
	if (mprotect(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC))
		speak_fail("mprotect: errno %d", errno);
	for (unsigned char *at = place->lo; at < place->hi; at += FUNCTION_GAP)
		memcpy(at, code, sizeof(code));
	if (mprotect(page, PAGE, PROT_READ | PROT_EXEC))
		speak_fail("mprotect: errno %d", errno);
}

static void *run_settled(void *arg)
{
	(void)arg;
	for (;; runs++)
		for (size_t i = 0; i < rests; i++)
			for (unsigned char *at = rest[i].lo; at < rest[i].hi; at += FUNCTION_GAP)
				if (((unsigned (*)(void))at)() != RETURNED)
					speak_fail("what was put at %p is not there", (void *)at);
	return NULL;
}

static void settle(size_t count)
{
	dl_iterate_phdr(note_rests, NULL);
	qsort(rest, rests, sizeof(rest[0]), by_room);
	rests = rests < count ? rests : count;
	for (size_t i = 0; i < rests; i++)
		settle_in(&rest[i]);
	pthread_create(&(pthread_t){0}, NULL, run_settled, NULL);
	speak_add("%zu", rests);
}

int main(void)
{
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		for (unsigned i = 0; i < 100; i++)
			work();
		if (!strcmp(command, "fork"))
			fork_child();
		else if (!strcmp(command, "take"))
			take_descriptors();
		else if (!strcmp(command, "check"))
			check_descriptors();
		else if (!strcmp(command, "filter"))
			enter_filter();
		else if (!strncmp(command, "doze ", 5))
			doze(strtoul(command + 5, NULL, 10));
		else if (!strncmp(command, "null ", 5))
			for (unsigned long i = strtoul(command + 5, NULL, 10); i > 0; i--)
				pthread_create(&(pthread_t){0}, NULL, free_null, NULL);
		else if (!strncmp(command, "settle ", 7))
			settle(strtoul(command + 7, NULL, 10));
		else if (!strcmp(command, "runs"))
			speak_add("%lu", runs);
		speak_send();
	}
	_exit(0);
}
