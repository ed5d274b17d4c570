/* SPDX-License-Identifier: Apache-2.0 */
#include "analyzer/ui/flame_svg.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/ui/name.h"
#include "analyzer/views/function.h"
#include "format/foreign.h"

/* flame.js; in flame_script.S */
extern const char flame_script[], flame_script_end[];

#define WIDTH	     1180.0
#define LEFT	     10.0
#define ROW	     18u
#define HEAD	     64u
#define FOOT	     56u
#define CHARACTER    6.65 /* average width of a character, in pixels at font size 11 */
#define NAME_COLUMNS 80u
#define TITLE_BYTES  1000u
#define LEGEND_BYTES 20u
#define SHADES	     4u
#define COLOURS	     7u /* the last colour is for all other modules */

/* Light enough for black text; distinguishable with any colour vision (after Okabe and Ito). */
static const char *const colour[COLOURS] = {
	"#f0b840", "#8ccff5", "#4fc3a1", "#f2e96a", "#e8956a", "#d9a0c4", "#d0d0d0"};

/* A module or namespace, and the area of its boxes. */
struct space {
	uint32_t group;
	double area;
};

struct svg {
	FILE *out;
	const struct calls_text *page;
	const struct flame *flame;
	bool is_top_down;
	struct groups spaces;
	struct space *space; /* those with most area first: the first COLOURS - 1 have a colour */
};

/* --- texts of foreign origin -------------------------------------------------------------------
 */

/* False for Unicode's noncharacters, some of which XML forbids. The other code points that XML
 * forbids are not harmless (format/foreign.h). */
static bool is_character(uint32_t point)
{
	return (point & 0xfffe) != 0xfffe && (point < 0xfdd0 || point > 0xfdef);
}

/* Escapes text for content and attributes; at most `max` bytes, cut between characters. */
static void put_escaped(FILE *out, const char *text, size_t max)
{
	size_t put = 0;
	for (size_t left = strnlen(text, 2 * max); left;) {
		uint32_t point = '?';
		const size_t size = foreign_decode(text, left, &point);
		const size_t step = size ? size : 1;
		if (put + step > max) {
			fputs("...", out);
			return;
		}
		if (!size || !is_character(point))
			fputc('?', out);
		else if (strchr("&<>\"'", *text) && size == 1)
			fprintf(out, "&#%d;", *text);
		else if (foreign_is_harmless(point))
			fwrite(text, 1, size, out);
		put += step;
		text += step;
		left -= step;
	}
}

static const char *name_of(
	const struct svg *svg, const struct flame_box *box, char buffer[FUNCTION_NAME_BYTES])
{
	const struct calls *calls = svg->page->calls;
	const uint32_t group = calls->tree.node[box->node].group;
	if (group == UINT32_MAX)
		return box->node ? "(folded: stacks that allocated little)" : "all";
	const struct frame *frame = calls_frame(calls, box->node);
	if (calls->groups.group[group].name)
		return calls->groups.group[group].name;
	if (frame->function)
		return frame->function;
	function_name(calls->view, frame, buffer);
	return buffer;
}

/* --- colours -----------------------------------------------------------------------------------
 */

static uint32_t space_of(const struct svg *svg, const struct flame_box *box)
{
	const struct calls *calls = svg->page->calls;
	const uint32_t group = calls->tree.node[box->node].group;
	return group == UINT32_MAX ? UINT32_MAX
				   : svg->spaces.of_frame[calls->groups.group[group].frame];
}

static int compare(const void *a, const void *b)
{
	const struct space *x = a, *y = b;
	if (x->area != y->area)
		return x->area > y->area ? -1 : 1;
	return (x->group > y->group) - (x->group < y->group);
}

static struct ht_err *choose_colours(struct svg *svg)
{
	const struct view *view = svg->page->calls->view;
	HT_TRY(groups_init(&svg->spaces, GROUPING_NAMESPACE, &view->frames, view->analysis));
	svg->space = calloc(svg->spaces.count + 1, sizeof(*svg->space));
	if (!svg->space)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu modules", svg->spaces.count);
	for (uint32_t i = 0; i < svg->spaces.count; i++)
		svg->space[i].group = i;
	for (size_t i = 0; i < svg->flame->count; i++) {
		const uint32_t space = space_of(svg, &svg->flame->box[i]);
		if (space != UINT32_MAX)
			svg->space[space].area += (double)svg->flame->box[i].value;
	}
	qsort(svg->space, svg->spaces.count, sizeof(*svg->space), compare);
	return NULL;
}

/* Index of the colour; COLOURS - 1 for boxes without a colour of their own. */
static unsigned colour_of(const struct svg *svg, const struct flame_box *box)
{
	const uint32_t space = space_of(svg, box);
	unsigned i = 0;
	while (i < COLOURS - 1 && i < svg->spaces.count && svg->space[i].group != space)
		i++;
	return i < svg->spaces.count ? i : COLOURS - 1;
}

