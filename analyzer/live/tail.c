/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/live/tail.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* bytes kept before the reader's position: the reader may go back */
#define KEPT_BYTES  (1u << 20)
#define PIECE_BYTES (4u << 20)

struct ht_err *tail_open(struct tail *tail, const char *path, bool is_private)
{
	*tail = (struct tail){.path = path, .is_private = is_private};
	/* Opens the file again, because the writer's file description has another position. */
	tail->fd = open(path, (is_private ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK);
	return tail->fd < 0 ? ht_err_sys(errno, "cannot open the trace of the capture, %s", path)
			    : NULL;
}

/* Frees the blocks that were read, so that the file's size on disk stays limited during a long
 * capture. A file system without hole punching lets the file grow. */
static void give_back(struct tail *tail)
{
	if (!tail->is_private || tail->read_bytes < tail->freed_bytes + KEPT_BYTES + PIECE_BYTES)
		return;
	const uint64_t to = (tail->read_bytes - KEPT_BYTES) & ~(uint64_t)(KEPT_BYTES - 1);
	if (fallocate(tail->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		    (off_t)tail->freed_bytes, (off_t)(to - tail->freed_bytes)) == 0)
		tail->freed_bytes = to;
	else
		tail->is_private = false;
}

struct ht_err *tail_read_on(struct tail *tail, uint64_t most)
{
	tail->has_more = false;
	if (!tail->analysis) {
		ht_err_free(analysis_begin(tail->fd, tail->path, &tail->analysis));
		if (!tail->analysis)
			return lseek(tail->fd, 0, SEEK_SET) < 0
				       ? ht_err_sys(errno, "cannot read the trace")
				       : NULL;
	}
	struct ht_err *err = analysis_continue(tail->analysis, most);
	tail->has_more = !err && tail->analysis->model.how_ended == TRACE_MORE;
	tail->read_bytes = tail->analysis->model.seen_bytes;
	give_back(tail);
	return err;
}

void tail_close(struct tail *tail)
{
	analysis_destroy(tail->analysis);
	if (tail->fd >= 0)
		close(tail->fd);
	*tail = (struct tail){.fd = -1};
}
