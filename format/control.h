/* SPDX-License-Identifier: Apache-2.0
 *
 * The protocol by which another process controls a running capture: the place of its socket and the
 * messages on it. Used by the capture, which answers, and by clients (control_client.h). Only
 * control_open_directory makes system calls.
 *
 * The socket is a unix stream socket, one for each capture, in a directory of the user that runs
 * the capture. A client sends one line, the capture answers one line and closes the connection:
 *
 *      heaptap/1 VERB[ KEY=VALUE]...\n       to the capture
 *      heaptap/1 ok[ KEY=VALUE]...\n         from the capture; or "error"
 *
 * VERB is status, stop, pause, resume, mark or snapshot. In values %XX may encode any byte, and
 * must encode bytes outside of ! to ~ and % itself. Unknown keys are skipped; a line with a version
 * other than 1 is refused. A line has CONTROL_LINE_MAX bytes at most.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"
#include "format/err.h"

#define CONTROL_LINE_MAX 4096u /* with the newline */
#define CONTROL_MARK_MAX 1000u /* bytes of a mark's text */
#define CONTROL_PATH_MAX 256u  /* of a directory, with the 0 */
#define CONTROL_NAME_MAX 64u   /* of a socket within its directory, with the 0 */
/* The number of places where the directory may be. */
#define CONTROL_PLACES 3u

/* --- place ---------------------------------------------------------------------------------- */

/*
 * Lists the possible directories of user `uid`, best first. Root: /run/heaptap. Other users:
 * $XDG_RUNTIME_DIR/heaptap and /run/user/UID/heaptap. Both, last: /tmp/heaptap-UID. `runtime`: the
 * value of XDG_RUNTIME_DIR; ignored if NULL, not an absolute path, or too long for
 * CONTROL_PATH_MAX. A capture makes its socket in the first directory that it can use; a client
 * looks in all. Returns their number, at most CONTROL_PLACES.
 */
size_t control_directories(uid_t uid, const char *runtime, char (*ret)[CONTROL_PATH_MAX]);

/*
 * Opens a directory for sockets (O_PATH | O_CLOEXEC) if it is safe: owned by `uid`, not a symbolic
 * link, not writable by other users. `make`: creates it with mode 0700 if it is missing. Returns
 * the descriptor, or -1 with errno: ENOENT: missing; ENOTDIR: not a directory, or a symbolic link;
 * EPERM: another owner, or writable; or an error of mkdir(2) or open(2).
 */
int control_open_directory(const char *path, uid_t uid, bool make);

/*
 * The name of the socket for the capture of a process: PID.START_TICKS. `start_ticks`: field 22 of
 * /proc/PID/stat, as in a trace's TARGET. `waiter`: 0 for a capture; otherwise the PID of a heaptap
 * that waits to record the process, appended as a third number, because several may wait while
 * another records.
 */
void control_name(pid_t pid, uint64_t start_ticks, pid_t waiter, char ret[CONTROL_NAME_MAX]);
/* Parses a name that control_name made; `*ret_waiter` is 0 for a capture. False if `name` is
 * malformed; the results are then undefined. */
bool control_name_parse(
	const char *name, pid_t *ret_pid, uint64_t *ret_start_ticks, pid_t *ret_waiter);

/* --- messages ------------------------------------------------------------------------------- */

enum control_verb {
	CONTROL_STATUS,
	CONTROL_STOP,	/* ends the window, as Ctrl-C does */
	CONTROL_PAUSE,	/* no new allocation is recorded; frees of recorded blocks are */
	CONTROL_RESUME, /* the end of a pause */
	CONTROL_MARK,	/* puts `text` into the trace, with the present time */
	/* Puts the totals so far into the trace, for a client that is about to copy it. */
	CONTROL_SNAPSHOT,
	CONTROL_VERBS
};

/* "status" ...; NULL if `verb` is out of range. */
const char *control_verb_name(enum control_verb verb);

struct control_request {
	enum control_verb verb;
	bool wait; /* STOP: answer only after the capture has ended */
	size_t text_length;
	char text[CONTROL_MARK_MAX]; /* MARK: any bytes, not terminated */
};

