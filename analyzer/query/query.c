/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/query/query.h"

#include <stdlib.h>

void query_init(struct query *query)
{
	*query = (struct query){.max_size = UINT64_MAX, .max_age_ns = UINT64_MAX};
}

void query_deinit(struct query *query)
{
	free(query->owned);
	query_init(query);
}

bool query_filters_blocks(const struct query *query)
{
	return query->min_size || query->max_size != UINT64_MAX || query->min_age_ns ||
	       query->max_age_ns != UINT64_MAX;
}

bool query_filters_stacks(const struct query *query)
{
	return query->threads.count || query->modules.count || query->functions.count ||
	       query->excluded.count || query->suppressed.count;
}

struct ht_err *query_add(struct query_words *words, const char *option, const char *word)
{
	if (words->count == QUERY_WORDS_MAX)
		return ht_err_new(
			HT_ERR_USAGE, "%s can be given %u times", option, QUERY_WORDS_MAX);
	if (!*word)
		return ht_err_new(HT_ERR_USAGE, "%s takes a text that is not empty", option);
	words->word[words->count++] = word;
	return NULL;
}
