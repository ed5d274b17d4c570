/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/named_text.h"

#include <stdlib.h>
#include <string.h>

#include "analyzer/ui/line.h"
#include "analyzer/views/missing.h"

/* Widths of the figures, in the order of `title`. */
static const unsigned width[] = {12, 10, 7, 7, 10};

static void put_figures(struct line *line, const char *const text[])
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(width); i++)
		line_right(line, text[i], width[i]);
	line_put(line, "  ");
}

static const char *path_of(const struct analysis *analysis, const struct named_module *module)
{
	return module->module == MODULES_NONE ? "(in no file)"
					      : analysis->model.modules.module[module->module].path;
}

static void put_module(
	const struct text *text, const struct analysis *analysis, const struct named_module *module)
{
	struct line line;
	line_begin(&line, text);
	const struct text_number figure[] = {
		text_count(module->allocations),
		text_count(module->addresses),
		text_count(module->with_function),
		text_count(module->with_line),
		text_count(module->functions),
	};
	put_figures(&line, (const char *[]){figure[0].text, figure[1].text, figure[2].text,
				   figure[3].text, figure[4].text});
	const char *path = path_of(analysis, module);
	/* The end of a path is more useful than its middle. */
	if (text_columns(path) > line_left(&line))
		path = strings_base_name(path);
	line_foreign(&line, path, line_left(&line));
	line_end(&line);
}

#define NAMED_ENOUGH 0.99 /* share of named addresses in generated code, which has no lines */

/* A remark on missing names of a module and the remedy; malloc'd. NULL: none. */
static char *remark_of(const struct analysis *analysis, const struct named_module *module)
{
	const bool is_made = module->module == MODULES_NONE;
	if (module->with_function == module->addresses && module->with_line == module->addresses)
		return NULL;
	if (is_made && module->with_function >= NAMED_ENOUGH * module->addresses)
		return NULL;
	return missing_remark(analysis, module->module);
}

/* An earlier module with the same remark; NULL: none. */
static const char *find_earlier(const struct analysis *analysis, const struct named *named,
	size_t index, const char *remark)
{
	const char *found = NULL;
	for (size_t i = 0; i < index && !found; i++) {
		char *earlier = remark_of(analysis, &named->module[i]);
		if (earlier && !strcmp(earlier, remark))
			found = path_of(analysis, &named->module[i]);
		free(earlier);
	}
	return found;
}

static void put_remark(const struct text *text, const struct analysis *analysis,
	const struct named *named, size_t index)
{
	char *remark = remark_of(analysis, &named->module[index]);
	const char *earlier = remark ? find_earlier(analysis, named, index, remark) : NULL;
	struct line line;
	if (earlier) {
		line_begin(&line, text);
		line_put(&line, "      as for ");
		line_foreign(&line, strings_base_name(earlier), line_left(&line));
		line_end(&line);
	} else if (remark) {
		line_wrap(text, "      ", "      ", remark, 0);
	}
	free(remark);
}

void named_text_write(
	const struct text *text, const struct analysis *analysis, const struct named *named)
{
	static const char *const title[] = {
		"allocations", "addresses", "named", "lines", "functions"};
	struct line line;
	line_begin(&line, text);
	put_figures(&line, title);
	line_put(&line, "module");
	line_end(&line);
	for (size_t i = 0; i < named->count; i++) {
		put_module(text, analysis, &named->module[i]);
		put_remark(text, analysis, named, i);
	}
	if (named->others)
		fprintf(text->out, "%s %s in no call chain\n", text_count(named->others).text,
			named->others == 1 ? "module is" : "modules are");
}
