/* SPDX-License-Identifier: Apache-2.0
 *
 * Waits for time, for readiness, and for a word of memory.
 */
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>

#include "tests/targets/waits/waits.h"

/* Memory that target and helper share. */
static struct {
	sem_t sem;
	pthread_mutex_t mutex, priority_mutex;
	pthread_cond_t cond;
	uint32_t word, released;
} * shared;

static void make_shared(void)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t cond;

	shared = mmap(
		NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	waits_check(shared != MAP_FAILED, "mmap");
	sem_init(&shared->sem, 1, 0);
	pthread_mutexattr_init(&mutex);
	pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(&shared->mutex, &mutex);
	pthread_mutexattr_setprotocol(&mutex, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&shared->priority_mutex, &mutex);
	pthread_condattr_init(&cond);
	pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
	pthread_cond_init(&shared->cond, &cond);
}

static long in_nanosleep(void)
{
	struct timespec time = waits_time();
	return nanosleep(&time, NULL);
}

static long in_clock_nanosleep(void)
{
	struct timespec time = waits_time();
	return waits_result(clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL));
}

static long in_clock_nanosleep_until(void)
{
	struct timespec at = waits_deadline(CLOCK_MONOTONIC);
	return waits_result(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL));
}

static void make_timer(void)
{
	waits_fd[0] = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	waits_check(waits_fd[0] >= 0, "timerfd_create");
}

static long in_timerfd(void)
{
	struct itimerspec once = {.it_value = waits_time()};
	uint64_t count;
	timerfd_settime(waits_fd[0], 0, &once, NULL);
	return read(waits_fd[0], &count, sizeof(count));
}

static long in_poll(void)
{
	return poll(NULL, 0, (int)waits_ms);
}

static long in_poll_for_ever(void)
{
	struct pollfd readable = {.fd = waits_fd[0], .events = POLLIN};
	return poll(&readable, 1, -1);
}

static long in_ppoll(void)
{
	struct timespec time = waits_time();
	return ppoll(NULL, 0, &time, NULL);
}

static long in_ppoll_with_mask(void)
{
	struct timespec time = waits_time();
	sigset_t mask;
	sigfillset(&mask);
	sigdelset(&mask, SIGUSR2);
	return ppoll(NULL, 0, &time, &mask);
}

static long in_select(void)
{
	struct timeval time = {waits_ms / 1000, waits_ms % 1000 * 1000l};
	return select(0, NULL, NULL, NULL, &time);
}

static long in_pselect(void)
{
	struct timespec time = waits_time();
	sigset_t none;
	sigemptyset(&none);
	return pselect(0, NULL, NULL, NULL, &time, &none);
}

static void make_epoll(void)
{
	struct epoll_event event = {.events = EPOLLIN};
	waits_make_pipe();
	waits_fd[2] = epoll_create1(EPOLL_CLOEXEC);
	waits_check(epoll_ctl(waits_fd[2], EPOLL_CTL_ADD, waits_fd[0], &event) == 0, "epoll_ctl");
}

static long in_epoll_wait(void)
{
	struct epoll_event event;
	return epoll_wait(waits_fd[2], &event, 1, (int)waits_ms);
}

static long in_epoll_wait_for_ever(void)
{
	struct epoll_event event;
	return epoll_wait(waits_fd[2], &event, 1, -1);
}

static long in_epoll_pwait(void)
{
	struct epoll_event event;
	sigset_t none;
	sigemptyset(&none);
	return epoll_pwait(waits_fd[2], &event, 1, (int)waits_ms, &none);
}

static long in_epoll_pwait2(void)
{
	struct epoll_event event;
	struct timespec time = waits_time();
	return epoll_pwait2(waits_fd[2], &event, 1, &time, NULL);
}

static void write_byte(void)
{
	waits_check(write(waits_fd[1], "", 1) == 1, "write");
}

static long in_futex(void)
{
	struct timespec time = waits_time();
	return syscall(SYS_futex, &shared->word, FUTEX_WAIT, 0, &time, NULL, 0);
}

static long in_futex_for_ever(void)
{
	return syscall(SYS_futex, &shared->word, FUTEX_WAIT, 0, NULL, NULL, 0);
}

static long in_futex_bitset(void)
{
	struct timespec at = waits_deadline(CLOCK_MONOTONIC);
	return syscall(SYS_futex, &shared->word, FUTEX_WAIT_BITSET, 0, &at, NULL, 1);
}

