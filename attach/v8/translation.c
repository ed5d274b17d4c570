/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/v8/translation.h"

#include <string.h>

#define OPCODES_MAX 100000u /* of one translation, including those that it skips */

/* The opcodes of one version. The last opcode, with a count behind it, repeats opcodes of the
 * earlier translation. So does a byte above the last opcode, whose excess is the count. */
struct form {
	const char *operands; /* a digit for each opcode: its number of operands */
	uint8_t begin;	      /* the first of two that begin a translation */
	uint8_t function;     /* the first of two for a frame of a function */
};

static const struct form forms[V8_TRANSLATION_FORMS] = {
	[V8_TRANSLATION_11_3] = {"103311313111112111111115333401111121", 2, 23},
	[V8_TRANSLATION_12_4] = {"5333213432103311111111111111111101111121", 12, 0},
	[V8_TRANSLATION_13_6] = {"643321343331003311101111111111111111101111121", 14, 0},
};

struct cursor {
	const uint8_t *bytes;
	size_t length, at;
	size_t earlier; /* position in the earlier translation */
	bool may_repeat;
	uint32_t repeated; /* opcodes that are still to come from `earlier`, with the present one */
	uint32_t passed;   /* opcodes since `earlier` moved last */
	unsigned steps;
	bool is_bad;
};

static uint8_t next_byte(struct cursor *cursor, size_t *at)
{
	if (*at >= cursor->length) {
		cursor->is_bad = true;
		return 0;
	}
	return cursor->bytes[(*at)++];
}

static uint32_t next_number(struct cursor *cursor, size_t *at)
{
	uint32_t number = 0;
	for (unsigned shift = 0; shift < 32; shift += 7) {
		const uint8_t byte = next_byte(cursor, at);
		number |= (uint32_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return number;
	}
	cursor->is_bad = true;
	return 0;
}

static bool is_begin(const struct form *form, uint8_t opcode)
{
	return opcode == form->begin || opcode == form->begin + 1;
}

/* An opcode of the earlier translation, which repeats nothing itself. */
static uint8_t next_earlier(struct cursor *cursor, const struct form *form)
{
	const uint8_t opcode = next_byte(cursor, &cursor->earlier);
	cursor->is_bad |= opcode + 1u >= strlen(form->operands);
	return cursor->is_bad ? 0 : opcode;
}

static void pass_earlier(struct cursor *cursor, const struct form *form)
{
	const uint8_t opcode = next_earlier(cursor, form);
	cursor->is_bad |= ++cursor->steps > OPCODES_MAX;
	for (int i = form->operands[opcode] - '0'; i > 0 && !cursor->is_bad; i--)
		next_number(cursor, &cursor->earlier);
}

static uint8_t begin_repeating(struct cursor *cursor, const struct form *form, uint8_t byte)
{
	const uint32_t last = (uint32_t)strlen(form->operands) - 1;
	cursor->repeated = byte > last ? byte - last - 1 : next_number(cursor, &cursor->at);
	cursor->is_bad |= !cursor->repeated || !cursor->may_repeat;
	for (; cursor->passed && !cursor->is_bad; cursor->passed--)
		pass_earlier(cursor, form);
	return cursor->is_bad ? 0 : next_earlier(cursor, form);
}

static uint8_t next_opcode(struct cursor *cursor, const struct form *form)
{
	cursor->is_bad |= ++cursor->steps > OPCODES_MAX;
	if (cursor->repeated && --cursor->repeated)
		return next_earlier(cursor, form);
	const uint8_t byte = next_byte(cursor, &cursor->at);
	if (byte + 1u >= strlen(form->operands))
		return begin_repeating(cursor, form, byte);
	cursor->passed++;
	return byte;
}

static bool begin(struct cursor *cursor, const struct form *form)
{
	const size_t start = cursor->at;
	if (!is_begin(form, next_byte(cursor, &cursor->at)))
		return false;
	const uint32_t back = next_number(cursor, &cursor->at);
	next_number(cursor, &cursor->at);
	next_number(cursor, &cursor->at);
	if (cursor->is_bad || back > start)
		return false;
	cursor->passed = 1;
	cursor->earlier = start - back;
	cursor->may_repeat = back != 0;
	return is_begin(form, cursor->bytes[cursor->earlier]);
}

static bool is_over(const struct cursor *cursor, const struct form *form)
{
	return cursor->is_bad ||
	       (cursor->repeated <= 1 &&
		       (cursor->at == cursor->length || is_begin(form, cursor->bytes[cursor->at])));
}

bool v8_translation_read(const uint8_t *bytes, size_t length, size_t at,
	enum v8_translation_form version, struct v8_translation *ret)
{
	const struct form *form = &forms[version];
	struct cursor cursor = {.bytes = bytes, .length = length, .at = at};
	*ret = (struct v8_translation){0};
	if (version == V8_TRANSLATION_NONE || !begin(&cursor, form))
		return false;
	while (!is_over(&cursor, form)) {
		uint32_t literal = 0;
		const uint8_t opcode = next_opcode(&cursor, form);
		for (int i = 0; i < form->operands[opcode] - '0' && !cursor.is_bad; i++) {
			const uint32_t number = next_number(
				&cursor, cursor.repeated ? &cursor.earlier : &cursor.at);
			if (i == 1)
				literal = number;
		}
		if (opcode != form->function && opcode != form->function + 1)
			continue;
		/* The function is the second operand, and signed. */
		if (ret->count == V8_INLINED_MAX || literal & 1)
			return false;
		ret->literal[ret->count++] = literal >> 1;
	}
	return !cursor.is_bad && ret->count;
}
