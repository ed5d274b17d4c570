/* SPDX-License-Identifier: Apache-2.0
 *
 * speedscope's JSON: one profile per metric over one table of frames, outermost first.
 */
#include <jansson.h>

#include "tests/unit/analyzer/exported.h"

static struct exported exported;

HT_TEST(one_profile_per_metric)
{
	exported_begin(&exported);
	ck_assert_str_eq(exported_as(&exported, "speedscope", NULL),
		"{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
		"\"exporter\":\"heaptap " HEAPTAP_VERSION
		"\",\"activeProfileIndex\":0,\"name\":\"target\",\n\"profiles\":[\n"
		"{\"type\":\"sampled\",\"name\":\"outstanding\",\"unit\":\"bytes\","
		"\"startValue\":0,\"endValue\":107,\n\"samples\":[[2,3,4],\n[2,5]],\n"
		"\"weights\":[100,7]},\n"
		"{\"type\":\"sampled\",\"name\":\"peak\",\"unit\":\"bytes\",\"startValue\":0,"
		"\"endValue\":130,\n\"samples\":[[2,3,4]],\n\"weights\":[130]},\n"
		"{\"type\":\"sampled\",\"name\":\"allocated\",\"unit\":\"bytes\",\"startValue\":0,"
		"\"endValue\":138,\n\"samples\":[[2,3,4],\n[2,5],\n[0]],\n\"weights\":[130,7,1]},\n"
		"{\"type\":\"sampled\",\"name\":\"calls\",\"unit\":\"none\",\"startValue\":0,"
		"\"endValue\":4,\n\"samples\":[[2,3,4],\n[2,5],\n[0]],\n\"weights\":[2,1,1]},\n"
		"{\"type\":\"sampled\",\"name\":\"temporary\",\"unit\":\"none\",\"startValue\":0,"
		"\"endValue\":2,\n\"samples\":[[2,3,4],\n[0]],\n\"weights\":[1,1]}],\n"
		"\"shared\":{\"frames\":[\n{\"name\":\"(no stack)\"},\n{\"name\":\"(folded)\"},\n"
		"{\"name\":\"main\",\"file\":\"src\\/main.c\",\"line\":10},\n"
		"{\"name\":\"caller\",\"file\":\"src\\/out.c\",\"line\":9},\n"
		"{\"name\":\"inner\",\"file\":\"src\\/in.h\",\"line\":7},\n"
		"{\"name\":\"target+0x2ff\",\"file\":\"\\/usr\\/bin\\/target\"}]}}\n");
	exported_end(&exported);
}

HT_TEST(an_empty_window_is_an_export)
{
	exported = (struct exported){0};
	scene_init(&exported.scene);
	json_t *root = json_loads(exported_as(&exported, "speedscope", NULL), 0, NULL);
	ck_assert_uint_eq(json_array_size(json_object_get(root, "profiles")), 5);
	json_decref(root);
	exported_end(&exported);
}

HT_TEST(a_sample_has_no_temporary_blocks)
{
	exported = (struct exported){0};
	scene_init_sample(&exported.scene, 1 << 19);
	scene_malloc(&exported.scene, 0, 0x1000, 1 << 24, 0);
	json_t *root = json_loads(exported_as(&exported, "speedscope", NULL), 0, NULL);
	ck_assert_uint_eq(json_array_size(json_object_get(root, "profiles")), 4);
	json_decref(root);
	exported_end(&exported);
}

HT_SUITE("analyzer/speedscope")
