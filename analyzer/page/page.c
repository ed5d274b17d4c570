/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/page/page.h"

#include <inttypes.h>
#include <lz4.h>
#include <lz4hc.h>
#include <string.h>

extern const char page_head_begin[], page_head_end[], page_tail_begin[], page_tail_end[];

/* Nodes that allocated less than FOLD_FIRST(total bytes) are folded first; then this limit is
 * multiplied by FOLD_STEP until the page is small enough. */
#define FOLD_FIRST(bytes) (((bytes) >> 18) + 16)
#define FOLD_STEP	  4u

bool page_is_built(void)
{
	return (uintptr_t)page_head_end != (uintptr_t)page_head_begin;
}

static uint64_t frame_bytes(void)
{
	return (uint64_t)(page_head_end - page_head_begin) +
	       (uint64_t)(page_tail_end - page_tail_begin);
}

static struct ht_err *compress(const struct bytes_out *data, struct bytes_out *ret)
{
	if (data->length > LZ4_MAX_INPUT_SIZE)
		return NULL; /* an empty result means too large: the caller folds more nodes */
	const int bound = LZ4_compressBound((int)data->length);
	HT_TRY(bytes_out_reserve(ret, (size_t)bound));
	const int length = LZ4_compress_HC((const char *)data->data, (char *)ret->data,
		(int)data->length, bound, LZ4HC_CLEVEL_MAX);
	if (length <= 0)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for the page");
	ret->length = (size_t)length;
	return NULL;
}

static void put_base64(FILE *out, const struct bytes_out *bytes)
{
	static const char digit[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	for (size_t i = 0; i < bytes->length; i += 3) {
		const size_t left = bytes->length - i;
		const uint32_t group = (uint32_t)bytes->data[i] << 16 |
				       (left > 1 ? (uint32_t)bytes->data[i + 1] << 8 : 0) |
				       (left > 2 ? (uint32_t)bytes->data[i + 2] : 0);
		putc(digit[group >> 18], out);
		putc(digit[group >> 12 & 63], out);
		putc(left > 1 ? digit[group >> 6 & 63] : '=', out);
		putc(left > 2 ? digit[group & 63] : '=', out);
	}
}

/* Makes the data with `least_bytes`, compressed if `is_packed`; empty: too long to be compressed.
 * `*ret_length`: its length before compression. */
static struct ht_err *make_data(const struct view *view, const struct suspects *suspects,
	const struct page_more *more, uint64_t least_bytes, bool is_packed, struct bytes_out *data,
	uint64_t *ret_length, struct page_result *ret)
{
	struct bytes_out plain = {0};
	struct ht_err *err = page_data(&plain, view, suspects, more, least_bytes, ret);
	*ret_length = plain.length;
	if (!is_packed) {
		bytes_out_deinit(data);
		*data = plain;
		ret->bytes = plain.length;
		return err;
	}
	data->length = 0;
	HT_THEN(err, compress(&plain, data));
	ret->bytes = frame_bytes() + (data->length + 2) / 3 * 4;
	bytes_out_deinit(&plain);
	return err;
}

/* Folds more and more nodes until the data fits, or all nodes are folded; parameters as in
 * make_data. */
static struct ht_err *make_fit(const struct view *view, const struct page_more *more,
	uint64_t bytes_max, bool is_packed, struct bytes_out *data, uint64_t *ret_length,
	struct page_result *ret)
{
	const uint64_t most = view->total.allocated_bytes;
	struct suspects suspects = {0};
	uint64_t least = 0;
	struct ht_err *err = suspects_find(view, &suspects);
	HT_THEN(err, make_data(view, &suspects, more, least, is_packed, data, ret_length, ret));
	while (!err && (!data->length || ret->bytes > bytes_max) && least <= most) {
		least = least ? least * FOLD_STEP : FOLD_FIRST(most);
		err = make_data(view, &suspects, more, least, is_packed, data, ret_length, ret);
	}
	suspects_deinit(&suspects);
	return err;
}

struct ht_err *page_write(FILE *out, const struct view *view, const struct page_more *more,
	uint64_t bytes_max, struct page_result *ret)
{
	struct bytes_out packed = {0};
	uint64_t length = 0;
	struct ht_err *err = make_fit(view, more, bytes_max, true, &packed, &length, ret);
	if (!err && (!packed.length || ret->bytes > bytes_max))
		err = ht_err_new(HT_ERR_FORMAT,
			"the page of this trace has %" PRIu64 " bytes, more than %" PRIu64
			", even with most stacks folded",
			ret->bytes, bytes_max);
	if (!err) {
		fwrite(page_head_begin, 1, (size_t)(page_head_end - page_head_begin), out);
		fprintf(out,
			"<script type=\"application/octet-stream\" id=\"data\" "
			"data-bytes=\"%" PRIu64 "\">",
			length);
		put_base64(out, &packed);
		fputs("</script>\n", out);
		fwrite(page_tail_begin, 1, (size_t)(page_tail_end - page_tail_begin), out);
	}
	bytes_out_deinit(&packed);
	return err;
}

struct ht_err *page_write_data(FILE *out, const struct view *view, const struct page_more *more,
	uint64_t bytes_max, struct page_result *ret)
{
	struct bytes_out data = {0};
	uint64_t length;
	struct ht_err *err = make_fit(view, more, bytes_max, false, &data, &length, ret);
	if (!err)
		fwrite(data.data, 1, data.length, out);
	bytes_out_deinit(&data);
	return err;
}

/* policy_more is added to the policy in the page's head, so that the page may load data from its
 * server. */
static const char policy_begin[] = "content=\"default-src 'none';";
static const char policy_more[] = " connect-src 'self';";
static const char *const source[] = {
	"<script type=\"application/octet-stream\" id=\"data\" "
	"data-source=\"/api/v1/page\"></script>\n",
	"<script type=\"application/octet-stream\" id=\"data\" "
	"data-source=\"/api/v1/page\" data-live=\"/api/v1/events\"></script>\n",
};

struct ht_err *page_for_server(bool is_live, char **ret_page, char **ret_policy)
{
	const int head = (int)(page_head_end - page_head_begin);
	const int tail = (int)(page_tail_end - page_tail_begin);
	const char *at =
		memmem(page_head_begin, (size_t)head, policy_begin, sizeof(policy_begin) - 1);
	const char *rest = at ? at + sizeof(policy_begin) - 1 : page_head_begin;
	const char *end = memchr(rest, '"', (size_t)(page_head_end - rest));
	*ret_page = *ret_policy = NULL;
	if (!at || !end)
		return ht_err_new(HT_ERR_INTERNAL, "the page has no policy");
	if (asprintf(ret_page, "%.*s%s%.*s%s%.*s", (int)(rest - page_head_begin), page_head_begin,
		    policy_more, head - (int)(rest - page_head_begin), rest, source[is_live], tail,
		    page_tail_begin) < 0)
		*ret_page = NULL;
	if (asprintf(ret_policy, "default-src 'none';%s%.*s; frame-ancestors 'none'", policy_more,
		    (int)(end - rest), rest) < 0)
		*ret_policy = NULL;
	return *ret_page && *ret_policy ? NULL
					: ht_err_new(HT_ERR_NOMEM, "out of memory for the page");
}
