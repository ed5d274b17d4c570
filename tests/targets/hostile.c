/* SPDX-License-Identifier: Apache-2.0
 *
 * Attacks a capture through the memory and the socket that it shares with the target.
 *
 *      load N          calls malloc and free N times; answers "longest NS", of a single call
 *      press MS        does so for that time; answers "calls N longest NS"
 *      attack WHAT     lets a separate process make this attack (see `attacks`) again and again
 *      rounds          answers how often that process has made it
 *      calm            ends the attack; answers "calm"
 *      children WHAT   forks children, one after the other, that make the attack; answers when all
 *                      have ended
 *      close           closes the agent's socket, and reuses its number; answers "closed"
 *      shutdown        shuts the agent's socket down for both ends; answers "shut"
 *      unmap LO HI     unmaps that part of the agent's memory (offsets), and maps a page of its own
 *                      at LO
 *      drop LO HI      unmaps that part
 *      protect LO HI   makes that part (HI 0: to the end) inaccessible in this process
 *      still           makes the page of code where heaptap writes its stub not executable
 *      lively          makes that page executable again
 *      steal           replaces that page by one of its own
 *
 * At the end, what the program put in the place of the agent's socket or memory must be
 * unchanged.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "tests/targets/layout.h"
#include "tests/targets/random.h"
#include "tests/targets/speak.h"
#include "tests/targets/stubplace.h"

#define PAGE	       4096u
#define CHILDREN       20
#define ROUNDS_OF_ONE  2000u
#define PRECIOUS_BYTES 4096u
#define MAPS_BYTES     (1u << 20)

static uint64_t base, shared_off,
	image_bytes; /* addresses and size of the image's current mapping */
static int image_fd = -1;
static pid_t target, parent, attacker;

/* The target's orders to the attacker, in shared memory. */
struct orders {
	_Atomic(void (*)(
		uint64_t random)) attack; /* a pointer works in both: the attacker is a fork */
	atomic_ullong rounds;		  /* since the attack began; 0: at rest */
};

static struct orders *orders;
static int precious_fd = -1, precious_at = -1;
static unsigned char *precious_page;

static uint64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* --- work ---------------------------------------------------------------------------------------
 */

static uint64_t longest_ns;

static void pair(void)
{
	uint64_t start = now_ns();
	void *volatile ptr = malloc(48);
	uint64_t middle = now_ns();
	free(ptr);
	uint64_t end = now_ns();
	if (!ptr)
		speak_fail("no memory");
	if (middle - start > longest_ns)
		longest_ns = middle - start;
	if (end - middle > longest_ns)
		longest_ns = end - middle;
}

static uint64_t press(uint64_t ns)
{
	uint64_t end = now_ns() + ns, calls = 0;
	longest_ns = 0;
	for (; now_ns() < end; calls += 2)
		pair();
	return calls;
}

/* --- the agent's memory -------------------------------------------------------------------------
 */

/* Finds where the image is mapped in the target. */
static void find_image(void)
{
	static char text[MAPS_BYTES];
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/maps", target);
	speak_read(path, text, sizeof(text));
	base = 0;
	char *rest = text;
	for (char *line; (line = strsep(&rest, "\n"));) {
		unsigned long lo, hi, off;
		char perms[5];
		if (!strstr(line, "memfd:heaptap-") ||
			sscanf(line, "%lx-%lx %4s %lx", &lo, &hi, perms, &off) != 4)
			continue;
		base = lo - off;
		image_bytes = hi - base;
		if (!strcmp(perms, "rw-s"))
			shared_off = off;
	}
	if (!base)
		speak_fail("no image found, errno %d", errno);
}

/* Opens the image as a file, to write any part of it without a second mapping. */
static void open_image(void)
{
	char path[64];
	find_image();
	snprintf(path, sizeof(path), "/proc/%d/map_files/%lx-%lx", target, base + shared_off,
		base + image_bytes);
	image_fd = open(path, O_RDWR | O_CLOEXEC);
	if (image_fd < 0)
		speak_fail("no image to open, errno %d", errno);
}

static void put(uint64_t off, uint64_t word)
{
	/* EBADF: heaptap closes descriptors of its image in children of the target. */
	if (pwrite(image_fd, &word, sizeof(word), (off_t)off) != sizeof(word) && errno != EBADF)
		speak_fail("pwrite: errno %d", errno);
}

