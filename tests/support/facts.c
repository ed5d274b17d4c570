/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/facts.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

void facts_add(struct facts *facts, const char *key, const char *value)
{
	facts->fact = realloc(facts->fact, (facts->count + 1) * sizeof(*facts->fact));
	ck_assert_ptr_nonnull(facts->fact);
	facts->fact[facts->count++] = (struct fact){strdup(key), strdup(value)};
}

void facts_deinit(struct facts *facts)
{
	for (size_t i = 0; i < facts->count; i++) {
		free(facts->fact[i].key);
		free(facts->fact[i].value);
	}
	free(facts->fact);
}

const char *facts_find(const struct facts *facts, const char *key)
{
	for (size_t i = 0; i < facts->count; i++)
		if (!strcmp(facts->fact[i].key, key))
			return facts->fact[i].value;
	return NULL;
}

bool facts_are_clean(const char *value)
{
	return !strstr(value, FACTS_OURS) && !strstr(value, "stopped") &&
	       (!strstr(value, "TracerPid:") || strstr(value, "TracerPid:\t0 "));
}

void facts_diff(FILE *out, const char *what, const struct facts *before, const struct facts *after,
	bool may_go, bool may_come)
{
	for (size_t i = 0; i < before->count; i++) {
		const char *now = facts_find(after, before->fact[i].key);
		if (now ? strcmp(now, before->fact[i].value) != 0 : !may_go)
			fprintf(out, "%s %s: was \"%s\", is \"%s\"\n", what, before->fact[i].key,
				before->fact[i].value, now ? now : "gone");
	}
	for (size_t i = 0; i < after->count; i++) {
		const struct fact *fact = &after->fact[i];
		if (facts_find(before, fact->key))
			continue;
		if (!may_come || !facts_are_clean(fact->value))
			fprintf(out, "%s %s: new, \"%s\"\n", what, fact->key, fact->value);
	}
}
