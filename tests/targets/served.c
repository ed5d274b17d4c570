/* SPDX-License-Identifier: Apache-2.0
 *
 * Serves a file system of its own (FUSE, by the kernel's protocol) in a mount namespace of its own,
 * and maps files of it. Needs root.
 *
 * usage: served DIRECTORY      where it is mounted
 *
 *      map             maps a file as code, untouched
 *      trap            the same, but from now on the server answers no read
 *      stall WHAT      from now on the server answers no such request: writes, syncs, all
 *      resume          the server answers all requests again; unmaps what "trap" mapped
 *      hook N          before each answer the server calls malloc and free N times
 *      served          answers "calls N", the server's calls of malloc and free
 *      fault           registers memory, some of it code, with userfaultfd, and serves nothing
 *      press MS        malloc and free for that time; answers "calls N longest NS" (of one call)
 *
 * A test can make and write one file, "trace", too. Only `press` and `hook` call the allocator.
 */
#include <linux/fuse.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>

#include "tests/targets/speak.h"

#define PAGE	     4096u
#define CODE_BYTES   (16 * PAGE)
#define CODE_NODE    2u
#define WRITTEN_NODE 3u
#define WRITTEN_MAX  (8u << 20)
#define REQUEST_MAX  (1u << 20)

enum stall { STALL_READS = 1, STALL_WRITES = 2, STALL_SYNCS = 4, STALL_ALL = 8 };

static int fuse_fd, code_fd;
static atomic_int stalled; /* enum stall */
static atomic_ulong hook_pairs, hook_calls;
static void *trapped[64];
static size_t traps;
static unsigned char request[REQUEST_MAX], written[WRITTEN_MAX];
static uint64_t written_bytes;

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- the file system ----------------------------------------------------------------------------
 */

static void reply(const struct fuse_in_header *to, int error, const void *body, size_t bytes)
{
	struct fuse_out_header head = {
		.len = (uint32_t)(sizeof(head) + bytes), .error = -error, .unique = to->unique};
	struct iovec iov[2] = {{&head, sizeof(head)}, {(void *)body, bytes}};
	(void)!writev(fuse_fd, iov, 2);
}

static struct fuse_attr attributes(uint64_t node)
{
	bool directory = node == FUSE_ROOT_ID;
	uint64_t size = node == CODE_NODE ? CODE_BYTES : directory ? 0 : written_bytes;
	return (struct fuse_attr){.ino = node,
		.size = size,
		.blocks = (size + 511) / 512,
		.mode = directory ? S_IFDIR | 0755 : S_IFREG | 0755,
		.nlink = 1,
		.blksize = PAGE};
}

static void reply_entry(const struct fuse_in_header *to, uint64_t node, bool opened)
{
	struct {
		struct fuse_entry_out entry;
		struct fuse_open_out open;
	} out = {.entry = {.nodeid = node, .attr = attributes(node)}};
	reply(to, 0, &out, opened ? sizeof(out) : sizeof(out.entry));
}

static void answer_lookup(const struct fuse_in_header *to, const char *name)
{
	if (!strcmp(name, "code"))
		reply_entry(to, CODE_NODE, false);
	else if (written_bytes && !strcmp(name, "trace"))
		reply_entry(to, WRITTEN_NODE, false);
	else
		reply(to, ENOENT, NULL, 0);
}

static void answer_read(const struct fuse_in_header *to, const struct fuse_read_in *in)
{
	static const unsigned char zeros[CODE_BYTES];
	const unsigned char *data = to->nodeid == CODE_NODE ? zeros : written;
	uint64_t size = to->nodeid == CODE_NODE ? CODE_BYTES : written_bytes;
	uint64_t offset = in->offset < size ? in->offset : size;
	uint64_t bytes = in->size < size - offset ? in->size : size - offset;
	reply(to, 0, data + offset, bytes);
}

static void answer_write(const struct fuse_in_header *to, const struct fuse_write_in *in)
{
	struct fuse_write_out out = {.size = in->size};
	if (in->offset > WRITTEN_MAX || in->size > WRITTEN_MAX - in->offset) {
		reply(to, ENOSPC, NULL, 0);
		return;
	}
	memcpy(written + in->offset, in + 1, in->size);
	if (written_bytes < in->offset + in->size)
		written_bytes = in->offset + in->size;
	reply(to, 0, &out, sizeof(out));
}

static void answer(const struct fuse_in_header *to)
{
	const void *body = to + 1;
	struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION,
		.minor = FUSE_KERNEL_MINOR_VERSION,
		.max_write = 128 * 1024};
	struct fuse_attr_out attr = {.attr = attributes(to->nodeid), .attr_valid = 3600};
	struct fuse_open_out opened = {0};
	struct fuse_statfs_out space = {.st = {.blocks = 1 << 20,
						.bfree = 1 << 20,
						.bavail = 1 << 20,
						.bsize = PAGE,
						.frsize = PAGE,
						.namelen = 255}};
	switch (to->opcode) {
	case FUSE_INIT:
		reply(to, 0, &init, sizeof(init));
		break;
	case FUSE_LOOKUP:
		answer_lookup(to, body);
		break;
	case FUSE_CREATE:
		written_bytes = 0;
		reply_entry(to, WRITTEN_NODE, true);
		break;
	case FUSE_GETATTR:
	case FUSE_SETATTR:
		reply(to, 0, &attr, sizeof(attr));
		break;
	case FUSE_OPEN:
	case FUSE_OPENDIR:
		reply(to, 0, &opened, sizeof(opened));
		break;
	case FUSE_READ:
		answer_read(to, body);
		break;
	case FUSE_WRITE:
		answer_write(to, body);
		break;
	case FUSE_STATFS:
		reply(to, 0, &space, sizeof(space));
		break;
	case FUSE_UNLINK:
		written_bytes = 0;
		reply(to, 0, NULL, 0);
		break;
	case FUSE_FSYNC:
	case FUSE_RELEASE:
	case FUSE_RELEASEDIR:
	case FUSE_ACCESS:
		reply(to, 0, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break;
	case FUSE_FLUSH: /* ENOSYS, so that the kernel sends no more: at its end this process would
			    wait for its own answer */
	default:
		reply(to, ENOSYS, NULL, 0);
	}
}

