/* SPDX-License-Identifier: Apache-2.0
 *
 * The agent's only access to the kernel and the processor: system calls, thread pointer, clock.
 * Calls return the kernel's own value, negative for an error; errno does not exist here. The hosted
 * build of the unit tests includes tests/hosted/agent/sys.h instead.
 */
#pragma once

#include "format/base.h"

/* Numbers of the kernel's ABI, because the agent includes no system header. */
enum sys_number {
	SYS_GETPID = 39,
	SYS_SENDMSG = 46,
	SYS_GETSOCKOPT = 55,
	SYS_SIGALTSTACK = 131,
	SYS_PRCTL = 157,
	SYS_ARCH_PRCTL = 158,
	SYS_GETTID = 186,
	SYS_PPOLL = 271,
	SYS_PROCESS_VM_READV = 310,
};

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
#define SYS_SOL_SOCKET	 1
#define SYS_SO_COOKIE	 57
#define SYS_POLLOUT	 4
#define SYS_GET_TSC	 25
#define SYS_GET_FS	 0x1003
#define SYS_TSC_SIGSEGV	 2

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

static inline long sys_call5(
	enum sys_number number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
	register uint64_t r10 __asm__("r10") = d;
	register uint64_t r8 __asm__("r8") = e;
	long ret;
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"((long)number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return ret;
}

static inline long sys_call6(enum sys_number number, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
	uint64_t e, uint64_t f)
{
	register uint64_t r10 __asm__("r10") = d;
	register uint64_t r8 __asm__("r8") = e;
	register uint64_t r9 __asm__("r9") = f;
	long ret;
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"((long)number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

static inline long sys_getpid(void)
{
	return sys_call5(SYS_GETPID, 0, 0, 0, 0, 0);
}

static inline long sys_gettid(void)
{
	return sys_call5(SYS_GETTID, 0, 0, 0, 0, 0);
}

#define SYS_SS_ONSTACK	  1
#define SYS_SS_DISABLE	  2
#define SYS_SS_AUTODISARM 0x80000000u

/* SS_* flags of the thread's signal stack; SS_ONSTACK if the kernel does not return them. */
static inline int32_t sys_signal_stack_flags(void)
{
	struct {
		void *base;
		int32_t flags;
		uint64_t bytes;
	} old = {0};
	return sys_call5(SYS_SIGALTSTACK, 0, (uint64_t)&old, 0, 0, 0) ? SYS_SS_ONSTACK : old.flags;
}

/* Whether the calling thread is forbidden to read the time stamp counter (PR_SET_TSC). */
static inline bool sys_tsc_forbidden(void)
{
	int32_t mode = 0;
	sys_call5(SYS_PRCTL, SYS_GET_TSC, (uint64_t)&mode, 0, 0, 0);
	return mode == SYS_TSC_SIGSEGV;
}

/* The address of the thread control block as the kernel knows it; 0: unknown. */
static inline uint64_t sys_thread_base(void)
{
	uint64_t base = 0;
	return sys_call5(SYS_ARCH_PRCTL, SYS_GET_FS, (uint64_t)&base, 0, 0, 0) == 0 ? base : 0;
}

static inline long sys_sendmsg(int fd, const struct sys_msghdr *message, int flags)
{
	return sys_call5(SYS_SENDMSG, (uint64_t)fd, (uint64_t)message, (uint64_t)flags, 0, 0);
}

/* SO_COOKIE of `fd`, or a negative error. */
static inline long sys_socket_cookie(int fd, uint64_t *ret)
{
	uint32_t bytes = sizeof(*ret);
	return sys_call5(SYS_GETSOCKOPT, (uint64_t)fd, SYS_SOL_SOCKET, SYS_SO_COOKIE, (uint64_t)ret,
		(uint64_t)&bytes);
}

/* Waits at most `wait` until `fd` accepts a message; if `fd` is negative, only sleeps. */
static inline long sys_wait_writable(int fd, struct sys_timespec wait)
{
	struct {
		int32_t fd;
		int16_t events, revents;
	} poll = {.fd = fd, .events = SYS_POLLOUT};
	return sys_call5(SYS_PPOLL, (uint64_t)&poll, 1, (uint64_t)&wait, 0, 0);
}

static inline long sys_process_vm_readv(long pid, const struct sys_iovec *local,
	const struct sys_iovec *remote, uint64_t remote_count)
{
	return sys_call6(SYS_PROCESS_VM_READV, (uint64_t)pid, (uint64_t)local, 1, (uint64_t)remote,
		remote_count, 0);
}

/* The direction flag and the alignment check flag. */
#define SYS_FLAGS_ODD ((uint64_t)(1u << 10 | 1u << 18))

static inline uint64_t sys_flags(void)
{
	return __builtin_ia32_readeflags_u64();
}

/* The first word of the thread control block; by the ABI, its own address. */
static inline uint64_t sys_thread_pointer(void)
{
	uint64_t ret;
	__asm__ volatile("mov %%fs:0, %0" : "=r"(ret));
	return ret;
}

/* The time stamp counter. The processor may read it before some hundred earlier instructions have
 * finished. */
static inline uint64_t sys_tsc_early(void)
{
	uint32_t lo, hi;
	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi) : : "memory");
	return (uint64_t)hi << 32 | lo;
}

/*
 * The time stamp counter, read after all earlier loads have finished. rdtscp would do this too, but
 * old processors and some virtual machines lack it.
 */
static inline uint64_t sys_tsc(void)
{
	__asm__ volatile("lfence" : : : "memory");
	return sys_tsc_early();
}

static inline void sys_pause(void)
{
	__asm__ volatile("pause" : : : "memory");
}

/* The agent's own machine code; from `*ret_frames_lo` on, every function has a frame. */
static inline void sys_agent_code(uint64_t *ret_lo, uint64_t *ret_frames_lo, uint64_t *ret_hi)
{
	extern const uint8_t agent_code_lo[] HT_HIDDEN, agent_frames_lo[] HT_HIDDEN,
		agent_code_hi[] HT_HIDDEN; /* agent.lds */
	*ret_lo = (uint64_t)agent_code_lo;
	*ret_frames_lo = (uint64_t)agent_frames_lo;
	*ret_hi = (uint64_t)agent_code_hi;
}
