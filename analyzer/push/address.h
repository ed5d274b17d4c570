/* SPDX-License-Identifier: Apache-2.0
 *
 * The address to which windows are pushed, as the user writes it, with https for an encrypted
 * connection:
 *
 *      pyroscope+http://[USER:PASSWORD@]HOST[:PORT][/PATH][?tenant=ID]
 *
 *      clickhouse+http://[USER:PASSWORD@]HOST[:PORT][/PATH][?database=NAME&table=NAME]
 *
 *      @FILE: the first line of FILE is the address; then ps shows no password
 */
#pragma once

#include "format/base.h"
#include "format/err.h"

enum push_kind { PUSH_PYROSCOPE, PUSH_CLICKHOUSE };

/* Zero-initialised is empty and valid. */
struct push_address {
	enum push_kind kind;
	char *url;    /* http or https, without query and final slash; may contain a password */
	char *shown;  /* the address without user and password: for messages, and to identify the
			 spool */
	char *tenant; /* of Pyroscope, or NULL */
	/* Of ClickHouse, otherwise NULL; "default" and "heaptap" if not given. */
	char *database, *table;
};

/* HT_ERR_USAGE if `text` is no such address, HT_ERR_SYS if FILE cannot be opened. The message never
 * contains user or password. */
HT_MUST_CHECK
struct ht_err *push_address_parse(const char *text, struct push_address *ret);
void push_address_deinit(struct push_address *address);
