/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/named_json.h"

#include <stdlib.h>

#include "analyzer/export/json.h"
#include "analyzer/views/missing.h"
#include "format/array.h"

static json_t *module_json(const struct analysis *analysis, const struct named_module *of)
{
	const struct module *module =
		of->module == MODULES_NONE ? NULL : &analysis->model.modules.module[of->module];
	HT_FREED char *remark = of->with_function == of->addresses && of->with_line == of->addresses
					? NULL
					: missing_remark(analysis, of->module);
	return json_pack("{so so so so so so so so}", "path",
		json_text(module ? module->path : NULL), "build_id",
		json_text(module && module->build_id[0] ? module->build_id : NULL), "allocations",
		json_number(of->allocations), "addresses", json_number(of->addresses), "named",
		json_number(of->with_function), "with_line", json_number(of->with_line),
		"functions", json_number(of->functions), "remark", json_text(remark));
}

struct ht_err *named_json_write(
	FILE *out, const struct analysis *analysis, const struct named *named)
{
	struct json_writer writer = {.out = out};
	HT_TRY(json_put(&writer, "schema", json_string("heaptap.symbols/1")));
	json_t *array = json_array();
	for (size_t i = 0; i < named->count; i++)
		array = json_plus(array, module_json(analysis, &named->module[i]));
	HT_TRY(json_put(&writer, "modules", array));
	HT_TRY(json_put(&writer, "modules_in_no_stack", json_number(named->others)));
	fputs("}\n", out);
	return NULL;
}
