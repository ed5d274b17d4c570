/* SPDX-License-Identifier: Apache-2.0
 *
 * callgrind.out of valgrind, for callgrind_annotate and KCachegrind: each function's own
 * allocations, by line, and the allocations by functions that it calls.
 *
 * Readers compute a function's inclusive cost as the sum of all calls to it. So if a chain contains
 * a function several times, only the outermost call to it counts, and every chain begins with a
 * call from ROOT_NAME.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyzer/export/export.h"
#include "analyzer/export/names.h"
#include "analyzer/export/pool.h"
#include "format/array.h"

#define ROOT_NAME "(root)"
#define ROOT	  0u
#define UNKNOWN	  "???"

static const struct {
	enum metric metric;
	const char *name;
} event[] = {
	{METRIC_OUTSTANDING, "Outstanding"},
	{METRIC_PEAK, "Peak"},
	{METRIC_ALLOCATED, "Allocated"},
	{METRIC_CALLS, "Calls"},
	{METRIC_TEMPORARY, "Temporary"},
};

/* A function, identified by file and name as in callgrind's readers. */
struct function {
	uint32_t name, file, module; /* numbers of strings */
	uint32_t seen_in;	     /* the last row that contains it, plus 1 */
};

/* Own cost of a function's line; if `callee` is not NO_CALLEE, the cost of calls to it from that
 * line. */
struct cost {
	uint32_t function, line, callee;
	struct sums sums;
};

struct callgrind {
	FILE *out;
	const struct view *view;
	struct pool pool;
	uint8_t *printed;  /* by number of a string: the roles in which it was printed */
	struct map by_key; /* (name, file) -> function */
	struct function *function;
	size_t function_count, function_capacity;
	uint32_t *of_group; /* by group: its function; UINT32_MAX: not used yet */
	uint32_t other;	    /* the function of folded stacks; UINT32_MAX: not used yet */
	struct map cost_of_pair, cost_of_place; /* (caller, callee) -> pair; (pair, line) -> cost */
	uint32_t pair_count;
	struct cost *cost;
	size_t cost_count, cost_capacity;
};

#define NO_CALLEE UINT32_MAX

/* --- functions ---------------------------------------------------------------------------------
 */

static struct ht_err *number_function(struct callgrind *callgrind, const char *name,
	const char *file, const char *module, uint32_t *ret)
{
	struct function function = {0};
	struct ht_err *err = pool_number(&callgrind->pool, *name ? name : UNKNOWN, &function.name);
	HT_THEN(err, pool_number(&callgrind->pool, *file ? file : UNKNOWN, &function.file));
	HT_THEN(err, pool_number(&callgrind->pool, *module ? module : UNKNOWN, &function.module));
	const uint64_t key = (uint64_t)function.name << 32 | function.file;
	if (err || map_get(&callgrind->by_key, key, ret))
		return err;
	HT_TRY(ARRAY_RESERVE(callgrind->function, callgrind->function_capacity,
		callgrind->function_count + 1, "functions"));
	*ret = (uint32_t)callgrind->function_count++;
	callgrind->function[*ret] = function;
	return map_put(&callgrind->by_key, key, *ret);
}

static struct ht_err *number_frame(
	struct callgrind *callgrind, const struct frame *frame, uint32_t *ret)
{
	char name[NAMES_BYTES], file[NAMES_BYTES], module[NAMES_BYTES];
	names_frame(callgrind->view, frame, name);
	names_module(callgrind->view, frame->module, module);
	names_copy(file, frame->file ? frame->file : "");
	return number_function(callgrind, name, file, module, ret);
}

static struct ht_err *function_of(struct callgrind *callgrind, uint32_t node, uint32_t *ret)
{
	const struct frame *frame = names_frame_of(callgrind->view, node);
	const uint32_t group = callgrind->view->tree.node[node].group;
	uint32_t *known = frame ? &callgrind->of_group[group] : &callgrind->other;
	struct ht_err *err = NULL;
	if (*known == UINT32_MAX && frame)
		err = number_frame(callgrind, frame, known);
	else if (*known == UINT32_MAX)
		err = number_function(callgrind, "(folded)", "", "", known);
	*ret = *known;
	return err;
}