/* Writes a special number, an address in the image, or a random number to a random word of [off,
 * off + bytes). */
static void scribble(uint64_t off, uint64_t bytes, uint64_t random)
{
	static const uint64_t interesting[] = {
		0, 1, 8, 65535, 65536, UINT32_MAX, UINT64_MAX, 1ull << 63, 0x7fffffffffffull};
	uint64_t word = random * 0x9e3779b97f4a7c15u;
	if (random >> 60 < 6)
		word = interesting[random >> 40 & 7];
	else if (random >> 60 < 9)
		word = base + word % image_bytes;
	put(off + random % bytes / 8 * 8, word);
}

static void attack_control(uint64_t random)
{
	if (random % 16 == 0)
		put(shared_off + LAYOUT_GIVEN_UP, random >> 4 & 3);
	else
		scribble(shared_off, LAYOUT_CONTROL_BYTES, random);
}

/* Pretends that the target, or the target's parent, is a followed command about to exec. */
static void attack_exec(uint64_t random)
{
	put(LAYOUT_CONFIG + LAYOUT_FOLLOW, (uint64_t)target);
	put(shared_off + LAYOUT_EXEC_ASKS, random % 2 ? (uint64_t)target : (uint64_t)parent);
}

static void attack_nodes(uint64_t random)
{
	scribble(shared_off + (random & 1 ? LAYOUT_NODES : LAYOUT_TABLE), 1 << 20, random >> 1);
}

#define SLOTS_MAX 2048u

static uint64_t used_slot[SLOTS_MAX];
static size_t used_slots;

static void find_slots(void)
{
	used_slots = 0;
	for (uint64_t i = 0; i < SLOTS_MAX; i++) {
		uint64_t key, slot = shared_off + LAYOUT_SLOTS + i * LAYOUT_SLOT_BYTES;
		if (pread(image_fd, &key, sizeof(key), (off_t)slot) == sizeof(key) && key)
			used_slot[used_slots++] = slot;
	}
	if (!used_slots)
		speak_fail("no slot is used");
}

static void attack_slots(uint64_t random)
{
	uint64_t slot = used_slot[random % used_slots];
	if (random & 8)
		scribble(slot, 256, random >> 4);
	else
		scribble(slot + PAGE, 65536, random >> 4);
}

static void attack_journal(uint64_t random)
{
	scribble(LAYOUT_JOURNAL, random & 1 ? 512 : 65536, random >> 1);
}

/* Breaks the hooks themselves: no thread may call the allocator meanwhile. */
static void attack_everything(uint64_t random)
{
	switch (random % 8) {
	case 0:
		scribble(LAYOUT_THUNKS, PAGE, random >> 3);
		break;
	case 1:
		scribble(LAYOUT_CONFIG, PAGE, random >> 3);
		break;
	case 2:
	case 3:
		attack_journal(random >> 3);
		break;
	case 4:
		attack_control(random >> 3);
		break;
	case 5:
		attack_nodes(random >> 3);
		break;
	default:
		attack_slots(random >> 3);
	}
}

static void attack_holes(uint64_t random)
{
	/* Most of the image is unused. So some holes are in the thread records, and some are the
	 * control page: heaptap must notice only the loss of the control page. */
	uint64_t all = (LAYOUT_SLOTS + 8 * LAYOUT_SLOT_BYTES) / PAGE, slots = LAYOUT_SLOTS / PAGE;
	uint64_t kind = random >> 61, first = kind < 4 ? 0 : kind < 7 ? slots : 0;
	uint64_t pages = kind < 7 ? all - first : 1;
	if (fallocate(image_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		    (off_t)(shared_off + (first + random % pages) * PAGE),
		    PAGE * (1 + (random >> 32) % 16)) &&
		errno != EBADF)
		speak_fail("fallocate: errno %d", errno);
}

/* --- the agent's socket -------------------------------------------------------------------------
 */

static int socket_fd = -1;

/* Returns the target's only socket; in another process, a copy of its descriptor. */
static int find_socket(void)
{
	struct stat st;
	int pidfd = (int)syscall(SYS_pidfd_open, target, 0);
	for (int fd = 3; fd < 1024; fd++) {
		int copy = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
		if (copy < 0)
			continue;
		bool found = !fstat(copy, &st) && S_ISSOCK(st.st_mode);
		if (found && getpid() != target) {
			close(pidfd);
			return copy;
		}
		close(copy);
		if (found) {
			close(pidfd);
			return fd;
		}
	}
	speak_fail("no socket found");
}

