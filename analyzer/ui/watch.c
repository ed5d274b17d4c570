/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/watch.h"

#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "format/clock.h"

static void wait_until(struct watch *watch, uint64_t time_ns)
{
	const struct timespec until = {
		.tv_sec = (time_t)(time_ns / 1000000000),
		.tv_nsec = (long)(time_ns % 1000000000),
	};
	pthread_cond_timedwait(&watch->ended, &watch->lock, &until);
}

static void *run(void *context)
{
	struct watch *watch = context;
	pthread_mutex_lock(&watch->lock);
	while (!watch->has_ended) {
		off_t offset = lseek(watch->fd, 0, SEEK_CUR);
		progress_update(
			&watch->progress, offset < 0 ? 0 : (uint64_t)offset, clock_mono_ns());
		wait_until(watch, watch->progress.next_ns);
	}
	pthread_mutex_unlock(&watch->lock);
	return NULL;
}

/* Block all signals in the new thread, so that the main thread receives them. */
static bool start(struct watch *watch)
{
	pthread_condattr_t attributes;
	sigset_t all, before;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_mutex_init(&watch->lock, NULL);
	pthread_cond_init(&watch->ended, &attributes);
	pthread_condattr_destroy(&attributes);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	bool has_started = pthread_create(&watch->thread, NULL, run, watch) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (has_started)
		return true;
	pthread_cond_destroy(&watch->ended);
	pthread_mutex_destroy(&watch->lock);
	return false;
}

void watch_begin(struct watch *watch, FILE *out, int fd, const char *name)
{
	const struct terminal terminal = terminal_of(out, TERMINAL_COLOR_AUTO);
	struct stat status;
	*watch = (struct watch){.fd = fd};
	if (lseek(fd, 0, SEEK_CUR) < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
		return;
	snprintf(watch->what, sizeof(watch->what), "reading %s", name);
	watch->progress = progress_begin(
		out, &terminal, watch->what, (uint64_t)status.st_size, clock_mono_ns());
	if (watch->progress.out)
		watch->is_running = start(watch);
}

void watch_end(struct watch *watch)
{
	if (!watch->is_running)
		return;
	pthread_mutex_lock(&watch->lock);
	watch->has_ended = true;
	pthread_cond_signal(&watch->ended);
	pthread_mutex_unlock(&watch->lock);
	pthread_join(watch->thread, NULL);
	pthread_cond_destroy(&watch->ended);
	pthread_mutex_destroy(&watch->lock);
	progress_end(&watch->progress);
	watch->is_running = false;
}
