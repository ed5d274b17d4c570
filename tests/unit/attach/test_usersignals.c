/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/steer/usersignals.h"

#include <signal.h>

#include "tests/support/ht_check.h"

HT_TEST(a_snapshot_is_named_after_its_trace)
{
	char name[40];
	ck_assert(usersignals_name("/tmp/x.htap", name, sizeof(name)));
	ck_assert_str_eq(name, "/tmp/x.snapshot.%n.htap");
	ck_assert(usersignals_name("/tmp/100%p", name, sizeof(name)));
	ck_assert_str_eq(name, "/tmp/100%%p.snapshot.%n.htap");
	ck_assert(usersignals_name(".htap", name, sizeof(name)));
	ck_assert_str_eq(name, ".htap.snapshot.%n.htap");
	/* A name of 39 bytes fits, one of 40 does not: the last byte is the terminator's. */
	ck_assert(usersignals_name("/tmp/01234567890123456", name, sizeof(name)));
	ck_assert(!usersignals_name("/tmp/012345678901234567", name, sizeof(name)));
	ck_assert(!usersignals_name(
		"/tmp/0123456789012345678901234567890123456789", name, sizeof(name)));
}

HT_TEST(signals_are_taken_once)
{
	struct usersignals signals;
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGUSR2);
	ck_assert_int_eq(sigprocmask(SIG_BLOCK, &set, NULL), 0);
	usersignals_open(&signals);
	ck_assert_int_eq(raise(SIGUSR2), 0);
	struct usersignals_taken taken = usersignals_take(&signals);
	ck_assert(taken.pause && !taken.snapshot);
	taken = usersignals_take(&signals);
	ck_assert(!taken.pause && !taken.snapshot);
	usersignals_close(&signals);
	ck_assert_int_eq(signals.fd, -1);
}

HT_SUITE("unit/attach/usersignals")
