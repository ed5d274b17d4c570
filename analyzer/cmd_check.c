/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze check: thresholds for continuous integration.
 */
#include <inttypes.h>

#include "analyzer/cmd.h"
#include "analyzer/export/json.h"
#include "analyzer/views/limits.h"

static const char *const option_name[] = {
	[LIMITS_GROWTH] = "--max-growth",
	[LIMITS_OUTSTANDING] = "--max-outstanding",
	[LIMITS_INCREASE] = "--max-increase",
};

static struct ht_err *parse_limits(const struct option_values *values, struct limits *ret)
{
	const char *growth = option_text(values, OPTION_MAX_GROWTH, NULL);
	const char *increase = option_text(values, OPTION_MAX_INCREASE, NULL);
	const char *wrong = NULL;
	*ret = (struct limits){
		.has_growth = growth != NULL,
		.has_increase = increase != NULL,
		.has_outstanding = option_is_given(values, OPTION_MAX_OUTSTANDING),
		.outstanding_bytes = option_number(values, OPTION_MAX_OUTSTANDING, 0),
	};
	if (growth)
		wrong = limits_parse_rate(growth, &ret->growth_bytes_per_s);
	if (wrong)
		return ht_err_new(HT_ERR_USAGE, "check: --max-growth %s: %s", growth, wrong);
	if (increase)
		wrong = limits_parse_percent(increase, &ret->increase);
	if (wrong)
		return ht_err_new(HT_ERR_USAGE, "check: --max-increase %s: %s", increase, wrong);
	if (!growth && !increase && !ret->has_outstanding)
		return ht_err_new(HT_ERR_USAGE,
			"check: no threshold is given; use --max-growth, --max-outstanding or "
			"--max-increase");
	if (increase && !option_is_given(values, OPTION_BASELINE))
		return ht_err_new(HT_ERR_USAGE,
			"check: --max-increase needs --baseline with the trace to compare with");
	return NULL;
}

/* --- text --------------------------------------------------------------------------------------
 */

/* " +-4.1 %"; "" for a bound of 0. */
static void put_bound(const struct text *text, double value, double bound)
{
	const struct text_number shown = text_bound(text, (int64_t)value, (int64_t)bound);
	if (*shown.text)
		fprintf(text->out, " %s", shown.text);
}

static void put_rate(FILE *out, double bytes_per_s)
{
	fprintf(out, "%s/min", text_bytes((uint64_t)(bytes_per_s * 60 + 0.5)).text);
}

static const struct frame *frame_of(const struct view *view, uint32_t row)
{
	const uint32_t at = suspects_leaf_frame(view, &view->row[row]);
	return at == UINT32_MAX ? NULL : &view->frames.frame[at];
}

static void put_where(const struct text *text, const struct view *view, uint32_t row)
{
	if (row == UINT32_MAX) {
		fputs("all growing sites", text->out);
		return;
	}
	const struct frame *frame = frame_of(view, row);
	text_foreign(text, frame && frame->function ? frame->function : "(unknown)", 200);
	if (frame && frame->file) {
		fputs(" (", text->out);
		text_foreign(text, frame->file, 200);
		fprintf(text->out, ":%" PRIu32 ")", frame->line);
	}
}

static void put_violation(
	const struct text *text, const struct view *view, const struct limits_violation *violation)
{
	FILE *out = text->out;
	fprintf(out, "%s exceeded: ", option_name[violation->kind]);
	switch (violation->kind) {
	case LIMITS_GROWTH:
		put_rate(out, violation->value);
		put_bound(text, violation->value, violation->bound);
		fputs(" in ", out);
		put_where(text, view, violation->row);
		fputs(", allowed ", out);
		put_rate(out, violation->limit);
		break;
	case LIMITS_OUTSTANDING:
		fputs(text_bytes((uint64_t)violation->value).text, out);
		put_bound(text, violation->value, violation->bound);
		fprintf(out, " outstanding, allowed %s",
			text_bytes((uint64_t)violation->limit).text);
		break;
	case LIMITS_INCREASE:
		if (violation->value >= LIMITS_FROM_NOTHING)
			fputs("outstanding memory where the baseline has none", out);
		else
			fprintf(out, "outstanding %+.1f %% against the baseline",
				violation->value * 100);
		fprintf(out, ", allowed %+.1f %%", violation->limit * 100);
		break;
	}
	fputc('\n', out);
}