/* Shades distinguish adjacent boxes of the same colour. */
static unsigned shade_of(const char *name)
{
	uint32_t hash = 2166136261u;
	for (size_t i = 0; name[i] && i < TITLE_BYTES; i++)
		hash = (hash ^ (unsigned char)name[i]) * 16777619u;
	return (hash >> 16) % SHADES;
}

/* --- boxes -------------------------------------------------------------------------------------
 */

static unsigned height_of(const struct svg *svg)
{
	return HEAD + (svg->flame->depth + 1) * ROW + FOOT;
}

/* Writes what fits: the name, its short form, the beginning of that, or nothing. */
static void put_label(const struct svg *svg, const char *name, const char *brief, double pixels)
{
	const double room = (pixels - 6) / CHARACTER;
	char cut[NAME_COLUMNS + 1];
	if (room < 3)
		return;
	if ((double)text_columns(name) <= room) {
		put_escaped(svg->out, name, TITLE_BYTES);
	} else if ((double)text_columns(brief) <= room) {
		put_escaped(svg->out, brief, TITLE_BYTES);
	} else if (room >= 5 && text_columns(brief) == strlen(brief)) {
		snprintf(cut, sizeof(cut), "%.*s", (int)room - 2, brief);
		put_escaped(svg->out, cut, sizeof(cut));
		fputs("..", svg->out);
	}
}

/* Writes " " and the bound of a node's value at 95 %; nothing if the value is exact. */
static void put_bound(const struct svg *svg, uint32_t node, uint64_t value)
{
	static const struct text utf8 = {.has_utf8 = true};
	const struct text_number bound =
		text_bound(&utf8, (int64_t)value, figure_bound(svg->page->calls->total[node]));
	fprintf(svg->out, "%s%s", *bound.text ? " " : "", bound.text);
}

static void put_title(const struct svg *svg, const struct flame_box *box, const char *name)
{
	const struct calls_text *page = svg->page;
	const uint32_t space = space_of(svg, box);
	fputs("<title>", svg->out);
	put_escaped(svg->out, name, TITLE_BYTES);
	fprintf(svg->out, "\n%s", calls_text_value(page, (int64_t)box->value).text);
	put_bound(svg, box->node, box->value);
	fprintf(svg->out, ", %s",
		calls_text_share((int64_t)box->value, (int64_t)svg->flame->total).text);
	if (space != UINT32_MAX) {
		fputs(", ", svg->out);
		put_escaped(svg->out, svg->spaces.group[space].name, 200);
	}
	fputs("</title>", svg->out);
}

static void put_box(const struct svg *svg, const struct flame_box *box)
{
	const double scale = WIDTH / (double)svg->flame->total;
	const double x = LEFT + (double)box->start * scale, width = (double)box->value * scale;
	const unsigned row = svg->is_top_down ? box->depth : svg->flame->depth - box->depth;
	char buffer[FUNCTION_NAME_BYTES], brief[NAME_BYTES];
	const char *name = name_of(svg, box, buffer);
	name_shorten(name, NAME_COLUMNS, brief);
	fprintf(svg->out,
		"<g class=\"f c%u s%u\" tabindex=\"0\" data-s=\"%" PRIu64 "\" data-v=\"%" PRIu64
		"\" data-d=\"%" PRIu32 "\" data-n=\"",
		colour_of(svg, box), shade_of(name), box->start, box->value, box->depth);
	put_escaped(svg->out, brief, 4 * NAME_COLUMNS);
	fputs("\">", svg->out);
	put_title(svg, box, name);
	fprintf(svg->out,
		"<rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%u\"/><text x=\"%.2f\" "
		"y=\"%u\">",
		x, HEAD + row * ROW, width, ROW - 1, x + 3, HEAD + row * ROW + 13);
	put_label(svg, name, brief, width);
	fputs("</text></g>\n", svg->out);
}

/* --- around the boxes ------------------------------------------------------------------------- */

static void put_style(const struct svg *svg)
{
	fputs("<style>\n"
	      "text { font: 11px monospace; fill: #111; white-space: pre }\n"
	      ".big { font-size: 15px; font-weight: bold }\n"
	      ".f { cursor: pointer } .f text { pointer-events: none }\n"
	      ".f rect { stroke: #fff; stroke-width: 0.5 }\n"
	      ".f:hover rect, .f:focus rect { stroke: #000; stroke-width: 1 }\n"
	      ".f:focus { outline: none }\n"
	      ".caller { opacity: 0.55 }\n"
	      ".searching .f { opacity: 0.35 }\n"
	      ".searching .f.m { opacity: 1 } .f.m rect { stroke: #000; stroke-width: 1.5 }\n"
	      "#search, #reset { cursor: pointer; text-decoration: underline }\n",
		svg->out);
	for (unsigned i = 0; i < COLOURS; i++)
		fprintf(svg->out, ".c%u rect { fill: %s }\n", i, colour[i]);
	for (unsigned i = 1; i < SHADES; i++)
		fprintf(svg->out, ".s%u rect { fill-opacity: 0.%u }\n", i, 100 - i * 12);
	fputs("</style>\n", svg->out);
}

