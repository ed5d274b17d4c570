/* SPDX-License-Identifier: Apache-2.0
 *
 * libFuzzer entry (make fuzz): the input is records, as `lz4 -dc TRACE` prints them. The records
 * are put into a block with correct checksums, read, summed, printed as text and as JSON, and
 * anonymized.
 */
#include <fcntl.h>
#include <lz4frame.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "analyzer/export/anonymize.h"
#include "analyzer/export/report_json.h"
#include "analyzer/ui/report_text.h"
#include "analyzer/views/suspects.h"
#include "format/container.h"

#define INPUT_MAX (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void put(int fd, const void *data, size_t size)
{
	if (write(fd, data, size) != (ssize_t)size)
		abort();
}

static void put_header(int fd)
{
	struct {
		uint8_t tag[TRACE_TAG_BYTES];
		uint16_t major, minor;
	} payload = {.major = TRACE_MAJOR, .minor = TRACE_MINOR};
	const uint32_t head[] = {TRACE_SKIPPABLE_MAGIC, TRACE_HEADER_MIN};
	memcpy(payload.tag, TRACE_HEADER_TAG, sizeof(payload.tag));
	const uint32_t crc = trace_crc32(0, &payload, sizeof(payload));
	put(fd, head, sizeof(head));
	put(fd, &payload, sizeof(payload));
	put(fd, &crc, sizeof(crc));
}

static void put_block(int fd, const uint8_t *data, size_t size)
{
	static uint8_t frame[2 * INPUT_MAX];
	const LZ4F_preferences_t preferences = {
		.frameInfo.blockSizeID = LZ4F_max4MB,
		.frameInfo.blockMode = LZ4F_blockIndependent,
		.frameInfo.contentChecksumFlag = LZ4F_contentChecksumEnabled,
		.frameInfo.blockChecksumFlag = LZ4F_blockChecksumEnabled,
		.frameInfo.contentSize = size,
	};
	const size_t length = LZ4F_compressFrame(frame, sizeof(frame), data, size, &preferences);
	if (LZ4F_isError(length))
		abort();
	put(fd, frame, length);
}

static struct ht_err *print(struct analysis *analysis, const struct query *query, FILE *out)
{
	struct view *view = NULL;
	struct suspects suspects = {0};
	const struct terminal terminal = {.columns = 80, .has_utf8 = true};
	const struct text text = text_for(out, &terminal);
	const struct page_options page = {.path = "fuzz.htap", .limit = 5};
	const struct report_options json = {.has_by = true, .by = BREAKDOWN_NAMESPACE};
	struct ht_err *err = view_create(analysis, query, true, &view);
	HT_THEN(err, suspects_find(view, &suspects));
	suspects_deinit(&suspects);
	HT_THEN(err, report_json_write(out, view, &json));
	HT_THEN(err, report_text_write(&text, view, &page));
	view_destroy(view);
	return err;
}

/* Errors that an input may cause; any other is a finding. */
static void check(struct ht_err *err)
{
	if (err && err->code != HT_ERR_FORMAT && err->code != HT_ERR_USAGE)
		abort();
	ht_err_free(err);
}

static void anonymize(struct model *model, int fd)
{
	static struct rec rec;
	struct anonymizer *anonymizer = NULL;
	struct trace_writer *writer = NULL;
	struct trace_reader *reader = NULL;
	enum trace_end end = TRACE_MORE;
	int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
	struct ht_err *err = anonymizer_create(model, false, &anonymizer);
	HT_THEN(err, trace_writer_create(null, &writer));
	HT_THEN(err, trace_reader_create(fd, "fuzz", &reader));
	while (!err && end == TRACE_MORE) {
		err = trace_reader_next(reader, &rec, &end);
		if (!err && end == TRACE_MORE)
			err = anonymizer_put(anonymizer, &rec, writer);
	}
	HT_THEN(err, trace_writer_flush(writer));
	check(err);
	trace_reader_destroy(reader);
	trace_writer_destroy(writer);
	anonymizer_destroy(anonymizer);
	close(null);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static FILE *out;
	struct analysis *analysis = NULL;
	struct query query;
	if (!size || size > INPUT_MAX)
		return 0;
	if (!out)
		out = fopen("/dev/null", "w");
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || !out)
		abort();
	put_header(fd);
	put_block(fd, data, size);
	if (lseek(fd, 0, SEEK_SET))
		abort();
	query_init(&query);
	query.min_size = data[0] & 1 ? 0 : 16;
	struct ht_err *err = analysis_create(fd, "fuzz", &query, &analysis);
	if (err) {
		close(fd);
		check(err);
		return 0;
	}
	check(print(analysis, &query, out));
	query.from = "+1ms";
	query.shows_wrappers = true;
	check(print(analysis, &query, out));
	query_deinit(&query);
	if (lseek(fd, 0, SEEK_SET))
		abort();
	anonymize(&analysis->model, fd);
	close(fd);
	analysis_destroy(analysis);
	return 0;
}
