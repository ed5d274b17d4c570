/* SPDX-License-Identifier: Apache-2.0
 *
 * Hostile traces: every input is read as a trace file; again as the records of a block, because the
 * checksums of a file stop most inputs before the decoder; and again as bytes of events, which are
 * encoded as columns and decoded.
 *
 * With libFuzzer:
 *      clang-14 -std=gnu11 -D_GNU_SOURCE -iquote . -g -O1 -fsanitize=fuzzer,address,undefined
 *              tests/fuzz/fuzz_reader.c format/<all>.c -llz4 -o fuzz_reader
 * Without it, FUZZ_REPLAY gives a main() that runs the files named by its arguments, or, without
 * any, mutations of a trace made in memory:
 *      gcc -DFUZZ_REPLAY ... -fsanitize=address,undefined tests/fuzz/fuzz_reader.c format/<all>.c
 *              tests/support/{ht_check,eventbuild,tracebuild}.c -lcheck ... -llz4
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/columns.h"
#include "format/event.h"
#include "format/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Reads everything that a reader of the trace would read. */
static void visit(struct rec *rec)
{
	struct rec_node node;
	struct event event;
	struct event_decoder decoder = {0};
	struct ht_err *err = NULL;
	if (rec->kind == REC_NODES) {
		for (uint64_t i = 0; i < rec->nodes.count && !err; i++)
			err = rec_node_next(&rec->nodes.body, &node);
		ht_err_free(err);
	}
	if (rec->kind == REC_COLUMNS) {
		struct bytes_out scratch = {0}, piece = {0};
		ht_err_free(columns_decode(rec->events.body, &scratch, &piece));
		bytes_out_deinit(&scratch);
		bytes_out_deinit(&piece);
	}
	if (rec->kind == REC_EVENTS) {
		struct bytes in = rec->events.body;
		event_decoder_restart(&decoder);
		while (event_next(&decoder, &in, &event) == EVENT_OK)
			;
	}
}

static void read_file(const uint8_t *data, size_t size)
{
	static struct rec rec;
	struct trace_reader *reader = NULL;
	enum trace_end end = TRACE_MORE;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size || lseek(fd, 0, SEEK_SET))
		abort();
	struct ht_err *err = trace_reader_create(fd, "fuzz", &reader);
	while (!err && end == TRACE_MORE) {
		err = trace_reader_next(reader, &rec, &end);
		if (!err && end == TRACE_MORE)
			visit(&rec);
	}
	if (err && err->code != HT_ERR_FORMAT)
		abort();
	if (!err && !trace_reader_problem(reader) != (end == TRACE_COMPLETE))
		abort();
	ht_err_free(err);
	trace_reader_destroy(reader);
	close(fd);
}

/* Encodes and decodes bytes of events as columns, as a hostile target can send them. */
static void sort_and_join(const uint8_t *data, size_t size)
{
	static struct columns_encoder *encoder;
	struct bytes_out columns = {0}, scratch = {0}, piece = {0};
	bool is_done = false;
	struct ht_err *err = encoder ? NULL : columns_encoder_create(&encoder);
	HT_THEN(err, columns_encode(encoder, bytes_of(data, size), &columns, &is_done));
	if (!err && is_done)
		err = columns_decode(bytes_of(columns.data, columns.length), &scratch, &piece);
	if (err || (is_done && (piece.length != size || (size && memcmp(piece.data, data, size)))))
		abort();
	bytes_out_deinit(&columns);
	bytes_out_deinit(&scratch);
	bytes_out_deinit(&piece);
}