static void wake_word(void)
{
	syscall(SYS_futex, &shared->word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static long in_futex_waitv(void)
{
	struct timespec at = waits_deadline(CLOCK_MONOTONIC);
	struct futex_waitv one = {.uaddr = (uintptr_t)&shared->word, .flags = FUTEX_32};
	return syscall(SYS_futex_waitv, &one, 1, 0, &at, CLOCK_MONOTONIC);
}

static long in_sem_wait(void)
{
	return sem_wait(&shared->sem);
}

static void post(void)
{
	sem_post(&shared->sem);
}

static long in_sem_timedwait(void)
{
	struct timespec at = waits_deadline(CLOCK_REALTIME);
	return sem_timedwait(&shared->sem, &at);
}

static long in_cond_wait(void)
{
	int error = 0;
	pthread_mutex_lock(&shared->mutex);
	while (!error && !shared->released)
		error = pthread_cond_wait(&shared->cond, &shared->mutex);
	pthread_mutex_unlock(&shared->mutex);
	return waits_result(error);
}

static void signal_cond(void)
{
	pthread_mutex_lock(&shared->mutex);
	shared->released = 1;
	pthread_cond_signal(&shared->cond);
	pthread_mutex_unlock(&shared->mutex);
}

static long in_cond_timedwait(void)
{
	struct timespec at = waits_deadline(CLOCK_REALTIME);
	int error = 0;
	pthread_mutex_lock(&shared->mutex);
	while (!error)
		error = pthread_cond_timedwait(&shared->cond, &shared->mutex, &at);
	pthread_mutex_unlock(&shared->mutex);
	return waits_result(error);
}

static void lock_priority_mutex(void)
{
	pthread_mutex_lock(&shared->priority_mutex);
}

static void unlock_priority_mutex(void)
{
	pthread_mutex_unlock(&shared->priority_mutex);
}

static long in_priority_mutex(void)
{
	return waits_result(pthread_mutex_lock(&shared->priority_mutex));
}

static long in_priority_mutex_timed(void)
{
	struct timespec at = waits_deadline(CLOCK_REALTIME);
	return waits_result(pthread_mutex_timedlock(&shared->priority_mutex, &at));
}

static pthread_t mate;

static void *read_and_end(void *arg)
{
	char byte;
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	waits_check(read(waits_fd[0], &byte, 1) == 1, "read");
	return arg;
}

static void make_mate(void)
{
	waits_make_pipe();
	waits_check(!pthread_create(&mate, NULL, read_and_end, NULL), "pthread_create");
}

static long in_join(void)
{
	return waits_result(pthread_join(mate, NULL));
}

const struct waits_case waits_clock[] = {
	{.name = "nanosleep", .wait = in_nanosleep},
	{.name = "clock_nanosleep", .wait = in_clock_nanosleep},
	{.name = "clock_nanosleep-until", .wait = in_clock_nanosleep_until},
	{.name = "read-timerfd", make_timer, in_timerfd},
	{.name = "poll", .wait = in_poll},
	{.name = "poll-for-ever", waits_make_pipe, in_poll_for_ever, write_byte},
	{.name = "ppoll", .wait = in_ppoll},
	{.name = "ppoll-mask", .wait = in_ppoll_with_mask},
	{.name = "select", .wait = in_select},
	{.name = "pselect", .wait = in_pselect},
	{.name = "epoll_wait", make_epoll, in_epoll_wait},
	{.name = "epoll_wait-for-ever", make_epoll, in_epoll_wait_for_ever, write_byte},
	{.name = "epoll_pwait", make_epoll, in_epoll_pwait},
	{.name = "epoll_pwait2", make_epoll, in_epoll_pwait2},
	{.name = "futex", make_shared, in_futex},
	{.name = "futex-for-ever", make_shared, in_futex_for_ever, wake_word},
	{.name = "futex-bitset", make_shared, in_futex_bitset},
	{.name = "futex_waitv", make_shared, in_futex_waitv},
	{.name = "sem_wait", make_shared, in_sem_wait, post},
	{.name = "sem_timedwait", make_shared, in_sem_timedwait},
	{.name = "cond_wait", make_shared, in_cond_wait, signal_cond},
	{.name = "cond_timedwait", make_shared, in_cond_timedwait},
	{.name = "pi-mutex",
		make_shared,
		in_priority_mutex,
		unlock_priority_mutex,
		lock_priority_mutex},
	{.name = "pi-mutex-timed",
		make_shared,
		in_priority_mutex_timed,
		.hold = lock_priority_mutex},
	{.name = "join", make_mate, in_join, write_byte},
	{0},
};
