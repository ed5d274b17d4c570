/* SPDX-License-Identifier: Apache-2.0
 *
 * How a running capture is steered from another process: the place of its socket, and the messages
 * on it. Both sides use this: heaptap, whose capture answers, and whoever asks
 * (control_client.h). Nothing here makes a system call but control_open_directory.
 *
 * The socket is a unix stream socket, one for each capture, in a directory of the user that runs
 * the capture. A client sends one line, the capture answers one line and closes the connection:
 *
 *      heaptap/1 VERB[ KEY=VALUE]...\n       to the capture
 *      heaptap/1 ok[ KEY=VALUE]...\n         from the capture; or "error"
 *
 * VERB is status, stop, pause, resume or mark. In values any byte may stand as %XX; bytes outside
 * of ! to ~, and % itself, must. Unknown keys are skipped; a line with another number than 1 is
 * refused. A line has CONTROL_LINE_MAX bytes at most.
 */
#pragma once

#include <sys/types.h>

#include "format/base.h"
#include "format/err.h"

#define CONTROL_VERSION	 1u
#define CONTROL_LINE_MAX 4096u /* with the newline */
#define CONTROL_MARK_MAX 1000u /* bytes of a mark's text */
#define CONTROL_PATH_MAX 256u  /* of a directory, with the 0 */
#define CONTROL_NAME_MAX 64u   /* of a socket within its directory, with the 0 */
/* The places where a directory may be. */
#define CONTROL_PLACES 3u

/* --- place ---------------------------------------------------------------------------------- */

/*
 * The directories of user `uid`, the best first: of root /run/heaptap; of any other user
 * $XDG_RUNTIME_DIR/heaptap and /run/user/UID/heaptap; of both, last, /tmp/heaptap-UID.
 * `runtime`: the value of XDG_RUNTIME_DIR; NULL, or no absolute path: unset. A capture makes its
 * socket in the first one that it can use; a client looks in all. Returns how many there are.
 */
size_t control_directories(uid_t uid, const char *runtime, char (*ret)[CONTROL_PATH_MAX]);

/*
 * Opens such a directory (O_PATH | O_CLOEXEC) if it is safe: a directory of `uid`, no symbolic
 * link, that no other user can write to. `make`: makes it with mode 0700 where it is missing.
 * Returns the descriptor, or -1 with errno: ENOENT where it is missing, EPERM where it is not safe.
 */
int control_open_directory(const char *path, uid_t uid, bool make);

/* The name of the socket for the capture of a process: PID.START_TICKS. `start_ticks`: field 22 of
 * /proc/PID/stat, as in a trace's TARGET. */
void control_name(pid_t pid, uint64_t start_ticks, char ret[CONTROL_NAME_MAX]);
/* Is it such a name? */
bool control_name_parse(const char *name, pid_t *ret_pid, uint64_t *ret_start_ticks);

/* --- messages ------------------------------------------------------------------------------- */

enum control_verb {
	CONTROL_STATUS,
	CONTROL_STOP,	/* ends the window, as Ctrl-C does */
	CONTROL_PAUSE,	/* no new allocation is recorded; frees of recorded blocks are */
	CONTROL_RESUME, /* the end of a pause */
	CONTROL_MARK,	/* puts `text` into the trace, with the present time */
	CONTROL_VERBS
};

/* "status" ...; NULL for a number that is none. */
const char *control_verb_name(enum control_verb verb);

struct control_request {
	enum control_verb verb;
	bool wait; /* of STOP: the answer comes when the capture has ended */
	size_t text_length;
	char text[CONTROL_MARK_MAX]; /* of MARK; any bytes, not terminated */
};

/* What a capture is doing. */
enum control_phase {
	CONTROL_RECORDING,
	CONTROL_DETACHING, /* the window has ended; the process is being left */
	CONTROL_ENDED,	   /* the trace is whole, and the process was left */
	CONTROL_NAMING,	   /* the process was left; names are being written into the trace */
	CONTROL_PHASES
};

/*
 * An answer: how the capture is after the request. Of an error only exit_status and message are
 * set; of STOP with `wait` these as well.
 */
struct control_reply {
	bool ok;
	/* After an error the client exits with this; after STOP with `wait` the capture does.
	 * DESIGN section 10 and heaptap(1) have the numbers. */
	uint64_t exit_status;
	char message[640]; /* of an error, and of an ended capture, if there is something to say */
	uint64_t phase;	   /* enum control_phase */
	uint64_t paused;   /* 1: no new allocations are recorded */
	uint64_t pid, start_ticks; /* of the process that is recorded */
	uint64_t heaptap_pid;
	uint64_t start_unix_ns; /* when the window began */
	uint64_t elapsed_ns;	/* since then */
	uint64_t duration_ns;	/* after which it ends; 0: no such time was given */
	uint64_t events;	/* recorded so far */
	uint64_t trace_bytes;	/* of the file so far */
	uint64_t dropped;	/* events lost so far, for any reason */
	/* Over the last seconds. */
	uint64_t events_per_s, trace_bytes_per_min;
	uint64_t pauses, paused_ns; /* so far, the present one among them */
	uint64_t marks;		    /* put so far by MARK */
	uint64_t sample_bytes;	    /* one allocation in so many bytes is recorded; 0: each */
	uint64_t user;		    /* who runs the capture */
	char comm[64];		    /* of the process; hostile bytes */
	/* Absolute; "-": standard output; "": longer than fits a line. Hostile bytes. */
	char trace[2048];
	/* Likewise: where the trace is until it is whole, and then replaces `trace`; "": there. */
	char partial[2048];
};

/* The line, with its newline. The text of a mark that is too long is cut. Returns its length. */
size_t control_request_encode(const struct control_request *request, char ret[CONTROL_LINE_MAX]);
/* `line` without its newline, any bytes. NULL, or what is wrong with it, for its sender. */
const char *control_request_parse(const char *line, size_t length, struct control_request *ret);

/* A text that does not fit any more is left out. Returns the length, with the newline. */
size_t control_reply_encode(const struct control_reply *reply, char ret[CONTROL_LINE_MAX]);
/* As control_request_parse. Fields that are missing are 0; texts are terminated, and hold no other
 * 0. */
const char *control_reply_parse(const char *line, size_t length, struct control_reply *ret);
