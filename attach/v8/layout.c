/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/v8/layout.h"

#include <inttypes.h>
#include <stdio.h>

#include "attach/elf/dynamic.h"

/* Of all lookups in all modules, which take a few thousand. */
#define STEPS_MAX 200000u

#define FIELD_MAX 512 /* no object here has a field further out */

/* Each constant has to be there, and between these bounds. Names of fields end with the field's
 * type, which differs between versions. */
struct constant {
	size_t field;
	int32_t lo, hi;
	const char *name;
};

#define AT(member) offsetof(struct v8_layout, member)

static const struct constant constants[] = {
	{AT(instance_type), 2, FIELD_MAX, "class_Map__instance_type__uint16_t"},
	{AT(instructions), 8, FIELD_MAX, "class_InstructionStream__instruction_start__uintptr_t"},
	{AT(code_deoptimization), 8, FIELD_MAX, "class_Code__deoptimization_data__FixedArray"},
	{AT(deoptimization_function), 0, 64, "DeoptimizationDataSharedFunctionInfoIndex"},
	{AT(array_elements), 8, FIELD_MAX, "class_FixedArray__data__uintptr_t"},
	{AT(array_length), 8, FIELD_MAX, "class_FixedArrayBase__length__SMI"},
	{AT(closure_function), 8, FIELD_MAX, "class_JSFunction__shared__SharedFunctionInfo"},
	{AT(function_data), 8, FIELD_MAX, "class_SharedFunctionInfo__function_data__Object"},
	{AT(function_name), 8, FIELD_MAX, "class_SharedFunctionInfo__name_or_scope_info__Object"},
	{AT(function_script), 8, FIELD_MAX,
		"class_SharedFunctionInfo__script_or_debug_info__HeapObject"},
	{AT(script_name), 8, FIELD_MAX, "class_Script__name__Object"},
	{AT(script_source), 8, FIELD_MAX, "class_Script__source__Object"},
	{AT(script_line_ends), 8, FIELD_MAX, "class_Script__line_ends__Object"},
	{AT(scope_locals_index), 0, 16, "scopeinfo_idx_ncontextlocals"},
	{AT(string_length), 8, FIELD_MAX, "class_String__length__int32_t"},
	{AT(one_byte_chars), 8, FIELD_MAX, "class_SeqOneByteString__chars__char"},
	{AT(two_byte_chars), 8, FIELD_MAX, "class_SeqTwoByteString__chars__char"},
	{AT(cons_first), 8, FIELD_MAX, "class_ConsString__first__String"},
	{AT(cons_second), 8, FIELD_MAX, "class_ConsString__second__String"},
	{AT(sliced_parent), 8, FIELD_MAX, "class_SlicedString__parent__String"},
	{AT(sliced_offset), 8, FIELD_MAX, "class_SlicedString__offset__SMI"},
	{AT(thin_actual), 8, FIELD_MAX, "class_ThinString__actual__String"},
	{AT(external_resource), 8, FIELD_MAX, "class_ExternalString__resource__Object"},
	{AT(frame_function), -256, -8, "off_fp_function"},
	{AT(type_map), 1, UINT16_MAX, "type_Map__MAP_TYPE"},
	{AT(type_code), 1, UINT16_MAX, "type_Code__CODE_TYPE"},
	{AT(type_instructions), 1, UINT16_MAX, "type_InstructionStream__INSTRUCTION_STREAM_TYPE"},
	{AT(type_array), 1, UINT16_MAX, "type_FixedArray__FIXED_ARRAY_TYPE"},
	{AT(type_function), 1, UINT16_MAX, "type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE"},
	{AT(type_script), 1, UINT16_MAX, "type_Script__SCRIPT_TYPE"},
	{AT(type_scope), 1, UINT16_MAX, "type_ScopeInfo__SCOPE_INFO_TYPE"},
	{AT(first_nonstring), 1, UINT16_MAX, "FirstNonstringType"},
	{AT(form_mask), 1, UINT16_MAX, "StringRepresentationMask"},
	{AT(encoding_mask), 1, UINT16_MAX, "StringEncodingMask"},
	{AT(one_byte), 0, UINT16_MAX, "OneByteStringTag"},
	{AT(form_seq), 0, UINT16_MAX, "SeqStringTag"},
	{AT(form_cons), 0, UINT16_MAX, "ConsStringTag"},
	{AT(form_external), 0, UINT16_MAX, "ExternalStringTag"},
	{AT(form_sliced), 0, UINT16_MAX, "SlicedStringTag"},
	{AT(form_thin), 0, UINT16_MAX, "ThinStringTag"},
};

