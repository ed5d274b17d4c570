/* SPDX-License-Identifier: Apache-2.0
 *
 * profile.proto of pprof (github.com/google/pprof). A profile is one message, whose fields may come
 * in any order: samples are written first, and the locations, functions, modules and strings that
 * they number are written after them.
 */
#include <stdlib.h>
#include <string.h>

#include "analyzer/export/export.h"
#include "analyzer/export/names.h"
#include "analyzer/export/pool.h"
#include "format/array.h"
#include "format/bytes.h"

/* Numbers of fields. */
enum {
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLE,
	PROFILE_MAPPING,
	PROFILE_LOCATION,
	PROFILE_FUNCTION,
	PROFILE_STRING,
	PROFILE_TIME_NANOS = 9,
	PROFILE_DURATION_NANOS,
	PROFILE_PERIOD_TYPE,
	PROFILE_PERIOD,
	PROFILE_COMMENT,
	PROFILE_DEFAULT_SAMPLE_TYPE
};
enum { TYPE_NAME = 1, TYPE_UNIT };
enum { SAMPLE_LOCATION = 1, SAMPLE_VALUE, SAMPLE_LABEL };
enum { LABEL_KEY = 1, LABEL_STRING, LABEL_NUMBER };
enum {
	MAPPING_ID = 1,
	MAPPING_START,
	MAPPING_LIMIT,
	MAPPING_OFFSET,
	MAPPING_FILE,
	MAPPING_BUILD_ID,
	MAPPING_HAS_FUNCTIONS,
	MAPPING_HAS_FILES,
	MAPPING_HAS_LINES,
	MAPPING_HAS_INLINES
};
enum { LOCATION_ID = 1, LOCATION_MAPPING, LOCATION_ADDRESS, LOCATION_LINE };
enum { LINE_FUNCTION = 1, LINE_LINE };
enum { FUNCTION_ID = 1, FUNCTION_NAME, FUNCTION_SYSTEM_NAME, FUNCTION_FILE };

static const struct {
	const char *name, *unit;
} sample_type[] = {
	{"alloc_objects", "count"},
	{"alloc_space", "bytes"},
	{"inuse_objects", "count"},
	{"inuse_space", "bytes"},
	{"peak_space", "bytes"},
	{"temp_objects", "count"},
};
#define DEFAULT_TYPE "inuse_space"

/* After an error, later writes do nothing, so callers check once. */
struct pprof {
	FILE *out;
	const struct view *view;
	const struct export_server *server; /* NULL: none */
	size_t sample_count;
	struct ht_err *err;
	/* `message`: a field of the profile under construction; `inner`: a field within it;
	 * `packed`: the finished field of the profile */
	struct bytes_out message, inner, packed;
	struct pool pool;
	uint32_t *location_of; /* by place of `frames`: number; 0: not used yet */
	uint32_t *place_of;    /* by number - 1: place */
	size_t location_count;
	uint32_t no_stack, other; /* numbers of the locations for blocks without a stack and for
				     folded stacks; 0: not used yet */
	struct map function;	  /* (name, file) -> number */
	struct function {
		uint32_t name, file;
	} * made;
	size_t function_count, function_capacity;
	bool *has_module; /* by module: a location refers to it */
};

/* --- messages ----------------------------------------------------------------------------------
 */

static void put_uleb(struct pprof *pprof, struct bytes_out *out, uint64_t value)
{
	HT_THEN(pprof->err, bytes_out_uleb(out, value));
}

static void put_number(struct pprof *pprof, struct bytes_out *out, unsigned field, uint64_t value)
{
	put_uleb(pprof, out, field << 3);
	put_uleb(pprof, out, value);
}

/* Puts `from` into `to` as one field, and empties `from`. */
static void put_message(
	struct pprof *pprof, struct bytes_out *to, unsigned field, struct bytes_out *from)
{
	put_uleb(pprof, to, field << 3 | 2);
	put_uleb(pprof, to, from->length);
	HT_THEN(pprof->err, bytes_out_put(to, from->data, from->length));
	from->length = 0;
}

/* Writes pprof->packed, a field of the profile. */
static void write_packed(struct pprof *pprof)
{
	if (!pprof->err)
		fwrite(pprof->packed.data, pprof->packed.length, 1, pprof->out);
	pprof->packed.length = 0;
}

