/* SPDX-License-Identifier: Apache-2.0
 *
 * One thread in each of the blocking calls that Linux may end with EINTR when a tracer stops the
 * thread, though no handler ran: no call may ever end so. Each call waits for nothing, 50 ms long,
 * again and again. "count" answers with the number of calls that timed out as they should.
 *
 * usage: sleepy [-r]
 *
 * -r: only calls that the kernel makes again by itself after a stop.
 */
#include <linux/aio_abi.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

#include "tests/targets/speak.h"

#define WAIT_MS 50
#define WAIT_NS (WAIT_MS * 1000000)

static atomic_ullong timeouts;
static atomic_uint running;
static atomic_bool stopping; /* the semaphores are being removed */
static int quiet_socket, quiet_listener, quiet_epoll, quiet_semaphores;
static aio_context_t quiet_aio;
static const struct timespec wait_time = {.tv_nsec = WAIT_NS};
static const struct timeval wait_timeval = {.tv_usec = WAIT_MS * 1000};

static struct timespec deadline(clockid_t clock)
{
	struct timespec at;
	clock_gettime(clock, &at);
	at.tv_nsec += WAIT_NS;
	at.tv_sec += at.tv_nsec / 1000000000;
	at.tv_nsec %= 1000000000;
	return at;
}

/* Each returns 0 when the time passed, otherwise the errno of its call. */

static int in_nanosleep(void)
{
	return nanosleep(&wait_time, NULL) ? errno : 0;
}

static int in_clock_nanosleep(void)
{
	struct timespec at = deadline(CLOCK_MONOTONIC);
	return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

static int in_poll(void)
{
	return poll(NULL, 0, WAIT_MS) ? errno : 0;
}

static int in_ppoll(void)
{
	return ppoll(NULL, 0, &wait_time, NULL) ? errno : 0;
}

static int in_select(void)
{
	struct timeval left = wait_timeval;
	return select(0, NULL, NULL, NULL, &left) ? errno : 0;
}

static int in_epoll_wait(void)
{
	struct epoll_event event;
	return epoll_wait(quiet_epoll, &event, 1, WAIT_MS) ? errno : 0;
}

static int in_epoll_pwait(void)
{
	struct epoll_event event;
	sigset_t none;
	sigemptyset(&none);
	return epoll_pwait(quiet_epoll, &event, 1, WAIT_MS, &none) ? errno : 0;
}

static int in_recv(void)
{
	char byte;
	return recv(quiet_socket, &byte, 1, 0) < 0 && errno == EAGAIN ? 0 : errno;
}

static int in_accept(void)
{
	return accept(quiet_listener, NULL, NULL) < 0 && errno == EAGAIN ? 0 : errno;
}

static int in_sigtimedwait(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return sigtimedwait(&set, NULL, &wait_time) < 0 && errno == EAGAIN ? 0 : errno;
}

static int in_semtimedop(void)
{
	struct sembuf take = {.sem_op = -1};
	return semtimedop(quiet_semaphores, &take, 1, &wait_time) < 0 && errno == EAGAIN ? 0
											 : errno;
}

static int in_sem_timedwait(void)
{
	sem_t sem;
	sem_init(&sem, 0, 0);
	struct timespec at = deadline(CLOCK_REALTIME);
	return sem_timedwait(&sem, &at) < 0 && errno == ETIMEDOUT ? 0 : errno;
}

static int in_cond_timedwait(void)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	struct timespec at = deadline(CLOCK_REALTIME);
	pthread_mutex_lock(&mutex);
	int error = pthread_cond_timedwait(&cond, &mutex, &at);
	pthread_mutex_unlock(&mutex);
	return error == ETIMEDOUT ? 0 : error;
}

static int in_io_getevents(void)
{
	struct io_event event;
	struct timespec left = wait_time;
	return syscall(SYS_io_getevents, quiet_aio, 1, 1, &event, &left) ? errno : 0;
}

struct call {
	const char *name;
	int (*wait)(void);
	bool restarts;
};

static const struct call call[] = {
	{"nanosleep", in_nanosleep, true},
	{"clock_nanosleep", in_clock_nanosleep, true},
	{"poll", in_poll, true},
	{"ppoll", in_ppoll, true},
	{"select", in_select, true},
	{"epoll_wait", in_epoll_wait, false},
	{"epoll_pwait", in_epoll_pwait, false},
	{"recv", in_recv, false},
	{"accept", in_accept, false},
	{"sigtimedwait", in_sigtimedwait, false},
	{"semtimedop", in_semtimedop, false},
	{"sem_timedwait", in_sem_timedwait, true},
	{"pthread_cond_timedwait", in_cond_timedwait, true},
	{"io_getevents", in_io_getevents, false},
};

#define CALLS (sizeof(call) / sizeof(call[0]))

static void *wait_for_ever(void *arg)
{
	const struct call *mine = arg;
	atomic_fetch_add(&running, 1);
	for (;;) {
		int error = mine->wait();
		if (error && !atomic_load(&stopping))
			speak_fail("%s: %s", mine->name, strerror(error));
		free(malloc(100));
		atomic_fetch_add(&timeouts, 1);
	}
	return NULL;
}

static void set_up(void)
{
	int pair[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		speak_fail("socketpair: errno %d", errno);
	quiet_socket = pair[0];
	setsockopt(quiet_socket, SOL_SOCKET, SO_RCVTIMEO, &wait_timeval, sizeof(wait_timeval));
	quiet_listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_un any = {.sun_family = AF_UNIX};
	if (bind(quiet_listener, (struct sockaddr *)&any, sizeof(any.sun_family)) ||
		listen(quiet_listener, 1))
		speak_fail("listen: errno %d", errno);
	setsockopt(quiet_listener, SOL_SOCKET, SO_RCVTIMEO, &wait_timeval, sizeof(wait_timeval));
	quiet_epoll = epoll_create1(EPOLL_CLOEXEC);
	quiet_semaphores = semget(IPC_PRIVATE, 1, 0600);
	if (quiet_semaphores < 0 || syscall(SYS_io_setup, 1, &quiet_aio))
		speak_fail("semget, io_setup: errno %d", errno);
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

int main(int argc, char **argv)
{
	bool all = argc < 2 || strcmp(argv[1], "-r");
	set_up();
	pthread_t thread[CALLS];
	unsigned threads = 0;
	for (size_t i = 0; i < CALLS; i++) {
		if (!all && !call[i].restarts)
			continue;
		if (pthread_create(&thread[i], NULL, wait_for_ever, (void *)&call[i]))
			speak_fail("pthread_create: errno %d", errno);
		threads++;
	}
	/* A new thread has its signals blocked at first. */
	while (atomic_load(&running) < threads)
		usleep(1000);
	speak_ready();
	while (strcmp(speak_hear(), "stop")) {
		speak_add("%llu", atomic_load(&timeouts));
		speak_send();
	}
	atomic_store(&stopping, true);
	semctl(quiet_semaphores, 0, IPC_RMID);
	_exit(0);
}
