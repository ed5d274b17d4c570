/* SPDX-License-Identifier: Apache-2.0 */
#include "format/err.h"

#include <errno.h>

#include "tests/support/ht_check.h"

HT_TEST(an_error_carries_code_and_message)
{
	struct ht_err *err = ht_err_new(HT_ERR_REFUSED, "pid %d is a kernel thread", 2);
	ck_assert_int_eq(err->code, HT_ERR_REFUSED);
	ck_assert_int_eq(err->sys, 0);
	ck_assert_str_eq(err->message, "pid 2 is a kernel thread");
	ht_err_free(err);
}

HT_TEST(a_system_error_names_its_reason)
{
	struct ht_err *err = ht_err_sys(ENOENT, "cannot open %s", "x");
	ck_assert_int_eq(err->code, HT_ERR_SYS);
	ck_assert_int_eq(err->sys, ENOENT);
	ck_assert_str_eq(err->message, "cannot open x: No such file or directory");
	ht_err_free(err);
}

HT_TEST(context_stands_before_the_message)
{
	struct ht_err *err = ht_err_new(HT_ERR_FORMAT, "bad magic");
	err = ht_err_wrap(err, "reading %s", "trace");
	ck_assert_int_eq(err->code, HT_ERR_FORMAT);
	ck_assert_str_eq(err->message, "reading trace: bad magic");
	ht_err_free(err);
	ck_assert_ptr_null(ht_err_wrap(NULL, "reading %s", "trace"));
	ht_err_free(NULL);
}

HT_TEST(the_first_of_two_errors_is_kept)
{
	struct ht_err *first = ht_err_new(HT_ERR_SYS, "first");
	ck_assert_ptr_eq(ht_err_first(first, ht_err_new(HT_ERR_SYS, "second")), first);
	ck_assert_ptr_eq(ht_err_first(first, NULL), first);
	ck_assert_ptr_eq(ht_err_first(NULL, first), first);
	ck_assert_ptr_null(ht_err_first(NULL, NULL));
	ht_err_free(first);
}

HT_TEST(a_dropped_error_was_one)
{
	ck_assert(ht_err_drop(ht_err_new(HT_ERR_SYS, "dropped")));
	ck_assert(!ht_err_drop(NULL));
}

HT_SUITE("format/err")
