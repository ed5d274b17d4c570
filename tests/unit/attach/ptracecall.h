/* SPDX-License-Identifier: Apache-2.0
 *
 * Replaces ptrace(2) in a test program: each call of heaptap's code, in workers too, goes to
 * ptrace_called. Included once by the test program, which defines ptrace_called.
 */
#pragma once

#include <dlfcn.h>
#include <stdarg.h>
#include <sys/ptrace.h>
#include <sys/types.h>

/* Handles a call; returns -1 with errno set on failure, as ptrace(2). */
static long ptrace_called(enum __ptrace_request request, pid_t tid, void *addr, void *data);

/* The C library's ptrace. */
static long ptrace_really(enum __ptrace_request request, pid_t tid, void *addr, void *data)
{
	static long (*real)(enum __ptrace_request request, ...);
	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "ptrace");
	return real(request, tid, addr, data);
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list args;
	va_start(args, request);
	pid_t tid = va_arg(args, pid_t);
	void *addr = va_arg(args, void *), *data = va_arg(args, void *);
	va_end(args);
	return ptrace_called(request, tid, addr, data);
}
