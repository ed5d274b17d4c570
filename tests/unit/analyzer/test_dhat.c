/* SPDX-License-Identifier: Apache-2.0
 *
 * DHAT's JSON: figures of each chain, frames from leaf to root, no chain twice.
 */
#include <jansson.h>

#include "tests/unit/analyzer/exported.h"

static struct exported exported;

HT_TEST(figures_and_frames)
{
	exported_begin(&exported);
	ck_assert_str_eq(exported_as(&exported, "dhat", NULL),
		"{\"dhatFileVersion\":2,\"mode\":\"heap\",\"verb\":\"Allocated\",\"bklt\":true,"
		"\"bkacc\":false,\"tu\":\"\\u00b5s\",\"Mtu\":\"s\",\"tuth\":1000,\n"
		"\"cmd\":\"\\/usr\\/bin\\/target\",\"pid\":4242,\"te\":8,\"tg\":2,\n\"pps\":[\n"
		"{\"tb\":130,\"tbk\":2,\"tl\":1,\"mb\":130,\"mbk\":2,\"gb\":130,\"gbk\":2,"
		"\"eb\":100,\"ebk\":1,\"fs\":[3,4,5]},\n"
		"{\"tb\":7,\"tbk\":1,\"tl\":0,\"mb\":7,\"mbk\":1,\"gb\":0,\"gbk\":0,\"eb\":7,"
		"\"ebk\":1,\"fs\":[6,5]},\n"
		"{\"tb\":1,\"tbk\":1,\"tl\":1,\"mb\":0,\"mbk\":0,\"gb\":0,\"gbk\":0,\"eb\":0,"
		"\"ebk\":0,\"fs\":[1]}],\n"
		"\"ftbl\":[\"[root]\",\n\"(no stack)\",\n\"(folded)\",\n"
		"\"0x4001FF: inner (in.h:7)\",\n\"0x4001FF: caller (out.c:9)\",\n"
		"\"0x4000FF: main (main.c:10)\",\n"
		"\"0x4002FF: target+0x2ff (in \\/usr\\/bin\\/target)\"]}\n");
	json_decref(json_loads(exported.text, 0, NULL));
	exported_end(&exported);
}

/* A block that is not freed has a lifetime, too: from the middle of its bucket, a millisecond long,
 * to the end of the window. */
HT_TEST(blocks_that_are_left_have_lived)
{
	exported = (struct exported){0};
	scene_init(&exported.scene);
	scene_malloc(&exported.scene, 0, 0x1000, 10, 0);
	exported.scene.now += 100000000;
	exported_as(&exported, "dhat", NULL);
	json_t *root = json_loads(exported.text, 0, NULL);
	json_t *row = json_array_get(json_object_get(root, "pps"), 0);
	const json_int_t lived_us = json_integer_value(json_object_get(row, "tl"));
	ck_assert_int_ge(lived_us, 99000);
	ck_assert_int_le(lived_us, 100500);
	json_decref(root);
	exported_end(&exported);
}

HT_SUITE("analyzer/dhat")