struct heading { /* format/abi_event.h */
	uint32_t magic, slot;
	uint64_t position;
	uint32_t length, events;
};

static void attack_socket(uint64_t random)
{
	static unsigned char body[200000];
	struct heading heading = {.magic = 0x70617468,
		.slot = (uint32_t)(random >> 8) % 4096,
		.position = random >> 20,
		.length = (uint32_t)(random >> 30) % 70000,
		.events = (uint32_t)random};
	struct iovec iov[2] = {{&heading, sizeof(heading)}, {body, heading.length}};
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(4 * sizeof(int))];
	} control = {.header = {.cmsg_len = CMSG_LEN(4 * sizeof(int)),
			     .cmsg_level = SOL_SOCKET,
			     .cmsg_type = SCM_RIGHTS}};
	struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};
	memset(body, (int)random, 64);
	switch (random % 8) {
	case 0:
		iov[0].iov_len = random >> 8 & 15;
		message.msg_iovlen = 1;
		break;
	case 1:
		iov[1].iov_len = sizeof(body);
		break;
	case 2:
		heading.magic++;
		break;
	case 3:
		iov[1].iov_len++;
		break;
	case 4:
		heading.position = UINT64_MAX - (random >> 50);
		break;
	case 5:
		memset(CMSG_DATA(&control.header), 0, 4 * sizeof(int));
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
		break;
	default:
		break;
	}
	sendmsg(socket_fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* Puts a file of the program in the place of the agent's socket. */
static void put_precious_fd(void)
{
	char bytes[PRECIOUS_BYTES];
	memset(bytes, 'p', sizeof(bytes));
	precious_fd = memfd_create("precious", MFD_CLOEXEC);
	precious_at = socket_fd;
	if (write(precious_fd, bytes, sizeof(bytes)) != sizeof(bytes) ||
		lseek(precious_fd, 0, SEEK_SET) || dup2(precious_fd, precious_at) < 0)
		speak_fail("precious: errno %d", errno);
}

static void check_precious(void)
{
	char bytes[PRECIOUS_BYTES + 1];
	struct stat own, there;
	if (precious_fd >= 0) {
		if (fstat(precious_fd, &own) || fstat(precious_at, &there) ||
			own.st_ino != there.st_ino || lseek(precious_at, 0, SEEK_CUR) != 0 ||
			read(precious_at, bytes, sizeof(bytes)) != PRECIOUS_BYTES)
			speak_fail("the reused descriptor was touched, errno %d", errno);
		for (size_t i = 0; i < PRECIOUS_BYTES; i++)
			if (bytes[i] != 'p')
				speak_fail("the reused descriptor was written");
	}
	for (size_t i = 0; precious_page && i < PAGE; i++)
		if (precious_page[i] != 'p')
			speak_fail("the page in the agent's place was written");
}

/* A truncated file would cause SIGBUS in each process that maps it, so truncating must be
 * impossible. */
static void attack_size(uint64_t random)
{
	if (!ftruncate(image_fd, (off_t)(random % image_bytes)))
		speak_fail("the agent's memory can be cut off");
}

static void unmap_part(uint64_t lo, uint64_t hi)
{
	find_image();
	if (munmap((void *)(base + lo), hi - lo))
		speak_fail("munmap: errno %d", errno);
	precious_page = mmap((void *)(base + lo), PAGE, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	memset(precious_page, 'p', PAGE);
}

static void drop_part(uint64_t lo, uint64_t hi)
{
	find_image();
	if (munmap((void *)(base + lo), hi - lo))
		speak_fail("munmap: errno %d", errno);
}

static void protect_part(uint64_t lo, uint64_t hi)
{
	find_image();
	if (mprotect((void *)(base + lo), (hi ? hi : image_bytes) - lo, PROT_NONE))
		speak_fail("mprotect: errno %d", errno);
}

/* Replaces the page where heaptap writes its stub; the program uses its own code there only at its
 * end. */
static void steal_stub(void)
{
	precious_page = mmap(stubplace_find(), PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	memset(precious_page, 'p', PAGE);
}

/* --- orders -------------------------------------------------------------------------------------
 */

static const struct {
	const char *name;
	void (*round)(uint64_t random);
} attacks[] = {{"control", attack_control}, {"exec", attack_exec}, {"nodes", attack_nodes},
	{"slots", attack_slots}, {"journal", attack_journal}, {"everything", attack_everything},
	{"holes", attack_holes}, {"size", attack_size}, {"socket", attack_socket}};

static void (*attack_named(const char *name))(uint64_t random)
{
	for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++)
		if (!strcmp(attacks[i].name, name))
			return attacks[i].round;
	speak_fail("no attack %s", name);
}

static void arm(void)
{
	open_image();
	find_slots();
	socket_fd = find_socket();
}

static void disarm(void)
{
	close(image_fd);
	close(socket_fd);
}

static void take_pause(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Runs in a separate process, so that its descriptors are not the target's. */
static void run_attacks(void)
{
	uint64_t seed = 20260101;
	for (;;) {
		while (!atomic_load(&orders->attack))
			take_pause();
		arm();
		for (void (*round)(uint64_t random); (round = atomic_load(&orders->attack));) {
			round(next_random(&seed));
			atomic_fetch_add(&orders->rounds, 1);
		}
		disarm();
		atomic_store(&orders->rounds, 0);
	}
}

static void start_attacker(void)
{
	target = getpid();
	parent = getppid();
	orders = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	attacker = fork();
	if (attacker)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != target)
		_exit(1);
	run_attacks();
}

static void check_attacker(void)
{
	if (waitpid(attacker, NULL, WNOHANG))
		speak_fail("the attacker has ended");
}

static void attack(void (*round)(uint64_t random))
{
	atomic_store(&orders->attack, round);
	while (!atomic_load(&orders->rounds)) {
		check_attacker();
		take_pause();
	}
}

static void calm(void)
{
	atomic_store(&orders->attack, NULL);
	while (atomic_load(&orders->rounds)) {
		check_attacker();
		take_pause();
	}
}

static void run_children(void (*round)(uint64_t random))
{
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child = fork();
		int status;
		if (!child) {
			uint64_t seed = 1 + (uint64_t)i;
			arm();
			for (unsigned j = 0; j < ROUNDS_OF_ONE; j++)
				round(next_random(&seed));
			for (unsigned j = 0; j < 100; j++)
				pair();
			_exit(0);
		}
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
		if (status)
			speak_fail("a child ended with status %#x", status);
	}
}

static void obey(const char *command)
{
	unsigned long a, b;
	if (sscanf(command, "load %lu", &a) == 1) {
		longest_ns = 0;
		for (unsigned long i = 0; i < a; i++)
			pair();
		speak_add("longest %lu", longest_ns);
	} else if (sscanf(command, "press %lu", &a) == 1) {
		uint64_t calls = press(a * 1000000);
		speak_add("calls %lu longest %lu", calls, longest_ns);
	} else if (!strncmp(command, "attack ", 7)) {
		attack(attack_named(command + 7));
		speak_add("attacking");
	} else if (!strcmp(command, "rounds")) {
		speak_add("%llu", atomic_load(&orders->rounds));
	} else if (!strcmp(command, "calm")) {
		calm();
		speak_add("calm");
	} else if (!strncmp(command, "children ", 9)) {
		run_children(attack_named(command + 9));
		speak_add("done");
	} else if (!strcmp(command, "close")) {
		socket_fd = find_socket();
		put_precious_fd();
		speak_add("closed");
	} else if (!strcmp(command, "shutdown")) {
		shutdown(find_socket(), SHUT_RDWR);
		speak_add("shut");
	} else if (sscanf(command, "unmap %lx %lx", &a, &b) == 2) {
		unmap_part(a, b);
		speak_add("unmapped");
	} else if (sscanf(command, "drop %lx %lx", &a, &b) == 2) {
		drop_part(a, b);
		speak_add("dropped");
	} else if (sscanf(command, "protect %lx %lx", &a, &b) == 2) {
		protect_part(a, b);
		speak_add("protected");
	} else if (!strcmp(command, "still")) {
		stubplace_protect(PROT_READ);
		speak_add("still");
	} else if (!strcmp(command, "lively")) {
		stubplace_protect(PROT_READ | PROT_EXEC);
		speak_add("lively");
	} else if (!strcmp(command, "steal")) {
		steal_stub();
		speak_add("stolen");
	} else {
		speak_fail("no command %s", command);
	}
	speak_send();
}

int main(void)
{
	start_attacker();
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");)
		obey(command);
	check_attacker();
	check_precious();
	_exit(0);
}
