/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/live/capture.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "format/clock.h"
#include "format/control_client.h"
#include "format/helper.h"

#define ASK_NS	    (3 * CLOCK_NS_PER_S)
#define START_NS    (120 * CLOCK_NS_PER_S)
#define PAUSE_NS    (20 * CLOCK_NS_PER_MS)
#define PID_DIGITS  16u
#define LOOK_MS	    1000
#define BLOCK_BYTES 512u /* unit of st_blocks */

/* --- asking the capture ---------------------------------------------------------------------- */

static const char *const silence[] = {
	[CONTROL_CLIENT_ANSWERED] = "",
	[CONTROL_CLIENT_STALE] = "the capture is gone: heaptap was killed",
	[CONTROL_CLIENT_SILENT] = "the capture does not answer",
	[CONTROL_CLIENT_DIED] = "the capture ended without an answer",
};

static struct control_reply ask(pid_t pid, const struct control_request *request)
{
	struct control_client client;
	struct control_reply reply = {0};
	enum control_client_state state = CONTROL_CLIENT_ANSWERED;
	struct ht_err *err = control_client_find(pid, &client);
	HT_THEN(err, control_client_ask(&client, request, ASK_NS, &state, &reply));
	if (!err && state == CONTROL_CLIENT_ANSWERED)
		return reply;
	reply = (struct control_reply){.exit_status = 1};
	snprintf(reply.message, sizeof(reply.message), "%s", err ? err->message : silence[state]);
	ht_err_free(err);
	return reply;
}

/* --- the keeper ------------------------------------------------------------------------------ */

static void be_capture(pid_t pid, const struct capture_start *start, pid_t keeper)
{
	char digits[PID_DIGITS];
	snprintf(digits, sizeof(digits), "%d", pid);
	helper_reset_signals();
	signal(SIGINT, SIG_DFL);
	signal(SIGTERM, SIG_DFL);
	signal(SIGHUP, SIG_DFL);
	/* If the keeper is killed, the capture ends as by Ctrl-C. */
	prctl(PR_SET_PDEATHSIG, SIGINT);
	if (getppid() != keeper)
		return;
	if (start->log >= 0)
		dup2(start->log, STDERR_FILENO);
	/* Standard output belongs to this program's tables. */
	dup2(start->trace >= 0 ? start->trace : STDERR_FILENO, STDOUT_FILENO);
	/* Skip names: they would be written at the trace's end, but this program reads the trace
	 * now. */
	if (start->trace >= 0)
		execl(start->heaptap, "heaptap", "attach", "-q", "--symbolize=later", "-o", "-",
			"-p", digits, (char *)NULL);
	else
		execl(start->heaptap, "heaptap", "attach", "-p", digits, (char *)NULL);
	fprintf(stderr, "heaptap: cannot run %s: %s\n", start->heaptap, strerror(errno));
}

static pid_t start_capture(pid_t pid, const struct capture_start *start)
{
	const pid_t keeper = getpid();
	const pid_t child = fork();
	if (child)
		return child;
	be_capture(pid, start, keeper);
	_exit(1);
}