/* What is taken for granted here: words of 8 bytes, bit 0 says pointer, a small integer is the
 * upper half of its word. */
static const struct {
	const char *name;
	int32_t value;
} expected[] = {
	{"TaggedSize", 8},
	{"HeapObjectTag", 1},
	{"HeapObjectTagMask", 3},
	{"SmiTag", 0},
	{"SmiTagMask", 1},
	{"class_HeapObject__map__Map", 0},
	{"StringTag", 0},
};

struct lookup {
	const struct proc *proc;
	raddr_t bias;
	struct dynamic dynamic;
	struct budget *budget;
};

/* `*ret_found` false: the module exports no such number. */
static struct ht_err *read_int(
	struct lookup *lookup, const char *symbol, int32_t *ret, bool *ret_found)
{
	Elf64_Sym found[DYNAMIC_VERSIONS_MAX];
	size_t count, got = 0;

	*ret_found = false;
	struct ht_err *err = dynamic_lookup(
		lookup->proc, &lookup->dynamic, symbol, lookup->budget, found, &count);
	if (err || count == 0 || found[0].st_size != sizeof(*ret))
		return err;
	err = memory_read_some(
		lookup->proc, lookup->bias + found[0].st_value, ret, sizeof(*ret), &got);
	*ret_found = got == sizeof(*ret);
	return err;
}

static struct ht_err *read_constant(
	struct lookup *lookup, const char *name, int32_t *ret, bool *ret_found)
{
	char symbol[96];
	snprintf(symbol, sizeof(symbol), "v8dbg_%s", name);
	return read_int(lookup, symbol, ret, ret_found);
}

static int32_t *field_of(struct v8_layout *layout, const struct constant *constant)
{
	return (int32_t *)((uint8_t *)layout + constant->field);
}

static struct ht_err *read_constants(
	struct lookup *lookup, struct v8_layout *ret, char *ret_why, size_t why_bytes)
{
	struct ht_err *err = NULL;
	bool found = false;
	int32_t value;

	for (size_t i = 0; i < HT_ARRAY_SIZE(expected) && !err && !ret_why[0]; i++) {
		err = read_constant(lookup, expected[i].name, &value, &found);
		if (!err && !(found && value == expected[i].value))
			snprintf(ret_why, why_bytes, "%s is not understood", expected[i].name);
	}
	for (size_t i = 0; i < HT_ARRAY_SIZE(constants) && !err && !ret_why[0]; i++) {
		const struct constant *constant = &constants[i];
		value = 0;
		err = read_constant(lookup, constant->name, &value, &found);
		if (!err && !(found && value >= constant->lo && value <= constant->hi))
			snprintf(ret_why, why_bytes, "%s is not told", constant->name);
		*field_of(ret, constant) = value;
	}
	return err;
}

/* Where no constant tells a field, the version does. */
static struct ht_err *read_version(
	struct lookup *lookup, struct v8_layout *ret, char *ret_why, size_t why_bytes)
{
	int32_t major = 0, minor = 0;
	bool found;
	struct ht_err *err = read_int(lookup, "_ZN2v88internal7Version6major_E", &major, &found);
	if (!err)
		err = read_int(lookup, "_ZN2v88internal7Version6minor_E", &minor, &found);
	if (!err && !ret_why[0] && (major != 11 || minor != 3))
		snprintf(ret_why, why_bytes, "version is %d.%d", major, minor);
	ret->code_size = 16;
	ret->uncached = 16;
	return err;
}

struct ht_err *v8_layout_read(const struct proc *proc, const struct modules *modules,
	struct v8_layout *ret, bool *ret_found, char *ret_why, size_t why_bytes)
{
	struct budget budget = {.bytes = UINT64_MAX, .steps = STEPS_MAX};
	struct ht_err *err = NULL;
	bool has = false;

	*ret = (struct v8_layout){0};
	*ret_found = false;
	ret_why[0] = '\0';
	for (size_t i = 0; i < modules->count && !err && !has; i++) {
		const struct module *module = &modules->module[i];
		struct lookup lookup = {.proc = proc, .bias = module->bias, .budget = &budget};
		int32_t value;
		err = dynamic_read(proc, module, &lookup.dynamic);
		if (!err)
			err = read_constant(&lookup, "HeapObjectTag", &value, &has);
		if (!err && has)
			err = read_constants(&lookup, ret, ret_why, why_bytes);
		ret->module_lo = module->lo;
		ret->module_hi = module->hi;
		if (!err && has)
			err = read_version(&lookup, ret, ret_why, why_bytes);
	}
	*ret_found = has && !ret_why[0];
	return err;
}
