/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/deny.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include "tests/support/ht_check.h"

static void install(struct sock_filter *filter, size_t count)
{
	const struct sock_fprog program = {(unsigned short)count, filter};
	ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	ck_assert_int_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

void deny_calls(long number, int error)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	install(filter, HT_ARRAY_SIZE(filter));
}

void deny_calls_with(long number, unsigned arg, uint32_t value, int error)
{
	uint32_t at = (uint32_t)(offsetof(struct seccomp_data, args) + arg * sizeof(uint64_t));
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	install(filter, HT_ARRAY_SIZE(filter));
}

static rlim_t limit_files(rlim_t files)
{
	struct rlimit limit;
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	rlim_t usual = limit.rlim_cur;
	limit.rlim_cur = files;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	return usual;
}

rlim_t deny_files(void)
{
	return limit_files(0);
}

void allow_files(rlim_t usual)
{
	(void)limit_files(usual);
}
