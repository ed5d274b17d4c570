/* SPDX-License-Identifier: Apache-2.0 */
#include "format/reader.h"

#include <string.h>
#include <unistd.h>

#include "format/event.h"
#include "tests/support/ht_check.h"
#include "tests/support/tracebuild.h"

START_TEST(smoke)
{
	struct tracebuild b;
	tracebuild_init(&b);
	tracebuild_start(&b, 7, 100, 200);
	tracebuild_module(&b, 1, "/bin/x", "abc", 0x1000, 0x2000);
	uint32_t s = tracebuild_stack(&b, (uint64_t[]){0x1111, 0x1222}, 2);
	ck_assert_uint_eq(s, 2);
	struct eventbuild e = {0};
	eventbuild_thread(&e, 7, 0);
	eventbuild_alloc(&e, ABI_EVENT_ALLOC, 0, 300, 0x7f0000001230, 77, s);
	tracebuild_events(&b, 0, &e);
	tracebuild_sync(&b, 400, 500);
	tracebuild_end(&b, REC_END_DURATION, 600, 700);
	int fd = tracebuild_finish(&b);
	struct trace_reader *r;
	ck_no_err(trace_reader_create(fd, "mem", &r));
	struct rec rec;
	enum trace_end end;
	int n = 0;
	for (;;) {
		ck_no_err(trace_reader_next(r, &rec, &end));
		if (end != TRACE_MORE)
			break;
		n++;
	}
	ck_assert_ptr_null(trace_reader_problem(r));
	ck_assert_int_eq(end, TRACE_COMPLETE);
	ck_assert_int_eq(n, 8);
	trace_reader_destroy(r);
	eventbuild_deinit(&e);
	tracebuild_deinit(&b);
}
END_TEST

HT_SUITE("format/reader", smoke)
