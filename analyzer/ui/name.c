/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/name.h"

#include <stdio.h>
#include <string.h>

#include "analyzer/symbols/wrapper.h"
#include "analyzer/ui/text.h"

static void copy(const char *from, char ret[NAME_BYTES])
{
	const size_t length = strlen(from), half = NAME_BYTES / 2 - 4;
	if (length < NAME_BYTES)
		snprintf(ret, NAME_BYTES, "%s", from);
	else
		snprintf(ret, NAME_BYTES, "%.*s...%s", (int)half, from, from + length - half);
}

/* The start of the parameters, as "(int) const" in "f(int) const". NULL: none; parentheses of
 * operator() and (anonymous namespace) are not parameters. */
static char *parameters(char *name)
{
	char *end = strrchr(name, ')');
	int depth = 0;
	if (!end || strpbrk(end, ":>}]"))
		return NULL;
	for (char *at = end;; at--) {
		depth += *at == ')';
		depth -= *at == '(';
		if (depth == 0 && *at == '(') {
			const bool is_operator = at - name >= 8 && !strncmp(at - 8, "operator", 8);
			return at == name || is_operator || !strncmp(at, "(anonymous", 10) ? NULL
											   : at;
		}
		if (at == name)
			return NULL;
	}
}

/* An angle bracket of a template, not of operator< or ->. */
static bool is_bracket(const char *name, const char *at)
{
	if (at > name && at[-1] == '-')
		return false;
	for (const char *back = at; back - name >= 8; back--) {
		if (!strncmp(back - 8, "operator", 8))
			return false;
		if (back[-1] != '<' && back[-1] != '>' && back[-1] != '=')
			break;
	}
	return true;
}

/* Drops the text between outer angle brackets. In Rust's "<T as Trait>::f" it keeps the leading
 * bracket and drops only inner ones. */
static void drop_arguments(char *name)
{
	const int kept = name[0] == '<';
	char *to = name;
	int depth = 0;
	bool is_open = kept;
	for (char *at = name; *at; at++) {
		const bool opens = *at == '<' && is_bracket(name, at);
		const bool closes = *at == '>' && depth && is_bracket(name, at);
		depth -= closes;
		if (depth == 0 && closes && is_open && kept) {
			is_open = false;
			*to++ = *at;
		} else if (depth <= (is_open ? kept : 0)) {
			*to++ = *at;
		}
		depth += opens;
	}
	*to = '\0';
}

/* "..Table::Open": leaves out outer namespaces until it fits, or until only the name is left. */
static void drop_namespaces(char *name, size_t columns)
{
	char *at = name;
	if (strpbrk(name, "<> "))
		return;
	for (char *next; (next = strstr(at, "::")) && next[2];) {
		at = next + 2;
		if (text_columns(at) + 2 <= columns)
			break;
	}
	if (at - name < 3)
		return;
	memmove(name + 2, at, strlen(at) + 1);
	memcpy(name, "..", 2);
}

void name_shorten(const char *function, size_t columns, char ret[NAME_BYTES])
{
	copy(function, ret);
	if (text_columns(ret) <= columns)
		return;
	copy(wrapper_name(function), ret);
	if (text_columns(ret) <= columns)
		return;
	char *at = parameters(ret);
	if (at)
		*at = '\0';
	if (text_columns(ret) > columns)
		drop_arguments(ret);
	if (text_columns(ret) > columns)
		drop_namespaces(ret, columns);
}
