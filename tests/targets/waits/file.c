/* SPDX-License-Identifier: Apache-2.0
 *
 * Waits on descriptors that are not sockets, and for locks of files.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/signalfd.h>
#include <sys/uio.h>
#include <termios.h>

#include "tests/targets/waits/waits.h"

static void write_byte(void)
{
	waits_check(write(waits_fd[1], "", 1) == 1, "write");
}

static long in_read(void)
{
	char byte;
	return read(waits_fd[0], &byte, 1);
}

static long in_readv(void)
{
	char byte;
	struct iovec iov = {&byte, 1};
	return readv(waits_fd[0], &iov, 1);
}

static void make_full_pipe(void)
{
	waits_make_pipe();
	waits_fill(waits_fd[1]);
}

static void read_page(void)
{
	static char page[4096];
	waits_check(read(waits_fd[0], page, sizeof(page)) > 0, "read");
}

static long in_write(void)
{
	return write(waits_fd[1], "x", 1);
}

static long in_writev(void)
{
	struct iovec iov[2] = {{"x", 1}, {"y", 1}};
	return writev(waits_fd[1], iov, 2);
}

static void make_eventfd(void)
{
	waits_fd[0] = eventfd(0, EFD_CLOEXEC);
	waits_check(waits_fd[0] >= 0, "eventfd");
}

static long in_eventfd(void)
{
	uint64_t count;
	return read(waits_fd[0], &count, sizeof(count));
}

static void post_eventfd(void)
{
	uint64_t one = 1;
	waits_check(write(waits_fd[0], &one, sizeof(one)) == sizeof(one), "eventfd");
}

static char watched[] = "/tmp/heaptap-waits-XXXXXX";

static void make_inotify(void)
{
	waits_fd[0] = inotify_init1(IN_CLOEXEC);
	waits_check(mkdtemp(watched) != NULL, "mkdtemp");
	waits_check(
		inotify_add_watch(waits_fd[0], watched, IN_DELETE_SELF) >= 0, "inotify_add_watch");
}

static long in_inotify(void)
{
	struct inotify_event event[4];
	long got = read(waits_fd[0], event, sizeof(event));
	return got > 0 ? 1 : got; /* one event or two */
}

static void remove_watched(void)
{
	rmdir(watched);
}

static void make_signalfd(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	waits_fd[0] = signalfd(-1, &set, SFD_CLOEXEC);
	waits_check(waits_fd[0] >= 0, "signalfd");
}

static long in_signalfd(void)
{
	struct signalfd_siginfo info;
	return read(waits_fd[0], &info, sizeof(info));
}

static void send_signal(void)
{
	kill(waits_target, SIGUSR1);
}

static void make_pipes(void)
{
	waits_make_pipe();
	waits_check(pipe2(waits_fd + 2, O_CLOEXEC) == 0, "pipe2");
}

static long in_splice(void)
{
	return splice(waits_fd[0], NULL, waits_fd[3], NULL, 1, 0);
}

static long in_tee(void)
{
	return tee(waits_fd[0], waits_fd[3], 1, 0);
}

static void make_file(void)
{
	waits_fd[2] = memfd_create("waits", MFD_CLOEXEC);
	waits_check(ftruncate(waits_fd[2], 4096) == 0, "memfd_create");
}

static void make_file_and_full_pipe(void)
{
	make_file();
	make_full_pipe();
}

static long in_sendfile(void)
{
	return sendfile(waits_fd[1], waits_fd[2], NULL, 1);
}

/* Opens the file a second time, because flock and OFD locks belong to an open file description. */
static void make_two_files(void)
{
	char path[32];
	make_file();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", waits_fd[2]);
	waits_fd[3] = open(path, O_RDWR | O_CLOEXEC);
	waits_check(waits_fd[3] >= 0, path);
}

static void lock_whole(void)
{
	waits_check(flock(waits_fd[3], LOCK_EX) == 0, "flock");
}

static void unlock_whole(void)
{
	flock(waits_fd[3], LOCK_UN);
}

static long in_flock(void)
{
	return flock(waits_fd[2], LOCK_EX);
}

static long lock_record(int fd, int command, short type)
{
	struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_len = 1};
	return fcntl(fd, command, &lock);
}

static void hold_record(void)
{
	waits_check(lock_record(waits_fd[3], F_SETLK, F_WRLCK) == 0, "F_SETLK");
}

static void drop_record(void)
{
	lock_record(waits_fd[3], F_SETLK, F_UNLCK);
}

static long in_record_lock(void)
{
	return lock_record(waits_fd[2], F_SETLKW, F_WRLCK);
}

static long in_open_file_lock(void)
{
	return lock_record(waits_fd[2], F_OFD_SETLKW, F_WRLCK);
}

static void make_terminal(void)
{
	waits_fd[1] = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	waits_check(!grantpt(waits_fd[1]) && !unlockpt(waits_fd[1]), "posix_openpt");
	waits_fd[0] = open(ptsname(waits_fd[1]), O_RDWR | O_NOCTTY | O_CLOEXEC);
	waits_check(waits_fd[0] >= 0, "open of a terminal");
}

static void make_terminal_timed(void)
{
	struct termios how;
	make_terminal();
	waits_check(tcgetattr(waits_fd[0], &how) == 0, "tcgetattr");
	cfmakeraw(&how);
	how.c_cc[VMIN] = 0;
	how.c_cc[VTIME] = waits_ms / 100 > UINT8_MAX ? UINT8_MAX : (cc_t)(waits_ms / 100);
	waits_check(tcsetattr(waits_fd[0], TCSANOW, &how) == 0, "tcsetattr");
}

static void type_line(void)
{
	waits_check(write(waits_fd[1], "\n", 1) == 1, "write to a terminal");
}

const struct waits_case waits_file[] = {
	{.name = "read-pipe", waits_make_pipe, in_read, write_byte},
	{.name = "readv-pipe", waits_make_pipe, in_readv, write_byte},
	{.name = "write-pipe", make_full_pipe, in_write, read_page},
	{.name = "writev-pipe", make_full_pipe, in_writev, read_page},
	{.name = "read-eventfd", make_eventfd, in_eventfd, post_eventfd},
	{.name = "read-inotify", make_inotify, in_inotify, remove_watched, .clean = remove_watched},
	{.name = "read-signalfd", make_signalfd, in_signalfd, send_signal},
	{.name = "splice", make_pipes, in_splice, write_byte},
	{.name = "tee", make_pipes, in_tee, write_byte},
	{.name = "sendfile", make_file_and_full_pipe, in_sendfile, read_page},
	{.name = "flock", make_two_files, in_flock, unlock_whole, lock_whole},
	{.name = "fcntl-setlkw", make_two_files, in_record_lock, drop_record, hold_record},
	{.name = "fcntl-ofd-setlkw", make_two_files, in_open_file_lock, drop_record, hold_record},
	{.name = "read-tty", make_terminal, in_read, type_line},
	{.name = "read-tty-timed", make_terminal_timed, in_read},
	{0},
};
