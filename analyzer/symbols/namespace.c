/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/symbols/namespace.h"

#include <stdio.h>
#include <string.h>

#include "analyzer/symbols/wrapper.h"

/* ".../node_modules/@scope/name/..." or ".../node_modules/name/...": the innermost one counts. */
static bool npm_package(const char *file, char ret[NAMESPACE_BYTES])
{
	static const char folder[] = "node_modules/";
	const char *found = NULL;
	for (const char *at = strstr(file, folder); at; at = strstr(at + 1, folder))
		found = at + strlen(folder);
	if (!found)
		return false;
	size_t length = strcspn(found, "/");
	if (*found == '@' && found[length] == '/')
		length += 1 + strcspn(found + length + 1, "/");
	if (!length || length >= NAMESPACE_BYTES)
		return false;
	snprintf(ret, NAMESPACE_BYTES, "%.*s", (int)length, found);
	return true;
}

/* The first component of "a::b::c", past the brackets that Rust puts around types. */
static bool first_component(const char *name, char ret[NAMESPACE_BYTES])
{
	static const char *const before[] = {"mut ", "const ", "dyn ", "impl "};
	for (size_t i = 0; i < HT_ARRAY_SIZE(before); i++) {
		name += strspn(name, "<&*[(");
		if (strncmp(name, before[i], strlen(before[i])) == 0)
			name += strlen(before[i]);
	}
	name += strspn(name, "<&*[(");
	const size_t length = strcspn(name, ":<>()[], ");
	if (!length || length >= NAMESPACE_BYTES || strncmp(name + length, "::", 2) != 0)
		return false;
	snprintf(ret, NAMESPACE_BYTES, "%.*s", (int)length, name);
	return true;
}

bool namespace_of(const char *function, const char *file, char ret[NAMESPACE_BYTES])
{
	if (file && npm_package(file, ret))
		return true;
	if (file && strncmp(file, "node:", 5) == 0) {
		snprintf(ret, NAMESPACE_BYTES, "node");
		return true;
	}
	return function && first_component(wrapper_name(function), ret);
}
