/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/thread/crowd.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "attach/helper/worker.h"
#include "attach/proc/clock.h"

/* A thread stops when it gets its next turn, which takes a while on a busy machine. If heaptap
 * gives up earlier, the thread returns EINTR from its call, and heaptap is gone before it could
 * hide that. */
#define STOP_DEADLINE_NS (10 * CLOCK_NS_PER_S)
/* about as many threads stop at once on each core */
#define EACH_CORE 2

enum state { DONE, ASKED, HELD, DYING };

struct member {
	enum state state;
	struct tracee tracee;
	struct user_regs_struct as_stopped;
};

struct round {
	const struct crowd *crowd;
	struct crowd_report *report;
	struct member member[CROWD_MAX];
	size_t asked, left; /* of those asked: neither done nor held */
	bool together;
	uint64_t held_since_ns; /* when the first of the held threads stopped; 0: none is held */
};

/* Has the thread been killed without having ended yet? Then its end must be reaped: a thread that
 * makes an exec waits in the kernel until the tracer has seen the end of every other thread. */
static bool is_dying(const struct member *member)
{
	siginfo_t info = {0};
	return waitid(P_PID, (id_t)member->tracee.tid, &info, __WALL | WEXITED | WNOHANG) == 0 &&
	       info.si_pid == 0;
}

/* Called after the release, which does not affect a killed thread. */
static void finish(struct round *round, struct member *member)
{
	member->state = is_dying(member) ? DYING : DONE;
	round->left += member->state == DYING;
}

static struct ht_err *release(struct round *round, struct member *member)
{
	struct tracee *tracee = &member->tracee;
	bool changed = memcmp(&member->as_stopped, &tracee->regs, sizeof(tracee->regs)) != 0;
	struct ht_err *err =
		changed ? tracee_release_at(tracee, &tracee->regs) : tracee_release(tracee);
	uint64_t held_ns = clock_mono_ns() - tracee->ran_until_ns;

	finish(round, member);
	if (held_ns > round->report->stop_max_ns)
		round->report->stop_max_ns = held_ns;
	return err;
}

static struct ht_err *release_all(struct round *round)
{
	struct ht_err *err = NULL;
	for (size_t i = 0; i < round->asked; i++)
		if (round->member[i].state == HELD)
			err = ht_err_first(err, release(round, &round->member[i]));
	round->held_since_ns = 0;
	return err;
}

static struct ht_err *release_late(struct round *round)
{
	bool late = round->held_since_ns &&
		    clock_mono_ns() - round->held_since_ns >= (round->together ? CROWD_HOLD_NS : 0);
	return late ? release_all(round) : NULL;
}

static struct ht_err *look_at(struct round *round, size_t at)
{
	const struct crowd *crowd = round->crowd;
	struct member *member = &round->member[at];
	bool is_its = false;
	struct ht_err *err = tracee_is_of(crowd->proc, &member->tracee, &is_its);

	member->as_stopped = member->tracee.regs;
	if (!is_its) {
		if (!err)
			crowd->gone(crowd->context, at);
		err = ht_err_first(err, tracee_release(&member->tracee));
		finish(round, member);
		return err;
	}
	member->state = HELD;
	if (!round->held_since_ns)
		round->held_since_ns = clock_mono_ns();
	round->report->stopped++;
	return crowd->look(crowd->context, at, &member->tracee);
}

/* Looks at thread `at` if it has stopped. On failure, a thread that is done is not held. */
static struct ht_err *poll_one(struct round *round, size_t at)
{
	struct member *member = &round->member[at];
	enum tracee_result result;
	struct ht_err *err = tracee_poll(&member->tracee, &result);

	if (!err && result == TRACEE_BUSY)
		return NULL;
	round->left--;
	if (!err && result == TRACEE_STOPPED)
		return look_at(round, at);
	if (err)
		err = ht_err_first(err, tracee_release(&member->tracee));
	else if (result == TRACEE_GONE)
		round->crowd->gone(round->crowd->context, at);
	finish(round, member);
	return err;
}

static struct ht_err *continue_with(struct round *round, size_t at)
{
	struct member *member = &round->member[at];
	if (member->state == ASKED)
		return poll_one(round, at);
	if (member->state == DYING && !is_dying(member)) {
		member->state = DONE;
		round->left--;
	}
	return NULL;
}

static struct ht_err *ask_all(struct round *round)
{
	const struct crowd *crowd = round->crowd;
	struct ht_err *err = NULL;

	for (size_t i = 0; i < crowd->count && !err; i++) {
		struct member *member = &round->member[i];
		enum tracee_result result = TRACEE_GONE;
		err = tracee_ask(crowd->tid[i], false, &member->tracee, &result);
		member->tracee.filtered = crowd->filtered;
		member->state = result == TRACEE_BUSY ? ASKED : DONE;
		round->left += result == TRACEE_BUSY;
		round->asked = i + 1;
		/* TRACEE_REFUSED is not reported: a dying worker may still hold the thread, and the
		 * next pass looks again. */
		if (!err && result == TRACEE_GONE)
			crowd->gone(crowd->context, i);
	}
	return err;
}

struct ht_err *crowd_stop(const struct crowd *crowd, struct crowd_report *ret)
{
	static struct round round;
	round = (struct round){.crowd = crowd, .report = ret};
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	round.together = crowd->together && cores > 0 && crowd->count > EACH_CORE * (size_t)cores;
	*ret = (struct crowd_report){0};
	uint64_t deadline_ns = clock_mono_ns() + STOP_DEADLINE_NS;
	struct ht_err *err = ask_all(&round);
	while ((round.left || round.held_since_ns) && clock_mono_ns() < deadline_ns) {
		for (size_t i = 0; i < round.asked; i++) {
			err = ht_err_first(err, continue_with(&round, i));
			err = ht_err_first(err, release_late(&round));
		}
		if (!round.left)
			err = ht_err_first(err, release_all(&round));
		if (round.left)
			worker_await_stop();
		err = ht_err_first(err, release_late(&round));
	}
	return ht_err_first(err, release_all(&round));
}