enum control_phase {
	CONTROL_RECORDING,
	CONTROL_DETACHING, /* the window has ended; heaptap is detaching */
	CONTROL_ENDED,	   /* the trace is complete and the detach is over */
	CONTROL_NAMING,	   /* the detach is over; heaptap writes names into the trace */
	CONTROL_SETTLING,  /* the window has ended; frees of its blocks are recorded */
	/* Nothing is recorded: heaptap waits for the next window; only STATUS and STOP are served
	 */
	CONTROL_WAITING,
	CONTROL_PHASES
};

/*
 * An answer: the state of the capture after the request. An error sets only exit_status and
 * message. The answer to STOP with `wait` sets these two besides the rest.
 */
struct control_reply {
	bool ok;
	/* The exit status of the client after an error, or of the capture after STOP with `wait`:
	 * heaptap(1), EXIT STATUS. */
	uint64_t exit_status;
	char message[640]; /* of an error or an ended capture; may be empty */
	uint64_t phase;	   /* enum control_phase */
	uint64_t paused;   /* 1: no new allocations are recorded */
	/* The recorded process; a heaptap that waits for a process to start gives its own. */
	uint64_t pid, start_ticks;
	uint64_t heaptap_pid;
	uint64_t start_unix_ns; /* when the window, or the wait for it, began */
	uint64_t elapsed_ns;	/* since then, up to the window's end */
	uint64_t duration_ns;	/* length of the window; 0: no limit */
	uint64_t settle_ns;  /* how long the capture settles after the window; 0: it does not settle
			      */
	uint64_t settled_ns; /* how long it has settled */
	uint64_t events;     /* recorded so far */
	uint64_t trace_bytes; /* size of the file so far */
	uint64_t dropped;     /* events lost so far, for any reason */
	/* Rates over the last seconds. */
	uint64_t events_per_s, trace_bytes_per_min;
	uint64_t paused_by_overhead; /* 1: --max-overhead pauses, and resumes by itself */
	/* Share of the CPU time in the last second, and its limit, in millionths; without a limit
	 * 0. */
	uint64_t overhead_ppm, overhead_limit_ppm;
	uint64_t pauses, paused_ns; /* so far, including the present one */
	uint64_t marks;		    /* recorded so far by MARK */
	/* one allocation in so many bytes is recorded; 0: every allocation */
	uint64_t sample_bytes;
	uint64_t cull_ns; /* blocks that live shorter are recorded as sums; 0: no --cull */
	uint64_t live_blocks, filter_bytes; /* of --cull: number of blocks that it tracks, and bytes
					       of its tables */
	uint64_t user;			    /* uid that runs the capture */
	/* of the process: now and when the window began; 0: unknown */
	uint64_t rss_bytes, rss_first_bytes;
	/* In a series: the number of the window that is recorded or waited for, from 1, and of all
	 * windows (0: no limit). Both 0: there is only one. */
	uint64_t window, windows;
	uint64_t next_unix_ns; /* CONTROL_WAITING: the window begins no earlier; 0: at any time */
	/* The condition that heaptap waits for besides next_unix_ns, as in "its RSS is 60.0 MiB";
	 * "": none. Hostile bytes. */
	char waits_for[320];
	char comm[64]; /* name of the process; hostile bytes */
	/* Absolute; "-": standard output; "": longer than fits a line. Hostile bytes. */
	char trace[2048];
	/* As `trace`: the temporary file of the trace, which is renamed to `trace` when it is
	 * complete; "": the trace is written in place. */
	char partial[2048];
};

/* Writes the line with its newline and returns its length. Cuts a mark's text that is too long. */
size_t control_request_encode(const struct control_request *request, char ret[CONTROL_LINE_MAX]);
/* `line`: any bytes, without the newline. Returns NULL, or a message for the sender that names the
 * fault. */
const char *control_request_parse(const char *line, size_t length, struct control_request *ret);

/* Leaves out a text that does not fit. Returns the length with the newline. */
size_t control_reply_encode(const struct control_reply *reply, char ret[CONTROL_LINE_MAX]);
/* As control_request_parse. Fields missing from the line are 0; texts end with a 0 byte and contain
 * no other. */
const char *control_reply_parse(const char *line, size_t length, struct control_reply *ret);
