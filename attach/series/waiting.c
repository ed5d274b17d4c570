/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/series/waiting.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "attach/helper/inherited.h"
#include "attach/proc/clock.h"
#include "attach/proc/fd.h"
#include "attach/process/memuse.h"

#define LOOK_NS	    (250 * CLOCK_NS_PER_MS) /* between two looks at the memory */
#define LOOK_MIN_NS (20 * CLOCK_NS_PER_MS)
#define LOOK_PART   32u

uint64_t waiting_now_ns(void)
{
	return clock_read_ns(CLOCK_BOOTTIME);
}

enum { PROCESS, SIGNALS, TIMER, CLIENTS, POLLED };

static bool take_signal(struct waiting *waiting, int signals)
{
	struct signalfd_siginfo info;
	while (read(signals, &info, sizeof(info)) == sizeof(info))
		waiting->signal = (int)info.ssi_signo;
	return waiting->signal != 0;
}

/* A pidfd is readable once the process has ended, even before its parent reaps it. */
static enum waiting_end wait_for(struct waiting *waiting, int timer, int signals)
{
	for (;;) {
		struct pollfd wait[POLLED] = {
			[PROCESS] = {waiting->proc ? waiting->proc->pidfd : -1, POLLIN, 0},
			[SIGNALS] = {signals, POLLIN, 0},
			[TIMER] = {timer, POLLIN, 0}};
		const int most_ms = standby_poll(waiting->standby, &wait[CLIENTS]);
		if (poll(wait, POLLED, most_ms) < 0)
			continue;
		if (wait[SIGNALS].revents && take_signal(waiting, signals))
			return WAITING_SIGNALLED;
		if (wait[PROCESS].revents)
			return WAITING_ENDED;
		if (standby_serve(waiting->standby, &wait[CLIENTS]))
			return WAITING_STOPPED;
		if (wait[TIMER].revents)
			return WAITING_DUE;
	}
}

/* signalfd and timerfd_create fail only without descriptors or memory. Then the window begins early
 * rather than never, after a pause, since callers may wait in a loop. */
enum waiting_end waiting_until(struct waiting *waiting, uint64_t boot_ns)
{
	const struct itimerspec when = {
		.it_value = {(time_t)(boot_ns / CLOCK_NS_PER_S), (long)(boot_ns % CLOCK_NS_PER_S)}};
	FD_GUARD int signals = inherited_open_signals();
	FD_GUARD int timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
	enum waiting_end end = WAITING_DUE;
	if (signals >= 0 && timer >= 0 &&
		timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL) == 0)
		end = wait_for(waiting, timer, signals);
	else
		clock_sleep_ns(LOOK_NS);
	return end;
}

static uint64_t step_ns(const struct waiting_trigger *trigger)
{
	const uint64_t part = trigger->growth.span_ns / LOOK_PART;
	if (!part || part > LOOK_NS)
		return LOOK_NS;
	return part < LOOK_MIN_NS ? LOOK_MIN_NS : part;
}

enum waiting_end waiting_trigger(struct waiting *waiting, const struct waiting_trigger *trigger)
{
	struct growth growth = {.limit = trigger->growth};
	enum waiting_end end = WAITING_DUE;
	struct memuse use;
	memuse_open(&use, waiting->proc);
	while (end == WAITING_DUE) {
		struct memory memory = {0};
		const uint64_t now_ns = waiting_now_ns();
		const bool is_read = memuse_read(&use, clock_mono_ns(), &memory);
		const uint64_t rss_bytes = is_read ? memory.number[MEMORY_RSS] : 0;
		if ((trigger->rss_bytes && rss_bytes >= trigger->rss_bytes) ||
			(is_read && growth_reached(&growth, now_ns, rss_bytes)))
			break;
		end = waiting_until(waiting, now_ns + step_ns(trigger));
	}
	memuse_close(&use);
	return end;
}