/* Writes pprof->message as a field of the profile. */
static void write_message(struct pprof *pprof, unsigned field)
{
	put_message(pprof, &pprof->packed, field, &pprof->message);
	write_packed(pprof);
}

static void write_number(struct pprof *pprof, unsigned field, uint64_t value)
{
	put_number(pprof, &pprof->packed, field, value);
	write_packed(pprof);
}

/* Puts `field` as the fields 1 to `last` of pprof->message; field[0] is not used. */
static void put_fields(struct pprof *pprof, const uint64_t *field, unsigned last)
{
	for (unsigned i = 1; i <= last; i++)
		put_number(pprof, &pprof->message, i, field[i]);
}

/* --- strings and functions ---------------------------------------------------------------------
 */

/* The number of a string; 0 after an error. */
static uint32_t number_text(struct pprof *pprof, const char *text)
{
	uint32_t number = 0;
	HT_THEN(pprof->err, pool_number(&pprof->pool, text, &number));
	return number;
}

/* The number of a name of foreign origin; NULL: 0, the empty string. */
static uint32_t number_name(struct pprof *pprof, const char *text)
{
	char name[NAMES_BYTES];
	names_copy(name, text ? text : "");
	return number_text(pprof, name);
}

static struct ht_err *add_function(struct pprof *pprof, const struct function *function)
{
	HT_TRY(ARRAY_RESERVE(
		pprof->made, pprof->function_capacity, pprof->function_count + 1, "functions"));
	pprof->made[pprof->function_count++] = *function;
	return NULL;
}

static uint32_t number_function(struct pprof *pprof, const char *name, const char *file)
{
	struct function function = {.name = number_name(pprof, name)};
	function.file = number_name(pprof, file);
	const uint64_t key = (uint64_t)function.name << 32 | function.file;
	uint32_t number = 0;
	if (pprof->err || map_get(&pprof->function, key, &number))
		return number;
	number = (uint32_t)pprof->function_count + 1;
	pprof->err = add_function(pprof, &function);
	HT_THEN(pprof->err, map_put(&pprof->function, key, number));
	return number;
}

static void write_functions(struct pprof *pprof)
{
	for (size_t i = 0; i < pprof->function_count; i++) {
		const struct function *function = &pprof->made[i];
		const uint64_t field[] = {
			[FUNCTION_ID] = i + 1,
			[FUNCTION_NAME] = function->name,
			[FUNCTION_SYSTEM_NAME] = function->name,
			[FUNCTION_FILE] = function->file,
		};
		put_fields(pprof, field, FUNCTION_FILE);
		write_message(pprof, PROFILE_FUNCTION);
	}
}

static void write_strings(struct pprof *pprof)
{
	for (size_t i = 0; i < pprof->pool.count; i++) {
		const char *text = pprof->pool.text[i];
		HT_THEN(pprof->err, bytes_out_put(&pprof->message, text, strlen(text)));
		write_message(pprof, PROFILE_STRING);
	}
}

/* --- locations and modules ---------------------------------------------------------------------
 */

static void put_line(struct pprof *pprof, const char *name, const char *file, uint32_t line)
{
	put_number(pprof, &pprof->inner, LINE_FUNCTION, number_function(pprof, name, file));
	if (line)
		put_number(pprof, &pprof->inner, LINE_LINE, line);
	put_message(pprof, &pprof->message, LOCATION_LINE, &pprof->inner);
}

/* A server shows functions only, and drops samples of addresses without a function. */
static void put_place_name(struct pprof *pprof, const struct frame *frame)
{
	char name[NAMES_BYTES];
	names_frame(pprof->view, frame, name);
	put_line(pprof, name, NULL, 0);
}

/* The format wants the innermost function first. An address without a name gets no line: pprof then
 * prints the address with its module. */
static void write_location(struct pprof *pprof, uint32_t number, uint32_t place)
{
	const struct frames_place frames = pprof->view->frames.place[place];
	const struct frame *first = &pprof->view->frames.frame[frames.first];
	bool has_name = false;
	put_number(pprof, &pprof->message, LOCATION_ID, number);
	if (first->module != MODULES_NONE) {
		pprof->has_module[first->module] = true;
		put_number(pprof, &pprof->message, LOCATION_MAPPING, first->module + 1);
	}
	put_number(pprof, &pprof->message, LOCATION_ADDRESS, names_address(pprof->view, first));
	for (uint32_t i = 0; i < frames.count; i++) {
		if (!first[i].function)
			continue;
		has_name = true;
		put_line(pprof, first[i].function, first[i].file, first[i].line);
	}
	if (pprof->server && !has_name)
		put_place_name(pprof, first);
	write_message(pprof, PROFILE_LOCATION);
}