static int wait_for(pid_t child)
{
	const int status = helper_wait(child);
	return status < 0 ? 0 : WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

static bool is_too_large(const struct capture_start *start)
{
	struct stat trace;
	return start->trace_bytes_max && fstat(start->trace, &trace) == 0 &&
	       (uint64_t)trace.st_blocks * BLOCK_BYTES > start->trace_bytes_max;
}

/* Answers one request. False: the program has ended. */
static bool answer_one(int socket, pid_t pid, bool has_ended)
{
	struct control_request request;
	if (recv(socket, &request, sizeof(request), 0) != sizeof(request))
		return false;
	struct control_reply reply = ask(pid, &request);
	if (has_ended && !reply.ok)
		reply = (struct control_reply){.ok = true, .phase = CONTROL_ENDED};
	return send(socket, &reply, sizeof(reply), MSG_NOSIGNAL) == sizeof(reply);
}

/* Answers requests until the program has ended. `child`: the capture that the keeper started; 0:
 * none. */
__attribute__((noreturn)) static void keep(
	int socket, pid_t pid, pid_t child, const struct capture_start *start)
{
	const int ended = child ? (int)syscall(SYS_pidfd_open, child, 0) : -1;
	int status = 0;
	for (bool goes_on = true; goes_on;) {
		struct pollfd polled[] = {{socket, POLLIN, 0}, {child ? ended : -1, POLLIN, 0}};
		if (poll(polled, HT_ARRAY_SIZE(polled), start->trace_bytes_max ? LOOK_MS : -1) < 0)
			continue;
		if (polled[1].revents) {
			status = wait_for(child);
			child = 0;
		}
		if (child && is_too_large(start))
			kill(child, SIGINT);
		if (polled[0].revents)
			goes_on = answer_one(socket, pid, ended >= 0 && !child);
	}
	if (child) {
		kill(child, SIGINT);
		status = wait_for(child);
	}
	_exit(status);
}

struct ht_err *capture_find_program(char path[PATH_MAX])
{
	static const char *const place[] = {"heaptap", "../../bin/heaptap"};
	char self[PATH_MAX];
	const ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	self[length > 0 ? length : 0] = '\0';
	char *slash = strrchr(self, '/');
	for (size_t i = 0; slash && i < HT_ARRAY_SIZE(place); i++) {
		snprintf(path, PATH_MAX, "%.*s/%s", (int)(slash - self), self, place[i]);
		if (access(path, X_OK) == 0)
			return NULL;
	}
	return ht_err_new(HT_ERR_REFUSED, "the program heaptap is not beside heaptap-analyze");
}

static struct ht_err *start_keeper(struct capture *capture, const struct capture_start *start)
{
	HT_TRY(helper_fork_pair("the keeper of the capture", &capture->keeper, &capture->socket));
	if (capture->keeper == 0) {
		setsid();
		/* The keeper ends only when the program has ended. */
		signal(SIGINT, SIG_IGN);
		signal(SIGTERM, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
		keep(capture->socket, capture->pid,
			capture->started ? start_capture(capture->pid, start) : 0, start);
	}
	return NULL;
}

/* --- this program's side -----------------------------------------------------------------------
 */

bool capture_ask(const struct capture *capture, const struct control_request *request)
{
	return send(capture->socket, request, sizeof(*request), MSG_NOSIGNAL | MSG_DONTWAIT) ==
	       sizeof(*request);
}

bool capture_answer(const struct capture *capture, struct control_reply *ret)
{
	return recv(capture->socket, ret, sizeof(*ret), 0) == sizeof(*ret);
}

/* Waits until the capture reports the path of its trace. */
static struct ht_err *await_trace(struct capture *capture, const struct capture_start *start)
{
	const struct control_request request = {.verb = CONTROL_STATUS};
	const struct timespec pause = {.tv_nsec = PAUSE_NS};
	const uint64_t until_ns = clock_mono_ns() + START_NS;
	struct control_reply reply;
	do {
		if (!capture_ask(capture, &request) || !capture_answer(capture, &reply))
			return ht_err_new(HT_ERR_INTERNAL, "the keeper of the capture is gone");
		if (reply.ok && reply.phase == CONTROL_ENDED)
			return ht_err_new(HT_ERR_REFUSED,
				"process %d is not recorded: the capture ended", capture->pid);
		const char *path = *reply.partial ? reply.partial : reply.trace;
		snprintf(capture->trace, sizeof(capture->trace), "%s", reply.ok ? path : "");
		if (strcmp(capture->trace, "-") == 0 && capture->started && start->trace >= 0) {
			snprintf(capture->trace, sizeof(capture->trace), "/proc/self/fd/%d",
				start->trace);
			return NULL;
		}
		if (strcmp(capture->trace, "-") == 0)
			return ht_err_new(HT_ERR_REFUSED,
				"the capture of process %d writes to standard output, which cannot "
				"be shown",
				capture->pid);
		if (*capture->trace)
			return NULL;
		nanosleep(&pause, NULL);
	} while (clock_mono_ns() < until_ns && capture->started);
	return ht_err_new(HT_ERR_REFUSED, "the capture of process %d has no trace: %s",
		capture->pid, reply.ok ? "its path is too long" : reply.message);
}

struct ht_err *capture_open(struct capture *capture, pid_t pid, const struct capture_start *start)
{
	struct control_client client;
	*capture = (struct capture){.pid = pid, .socket = -1};
	struct ht_err *err = control_client_find(pid, &client);
	if (err && err->code == HT_ERR_REFUSED) {
		ht_err_free(err);
		err = NULL;
		capture->started = true;
	}
	HT_THEN(err, start_keeper(capture, start));
	return err ? err : await_trace(capture, start);
}

int capture_close(struct capture *capture)
{
	int status = 0;
	if (capture->socket >= 0)
		close(capture->socket);
	if (capture->keeper > 0)
		status = wait_for(capture->keeper);
	capture->keeper = 0;
	capture->socket = -1;
	return status;
}
