/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/writers.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "attach/daemon/runstate.h"
#include "format/helper.h"

#define DEATH_PATIENCE_NS 1000000000ull

/* --- beginning ------------------------------------------------------------------------------- */

static struct ht_err *make_pipe(bool waits, int *ret_read, int *ret_write)
{
	int fd[2];
	if (pipe2(fd, O_CLOEXEC) < 0)
		return ht_err_sys(errno, "cannot make a pipe");
	/* If the pipe stays smaller, more waits in the daemon's queue. */
	(void)fcntl(fd[1], F_SETPIPE_SZ, WRITERS_PIPE_BYTES);
	*ret_read = fd[0];
	*ret_write = fd[1];
	if (waits || fcntl(fd[1], F_SETFL, O_NONBLOCK) == 0)
		return NULL;
	struct ht_err *err = ht_err_sys(errno, "cannot make a pipe that does not block");
	close(fd[0]);
	return err;
}

static struct ht_err *start_scribe(
	struct writers *writers, const struct scribe_options *options, bool is_filtered)
{
	/* A scribe behind a filter does not watch the daemon: the filter may still write after the
	 * daemon's death. */
	const pid_t parent = is_filtered ? 0 : getpid();
	int read_fd;
	HT_TRY(make_pipe(is_filtered, &read_fd, &writers->fd));
	writers->scribe = fork();
	if (writers->scribe == 0)
		scribe_run(read_fd, parent, writers->page, options);
	const int sys = errno;
	close(read_fd);
	return writers->scribe < 0
		       ? ht_err_sys(sys, "cannot fork the process that writes the trace")
		       : NULL;
}

/* Starts the filter before the scribe: the filter takes over writers->fd, the pipe to the scribe,
 * and writers->fd becomes the pipe to the filter. */
static struct ht_err *start_filter(struct writers *writers, uint64_t cull_ns)
{
	struct filter_options options = {.cull_ns = cull_ns,
		.to = writers->fd,
		.parent = getpid(),
		.page = writers->filter_page};
	writers->fd = -1;
	struct ht_err *err = make_pipe(false, &options.from, &writers->fd);
	if (err) {
		close(options.to);
		return err;
	}
	writers->filter = fork();
	if (writers->filter == 0)
		filter_run(&options);
	const int sys = errno;
	close(options.from);
	close(options.to);
	return writers->filter < 0 ? ht_err_sys(sys, "cannot fork the filter of --cull") : NULL;
}

static void *shared_page(size_t bytes)
{
	void *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return page == MAP_FAILED ? NULL : page;
}

struct ht_err *writers_start(
	struct writers *writers, const struct scribe_options *options, uint64_t cull_ns)
{
	*writers = WRITERS_NONE;
	writers->page = shared_page(sizeof(*writers->page));
	writers->filter_page = cull_ns ? shared_page(sizeof(*writers->filter_page)) : NULL;
	if (!writers->page || (cull_ns && !writers->filter_page))
		return ht_err_new(HT_ERR_NOMEM, "no memory for the output");
	writers->page->patience_ns = options->patience_ns;
	HT_TRY(start_scribe(writers, options, cull_ns != 0));
	return cull_ns ? start_filter(writers, cull_ns) : NULL;
}

void writers_deinit(struct writers *writers)
{
	if (writers->page)
		munmap(writers->page, sizeof(*writers->page));
	if (writers->filter_page)
		munmap(writers->filter_page, sizeof(*writers->filter_page));
	*writers = WRITERS_NONE;
}

/* --- end ------------------------------------------------------------------------------------- */

void writers_close(struct writers *writers)
{
	if (writers->fd >= 0)
		close(writers->fd);
	writers->fd = -1;
}

/* Waits for the end of process `*pid`, and sets `*pid` to -1 if it has ended. True also if it was
 * -1. */
static bool await_death(pid_t *pid, uint64_t patience_ns)
{
	if (*pid >= 0 && helper_ends_within(*pid, patience_ns))
		*pid = -1;
	return *pid < 0;
}

bool writers_end(struct writers *writers, uint64_t patience_ns)
{
	writers_close(writers);
	return await_death(&writers->filter, patience_ns) &&
	       await_death(&writers->scribe, patience_ns);
}

/* A process that waits for a file system's server may survive even SIGKILL: it is left to init. */
static void kill_process(pid_t *pid)
{
	if (*pid >= 0)
		kill(*pid, SIGKILL);
	(void)await_death(pid, DEATH_PATIENCE_NS);
	*pid = -1;
}

void writers_kill(struct writers *writers)
{
	writers_close(writers);
	kill_process(&writers->filter);
	kill_process(&writers->scribe);
}

/* --- between --------------------------------------------------------------------------------- */

bool writers_lost_filter(struct writers *writers, uint64_t patience_ns, char *ret_why, size_t bytes)
{
	const struct filter_page *page = writers->filter_page;
	if (!page || !await_death(&writers->filter, DEATH_PATIENCE_NS) || page->ended)
		return false;
	snprintf(ret_why, bytes, "the filter of --cull %s%s",
		page->failed ? "failed: " : "was ended, perhaps for lack of memory",
		page->failed ? page->text : "");
	(void)writers_end(writers, patience_ns);
	return true;
}

static bool is_held_up(pid_t pid)
{
	char state = runstate_of(pid);
	return state == 'R' || (state == 'T' && kill(pid, SIGCONT) == 0);
}

bool writers_are_held_up(const struct writers *writers)
{
	return is_held_up(writers->scribe) || is_held_up(writers->filter);
}
