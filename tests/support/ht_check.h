/* SPDX-License-Identifier: Apache-2.0
 *
 * For every test program: a main in one line, and checks for struct ht_err.
 */
#pragma once

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "format/array.h"
#include "format/err.h"

/* HT_TEST(what_holds) { ... }: defines a test and puts it into the section ht_tests, where HT_SUITE
 * finds it. */
#define HT_TEST(name)                                                                              \
	static void name##_run(int);                                                               \
	static const TTest name##_test = {#name, name##_run, __FILE__, __LINE__};                  \
	static const TTest *const name HT_AMONG_TESTS = &name##_test;                              \
	static void name##_run(int index_ CK_ATTRIBUTE_UNUSED)

#define HT_AMONG_TESTS __attribute__((used, section("ht_tests")))

/* The linker defines both: start and end of the section ht_tests. */
extern const TTest *const __start_ht_tests[], *const __stop_ht_tests[];

/* HT_SUITE("format/bytes"): the main of a test program, which runs its tests in their order in the
 * file. */
#define HT_SUITE(name)                                                                             \
	int main(void)                                                                             \
	{                                                                                          \
		return ht_suite_run_all(name, __start_ht_tests, __stop_ht_tests, NULL, 0);         \
	}

/* HT_SUITE_WAITING("x", slow_one, slow_two): the tests named here, which mostly wait, run side by
 * side before the others. CK_RUN_CASE and CK_FORK=no turn that off. */
#define HT_SUITE_WAITING(name, ...)                                                                \
	int main(void)                                                                             \
	{                                                                                          \
		const TTest *const waiting[] = {__VA_ARGS__};                                      \
		return ht_suite_run_all(                                                           \
			name, __start_ht_tests, __stop_ht_tests, waiting, HT_ARRAY_SIZE(waiting)); \
	}

/* Runs each test in a process of its own. Returns the exit status. */
int ht_suite_run(const char *name, const TTest *const *tests, size_t count);
/* Like ht_suite_run, but all tests run at once, each as a suite of its own. The output of a test is
 * printed when the test has ended. */
int ht_suite_run_aside(const char *name, const TTest *const *tests, size_t count);
/* Runs the tests `waiting` with ht_suite_run_aside, then the other tests from `tests` to `end` with
 * ht_suite_run. */
int ht_suite_run_all(const char *name, const TTest *const *tests, const TTest *const *end,
	const TTest *const *waiting, size_t waiting_count);

/* Fails the test with the message of the error, if `expr` gives one. */
#define ck_no_err(expr) ht_check_no_err((expr), #expr, __FILE__, __LINE__)

/* Fails the test unless `expr` gives an error of this code; frees it. */
#define ck_err(expr, code) ht_check_err((expr), (code), "", #expr, __FILE__, __LINE__)

/* As ck_err, and the message must contain `text`. */
#define ck_err_says(expr, code, text)                                                              \
	ht_check_err((expr), (code), (text), #expr, __FILE__, __LINE__)

/* As ck_assert, and works outside a test too: for builders that fuzzers and benchmarks share. */
#define ck_need(condition) ht_check_need((condition), #condition, __FILE__, __LINE__)

void ht_check_need(bool condition, const char *text, const char *file, int line);
void ht_check_no_err(struct ht_err *err, const char *expr, const char *file, int line);
void ht_check_err(struct ht_err *err, enum ht_err_code code, const char *text, const char *expr,
	const char *file, int line);
