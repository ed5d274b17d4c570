/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/ht_check.h"

#include <stdlib.h>
#include <string.h>

/* Far beyond any test's duration, sanitizers and a busy machine included. */
#define TEST_TIMEOUT_S 120

int ht_suite_run(const char *name, const TTest *const *tests, size_t count)
{
	Suite *suite = suite_create(name);
	/* A case each, so that CK_RUN_CASE picks one test. */
	for (size_t i = 0; i < count; i++) {
		TCase *tcase = tcase_create(tests[i]->name);
		tcase_set_timeout(tcase, TEST_TIMEOUT_S);
		tcase_add_test(tcase, tests[i]);
		suite_add_tcase(suite, tcase);
	}
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

void ht_check_need(bool condition, const char *text, const char *file, int line)
{
	if (!condition)
		ck_abort_msg("%s:%d: %s", file, line, text);
}

void ht_check_no_err(struct ht_err *err, const char *expr, const char *file, int line)
{
	if (err)
		ck_abort_msg("%s:%d: %s: %s", file, line, expr, err->message);
}

void ht_check_err(struct ht_err *err, enum ht_err_code code, const char *text, const char *expr,
	const char *file, int line)
{
	if (!err)
		ck_abort_msg("%s:%d: %s: no error", file, line, expr);
	if (err->code != code || !strstr(err->message, text))
		ck_abort_msg("%s:%d: %s: expected code %d and \"%s\", got %d: %s", file, line, expr,
			(int)code, text, (int)err->code, err->message);
	ht_err_free(err);
}
