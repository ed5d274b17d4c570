/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's interface to kernel and processor in hosted tests: the same functions as agent/sys.h,
 * with results from `sys_fake`, which the test program defines (tests/unit/agent/world.h).
 */
#pragma once

#include "format/base.h"

enum sys_error {
	SYS_EINTR = 4,
	SYS_EAGAIN = 11,
	SYS_ENOMEM = 12,
	SYS_EFAULT = 14,
	SYS_EINVAL = 22,
	SYS_EPIPE = 32,
	SYS_ENOBUFS = 105,
};

#define SYS_MSG_DONTWAIT 0x40
#define SYS_MSG_NOSIGNAL 0x4000
#define SYS_MSG_FASTOPEN 0x20000000

struct sys_iovec {
	void *base;
	uint64_t bytes;
};

struct sys_msghdr {
	void *name;
	uint64_t name_bytes;
	struct sys_iovec *iov;
	uint64_t iov_count;
	void *control;
	uint64_t control_bytes;
	uint64_t flags;
};

struct sys_timespec {
	int64_t sec, nsec;
};

struct sys_fake {
	unsigned calls; /* system calls of any kind */
	long (*sendmsg)(int fd, const struct sys_msghdr *message, int flags);
	long (*wait_writable)(int fd);
	void (*pause)(void);
	uint64_t cookie;
	uint64_t tsc;	    /* result of the next reading of the clock */
	uint64_t tsc_step;  /* added after each reading */
	uint64_t fences;    /* ordered readings (after a fence) */
	uint64_t tsc_early; /* how much smaller unordered readings are */
	uint32_t tid;	    /* result of gettid */
	int32_t signal_stack_flags;
	bool tsc_forbidden;
	uint64_t flags;	 /* processor flags of the calling thread */
	uint64_t astray; /* distance from the TCB to the address in its first word; 0 in a valid TCB
			  */
	/* The memory that process_vm_readv can read. */
	const uint8_t *readable;
	uint64_t readable_bytes;
	/* The agent's own code. */
	uint64_t code_lo, code_frames_lo, code_hi;
};

extern struct sys_fake sys_fake;
/* The address of the calling thread's fake TCB, in which tests keep the tid. */
extern _Thread_local uint64_t sys_fake_thread_pointer;

static inline long sys_getpid(void)
{
	sys_fake.calls++;
	return 1;
}

static inline long sys_gettid(void)
{
	sys_fake.calls++;
	return sys_fake.tid;
}

#define SYS_SS_ONSTACK	  1
#define SYS_SS_DISABLE	  2
#define SYS_SS_AUTODISARM 0x80000000u

static inline int32_t sys_signal_stack_flags(void)
{
	sys_fake.calls++;
	return sys_fake.signal_stack_flags;
}

static inline bool sys_tsc_forbidden(void)
{
	sys_fake.calls++;
	return sys_fake.tsc_forbidden;
}

static inline uint64_t sys_thread_base(void)
{
	sys_fake.calls++;
	return sys_fake_thread_pointer - sys_fake.astray;
}

static inline long sys_sendmsg(int fd, const struct sys_msghdr *message, int flags)
{
	sys_fake.calls++;
	return sys_fake.sendmsg ? sys_fake.sendmsg(fd, message, flags) : -SYS_EPIPE;
}

static inline long sys_socket_cookie(int fd, uint64_t *ret)
{
	(void)fd;
	sys_fake.calls++;
	*ret = sys_fake.cookie;
	return 0;
}

static inline long sys_wait_writable(int fd, struct sys_timespec wait)
{
	(void)wait;
	sys_fake.calls++;
	return sys_fake.wait_writable ? sys_fake.wait_writable(fd) : 0;
}

/* Like the kernel, stops before the first piece that is not completely readable. */
static inline long sys_process_vm_readv(long pid, const struct sys_iovec *local,
	const struct sys_iovec *remote, uint64_t remote_count)
{
	uint64_t copied = 0;
	(void)pid;
	sys_fake.calls++;
	for (uint64_t i = 0; i < remote_count; i++) {
		uint64_t offset = (uint64_t)remote[i].base - (uint64_t)sys_fake.readable;
		if (offset >= sys_fake.readable_bytes ||
			remote[i].bytes > sys_fake.readable_bytes - offset)
			break;
		__builtin_memcpy((uint8_t *)local->base + copied, remote[i].base, remote[i].bytes);
		copied += remote[i].bytes;
	}
	return copied ? (long)copied : -SYS_EFAULT;
}

#define SYS_FLAGS_ODD 0xf0000u

static inline uint64_t sys_flags(void)
{
	return sys_fake.flags;
}

static inline uint64_t sys_thread_pointer(void)
{
	return sys_fake_thread_pointer;
}

static inline uint64_t sys_tsc(void)
{
	sys_fake.fences++;
	return __atomic_fetch_add(&sys_fake.tsc, sys_fake.tsc_step, __ATOMIC_RELAXED);
}

static inline uint64_t sys_tsc_early(void)
{
	return __atomic_fetch_add(&sys_fake.tsc, sys_fake.tsc_step, __ATOMIC_RELAXED) -
	       sys_fake.tsc_early;
}

static inline void sys_pause(void)
{
	if (sys_fake.pause)
		sys_fake.pause();
}

static inline void sys_agent_code(uint64_t *ret_lo, uint64_t *ret_frames_lo, uint64_t *ret_hi)
{
	*ret_lo = sys_fake.code_lo;
	*ret_frames_lo = sys_fake.code_frames_lo;
	*ret_hi = sys_fake.code_hi;
}
