/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/cli/logspec.h"

#include <string.h>

struct ht_err *logspec_parse(const char *text, struct logspec *ret)
{
	const char *equals = strchr(text, '=');
	if (!equals || equals == text || !equals[1])
		return ht_err_new(HT_ERR_USAGE,
			"%s: --mark-log takes FILE=REGEX, as in --mark-log app.log=ERROR", text);
	size_t length = (size_t)(equals - text);
	if (length >= sizeof(ret->path))
		return ht_err_new(HT_ERR_USAGE, "--mark-log: the file's name is too long");
	memcpy(ret->path, text, length);
	ret->path[length] = '\0';
	int problem = regcomp(&ret->regex, equals + 1, REG_EXTENDED | REG_NOSUB);
	if (!problem)
		return NULL;
	char why[160];
	regerror(problem, &ret->regex, why, sizeof(why));
	return ht_err_new(
		HT_ERR_USAGE, "%s: not an extended regular expression: %s", equals + 1, why);
}

struct ht_err *logspec_check(const char *text)
{
	struct logspec spec;
	struct ht_err *err = logspec_parse(text, &spec);
	if (!err)
		regfree(&spec.regex);
	return err;
}
