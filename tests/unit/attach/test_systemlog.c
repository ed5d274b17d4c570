/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/cli/systemlog.h"

#include "tests/support/ht_check.h"

HT_TEST(the_stream_is_that_socket)
{
	ck_assert(systemlog_is("8:4711", 8, 4711));
	ck_assert(!systemlog_is("8:4711", 8, 4712));
	ck_assert(!systemlog_is("9:4711", 8, 4711));
	static const char *const odd[] = {"", "8", "8:", ":4711", "8:4711x", "8:47112", "x8:4711"};
	for (size_t i = 0; i < sizeof(odd) / sizeof(*odd); i++)
		ck_assert_msg(!systemlog_is(odd[i], 8, 4711), "%s", odd[i]);
	ck_assert(!systemlog_is(NULL, 0, 0));
}

HT_SUITE("unit/attach/systemlog")
