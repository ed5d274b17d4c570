/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/v8/function.h"

#include <string.h>

#define LOCALS_MAX     4096u
#define INLINED_LOCALS 75u	  /* beyond that, the names are in a table of their own */
#define SOURCE_MAX     (8u << 20) /* characters of a source that are read to find a line */
#define CHUNK_BYTES    32768u
#define LINES_MAX      (1u << 22)

/* Bits of the flags of a ScopeInfo. */
#define SCOPE_TYPE		15u
#define SCOPE_CLASS_VARIABLE	(1u << 10)
#define SCOPE_FUNCTION_VARIABLE (3u << 12)
#define SCOPE_INFERRED_NAME	(1u << 14)

/* The parts of a ScopeInfo that heaptap uses. */
struct scope {
	uint64_t name, inferred; /* 0: it has none */
	bool has_start;
	uint32_t start; /* position in the source */
};

/* --- scopes --------------------------------------------------------------------------------------
 */

static bool load_index(struct v8_heap *heap, uint64_t scope, uint64_t index, uint64_t *ret)
{
	return v8_load(heap, scope, 8 + 8 * (int32_t)index, ret);
}

static bool load_small(struct v8_heap *heap, uint64_t scope, uint64_t index, uint32_t *ret)
{
	return v8_load_smi(heap, scope, 8 + 8 * (int32_t)index, ret);
}

/* Two small integers, start and end. */
static void load_position(
	struct v8_heap *heap, uint64_t object, uint64_t index, struct scope *scope)
{
	uint32_t start, end;
	if (!load_small(heap, object, index, &start) ||
		!load_small(heap, object, index + 1, &end) || start > end || end >> 31)
		return;
	scope->start = start;
	scope->has_start = true;
}

static bool load_flags(struct v8_heap *heap, uint64_t scope, uint32_t *ret)
{
	const int32_t shift = heap->layout.scope_flags_shift;
	uint64_t flags;
	if (!load_index(heap, scope, 0, &flags) || flags != (uint64_t)(uint32_t)(flags >> shift)
								    << shift)
		return false;
	*ret = (uint32_t)(flags >> shift);
	return true;
}

/* A string, or a value that means none. */
static bool load_name(struct v8_heap *heap, uint64_t scope, uint64_t index, uint64_t *ret)
{
	uint64_t word;
	if (!load_index(heap, scope, index, &word))
		return false;
	*ret = v8_is_string(heap, word) ? word : 0;
	return *ret || v8_is_smi(word) || v8_type(heap, word) >= heap->layout.first_nonstring;
}

/*
 * A ScopeInfo has, behind flags and counts, as far as present: the names of locals, one word about
 * each, the class's variable, the function's name and a word about it, the inferred name, the
 * source position. Newer versions have the position between the counts and a module's number of
 * variables, which older versions have at the end.
 */
static bool read_scope(struct v8_heap *heap, uint64_t object, struct scope *ret)
{
	const struct v8_layout *layout = &heap->layout;
	const uint64_t counts_end = (uint64_t)layout->scope_locals_index + 1;
	uint64_t at = (uint64_t)layout->scope_names_index;
	uint32_t flags, locals, variables;

	*ret = (struct scope){0};
	if (!load_flags(heap, object, &flags) ||
		!load_small(heap, object, counts_end - 1, &locals) || locals > LOCALS_MAX)
		return false;
	if ((int32_t)(flags & SCOPE_TYPE) == layout->scope_module &&
		!load_small(heap, object, at++, &variables))
		return false;
	at += locals < INLINED_LOCALS ? locals : 1;
	at += locals;
	at += (flags & SCOPE_CLASS_VARIABLE) != 0;
	if (flags & SCOPE_FUNCTION_VARIABLE) {
		if (!load_name(heap, object, at, &ret->name))
			return false;
		at += 2;
	}
	if ((flags & SCOPE_INFERRED_NAME) && !load_name(heap, object, at++, &ret->inferred))
		return false;
	if ((uint64_t)layout->scope_names_index > counts_end)
		at = counts_end;
	load_position(heap, object, at, ret);
	return true;
}

/* --- lines ---------------------------------------------------------------------------------------
 */

/* V8 records line ends, as an array of small integers, once something has asked for a line. */
static uint32_t line_by_ends(struct v8_heap *heap, uint64_t ends, uint32_t position)
{
	const struct v8_layout *layout = &heap->layout;
	uint32_t first = 0, count, end;
	if (v8_type(heap, ends) != layout->type_array ||
		!v8_load_smi(heap, ends, layout->array_length, &count))
		return 0;
	while (count > 0) {
		uint32_t middle = first + count / 2;
		if (middle > LINES_MAX ||
			!v8_load_smi(
				heap, ends, layout->array_elements + 8 * (int32_t)middle, &end))
			return 0;
		if (end < position) {
			first = middle + 1;
			count -= count / 2 + 1;
		} else {
			count /= 2;
		}
	}
	return first + 1;
}

