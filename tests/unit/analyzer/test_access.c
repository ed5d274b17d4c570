/* SPDX-License-Identifier: Apache-2.0
 *
 * Which requests a server answers: Host, Origin, token.
 */
#include "analyzer/serve/access.h"

#include <string.h>

#include "tests/support/ht_check.h"

static struct access access_on(uint16_t port)
{
	struct access access;
	ck_no_err(access_init(&access, port));
	return access;
}

static bool is_answered(const struct access *access, struct access_claim claim)
{
	struct ht_err *err = access_check(access, &claim);
	ck_assert(!err || err->code == HT_ERR_PERMISSION);
	bool ret = !err;
	ht_err_free(err);
	return ret;
}

HT_TEST(tokens_are_random)
{
	struct access one = access_on(1), two = access_on(1);
	ck_assert_uint_eq(strlen(one.token), ACCESS_TOKEN_BYTES);
	ck_assert_uint_eq(strspn(one.token, "0123456789abcdef"), ACCESS_TOKEN_BYTES);
	ck_assert_str_ne(one.token, two.token);
}

HT_TEST(the_token_decides)
{
	const struct access access = access_on(8123);
	char near[ACCESS_TOKEN_BYTES + 1], *more = near;
	const char *host = "127.0.0.1:8123";
	memcpy(near, access.token, sizeof(near));
	near[ACCESS_TOKEN_BYTES - 1] ^= 1;
	ck_assert(is_answered(&access, (struct access_claim){host, NULL, access.token, NULL, 0}));
	ck_assert(is_answered(&access, (struct access_claim){host, NULL, NULL, access.token, 0}));
	ck_assert(is_answered(&access, (struct access_claim){host, NULL, access.token, NULL, 1}));
	ck_assert(!is_answered(&access, (struct access_claim){host, NULL, NULL, access.token, 1}));
	ck_assert(!is_answered(&access, (struct access_claim){host, NULL, NULL, NULL, 0}));
	ck_assert(!is_answered(&access, (struct access_claim){host, NULL, "", "", 0}));
	ck_assert(!is_answered(&access, (struct access_claim){host, NULL, more, more, 0}));
	near[ACCESS_TOKEN_BYTES - 1] = '\0';
	ck_assert(!is_answered(&access, (struct access_claim){host, NULL, more, more, 0}));
}

HT_TEST(other_names_are_not_answered)
{
	static const struct {
		const char *host, *origin;
		bool is_answered;
	} row[] = {
		{"127.0.0.1:8123", NULL, true},
		{"localhost:8123", NULL, true},
		{"LocalHost:8123", "http://localhost:8123", true},
		{"[::1]:8123", "http://[::1]:8123", true},
		{NULL, NULL, false},
		{"", NULL, false},
		{"127.0.0.1", NULL, false},
		{"127.0.0.1:8124", NULL, false},
		{"127.0.0.1:81234", NULL, false},
		{"evil.example:8123", NULL, false},
		{"127.0.0.1:8123.evil.example", NULL, false},
		{"127.0.0.1:8123", "http://evil.example", false},
		{"127.0.0.1:8123", "https://127.0.0.1:8123", false},
		{"127.0.0.1:8123", "http://127.0.0.1:9999", false},
		{"127.0.0.1:8123", "null", false},
		{"127.0.0.1:8123", "", false},
	};
	const struct access access = access_on(8123);
	for (size_t i = 0; i < HT_ARRAY_SIZE(row); i++)
		ck_assert_msg(
			is_answered(&access, (struct access_claim){row[i].host, row[i].origin,
						     access.token, NULL, 0}) == row[i].is_answered,
			"%s, %s", row[i].host ? row[i].host : "-",
			row[i].origin ? row[i].origin : "-");
	const struct access http = access_on(80);
	ck_assert(is_answered(&http,
		(struct access_claim){"127.0.0.1", "http://localhost", http.token, NULL, 1}));
}

HT_SUITE("unit/analyzer/access")