static void write_named(struct pprof *pprof, uint32_t number, const char *name)
{
	if (!number)
		return;
	put_number(pprof, &pprof->message, LOCATION_ID, number);
	put_line(pprof, name, NULL, 0);
	write_message(pprof, PROFILE_LOCATION);
}

static void write_locations(struct pprof *pprof)
{
	for (uint32_t i = 0; i < pprof->location_count; i++)
		if (pprof->place_of[i] != UINT32_MAX)
			write_location(pprof, i + 1, pprof->place_of[i]);
	write_named(pprof, pprof->no_stack, "(no stack)");
	write_named(pprof, pprof->other, "(folded)");
}

static void write_module(struct pprof *pprof, uint32_t index)
{
	const struct module *module = &pprof->view->analysis->model.modules.module[index];
	const uint32_t path = number_name(pprof, module->path);
	const uint64_t field[] = {
		[MAPPING_ID] = index + 1,
		[MAPPING_START] = module->lo,
		[MAPPING_LIMIT] = module->hi,
		[MAPPING_OFFSET] = 0,
		[MAPPING_FILE] = path,
		[MAPPING_BUILD_ID] = number_name(pprof, module->build_id),
		[MAPPING_HAS_FUNCTIONS] = 1,
		[MAPPING_HAS_FILES] = 1,
		[MAPPING_HAS_LINES] = 1,
		[MAPPING_HAS_INLINES] = 1,
	};
	put_fields(pprof, field, MAPPING_HAS_INLINES);
	write_message(pprof, PROFILE_MAPPING);
}

/* pprof takes the first module as the program. Leaves out modules that no location refers to,
 * except the program. */
static void write_modules(struct pprof *pprof)
{
	const struct modules *modules = &pprof->view->analysis->model.modules;
	for (unsigned is_program = 2; is_program-- > 0;)
		for (uint32_t i = 0; i < modules->count; i++) {
			const bool is = modules->module[i].flags & REC_MODULE_EXECUTABLE;
			if (is == is_program && (is || pprof->has_module[i]))
				write_module(pprof, i);
		}
}

/* --- samples -----------------------------------------------------------------------------------
 */

/* Puts the number of a location; `place` UINT32_MAX: the location has no code address. */
static void put_location(struct pprof *pprof, uint32_t *number, uint32_t place)
{
	if (!*number) {
		pprof->place_of[pprof->location_count++] = place;
		*number = (uint32_t)pprof->location_count;
	}
	put_uleb(pprof, &pprof->inner, *number);
}

static void put_stack(struct pprof *pprof, uint32_t leaf)
{
	const struct nodes *nodes = &pprof->view->analysis->model.nodes;
	const struct frames *frames = &pprof->view->frames;
	const struct node *node;
	if (leaf == CUBE_OTHER)
		put_location(pprof, &pprof->other, UINT32_MAX);
	else if (!nodes_get(nodes, leaf))
		put_location(pprof, &pprof->no_stack, UINT32_MAX);
	for (uint32_t id = leaf; (node = nodes_get(nodes, id)); id = node->parent) {
		const uint32_t place = frames->place_of[nodes_index(nodes, id)];
		if (place != UINT32_MAX)
			put_location(pprof, &pprof->location_of[place], place);
	}
	put_message(pprof, &pprof->message, SAMPLE_LOCATION, &pprof->inner);
}

static void put_values(struct pprof *pprof, const struct sums *sums)
{
	const uint64_t value[HT_ARRAY_SIZE(sample_type)] = {sums->allocations,
		sums->allocated_bytes, sums_outstanding_blocks(sums), sums_outstanding_bytes(sums),
		sums->peak_bytes, sums->temporary};
	for (size_t i = 0; i < HT_ARRAY_SIZE(value); i++)
		put_uleb(pprof, &pprof->inner, value[i]);
	put_message(pprof, &pprof->message, SAMPLE_VALUE, &pprof->inner);
}

