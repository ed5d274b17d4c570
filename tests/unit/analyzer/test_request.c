/* SPDX-License-Identifier: Apache-2.0
 *
 * The address of an HTTP request, as text: what is decoded, and what is refused.
 */
#include "analyzer/serve/request.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/ht_check.h"

HT_TEST(parameters_are_decoded)
{
	struct request request;
	size_t number;
	ck_no_err(request_parse("/a%20b/c?from=+10s&x&function=a%26b%3d&from=2&&y=", &request));
	ck_assert_str_eq(request.path, "/a b/c");
	ck_assert_uint_eq(request.count, 5);
	ck_assert_str_eq(request.parameter[0].value, "+10s");
	ck_assert_str_eq(request_value(&request, "from"), "2");
	ck_assert_str_eq(request_value(&request, "function"), "a&b=");
	ck_assert_str_eq(request_value(&request, "x"), "");
	ck_assert_str_eq(request_value(&request, "y"), "");
	ck_assert_ptr_null(request_value(&request, "z"));
	ck_no_err(request_index(&request, "from", 3, 0, &number));
	ck_assert_uint_eq(number, 2);
	ck_no_err(request_index(&request, "z", 3, 1, &number));
	ck_assert_uint_eq(number, 1);
	request_deinit(&request);
}

HT_TEST(a_bad_address_is_refused)
{
	static const char *const bad[] = {
		"",
		"a",
		"*",
		"http://x/",
		"/%",
		"/%4",
		"/%zz",
		"/a?%",
		"/a?b=%0",
		"/a?b=%0ac",
		"/a?b=%00",
		"/a%7f",
		"/\x01",
	};
	struct request request;
	for (size_t i = 0; i < HT_ARRAY_SIZE(bad); i++) {
		struct ht_err *err = request_parse(bad[i], &request);
		ck_assert_msg(err && err->code == HT_ERR_USAGE, "%s is taken", bad[i]);
		ck_assert_ptr_null(request.text);
		ht_err_free(err);
	}
}

HT_TEST(refuses_oversized_requests)
{
	struct request request;
	HT_FREED char *text = malloc(REQUEST_BYTES_MAX + 2);
	memset(text, '&', REQUEST_BYTES_MAX + 1);
	text[REQUEST_BYTES_MAX + 1] = '\0';
	text[0] = '/';
	struct ht_err *err = request_parse(text, &request);
	ck_assert(err && err->code == HT_ERR_USAGE);
	ht_err_free(err);
	text[1] = '?';
	for (size_t i = 0; i <= REQUEST_PARAMETERS_MAX; i++)
		memcpy(text + 2 + 2 * i, "a&", 3);
	err = request_parse(text, &request);
	ck_assert(err && err->code == HT_ERR_USAGE);
	ht_err_free(err);
	text[2 + 2 * REQUEST_PARAMETERS_MAX] = '\0';
	ck_no_err(request_parse(text, &request));
	request_deinit(&request);
}

HT_TEST(an_index_is_one_of_the_traces)
{
	static const char *const bad[] = {
		"/?t=3", "/?t=-1", "/?t=", "/?t=1x", "/?t=99999999999999999999999"};
	struct request request;
	size_t number;
	for (size_t i = 0; i < HT_ARRAY_SIZE(bad); i++) {
		ck_no_err(request_parse(bad[i], &request));
		struct ht_err *err = request_index(&request, "t", 3, 0, &number);
		ck_assert_msg(err && err->code == HT_ERR_USAGE, "%s is taken", bad[i]);
		ht_err_free(err);
		request_deinit(&request);
	}
	/* A default that is not there is an error, too. */
	ck_no_err(request_parse("/", &request));
	struct ht_err *err = request_index(&request, "trace", 1, 1, &number);
	ck_assert_ptr_nonnull(err);
	ck_assert_str_eq(err->message, "trace=: there is 1 trace, from 0 on");
	ht_err_free(err);
	request_deinit(&request);
}

HT_SUITE("unit/analyzer/request")
