/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/series/standby.h"

#include <stdio.h>
#include <unistd.h>

#include "attach/proc/clock.h"
#include "attach/proc/proc_status.h"

#define BUSY_MS 5 /* between two passes while a request is awaited, and after a connection */

/* Exit status of a client (DESIGN section 10). */
#define STATUS_REFUSED 3u

/* --- answers --------------------------------------------------------------------------------- */

/* Times are computed anew for each answer: the clock may have been set, and the machine asleep. */
static void fill(const struct standby *standby, struct control_reply *ret)
{
	const uint64_t boot_ns = clock_read_ns(CLOCK_BOOTTIME),
		       unix_ns = clock_read_ns(CLOCK_REALTIME);
	*ret = standby->now;
	ret->ok = true;
	ret->elapsed_ns = boot_ns - standby->since_ns;
	ret->start_unix_ns = unix_ns - ret->elapsed_ns;
	if (standby->next_boot_ns > boot_ns)
		ret->next_unix_ns = unix_ns + (standby->next_boot_ns - boot_ns);
}

static void refuse(const struct standby *standby, struct control_reply *ret)
{
	const struct control_reply *now = &standby->now;
	const uint64_t boot_ns = clock_read_ns(CLOCK_BOOTTIME);
	*ret = (struct control_reply){.exit_status = STATUS_REFUSED};
	int length = snprintf(ret->message, sizeof(ret->message),
		"nothing is recorded now: window %llu begins", (unsigned long long)now->window);
	if (standby->next_boot_ns > boot_ns)
		length += snprintf(ret->message + length, sizeof(ret->message) - (size_t)length,
			" in %.0f s", (double)(standby->next_boot_ns - boot_ns) / CLOCK_NS_PER_S);
	if (*now->waits_for)
		snprintf(ret->message + length, sizeof(ret->message) - (size_t)length, " when %s",
			now->waits_for);
}

static void handle(void *context, const struct control_request *request, struct control_reply *ret)
{
	struct standby *standby = context;
	if (request->verb != CONTROL_STATUS && request->verb != CONTROL_STOP) {
		refuse(standby, ret);
		return;
	}
	standby->is_stopped |= request->verb == CONTROL_STOP;
	fill(standby, ret);
}

/* --- when ------------------------------------------------------------------------------------ */

/* The name stays "" if it is unknown. */
static void name_process(struct standby *standby, const struct proc *proc)
{
	struct proc_status status;
	struct ht_err *err = proc_status(proc, 0, &status);
	if (!err)
		snprintf(standby->now.comm, sizeof(standby->now.comm), "%s", status.comm);
	ht_err_free(err);
}

struct ht_err *standby_open(
	struct standby *standby, const struct proc *proc, const struct standby_wait *wait)
{
	*standby = STANDBY_NONE;
	standby->since_ns = clock_read_ns(CLOCK_BOOTTIME);
	standby->next_boot_ns = wait->next_boot_ns;
	standby->now = (struct control_reply){.phase = CONTROL_WAITING,
		.pid = (uint64_t)proc->pid,
		.start_ticks = proc->start_ticks,
		.heaptap_pid = (uint64_t)getpid(),
		.user = geteuid(),
		.window = wait->window,
		.windows = wait->windows};
	snprintf(standby->now.waits_for, sizeof(standby->now.waits_for), "%s", wait->waits_for);
	name_process(standby, proc);
	HT_TRY(place_open(proc->pid, proc->start_ticks, getpid(), &standby->place));
	standby->server = server_create(standby->place.listener, handle, standby);
	if (standby->server)
		return NULL;
	place_close(&standby->place);
	return ht_err_new(HT_ERR_NOMEM, "no memory for the socket");
}

void standby_waits_on(struct standby *standby)
{
	standby->next_boot_ns = 0;
}

int standby_poll(const struct standby *standby, struct pollfd *polled)
{
	*polled = (struct pollfd){standby->rests ? -1 : standby->place.listener, POLLIN, 0};
	const bool is_busy = standby->server && server_is_busy(standby->server);
	return is_busy || standby->rests ? BUSY_MS : -1;
}

static bool serve(const struct standby *standby)
{
	if (standby->server)
		server_serve(standby->server, clock_mono_ns());
	return standby->is_stopped;
}

bool standby_serve(struct standby *standby, const struct pollfd *polled)
{
	standby->rests = polled->revents != 0;
	return serve(standby);
}

bool standby_close(struct standby *standby)
{
	const bool is_stopped = serve(standby);
	if (standby->server)
		server_close_listener(standby->server);
	place_close(&standby->place);
	if (is_stopped)
		return true;
	server_destroy(standby->server);
	*standby = STANDBY_NONE;
	return false;
}

void standby_end(struct standby *standby, unsigned status, const char *message)
{
	struct control_reply reply;
	if (!standby->server)
		return;
	fill(standby, &reply);
	reply.phase = CONTROL_ENDED;
	reply.exit_status = status;
	snprintf(reply.message, sizeof(reply.message), "%s", message);
	server_tell_end(standby->server, &reply);
	server_destroy(standby->server);
	standby->server = NULL;
}
