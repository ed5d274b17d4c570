/* SPDX-License-Identifier: Apache-2.0
 *
 * A trace that grows is read on at every length; the result equals that of reading it at once.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "format/growing.h"
#include "tests/support/tmpdir.h"
#include "tests/unit/analyzer/scene.h"

#define CALLS 50u

/* Makes a trace whose events are in several blocks. */
static void make_trace(struct bytes_out *bytes)
{
	struct scene scene;
	scene_init(&scene);
	tracebuild_thread(&scene.trace, SCENE_TID(0), "worker");
	const uint32_t leaf = tracebuild_node(&scene.trace, 0, 0x400100);
	for (uint32_t i = 0; i < CALLS; i++) {
		scene_malloc(&scene, 0, 0x10000 + i * 0x100, 10 + i, leaf);
		if (i % 3 == 0)
			scene_free(&scene, 0, 0x10000 + i * 0x100, 10 + i);
		if (i % 10 == 9) {
			scene_sync(&scene);
			ck_no_err(trace_writer_flush(scene.trace.writer));
		}
	}
	tracebuild_end(&scene.trace, REC_END_DURATION, scene.now, scene.now);
	tracebuild_slurp(tracebuild_finish(&scene.trace), bytes);
	scene_deinit(&scene);
}

static void compare(const struct analysis *grown, const struct bytes_out *bytes)
{
	struct analysis *whole;
	int fd = tracebuild_memfd(bytes->data, bytes->length);
	ck_no_err(analysis_create(fd, "whole", NULL, &whole));
	ck_assert_int_eq(grown->model.how_ended, TRACE_COMPLETE);
	ck_assert_uint_eq(grown->model.counts.events, whole->model.counts.events);
	ck_assert_uint_gt(grown->model.counts.events, CALLS);
	ck_assert_uint_eq(grown->model.duration_ns, whole->model.duration_ns);
	ck_assert_uint_eq(grown->model.seen_bytes, bytes->length);
	ck_assert_uint_eq(grown->cube.cell_count, whole->cube.cell_count);
	analysis_destroy(whole);
	close(fd);
}

HT_TEST(read_on_at_every_length)
{
	struct bytes_out bytes = {0};
	struct analysis *analysis = NULL;
	char *path = tmpdir_path("growing.htap");
	make_trace(&bytes);
	int writer = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ck_assert(writer >= 0 && fd >= 0);
	growing_mark(writer);
	for (size_t i = 0; i < bytes.length; i++) {
		ck_assert_int_eq(write(writer, bytes.data + i, 1), 1);
		if (!analysis) {
			/* The trace's header is cut. */
			ht_err_free(analysis_begin(fd, path, &analysis));
			ck_assert(analysis || lseek(fd, 0, SEEK_SET) == 0);
			continue;
		}
		ck_no_err(analysis_continue(analysis, UINT64_MAX));
		ck_assert(i + 1 == bytes.length || analysis->model.how_ended == TRACE_TRUNCATED);
	}
	close(writer);
	ck_assert_ptr_nonnull(analysis);
	ck_no_err(analysis_continue(analysis, UINT64_MAX));
	ck_no_err(analysis_end(analysis));
	compare(analysis, &bytes);
	analysis_destroy(analysis);
	bytes_out_deinit(&bytes);
	close(fd);
	free(path);
}

HT_TEST(a_cut_one_does_not_grow)
{
	struct bytes_out bytes = {0};
	struct analysis *analysis;
	make_trace(&bytes);
	int fd = tracebuild_memfd(bytes.data, bytes.length - 1);
	ck_no_err(analysis_begin(fd, "cut", &analysis));
	for (int i = 0; i < 3; i++) {
		ck_no_err(analysis_continue(analysis, UINT64_MAX));
		ck_assert_int_eq(analysis->model.how_ended, TRACE_TRUNCATED);
		ck_assert(!analysis->model.is_growing);
	}
	ck_no_err(analysis_end(analysis));
	analysis_destroy(analysis);
	bytes_out_deinit(&bytes);
	close(fd);
}

HT_SUITE("unit/analyzer/reading")