static uint32_t line_of(const struct callgrind *callgrind, uint32_t node)
{
	const struct frame *frame = names_frame_of(callgrind->view, node);
	return frame ? frame->line : 0;
}

/* --- costs -------------------------------------------------------------------------------------
 */

static struct ht_err *find_cost(struct callgrind *callgrind, uint32_t function, uint32_t line,
	uint32_t callee, struct cost **ret)
{
	const uint64_t key = (uint64_t)function << 32 | callee;
	uint32_t pair, at;
	struct ht_err *err = NULL;
	if (!map_get(&callgrind->cost_of_pair, key, &pair)) {
		pair = callgrind->pair_count++;
		err = map_put(&callgrind->cost_of_pair, key, pair);
	}
	const uint64_t place = (uint64_t)pair << 32 | line;
	if (!err && !map_get(&callgrind->cost_of_place, place, &at)) {
		HT_TRY(ARRAY_RESERVE(callgrind->cost, callgrind->cost_capacity,
			callgrind->cost_count + 1, "calls"));
		at = (uint32_t)callgrind->cost_count++;
		callgrind->cost[at] =
			(struct cost){.function = function, .line = line, .callee = callee};
		err = map_put(&callgrind->cost_of_place, place, at);
	}
	if (!err)
		*ret = &callgrind->cost[at];
	return err;
}

static struct ht_err *add_cost(struct callgrind *callgrind, uint32_t function, uint32_t line,
	uint32_t callee, const struct sums *sums)
{
	struct cost *cost;
	HT_TRY(find_cost(callgrind, function, line, callee, &cost));
	sums_add(&cost->sums, sums);
	return NULL;
}

/* Adds a chain: for each function, the cost of the outermost call to it; for the leaf, its own
 * cost. */
static struct ht_err *add_row(struct callgrind *callgrind, size_t index, struct names_chain *chain)
{
	const struct row *row = &callgrind->view->row[index];
	uint32_t caller = ROOT, line = 0, function = ROOT;
	struct ht_err *err = NULL;
	names_chain_take(chain, callgrind->view, row->node);
	for (size_t i = 0; i < chain->depth && !err; i++) {
		err = function_of(callgrind, chain->node[i], &function);
		if (err)
			break;
		struct function *of = &callgrind->function[function];
		if (of->seen_in != index + 1)
			err = add_cost(callgrind, caller, line, function, &row->sums);
		of->seen_in = (uint32_t)index + 1;
		caller = function;
		line = line_of(callgrind, chain->node[i]);
	}
	return err ? err : add_cost(callgrind, function, line, NO_CALLEE, &row->sums);
}

/* Sorts the costs of one function together, its own first. */
static int compare(const void *a, const void *b)
{
	const struct cost *x = a, *y = b;
	if (x->function != y->function)
		return x->function < y->function ? -1 : 1;
	if ((x->callee == NO_CALLEE) != (y->callee == NO_CALLEE))
		return x->callee == NO_CALLEE ? -1 : 1;
	if (x->line != y->line)
		return x->line < y->line ? -1 : 1;
	return (x->callee > y->callee) - (x->callee < y->callee);
}

/* --- lines -------------------------------------------------------------------------------------
 */

enum role { ROLE_MODULE = 1, ROLE_FILE = 2, ROLE_FUNCTION = 4 };

/* "fn=(3) name", and later "fn=(3)". Each role is numbered separately. */
static void put_name(
	struct callgrind *callgrind, const char *prefix, enum role role, uint32_t number)
{
	fprintf(callgrind->out, "%s=(%" PRIu32 ")", prefix, number + 1);
	if (!(callgrind->printed[number] & role))
		fprintf(callgrind->out, " %s", callgrind->pool.text[number]);
	callgrind->printed[number] |= (uint8_t)role;
	putc('\n', callgrind->out);
}

static void put_function(
	struct callgrind *callgrind, const char *const prefix[3], const struct function *function)
{
	put_name(callgrind, prefix[0], ROLE_MODULE, function->module);
	put_name(callgrind, prefix[1], ROLE_FILE, function->file);
	put_name(callgrind, prefix[2], ROLE_FUNCTION, function->name);
}

