/* SPDX-License-Identifier: Apache-2.0
 *
 * Where windows are pushed to, as the user wrote it:
 *
 *      pyroscope+http://[USER:PASSWORD@]HOST[:PORT][/PATH][?tenant=ID]
 *      clickhouse+http://[USER:PASSWORD@]HOST[:PORT][/PATH][?database=NAME&table=NAME]
 *      @FILE   the first line of FILE, so that a list of processes shows no password
 *
 * https in place of http encrypts.
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

enum push_kind { PUSH_PYROSCOPE, PUSH_CLICKHOUSE };

/* Zero-initialised is empty and valid. */
struct push_address {
	enum push_kind kind;
	char *url;   /* http or https, without its query and a slash at the end; may hold a password
		      */
	char *shown; /* the whole without user and password: for messages, and what tells addresses
			apart */
	char *tenant;		/* of Pyroscope, or NULL */
	char *database, *table; /* of ClickHouse */
};

/* HT_ERR_USAGE, without a word of user or password, where `text` is no such address. */
HT_MUST_CHECK
struct ht_err *push_address_parse(const char *text, struct push_address *ret);
void push_address_deinit(struct push_address *address);