static void put_passed(const struct text *text, const struct limits_result *result)
{
	fprintf(text->out, "no threshold exceeded: %s", text_bytes(result->outstanding_bytes).text);
	put_bound(text, (double)result->outstanding_bytes, result->outstanding_bound_bytes);
	fputs(" outstanding, growing sites ", text->out);
	put_rate(text->out, result->growth_bytes_per_s);
	put_bound(text, result->growth_bytes_per_s, result->growth_bound_bytes_per_s);
	fputc('\n', text->out);
}

/* --- JSON --------------------------------------------------------------------------------------
 */

static json_t *violation_json(const struct view *view, const struct limits_violation *violation)
{
	const struct frame *frame =
		violation->row == UINT32_MAX ? NULL : frame_of(view, violation->row);
	json_t *ret = json_pack("{ss sf sf so so}", "threshold", option_name[violation->kind] + 2,
		"value", violation->value, "limit", violation->limit, "function",
		json_text(frame ? frame->function : NULL), "file",
		json_text(frame ? frame->file : NULL));
	return violation->bound > 0 ? json_with(ret, "value_bound95", json_real(violation->bound))
				    : ret;
}

static struct ht_err *write_json(const struct view *view, const struct limits_result *result)
{
	struct json_writer writer = {.out = stdout};
	HT_TRY(json_put(&writer, "schema", json_string("heaptap.check/1")));
	json_t *array = json_array();
	for (size_t i = 0; i < result->count; i++)
		array = json_plus(array, violation_json(view, &result->violation[i]));
	HT_TRY(json_put(&writer, "violations", array));
	HT_TRY(json_put(&writer, "outstanding_bytes", json_number(result->outstanding_bytes)));
	HT_TRY(json_put(&writer, "growth_bytes_per_s", json_real(result->growth_bytes_per_s)));
	if (result->outstanding_bound_bytes > 0)
		HT_TRY(json_put(&writer, "outstanding_bytes_bound95",
			json_real(result->outstanding_bound_bytes)));
	HT_TRY(json_put(&writer, "growth_unclear",
		*result->unclear ? json_text(result->unclear) : json_null()));
	if (result->growth_bound_bytes_per_s > 0)
		HT_TRY(json_put(&writer, "growth_bytes_per_s_bound95",
			json_real(result->growth_bound_bytes_per_s)));
	fputs("}\n", stdout);
	return NULL;
}

static struct ht_err *write_result(const struct option_values *values, const struct view *view,
	const struct limits_result *result)
{
	if (result->count)
		cmd_note_exceeded();
	if (*result->unclear && option_is_given(values, OPTION_MAX_GROWTH))
		fprintf(stderr, "heaptap: warning: --max-growth cannot be judged: %s\n",
			result->unclear);
	if (option_is_given(values, OPTION_JSON))
		return write_json(view, result);
	const struct text text = text_to(stdout);
	for (size_t i = 0; i < result->count; i++)
		put_violation(&text, view, &result->violation[i]);
	if (!result->count)
		put_passed(&text, result);
	return NULL;
}

struct ht_err *cmd_check(const struct option_values *values)
{
	const char *baseline_path = option_text(values, OPTION_BASELINE, NULL);
	struct cmd_view now = {0}, baseline = {0};
	struct limits_result result = {0};
	struct limits limits;
	HT_TRY(parse_limits(values, &limits));
	struct ht_err *err = cmd_view_open(values, values->operand[0], false, &now);
	if (!err && baseline_path)
		err = cmd_view_open(values, baseline_path, false, &baseline);
	HT_THEN(err, limits_check(&limits, now.view, baseline.view, &result));
	HT_THEN(err, write_result(values, now.view, &result));
	limits_result_deinit(&result);
	cmd_view_close(&now);
	cmd_view_close(&baseline);
	return ht_err_first(err, cmd_flush(stdout, "the result"));
}
