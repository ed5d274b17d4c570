/* SPDX-License-Identifier: Apache-2.0
 *
 * Waits for signals, for processes, for System V and POSIX message queues and semaphores, and for
 * asynchronous I/O.
 */
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <mqueue.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "tests/targets/waits/waits.h"

static void ignore_nothing(int sig)
{
	(void)sig;
}

static void make_handler(void)
{
	signal(SIGUSR1, ignore_nothing);
}

static void block_usr1(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
}

static void make_blocked_handler(void)
{
	make_handler();
	block_usr1();
}

static void send_signal(void)
{
	kill(waits_target, SIGUSR1);
}

static long in_pause(void)
{
	return pause();
}

static long in_sigsuspend(void)
{
	sigset_t none;
	sigemptyset(&none);
	return sigsuspend(&none);
}

static long in_sigtimedwait(void)
{
	sigset_t set;
	struct timespec time = waits_time();
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	return sigtimedwait(&set, NULL, &time);
}

static long in_sigwaitinfo(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	return sigwaitinfo(&set, NULL);
}

static void end_helper(void)
{
	_exit(7);
}

static long in_wait4(void)
{
	int status = -1;
	return syscall(SYS_wait4, waits_helper, &status, 0, NULL) < 0 ? -1 : WEXITSTATUS(status);
}

static long in_waitid(void)
{
	siginfo_t info;
	return waitid(P_PID, (id_t)waits_helper, &info, WEXITED) < 0 ? -1 : info.si_status;
}

static int sem_id, msg_id;

static void make_semaphore(void)
{
	sem_id = semget(IPC_PRIVATE, 1, 0600);
	waits_check(sem_id >= 0, "semget");
}

static void remove_semaphore(void)
{
	semctl(sem_id, 0, IPC_RMID);
}

static long in_semop(void)
{
	struct sembuf down = {.sem_op = -1};
	return semop(sem_id, &down, 1);
}

static long in_semtimedop(void)
{
	struct sembuf down = {.sem_op = -1};
	struct timespec time = waits_time();
	return semtimedop(sem_id, &down, 1, &time);
}

static void raise_semaphore(void)
{
	struct sembuf up = {.sem_op = 1};
	waits_check(semop(sem_id, &up, 1) == 0, "semop");
}

struct message {
	long type;
	char text[1000];
};

static void make_queue(void)
{
	msg_id = msgget(IPC_PRIVATE, 0600);
	waits_check(msg_id >= 0, "msgget");
}

static void remove_queue(void)
{
	msgctl(msg_id, IPC_RMID, NULL);
}

static void make_full_queue(void)
{
	struct message message = {.type = 1};
	make_queue();
	while (msgsnd(msg_id, &message, sizeof(message.text), IPC_NOWAIT) == 0)
		;
	waits_check(errno == EAGAIN, "filling a queue");
}

static long in_msgrcv(void)
{
	struct message message;
	return msgrcv(msg_id, &message, sizeof(message.text), 0, 0);
}

static long in_msgsnd(void)
{
	struct message message = {.type = 1};
	return msgsnd(msg_id, &message, sizeof(message.text), 0);
}

static void send_message(void)
{
	struct message message = {.type = 1};
	waits_check(msgsnd(msg_id, &message, 10, 0) == 0, "msgsnd");
}

static void take_message(void)
{
	waits_check(in_msgrcv() > 0, "msgrcv");
}

static void make_mqueue(void)
{
	struct mq_attr attr = {.mq_maxmsg = 1, .mq_msgsize = 1};
	char name[40];
	snprintf(name, sizeof(name), "/heaptap-waits-%d", waits_target);
	waits_fd[0] = mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, &attr);
	waits_check(waits_fd[0] >= 0, "mq_open");
	mq_unlink(name);
}

static void make_full_mqueue(void)
{
	make_mqueue();
	waits_check(mq_send(waits_fd[0], "x", 1, 0) == 0, "mq_send");
}

static long in_mq_receive(void)
{
	char byte;
	return mq_receive(waits_fd[0], &byte, 1, NULL);
}

static long in_mq_timedreceive(void)
{
	struct timespec at = waits_deadline(CLOCK_REALTIME);
	char byte;
	return mq_timedreceive(waits_fd[0], &byte, 1, NULL, &at);
}

static long in_mq_timedsend(void)
{
	struct timespec at = waits_deadline(CLOCK_REALTIME);
	return mq_timedsend(waits_fd[0], "x", 1, 0, &at);
}

