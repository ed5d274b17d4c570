/* SPDX-License-Identifier: Apache-2.0
 *
 * The address that push sends to: its parts, and what is refused.
 */
#include "analyzer/push/address.h"

#include <string.h>

#include "tests/support/ht_check.h"

HT_TEST(parts_of_an_address)
{
	static const struct {
		const char *text, *url, *shown, *tenant, *database, *table;
	} table[] = {
		{"pyroscope+http://h:4040", "http://h:4040", "pyroscope+http://h:4040", NULL, NULL,
			NULL},
		{"pyroscope+https://u:p@h/a/?tenant=x-1", "https://u:p@h/a",
			"pyroscope+https://h/a?tenant=x-1", "x-1", NULL, NULL},
		{"pyroscope+http://u:p@q@h/", "http://u:p@q@h", "pyroscope+http://h", NULL, NULL,
			NULL},
		{"pyroscope+http://h/@a", "http://h/@a", "pyroscope+http://h/@a", NULL, NULL, NULL},
		{"clickhouse+http://h:8123/", "http://h:8123",
			"clickhouse+http://h:8123?database=default&table=heaptap", NULL, "default",
			"heaptap"},
		{"clickhouse+http://h?table=t&database=d", "http://h",
			"clickhouse+http://h?database=d&table=t", NULL, "d", "t"},
	};
	for (size_t i = 0; i < HT_ARRAY_SIZE(table); i++) {
		struct push_address address;
		struct ht_err *err = push_address_parse(table[i].text, &address);
		ck_assert_msg(!err, "%s: %s", table[i].text, err ? err->message : "");
		ck_assert_str_eq(address.url, table[i].url);
		ck_assert_str_eq(address.shown, table[i].shown);
		ck_assert_pstr_eq(address.tenant, table[i].tenant);
		ck_assert_pstr_eq(address.database, table[i].database);
		ck_assert_pstr_eq(address.table, table[i].table);
		push_address_deinit(&address);
	}
}

/* The message must not repeat any of these, which may hold a password. */
HT_TEST(what_is_no_address)
{
	static const char *const wrong[] = {"", "http://secret", "pyroscope+http://",
		"pyroscope+http://secret@", "pyroscope+http://secret@/", "pyroscope+ftp://secret",
		"pyroscope+http://h secret", "pyroscope+http://h\nsecret=1",
		"pyroscope+http://h?secret=1", "clickhouse+http://h?table=secret`",
		"clickhouse+http://h?tenant=secret", "clickhouse+http://h?table=", "@/nonexistent"};
	for (size_t i = 0; i < HT_ARRAY_SIZE(wrong); i++) {
		struct push_address address;
		struct ht_err *err = push_address_parse(wrong[i], &address);
		ck_assert_msg(err != NULL, "%s", wrong[i]);
		ck_assert_msg(!strstr(err->message, "secret"), "%s", err->message);
		ck_assert_ptr_null(address.url);
		ht_err_free(err);
	}
}

HT_SUITE("analyzer/push_address")