static void put_label(struct pprof *pprof, const char *key, unsigned field, uint64_t value)
{
	put_number(pprof, &pprof->inner, LABEL_KEY, number_text(pprof, key));
	put_number(pprof, &pprof->inner, field, value);
	put_message(pprof, &pprof->message, SAMPLE_LABEL, &pprof->inner);
}

static void put_thread(struct pprof *pprof, uint32_t thread)
{
	const struct threads *threads = &pprof->view->analysis->model.threads;
	char name[NAMES_BYTES];
	names_thread(pprof->view, thread, name);
	put_label(pprof, "thread", LABEL_STRING, number_text(pprof, name));
	if (thread < threads->count)
		put_label(pprof, "tid", LABEL_NUMBER, threads->thread[thread].tid);
}

/* The sums of one thread on one stack. */
struct part {
	uint32_t node, thread;
	struct sums sums;
};

static void write_sample(struct pprof *pprof, const struct part *part)
{
	const struct sums *sums = &part->sums;
	if (!sums->allocations && !sums->peak_bytes)
		return;
	put_stack(pprof, part->node);
	put_values(pprof, sums);
	if (!pprof->server)
		put_thread(pprof, part->thread);
	write_message(pprof, PROFILE_SAMPLE);
}

/* Adds up the sites of each stack and thread: a sample of pprof has neither the size class nor the
 * allocating function of a site. */
static struct ht_err *find_parts(const struct pprof *pprof, struct part **ret, size_t *ret_count)
{
	const struct view *view = pprof->view;
	const struct cube *cube = &view->analysis->cube;
	struct map by_key = {0};
	struct ht_err *err = NULL;
	*ret_count = 0;
	*ret = calloc(cube->site_count + 1, sizeof(**ret));
	if (!*ret)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu stacks", cube->site_count);
	for (size_t i = 0; i < cube->site_count && !err; i++) {
		const struct cube_site *site = &cube->site[i];
		const uint32_t thread = site->node == CUBE_OTHER || pprof->server
						? CUBE_OTHER
						: cube_site_thread(site);
		const uint64_t key = (uint64_t)site->node << 32 | thread;
		uint32_t at;
		if (sums_are_zero(&view->sums[i]))
			continue;
		if (!map_get(&by_key, key, &at)) {
			at = (uint32_t)(*ret_count)++;
			(*ret)[at] = (struct part){.node = site->node, .thread = thread};
			err = map_put(&by_key, key, at);
		}
		sums_add(&(*ret)[at].sums, &view->sums[i]);
	}
	map_deinit(&by_key);
	return err;
}

static int compare_parts(const void *a, const void *b)
{
	const struct part *x = a, *y = b;
	const int order = metric_compare(METRIC_OUTSTANDING, &x->sums, &y->sums);
	return order ? order : (x->node > y->node) - (x->node < y->node);
}

/* If there are more than `most` parts, joins all but the `most` - 1 largest into one. Returns the
 * new count. */
static size_t fold_parts(struct part *part, size_t count, size_t most)
{
	if (count <= most)
		return count;
	qsort(part, count, sizeof(*part), compare_parts);
	for (size_t i = most; i < count; i++)
		sums_add(&part[most - 1].sums, &part[i].sums);
	part[most - 1].node = CUBE_OTHER;
	return most;
}

static void write_samples(struct pprof *pprof)
{
	HT_FREED struct part *part = NULL;
	size_t count = 0;
	HT_THEN(pprof->err, find_parts(pprof, &part, &count));
	if (!pprof->err && pprof->server)
		count = fold_parts(part, count, pprof->server->samples_max);
	pprof->sample_count = count;
	for (size_t i = 0; i < count && !pprof->err; i++)
		write_sample(pprof, &part[i]);
}

/* --- the profile -------------------------------------------------------------------------------
 */

static void write_type(struct pprof *pprof, unsigned field, const char *name, const char *unit)
{
	put_number(pprof, &pprof->message, TYPE_NAME, number_text(pprof, name));
	put_number(pprof, &pprof->message, TYPE_UNIT, number_text(pprof, unit));
	write_message(pprof, field);
}

static void write_comment(struct pprof *pprof, const char *text)
{
	write_number(pprof, PROFILE_COMMENT, number_name(pprof, text));
}