static void read_records(const uint8_t *data, size_t size)
{
	static struct rec rec;
	struct bytes in = bytes_of(data, size);
	struct ht_err *err = NULL;
	while (!err && bytes_left(&in)) {
		err = rec_decode(&in, &rec);
		if (!err)
			visit(&rec);
	}
	ht_err_free(err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	read_file(data, size);
	read_records(data, size);
	sort_and_join(data, size);
	return 0;
}

#ifdef FUZZ_REPLAY

#include "tests/support/tracebuild.h"

#define MUTATIONS 20000

static uint64_t next_random(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

/* Copies the input to an allocation of the exact size, so that the sanitizer finds reads beyond the
 * end. */
static void run(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	if (!copy)
		abort();
	if (size)
		memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static void mutate_and_run(const struct bytes_out *seed, uint64_t *state)
{
	uint8_t *copy = malloc(seed->length);
	if (!copy)
		abort();
	memcpy(copy, seed->data, seed->length);
	for (uint64_t i = next_random(state) % 8; i; i--)
		copy[next_random(state) % seed->length] = (uint8_t)next_random(state);
	size_t cut = next_random(state) % 4 ? seed->length : next_random(state) % seed->length;
	run(copy, cut);
	free(copy);
}

/* Makes a trace with most kinds of records; `ret_records`: the same records without the file format
 * around them. */
static void make_seeds(struct bytes_out *ret_file, struct bytes_out *ret_records)
{
	static struct rec rec;
	struct tracebuild build;
	struct eventbuild events = {0};
	struct trace_reader *reader;
	enum trace_end end;
	tracebuild_init(&build);
	tracebuild_start(&build, 1, 2, 3);
	tracebuild_module(&build, 1, "/bin/a", "id", 0x1000, 0x2000);
	tracebuild_thread(&build, 1, "main");
	uint32_t stack = tracebuild_stack(&build, (uint64_t[]){0x1100, 0x1200}, 2);
	eventbuild_thread(&events, 1, 0);
	eventbuild_alloc(&events, ABI_EVENT_ALLOC, 0, 1ull << 40, 0x10000, 100, stack);
	eventbuild_free(&events, ABI_EVENT_REALLOC_BEGIN, 2, 1ull << 41, 0x10000, 104);
	eventbuild_realloc_done(&events, ABI_EVENT_REALLOC_FREED, 1ull << 42);
	tracebuild_events(&build, 0, &events);
	if (trace_writer_flush(build.writer))
		abort();
	tracebuild_sync(&build, 1ull << 43, 5);
	tracebuild_rss(&build, 6, 7);
	tracebuild_symbol(&build, 1, 0x100, "f", "a.c", 8);
	tracebuild_loss(&build, REC_COUNTER_EVENTS, 3);
	tracebuild_end(&build, REC_END_DURATION, 9, 10);
	tracebuild_slurp(tracebuild_finish(&build), ret_file);
	struct ht_err *err = trace_reader_create(build.fd, "seed", &reader);
	for (;;) {
		if (err || (err = trace_reader_next(reader, &rec, &end)) || end != TRACE_MORE)
			break;
		const uint8_t head[] = {(uint8_t)rec.kind, (uint8_t)rec.raw.length};
		err = bytes_out_put(ret_records, head, sizeof(head));
		HT_THEN(err, bytes_out_put(ret_records, rec.raw.data, rec.raw.length));
	}
	if (err || end != TRACE_COMPLETE)
		abort();
	trace_reader_destroy(reader);
	eventbuild_deinit(&events);
	tracebuild_deinit(&build);
}

static void run_file(const char *path)
{
	struct bytes_out content = {0};
	uint8_t part[4096];
	size_t n;
	FILE *file = fopen(path, "rb");
	if (!file) {
		perror(path);
		exit(1);
	}
	while ((n = fread(part, 1, sizeof(part), file)) > 0) {
		if (bytes_out_put(&content, part, n))
			abort();
	}
	fclose(file);
	run(content.data, content.length);
	bytes_out_deinit(&content);
}

int main(int argc, char **argv)
{
	struct bytes_out seeds[2] = {{0}, {0}};
	uint64_t state = 1;
	for (int i = 1; i < argc; i++)
		run_file(argv[i]);
	if (argc > 1)
		return 0;
	make_seeds(&seeds[0], &seeds[1]);
	for (int seed = 0; seed < 2; seed++) {
		run(seeds[seed].data, seeds[seed].length);
		for (int i = 0; i < MUTATIONS; i++)
			mutate_and_run(&seeds[seed], &state);
		bytes_out_deinit(&seeds[seed]);
	}
	return 0;
}

#endif