static bool is_stalled(uint32_t opcode)
{
	int what = atomic_load(&stalled);
	return what & STALL_ALL || (what & STALL_READS && opcode == FUSE_READ) ||
	       (what & STALL_WRITES && opcode == FUSE_WRITE) ||
	       (what & STALL_SYNCS && opcode == FUSE_FSYNC);
}

static void call_hooks(void)
{
	for (unsigned long i = atomic_load(&hook_pairs); i; i--) {
		void *volatile ptr = malloc(32);
		free(ptr);
		atomic_fetch_add(&hook_calls, 2);
	}
}

static void *serve(void *arg)
{
	for (;;) {
		ssize_t got = read(fuse_fd, request, sizeof(request));
		const struct fuse_in_header *head = (void *)request;
		if (got < (ssize_t)sizeof(*head))
			continue;
		while (is_stalled(head->opcode))
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		call_hooks();
		answer(head);
	}
	return arg;
}

static void mount_here(const char *directory)
{
	char options[128];
	pthread_t thread;
	fuse_fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0", fuse_fd);
	if (fuse_fd < 0 || unshare(CLONE_NEWNS) ||
		mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		mount("served", directory, "fuse", MS_NOSUID | MS_NODEV, options))
		speak_fail("cannot mount: errno %d", errno);
	if (pthread_create(&thread, NULL, serve, NULL))
		speak_fail("no thread");
}

/* --- orders -------------------------------------------------------------------------------------
 */

static void open_code(const char *directory)
{
	char path[4096];
	snprintf(path, sizeof(path), "%s/code", directory);
	code_fd = open(path, O_RDONLY | O_CLOEXEC);
	int again = open(path, O_RDONLY | O_CLOEXEC);
	if (code_fd < 0 || again < 0)
		speak_fail("cannot open %s: errno %d", path, errno);
	close(again); /* causes the first and only FUSE_FLUSH */
}

static void *map_code(void)
{
	void *code = mmap(NULL, CODE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, code_fd, 0);
	if (code == MAP_FAILED)
		speak_fail("cannot map code: errno %d", errno);
	return code;
}

static void trap(void)
{
	atomic_fetch_or(&stalled, STALL_READS);
	if (traps == sizeof(trapped) / sizeof(trapped[0]))
		speak_fail("too many traps");
	trapped[traps++] = map_code();
}

static void resume(void)
{
	atomic_store(&stalled, 0);
	while (traps)
		munmap(trapped[--traps], CODE_BYTES);
}

static void stall(const char *what)
{
	if (!strcmp(what, "writes"))
		atomic_fetch_or(&stalled, STALL_WRITES);
	else if (!strcmp(what, "syncs"))
		atomic_fetch_or(&stalled, STALL_SYNCS);
	else
		atomic_fetch_or(&stalled, STALL_ALL);
}

static void register_memory(int protection)
{
	struct uffdio_api api = {.api = UFFD_API};
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	void *memory = mmap(NULL, CODE_BYTES, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register range = {.range = {.start = (uint64_t)memory, .len = CODE_BYTES},
		.mode = UFFDIO_REGISTER_MODE_MISSING};
	if (fd < 0 || memory == MAP_FAILED || ioctl(fd, UFFDIO_API, &api) ||
		ioctl(fd, UFFDIO_REGISTER, &range))
		speak_fail("userfaultfd: errno %d", errno);
}

static void press(uint64_t ns)
{
	uint64_t end = now_ns() + ns, calls = 0, longest_ns = 0;
	for (uint64_t start; (start = now_ns()) < end; calls += 2) {
		void *volatile ptr = malloc(48);
		free(ptr);
		uint64_t spent = now_ns() - start;
		if (spent > longest_ns)
			longest_ns = spent;
	}
	speak_add("calls %lu longest %lu", calls, longest_ns);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		speak_fail("usage: served DIRECTORY");
	mount_here(argv[1]);
	open_code(argv[1]);
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		unsigned long ms, pairs;
		bool is_told = false; /* the answer is already in the line */
		if (!strcmp(command, "resume")) {
			resume();
		} else if (!strncmp(command, "stall ", 6)) {
			stall(command + 6);
		} else if (sscanf(command, "hook %lu", &pairs) == 1) {
			atomic_store(&hook_pairs, pairs);
		} else if (!strcmp(command, "served")) {
			speak_add("calls %lu", atomic_load(&hook_calls));
			is_told = true;
		} else if (!strcmp(command, "trap")) {
			trap();
		} else if (!strcmp(command, "map")) {
			map_code();
		} else if (!strcmp(command, "fault")) {
			register_memory(PROT_READ | PROT_WRITE);
			register_memory(PROT_READ | PROT_EXEC);
		} else if (sscanf(command, "press %lu", &ms) == 1) {
			press(ms * 1000000);
			is_told = true;
		} else {
			speak_fail("no command %s", command);
		}
		if (!is_told)
			speak_add("done");
		speak_send();
	}
	_exit(0);
}