static void write_head(struct pprof *pprof)
{
	const struct view *view = pprof->view;
	const struct model *model = &view->analysis->model;
	char text[NAMES_BYTES];
	number_text(pprof, ""); /* the format wants it to be string 0 */
	for (size_t i = 0; i < HT_ARRAY_SIZE(sample_type); i++)
		write_type(pprof, PROFILE_SAMPLE_TYPE, sample_type[i].name, sample_type[i].unit);
	write_number(pprof, PROFILE_DEFAULT_SAMPLE_TYPE, number_text(pprof, DEFAULT_TYPE));
	write_type(pprof, PROFILE_PERIOD_TYPE, "space", "bytes");
	write_number(pprof, PROFILE_PERIOD, 1);
	write_number(pprof, PROFILE_TIME_NANOS,
		model->capture.start_unix_ns + (pprof->server ? view->to_ns : view->from_ns));
	write_number(pprof, PROFILE_DURATION_NANOS, view->to_ns - view->from_ns);
	snprintf(text, sizeof(text), "heaptap %s, process %u", HEAPTAP_VERSION,
		(unsigned)model->target.pid);
	write_comment(pprof, text);
	if (model->capture.sample_bytes)
		write_comment(
			pprof, "a sample: all figures are estimates, temp_objects are not known");
	for (unsigned i = 0; model_note(model, i, text); i++)
		write_comment(pprof, text);
}

static struct ht_err *pprof_init(struct pprof *pprof)
{
	const struct frames *frames = &pprof->view->frames;
	pprof->location_of = calloc(frames->place_count + 1, sizeof(*pprof->location_of));
	pprof->place_of = calloc(frames->place_count + 2, sizeof(*pprof->place_of));
	pprof->has_module =
		calloc(pprof->view->analysis->model.modules.count + 1, sizeof(*pprof->has_module));
	if (pprof->location_of && pprof->place_of && pprof->has_module)
		return NULL;
	return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu frames", frames->place_count);
}

static void pprof_deinit(struct pprof *pprof)
{
	bytes_out_deinit(&pprof->message);
	bytes_out_deinit(&pprof->inner);
	bytes_out_deinit(&pprof->packed);
	pool_deinit(&pprof->pool);
	map_deinit(&pprof->function);
	free(pprof->location_of);
	free(pprof->place_of);
	free(pprof->made);
	free(pprof->has_module);
}

/* `*ret_samples`: number of samples of the profile. */
static struct ht_err *write_profile(
	FILE *out, const struct view *view, const struct export_server *server, size_t *ret_samples)
{
	struct pprof pprof = {.out = out, .view = view, .server = server};
	pprof.err = pprof_init(&pprof);
	if (!pprof.err) {
		write_head(&pprof);
		write_samples(&pprof);
		write_locations(&pprof);
		write_modules(&pprof);
		write_functions(&pprof);
		write_strings(&pprof);
	}
	pprof_deinit(&pprof);
	*ret_samples = pprof.sample_count;
	return pprof.err;
}

/* Folds more and more stacks until the profile is small enough: a tenth at least each time. */
static struct ht_err *write_for_server(
	FILE *out, const struct view *view, const struct export_server *server)
{
	struct export_server try = *server;
	for (;;) {
		HT_FREED char *text = NULL;
		size_t length = 0, samples;
		FILE *memory = open_memstream(&text, &length);
		if (!memory)
			return ht_err_new(HT_ERR_NOMEM, "out of memory for the profile");
		struct ht_err *err = write_profile(memory, view, &try, &samples);
		if (fclose(memory) != 0)
			err = ht_err_first(
				err, ht_err_new(HT_ERR_NOMEM, "out of memory for the profile"));
		if (err)
			return err;
		if (length <= server->bytes_max || samples <= 1) {
			fwrite(text, length, 1, out);
			return NULL;
		}
		const double share = (double)server->bytes_max / (double)length;
		const size_t fewer = (size_t)((double)samples * (share < 0.9 ? share : 0.9));
		try.samples_max = fewer ? fewer : 1;
	}
}

struct ht_err *export_pprof(FILE *out, struct export_job *job)
{
	size_t samples;
	return job->server ? write_for_server(out, job->view, job->server)
			   : write_profile(out, job->view, NULL, &samples);
}
