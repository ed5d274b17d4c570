/* SPDX-License-Identifier: Apache-2.0
 *
 * Takes resident memory of one kind after another, and reports the figures of the kernel and of
 * glibc:
 *
 *      resident [FILE]
 *      blocks N        N MiB of small blocks from malloc, written to
 *      holes           frees nine of ten of the blocks; malloc keeps the free memory
 *      trim            gives the pages of free blocks back to the kernel
 *      untouched N     a block of N MiB from malloc that is not written to
 *      mapping N       maps N MiB of FILE
 *      read            reads what it has mapped
 *      shared N        N MiB of a memfd
 *      sysv N          N MiB of System V shared memory
 *      anonymous N     N MiB of anonymous memory from mmap
 *      stack N         a thread uses N MiB of its stack, and stays
 *      figures         answers {"rss":B,"anonymous":B,"file":B,"shared":B,"used":B,"free":B}: the
 *                      last two by mallinfo2
 *      exec            execs itself; the new program says "ready" again
 *      exit            ends with status 0
 *
 * Calls malloc itself only for "blocks" and "untouched".
 */
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>

#include "tests/targets/speak.h"

#define MIB	    (1ul << 20)
#define BLOCK_BYTES 3000u
#define BLOCKS_MAX  200000u

static char *block[BLOCKS_MAX];
static size_t block_count;
static const char *file;

static void touch(char *memory, unsigned long bytes)
{
	for (unsigned long i = 0; i < bytes; i += 4096)
		memory[i] = 1;
}

static char *map(unsigned long bytes, int protection, int flags, int fd)
{
	char *memory = mmap(NULL, bytes, protection, flags, fd, 0);
	if (memory == MAP_FAILED)
		speak_fail("mmap: errno %d", errno);
	return memory;
}

static void take_blocks(unsigned long bytes)
{
	for (unsigned long i = 0; i < bytes / BLOCK_BYTES && block_count < BLOCKS_MAX; i++) {
		block[block_count] = malloc(BLOCK_BYTES);
		memset(block[block_count++], 1, BLOCK_BYTES);
	}
}

static void make_holes(void)
{
	for (size_t i = 0; i < block_count; i++)
		if (i % 10)
			free(block[i]);
}

static char *mapped;
static unsigned long mapped_bytes;

static void map_file(unsigned long bytes)
{
	int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (fd < 0 || posix_fallocate(fd, 0, (off_t)bytes))
		speak_fail("%s: errno %d", file, errno);
	mapped = map(bytes, PROT_READ, MAP_SHARED, fd);
	mapped_bytes = bytes;
	close(fd);
}

static void read_file(void)
{
	volatile char sum = 0;
	for (unsigned long i = 0; i < mapped_bytes; i += 4096)
		sum = (char)(sum + mapped[i]);
}

static void share(unsigned long bytes)
{
	int fd = memfd_create("resident", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, (off_t)bytes))
		speak_fail("memfd: errno %d", errno);
	touch(map(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd), bytes);
	close(fd);
}

static void share_sysv(unsigned long bytes)
{
	int id = shmget(IPC_PRIVATE, bytes, IPC_CREAT | 0600);
	char *memory = id < 0 ? (char *)-1 : shmat(id, NULL, 0);
	if (memory == (char *)-1)
		speak_fail("shm: errno %d", errno);
	shmctl(id, IPC_RMID, NULL);
	touch(memory, bytes);
}

static volatile int is_deep;
static unsigned long stack_bytes;

static void *use_stack(void *unused)
{
	char *volatile memory = __builtin_alloca(stack_bytes);
	touch(memory, stack_bytes);
	is_deep = 1;
	for (;;)
		pause();
	return unused;
}

static void start_thread(unsigned long bytes)
{
	pthread_attr_t attributes;
	pthread_t thread;
	stack_bytes = bytes;
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, bytes + MIB);
	if (pthread_create(&thread, &attributes, use_stack, NULL))
		speak_fail("no thread");
	while (!is_deep)
		usleep(1000);
}

static unsigned long kib_of(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	return at ? strtoul(at + strlen(key), NULL, 10) : 0;
}

static void tell_figures(void)
{
	char text[8192];
	struct mallinfo2 info = mallinfo2();
	speak_read("/proc/self/status", text, sizeof(text));
	speak_add("{\"rss\":%lu,\"anonymous\":%lu,\"file\":%lu,\"shared\":%lu,\"used\":%zu,"
		  "\"free\":%zu}",
		kib_of(text, "\nVmRSS:") * 1024, kib_of(text, "\nRssAnon:") * 1024,
		kib_of(text, "\nRssFile:") * 1024, kib_of(text, "\nRssShmem:") * 1024,
		info.uordblks + info.hblkhd, info.fordblks);
	speak_send();
}

static const struct {
	const char *name;
	void (*take)(unsigned long bytes);
} kinds[] = {{"blocks ", take_blocks}, {"mapping ", map_file}, {"shared ", share},
	{"sysv ", share_sysv}, {"stack ", start_thread}};

static void obey(const char *command, char **argv)
{
	const char *number = strchr(command, ' ');
	unsigned long bytes = number ? strtoul(number, NULL, 10) * MIB : 0;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (!strncmp(command, kinds[i].name, strlen(kinds[i].name)))
			kinds[i].take(bytes);
	if (!strcmp(command, "holes"))
		make_holes();
	else if (!strcmp(command, "read"))
		read_file();
	else if (!strcmp(command, "trim"))
		malloc_trim(0);
	else if (!strncmp(command, "untouched ", 10))
		*(void *volatile *)&block[BLOCKS_MAX - 1] = malloc(bytes);
	else if (!strncmp(command, "anonymous ", 10))
		touch(map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1), bytes);
	else if (!strcmp(command, "exit"))
		_exit(0);
	else if (!strcmp(command, "exec"))
		execv("/proc/self/exe", argv);
	speak_add("done");
	speak_send();
}

int main(int argc, char **argv)
{
	file = argc > 1 ? argv[1] : "";
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		if (!strcmp(command, "figures"))
			tell_figures();
		else
			obey(command, argv);
	}
	return 0;
}