/* A line ends with LF, CR, CR LF, or one of two Unicode characters. */
static bool ends_line(const uint8_t *raw, size_t i, bool two_bytes, bool *after_cr)
{
	uint32_t unit = two_bytes ? raw[2 * i] | (uint32_t)raw[2 * i + 1] << 8 : raw[i];
	bool ends =
		(unit == '\n' && !*after_cr) || unit == '\r' || unit == 0x2028 || unit == 0x2029;
	*after_cr = unit == '\r';
	return ends;
}

/* For the usual source, in which lines end with LF only: sources are long. */
static uint32_t count_newlines(const uint8_t *raw, size_t count)
{
	uint32_t lines = 0;
	const uint8_t *end = raw + count;
	while ((raw = memchr(raw, '\n', (size_t)(end - raw)))) {
		lines++;
		raw++;
	}
	return lines;
}

static uint32_t count_lines(const uint8_t *raw, uint32_t count, bool two_bytes, bool *after_cr)
{
	uint32_t lines = 0;
	if (!two_bytes && !*after_cr && !memchr(raw, '\r', count))
		return count_newlines(raw, count);
	for (uint32_t i = 0; i < count; i++)
		lines += ends_line(raw, i, two_bytes, after_cr);
	return lines;
}

static uint32_t line_by_source(struct v8_heap *heap, uint64_t source, uint32_t position)
{
	uint8_t raw[CHUNK_BYTES];
	struct v8_chars chars;
	bool after_cr = false;
	uint32_t line = 1;
	if (!v8_flat(heap, source, &chars) || position > chars.count || position > SOURCE_MAX)
		return 0;
	for (uint32_t done = 0; done < position;) {
		uint32_t step = position - done, most = CHUNK_BYTES >> chars.two_bytes;
		step = step < most ? step : most;
		if (!v8_read(heap, chars.at + ((raddr_t)done << chars.two_bytes), raw,
			    (size_t)step << chars.two_bytes))
			return 0;
		line += count_lines(raw, step, chars.two_bytes, &after_cr);
		done += step;
	}
	return line;
}

static uint32_t line_of(struct v8_heap *heap, uint64_t script, uint32_t position)
{
	uint64_t word;
	uint32_t line = 0;
	if (v8_load(heap, script, heap->layout.script_line_ends, &word))
		line = line_by_ends(heap, word, position);
	if (!line && v8_load(heap, script, heap->layout.script_source, &word))
		line = line_by_source(heap, word, position);
	return line;
}

/* --- the function --------------------------------------------------------------------------------
 */

/* False: the function has no script, or a debugger has put an object of its own between the two.
 * `*ret_moves`: V8 may be moving the object, since it cannot be read. */
static bool find_script(struct v8_heap *heap, uint64_t function, uint64_t *ret, bool *ret_moves)
{
	bool loaded = v8_load(heap, function, heap->layout.function_script, ret);
	int32_t type = loaded ? v8_type(heap, *ret) : -1;
	*ret_moves = !loaded || (v8_is_object(*ret) && type < 0);
	return type == heap->layout.type_script;
}

static bool read_name(
	struct v8_heap *heap, uint64_t word, struct scope *scope, struct v8_function *ret)
{
	*scope = (struct scope){0};
	if (v8_is_string(heap, word))
		scope->name = word;
	else if (v8_type(heap, word) == heap->layout.type_scope && !read_scope(heap, word, scope))
		return false;
	if (scope->name && !v8_text(heap, scope->name, ret->name, sizeof(ret->name)))
		return false;
	return ret->name[0] || !scope->inferred ||
	       v8_text(heap, scope->inferred, ret->name, sizeof(ret->name));
}

/* False: the name cannot be read, since V8 may be moving it. Code that was made from a string has
 * no file, which is no failure. */
static bool read_file(struct v8_heap *heap, uint64_t script, struct v8_function *ret)
{
	uint64_t file;
	if (!v8_load(heap, script, heap->layout.script_name, &file))
		return false;
	return v8_is_string(heap, file) ? v8_text(heap, file, ret->file, sizeof(ret->file))
					: !v8_is_object(file) || v8_type(heap, file) >= 0;
}

bool v8_function_read(struct v8_heap *heap, uint64_t function, struct v8_function *ret)
{
	uint64_t name, again, script;
	struct scope scope;
	bool moves;

	*ret = (struct v8_function){0};
	if (!v8_load(heap, function, heap->layout.function_name, &name) ||
		!read_name(heap, name, &scope, ret))
		return false;
	if (find_script(heap, function, &script, &moves)) {
		if (!read_file(heap, script, ret))
			return false;
		if (scope.has_start)
			ret->line = line_of(heap, script, scope.start);
	} else if (moves) {
		return false;
	}
	/* Check again that nothing was moved or freed during the reads. */
	v8_renew(heap);
	return v8_load(heap, function, heap->layout.function_name, &again) && again == name &&
	       v8_type(heap, function) == heap->layout.type_function;
}
