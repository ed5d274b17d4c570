/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/export/traces_json.h"

#include "analyzer/export/json.h"
#include "analyzer/export/report_json.h"

struct ht_err *traces_json_write(
	FILE *out, const struct view *const *view, const char *const *path, size_t count)
{
	struct json_writer writer = {.out = out};
	HT_TRY(json_put(&writer, "schema", json_string("heaptap.traces/1")));
	json_t *array = json_array();
	for (size_t i = 0; i < count; i++) {
		const struct model *model = &view[i]->analysis->model;
		array = json_plus(array,
			json_pack("{so so so so so}", "trace", json_number(i), "path",
				json_text(path[i]), "target", report_json_target(model), "capture",
				report_json_capture(model), "totals", report_json_totals(view[i])));
	}
	HT_TRY(json_put(&writer, "traces", array));
	fputs("}\n", out);
	return NULL;
}
