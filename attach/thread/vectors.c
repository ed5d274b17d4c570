/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/thread/vectors.h"

#include <elf.h>
#include <errno.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

/* FXSAVE's layout, followed by what XSAVE adds; every register has a fixed place (the compacted
 * format stays inside the kernel). Intel SDM, volume 1, 13.4. */
#define REGISTERS_LO 32u  /* before: control words, and the last x87 instruction */
#define REGISTERS_HI 416u /* up to the end of the header, where XSAVE describes itself */
#define EXTENDED_LO  576u

static bool get(pid_t tid, struct vectors *vectors, int set)
{
	struct iovec iov = {.iov_base = vectors->bytes, .iov_len = sizeof(vectors->bytes)};
	bool got = ptrace(PTRACE_GETREGSET, tid, (void *)(long)set, &iov) == 0;
	vectors->set = set;
	vectors->length = got ? iov.iov_len : 0;
	return got;
}

struct ht_err *vectors_read(pid_t tid, struct vectors *ret)
{
	/* A processor without XSAVE has only the older set. Tries twice, since a single failure may
	 * be spurious. */
	if (get(tid, ret, NT_X86_XSTATE) || get(tid, ret, NT_X86_XSTATE) ||
		get(tid, ret, NT_PRFPREG) || errno == ESRCH)
		return NULL;
	return ht_err_sys(errno, "cannot read the vector registers of thread %d", tid);
}

void vectors_parts(const struct vectors *vectors, struct vectors_part ret[VECTORS_PARTS])
{
	size_t length = vectors->length;
	ret[0] = (struct vectors_part){REGISTERS_LO, length < REGISTERS_HI ? length : REGISTERS_HI};
	ret[1] = (struct vectors_part){EXTENDED_LO, length};
}

struct ht_err *vectors_write(pid_t tid, const struct vectors *vectors)
{
	struct iovec iov = {.iov_base = (void *)vectors->bytes, .iov_len = vectors->length};
	for (unsigned tries = 0; tries < 2; tries++)
		if (ptrace(PTRACE_SETREGSET, tid, (void *)(long)vectors->set, &iov) == 0 ||
			errno == ESRCH)
			return NULL;
	return ht_err_sys(errno, "cannot set the vector registers of thread %d", tid);
}