static void put_head(const struct svg *svg)
{
	const struct calls_text *page = svg->page;
	const struct calls *calls = page->calls;
	const struct view *view = calls->view;
	const struct model *model = &view->analysis->model;
	const struct metric_info *metric = metric_info(calls->options.metric);
	FILE *out = svg->out;
	fputs("<text class=\"big\" x=\"10\" y=\"22\">", out);
	put_escaped(out, model->comm ? model->comm : "unknown program", 64);
	fprintf(out, " (pid %" PRIu64 "): %s %s", model->target.pid, metric->name,
		calls_text_value(page, (int64_t)svg->flame->total).text);
	put_bound(svg, 0, svg->flame->total);
	fprintf(out, "</text>\n<text x=\"10\" y=\"40\">%s; ", metric->title);
	if (view->is_whole)
		fprintf(out, "window of %s", text_time(view->to_ns - view->from_ns).text);
	else
		fprintf(out, "from +%s to +%s", text_time(view->from_ns).text,
			text_time(view->to_ns).text);
	if (view->analysis->cube.sample_bytes)
		fputs("; estimates of a sample, with bounds at 95 %", out);
	if (svg->flame->negative)
		fprintf(out, "; stacks that shrank are left out: -%s",
			calls_text_value(page, (int64_t)svg->flame->negative).text);
	fputs("</text>\n"
	      "<text id=\"search\" x=\"10\" y=\"57\">[/] search</text>\n"
	      "<text id=\"matched\" x=\"400\" y=\"57\"></text>\n"
	      "<text id=\"reset\" x=\"1060\" y=\"57\"></text>\n",
		out);
}

static void put_legend(const struct svg *svg)
{
	double x = LEFT;
	fprintf(svg->out,
		"<g id=\"foot\" transform=\"translate(0,%u)\">\n<text id=\"detail\" x=\"10\" "
		"y=\"20\"></text>\n",
		height_of(svg) - FOOT);
	for (size_t i = 0; i < svg->spaces.count && i < COLOURS; i++) {
		const bool is_rest = i == COLOURS - 1;
		const char *name = is_rest ? "other" : svg->spaces.group[svg->space[i].group].name;
		if (svg->space[i].area <= 0)
			break;
		fprintf(svg->out,
			"<rect x=\"%.0f\" y=\"34\" width=\"11\" height=\"11\" fill=\"%s\"/><text "
			"x=\"%.0f\" y=\"44\">",
			x, colour[i], x + 15);
		put_escaped(svg->out, name, LEGEND_BYTES);
		fputs("</text>\n", svg->out);
		const size_t columns = text_columns(name);
		x += 31 +
		     (double)(columns < LEGEND_BYTES + 3 ? columns : LEGEND_BYTES + 3) * CHARACTER;
	}
	fputs("</g>\n", svg->out);
}

static void put_script(const struct svg *svg)
{
	fputs("<script>//<![CDATA[\n", svg->out);
	fwrite(flame_script, 1, (size_t)(flame_script_end - flame_script), svg->out);
	fputs("//]]></script>\n", svg->out);
}

static void put_all(const struct svg *svg)
{
	const struct metric_info *metric = metric_info(svg->page->calls->options.metric);
	const unsigned height = height_of(svg);
	FILE *out = svg->out;
	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 1200 %u\" "
		"width=\"1200\" height=\"%u\" data-width=\"%.0f\" data-left=\"%.0f\" "
		"data-total=\"%" PRIu64
		"\" data-unit=\"%s\" data-root=\"%s\" data-head=\"%u\" data-row=\"%u\" "
		"data-foot=\"%u\">\n",
		height, height, WIDTH, LEFT, svg->flame->total,
		metric->unit == METRIC_BYTES ? "bytes" : "count",
		svg->is_top_down ? "top" : "bottom", HEAD, ROW, FOOT);
	put_style(svg);
	fputs("<rect width=\"100%\" height=\"100%\" fill=\"#fcfcfc\"/>\n", out);
	put_head(svg);
	for (size_t i = 0; svg->flame->total && i < svg->flame->count; i++)
		put_box(svg, &svg->flame->box[i]);
	if (!svg->flame->total)
		fputs("<text x=\"10\" y=\"80\">nothing: another --metric may show more</text>\n",
			out);
	put_legend(svg);
	put_script(svg);
	fputs("</svg>\n", out);
}

struct ht_err *flame_svg_write(
	FILE *out, const struct calls_text *page, const struct flame *flame, bool is_top_down)
{
	struct svg svg = {.out = out, .page = page, .flame = flame, .is_top_down = is_top_down};
	struct ht_err *err = choose_colours(&svg);
	if (!err)
		put_all(&svg);
	groups_deinit(&svg.spaces);
	free(svg.space);
	return err;
}