static void send_mqueue(void)
{
	waits_check(mq_send(waits_fd[0], "x", 1, 0) == 0, "mq_send");
}

static aio_context_t aio;

static void make_aio(void)
{
	waits_check(syscall(SYS_io_setup, 1, &aio) == 0, "io_setup");
}

static long in_io_getevents(void)
{
	struct io_event event;
	struct timespec time = waits_time();
	return syscall(SYS_io_getevents, aio, 1, 1, &event, &time);
}

static long in_io_pgetevents(void)
{
	struct io_event event;
	struct timespec time = waits_time();
	return syscall(SYS_io_pgetevents, aio, 1, 1, &event, &time, NULL);
}

/* io_uring with one entry: a read of an eventfd that the helper writes to. */
static struct io_uring_params ring;
static unsigned char *submission_ring, *completion_ring;

static void *map_ring(off_t offset, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, waits_fd[0], offset);
	waits_check(at != MAP_FAILED, "mmap of io_uring");
	return at;
}

static void make_ring(void)
{
	static unsigned long long count;
	waits_fd[0] = (int)syscall(SYS_io_uring_setup, 1, &ring);
	waits_fd[1] = eventfd(0, EFD_CLOEXEC);
	waits_check(waits_fd[0] >= 0 && waits_fd[1] >= 0, "io_uring_setup");
	submission_ring = map_ring(IORING_OFF_SQ_RING, ring.sq_off.array + sizeof(unsigned));
	completion_ring =
		map_ring(IORING_OFF_CQ_RING, ring.cq_off.cqes + 2 * sizeof(struct io_uring_cqe));
	struct io_uring_sqe *entry = map_ring(IORING_OFF_SQES, sizeof(*entry));
	*entry = (struct io_uring_sqe){.opcode = IORING_OP_READ,
		.fd = waits_fd[1],
		.addr = (unsigned long)&count,
		.len = sizeof(count)};
	*(unsigned *)(submission_ring + ring.sq_off.array) = 0;
	__atomic_store_n((unsigned *)(submission_ring + ring.sq_off.tail), 1, __ATOMIC_RELEASE);
	waits_check(syscall(SYS_io_uring_enter, waits_fd[0], 1, 0, 0, NULL, 0) == 1, "io_uring");
}

static long completions(void)
{
	return __atomic_load_n((unsigned *)(completion_ring + ring.cq_off.tail), __ATOMIC_ACQUIRE);
}

static long in_io_uring(void)
{
	long got = syscall(SYS_io_uring_enter, waits_fd[0], 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
	return got < 0 ? -1 : completions();
}

static long in_io_uring_timed(void)
{
	struct timespec time = waits_time();
	struct io_uring_getevents_arg arg = {.ts = (unsigned long)&time};
	return syscall(SYS_io_uring_enter, waits_fd[0], 0, 1,
		IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg, sizeof(arg));
}

static void complete(void)
{
	unsigned long long one = 1;
	waits_check(write(waits_fd[1], &one, sizeof(one)) == sizeof(one), "eventfd");
}

const struct waits_case waits_ipc[] = {
	{.name = "pause", make_handler, in_pause, send_signal},
	{.name = "sigsuspend", make_blocked_handler, in_sigsuspend, send_signal},
	{.name = "sigtimedwait", block_usr1, in_sigtimedwait},
	{.name = "sigwaitinfo", block_usr1, in_sigwaitinfo, send_signal},
	{.name = "wait4", .wait = in_wait4, .release = end_helper},
	{.name = "waitid", .wait = in_waitid, .release = end_helper},
	{.name = "semop", make_semaphore, in_semop, raise_semaphore, .clean = remove_semaphore},
	{.name = "semtimedop", make_semaphore, in_semtimedop, .clean = remove_semaphore},
	{.name = "msgrcv", make_queue, in_msgrcv, send_message, .clean = remove_queue},
	{.name = "msgsnd", make_full_queue, in_msgsnd, take_message, .clean = remove_queue},
	{.name = "mq_receive", make_mqueue, in_mq_receive, send_mqueue},
	{.name = "mq_timedreceive", make_mqueue, in_mq_timedreceive},
	{.name = "mq_timedsend", make_full_mqueue, in_mq_timedsend},
	{.name = "io_getevents", make_aio, in_io_getevents},
	{.name = "io_pgetevents", make_aio, in_io_pgetevents},
	{.name = "io_uring_enter", make_ring, in_io_uring, complete},
	{.name = "io_uring_enter-timed", make_ring, in_io_uring_timed},
	{0},
};
