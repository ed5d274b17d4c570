/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/demangle.h"

#include <libiberty/demangle.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/base.h"

/* No compiler makes longer names; demangling time can grow much faster than the name. */
#define MANGLED_MAX 65536u

static const char call[] = "::operator()";

/* Returns what follows the brackets that open at `at`; NULL: they do not close. */
static const char *skip_brackets(const char *at, char open, char close)
{
	size_t depth = 0;
	for (; *at; at++) {
		depth += *at == open;
		depth -= *at == close;
		if (depth == 0)
			return at + 1;
	}
	return NULL;
}

/* The call operator that ends `name`: only its parameters, after template arguments for a generic
 * lambda, may follow. */
static const char *find_call(const char *name)
{
	const char *found = NULL;
	for (const char *at = name; (at = strstr(at, call)); at++)
		found = at;
	const char *end = found ? found + sizeof(call) - 1 : NULL;
	if (end && *end == '<')
		end = skip_brackets(end, '<', '>');
	if (end && *end == '(')
		end = skip_brackets(end, '(', ')');
	else
		end = NULL;
	return end && (!*end || !strcmp(end, " const")) ? found : NULL;
}

/* Demangled names of templates begin with the return type. */
static const char *skip_return_type(const char *name, const char *end)
{
	const char *from = name;
	size_t depth = 0;
	for (const char *at = name; at < end; at++) {
		depth += *at == '(' || *at == '<' || *at == '{';
		depth -= depth && (*at == ')' || *at == '>' || *at == '}');
		if (*at == ' ' && depth == 0 && strncmp(at, " const", 6) != 0)
			from = at + 1;
	}
	return from;
}

/* The beginning of a lambda type that ends at `end`: "{lambda(int)#1}", or clang's "$_1". */
static const char *find_lambda(const char *name, const char *end)
{
	const char *at = end;
	size_t depth = 0;
	if (at > name && at[-1] == '}') {
		do {
			at--;
			depth += *at == '}';
			depth -= *at == '{';
		} while (at > name && depth);
		return !strncmp(at, "{lambda(", 8) ? at : NULL;
	}
	while (at > name && at[-1] >= '0' && at[-1] <= '9')
		at--;
	return at < end && at - name > 2 && !strncmp(at - 2, "$_", 2) ? at - 2 : NULL;
}

/* "main::{lambda(int)#1}::operator()(int) const" is "lambda in main()". NULL: not a lambda. */
static char *name_lambda(const char *name)
{
	const char *end = find_call(name), *type = end ? find_lambda(name, end) : NULL;
	char *readable;
	if (!type || type - name < 3 || strncmp(type - 2, "::", 2) != 0)
		return NULL;
	name = skip_return_type(name, type - 2);
	int length = (int)(type - 2 - name);
	bool is_whole =
		name[length - 1] == ')' || (length > 6 && !strncmp(name + length - 6, " const", 6));
	if (asprintf(&readable, "lambda in %.*s%s", length, name, is_whole ? "" : "()") < 0)
		return NULL;
	return readable;
}

/* gcc's copies of a function, for constants or without parameters, are that function. */
static void cut_clone(char *readable)
{
	char *clone = strstr(readable, " [clone ");
	if (clone)
		*clone = '\0';
}

char *demangle(const char *name)
{
	if (name[0] != '_' || (name[1] != 'Z' && name[1] != 'R') ||
		strnlen(name, MANGLED_MAX) == MANGLED_MAX)
		return NULL;
	char *readable = cplus_demangle(name, DMGL_PARAMS | DMGL_ANSI | DMGL_AUTO);
	if (readable)
		cut_clone(readable);
	char *lambda = readable ? name_lambda(readable) : NULL;
	if (!lambda)
		return readable;
	free(readable);
	return lambda;
}
