/* SPDX-License-Identifier: Apache-2.0
 *
 * Communication of these programs with a test (tests/support/victim.h). It never calls the
 * allocator: static buffers, read(2) and write(2).
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char speak_line[60000];
static size_t speak_used;

/* Adds to the line under construction. */
__attribute__((format(printf, 1, 2))) static inline void speak_add(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	int more = vsnprintf(speak_line + speak_used, sizeof(speak_line) - speak_used, fmt, args);
	va_end(args);
	speak_used += (size_t)more;
}

/* Writes the line under construction. */
static inline void speak_send(void)
{
	speak_add("\n");
	for (size_t done = 0; done < speak_used;) {
		ssize_t now = write(STDOUT_FILENO, speak_line + done, speak_used - done);
		if (now < 0 && errno != EINTR)
			_exit(3);
		done += now > 0 ? (size_t)now : 0;
	}
	speak_used = 0;
}

static inline void speak_ready(void)
{
	speak_add("ready %d", getpid());
	speak_send();
}

/* Prints the reason to stderr and exits with 2: the program's own check has failed. */
__attribute__((format(printf, 1, 2), noreturn)) static inline void speak_fail(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	char text[512];
	int length = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (write(STDERR_FILENO, "WRONG: ", 7) + write(STDERR_FILENO, text, (size_t)length) +
			write(STDERR_FILENO, "\n", 1) <
		0)
		_exit(3);
	_exit(2);
}

/* Reads a file as text, as much as fits into `bytes` with the final NUL. Returns the length of the
 * text; 0: none was read. */
static inline size_t speak_read(const char *path, char *text, size_t bytes)
{
	size_t used = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	for (ssize_t got; (got = read(fd, text + used, bytes - 1 - used)) > 0;)
		used += (size_t)got;
	close(fd);
	text[used] = '\0';
	return used;
}

/* The next command; "stop" at end of input. Answers "ping" itself. Static buffer. */
static inline const char *speak_hear(void)
{
	static char line[256];
	for (;;) {
		size_t used = 0;
		for (;;) {
			ssize_t got = read(STDIN_FILENO, line + used, 1);
			if (got < 0 && errno == EINTR)
				continue;
			if (got <= 0 || used == sizeof(line) - 1)
				return "stop";
			if (line[used] == '\n')
				break;
			used++;
		}
		line[used] = '\0';
		if (strcmp(line, "ping"))
			return line;
		speak_add("pong");
		speak_send();
	}
}