static void put_figures(FILE *out, const struct sums *sums)
{
	for (size_t i = 0; i < HT_ARRAY_SIZE(event); i++)
		fprintf(out, " %" PRIi64, metric_value(sums, event[i].metric));
	putc('\n', out);
}

static void put_cost(struct callgrind *callgrind, const struct cost *cost)
{
	FILE *out = callgrind->out;
	if (cost->callee != NO_CALLEE) {
		put_function(callgrind, (const char *const[]){"cob", "cfi", "cfn"},
			&callgrind->function[cost->callee]);
		/* Readers skip a call with count 0 and count its figures as the function's own. */
		const uint64_t calls = cost->sums.allocations;
		fprintf(out, "calls=%" PRIu64 " 0\n", calls ? calls : 1);
	}
	fprintf(out, "%" PRIu32, cost->line);
	put_figures(out, &cost->sums);
}

static void put_head(struct callgrind *callgrind)
{
	const struct view *view = callgrind->view;
	const struct model *model = &view->analysis->model;
	FILE *out = callgrind->out;
	char name[NAMES_BYTES];
	names_copy(name, model->exe && *model->exe ? model->exe : "unknown");
	fprintf(out,
		"# callgrind format\nversion: 1\ncreator: heaptap " HEAPTAP_VERSION
		"\npid: %" PRIu64 "\ncmd: %s\npositions: line\nevents:",
		model->target.pid, name);
	for (size_t i = 0; i < HT_ARRAY_SIZE(event); i++)
		fprintf(out, " %s", event[i].name);
	fputs("\nsummary:", out);
	put_figures(out, &view->total);
}

static struct ht_err *put_costs(struct callgrind *callgrind)
{
	uint32_t function = UINT32_MAX;
	callgrind->printed = calloc(callgrind->pool.count + 1, 1);
	if (!callgrind->printed)
		return ht_err_new(
			HT_ERR_NOMEM, "out of memory for %zu names", callgrind->pool.count);
	if (callgrind->cost_count)
		qsort(callgrind->cost, callgrind->cost_count, sizeof(*callgrind->cost), compare);
	for (size_t i = 0; i < callgrind->cost_count; i++) {
		const struct cost *cost = &callgrind->cost[i];
		if (cost->function != function) {
			putc('\n', callgrind->out);
			put_function(callgrind, (const char *const[]){"ob", "fl", "fn"},
				&callgrind->function[cost->function]);
		}
		function = cost->function;
		put_cost(callgrind, cost);
	}
	fputs("\ntotals:", callgrind->out);
	put_figures(callgrind->out, &callgrind->view->total);
	return NULL;
}

static struct ht_err *add_rows(struct callgrind *callgrind)
{
	struct names_chain chain;
	uint32_t root;
	struct ht_err *err = names_chain_init(&chain, callgrind->view);
	HT_THEN(err, number_function(callgrind, ROOT_NAME, "", "", &root));
	for (size_t i = 0; i < callgrind->view->row_count && !err; i++)
		err = add_row(callgrind, i, &chain);
	names_chain_deinit(&chain);
	return err;
}

static void callgrind_deinit(struct callgrind *callgrind)
{
	pool_deinit(&callgrind->pool);
	map_deinit(&callgrind->by_key);
	map_deinit(&callgrind->cost_of_pair);
	map_deinit(&callgrind->cost_of_place);
	free(callgrind->printed);
	free(callgrind->function);
	free(callgrind->of_group);
	free(callgrind->cost);
}

struct ht_err *export_callgrind(FILE *out, struct export_job *job)
{
	const size_t groups = job->view->groups.count;
	struct callgrind callgrind = {.out = out, .view = job->view, .other = UINT32_MAX};
	struct ht_err *err = NULL;
	callgrind.of_group = malloc((groups + 1) * sizeof(*callgrind.of_group));
	if (!callgrind.of_group)
		return ht_err_new(HT_ERR_NOMEM, "out of memory for %zu functions", groups);
	memset(callgrind.of_group, 0xff, (groups + 1) * sizeof(*callgrind.of_group));
	err = add_rows(&callgrind);
	if (!err) {
		put_head(&callgrind);
		err = put_costs(&callgrind);
	}
	callgrind_deinit(&callgrind);
	return err;
}
