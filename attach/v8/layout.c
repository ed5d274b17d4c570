/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/v8/layout.h"

#include <stdio.h>

#include "attach/elf/dynamic.h"
#include "attach/memory/memory.h"

/* Limit for all symbol lookups; reading a V8 takes a few thousand steps. */
#define STEPS_MAX 200000u

#define FIELD_MAX 512 /* no object here has a field further out */

/* The versions with a known layout, one bit each. */
enum {
	V8_11_3 = 1 << 0, /* node 20 */
	V8_12_4 = 1 << 1, /* node 22 */
	V8_13_6 = 1 << 2, /* node 24 */
	V8_ALL = V8_11_3 | V8_12_4 | V8_13_6,
};

static const struct {
	int32_t major, minor;
	unsigned bit;
} versions[] = {{11, 3, V8_11_3}, {12, 4, V8_12_4}, {13, 6, V8_13_6}};

/* Every constant of a version must exist and lie within these limits. Names of fields end with the
 * field's type, which differs between versions. */
struct constant {
	size_t field;
	int32_t lo, hi;
	const char *name;
	unsigned of;
};

#define AT(member) offsetof(struct v8_layout, member)

static const struct constant constants[] = {
	{AT(instance_type), 2, FIELD_MAX, "class_Map__instance_type__uint16_t", V8_ALL},
	{AT(instructions), 8, FIELD_MAX, "class_InstructionStream__instruction_start__uintptr_t",
		V8_ALL},
	{AT(code_start), 8, FIELD_MAX, "class_Code__instruction_start__Address", V8_12_4 | V8_13_6},
	{AT(code_size), 8, FIELD_MAX, "class_Code__instruction_size__int", V8_12_4 | V8_13_6},
	{AT(code_deoptimization), 8, FIELD_MAX, "class_Code__deoptimization_data__FixedArray",
		V8_11_3},
	{AT(deoptimization_function), 0, 64, "DeoptimizationDataSharedFunctionInfoIndex",
		V8_11_3 | V8_12_4},
	{AT(deoptimization_function), 0, 64, "DeoptimizationDataWrappedSharedFunctionInfoIndex",
		V8_13_6},
	{AT(deoptimization_literals), 0, 64, "DeoptimizationDataLiteralArrayIndex", V8_ALL},
	{AT(wrapper_function), 8, FIELD_MAX,
		"class_SharedFunctionInfoWrapper__shared_info__Tagged_SharedFunctionInfo_",
		V8_13_6},
	{AT(array_elements), 8, FIELD_MAX, "class_FixedArray__data__uintptr_t", V8_ALL},
	{AT(array_length), 8, FIELD_MAX, "class_FixedArrayBase__length__SMI", V8_ALL},
	{AT(closure_function), 8, FIELD_MAX, "class_JSFunction__shared__SharedFunctionInfo",
		V8_ALL},
	{AT(function_data), 8, FIELD_MAX, "class_SharedFunctionInfo__function_data__Object",
		V8_11_3},
	{AT(function_name), 8, FIELD_MAX, "class_SharedFunctionInfo__name_or_scope_info__Object",
		V8_11_3},
	{AT(function_name), 8, FIELD_MAX,
		"class_SharedFunctionInfo__name_or_scope_info__Tagged_Object_", V8_12_4},
	{AT(function_name), 8, FIELD_MAX,
		"class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_", V8_13_6},
	{AT(function_script), 8, FIELD_MAX,
		"class_SharedFunctionInfo__script_or_debug_info__HeapObject", V8_11_3},
	{AT(function_script), 8, FIELD_MAX, "class_SharedFunctionInfo__script__Tagged_HeapObject_",
		V8_12_4 | V8_13_6},
	{AT(script_name), 8, FIELD_MAX, "class_Script__name__Object", V8_ALL},
	{AT(script_source), 8, FIELD_MAX, "class_Script__source__Object", V8_ALL},
	{AT(script_line_ends), 8, FIELD_MAX, "class_Script__line_ends__Object", V8_ALL},
	{AT(scope_locals_index), 0, 16, "scopeinfo_idx_ncontextlocals", V8_ALL},
	{AT(scope_names_index), 0, 16, "scopeinfo_idx_first_vars", V8_ALL},
	{AT(string_length), 8, FIELD_MAX, "class_String__length__int32_t", V8_ALL},
	{AT(one_byte_chars), 8, FIELD_MAX, "class_SeqOneByteString__chars__char", V8_ALL},
	{AT(two_byte_chars), 8, FIELD_MAX, "class_SeqTwoByteString__chars__char", V8_ALL},
	{AT(cons_first), 8, FIELD_MAX, "class_ConsString__first__String", V8_ALL},
	{AT(cons_second), 8, FIELD_MAX, "class_ConsString__second__String", V8_ALL},
	{AT(sliced_parent), 8, FIELD_MAX, "class_SlicedString__parent__String", V8_ALL},
	{AT(sliced_offset), 8, FIELD_MAX, "class_SlicedString__offset__SMI", V8_ALL},
	{AT(thin_actual), 8, FIELD_MAX, "class_ThinString__actual__String", V8_ALL},
	{AT(external_resource), 8, FIELD_MAX, "class_ExternalString__resource__Object", V8_ALL},
	{AT(frame_function), -256, -8, "off_fp_function", V8_ALL},
	{AT(frame_bytecode), -256, -8, "off_fp_bytecode_array", V8_ALL},
	{AT(type_map), 1, UINT16_MAX, "type_Map__MAP_TYPE", V8_ALL},
	{AT(type_code), 1, UINT16_MAX, "type_Code__CODE_TYPE", V8_ALL},
	{AT(type_instructions), 1, UINT16_MAX, "type_InstructionStream__INSTRUCTION_STREAM_TYPE",
		V8_ALL},
	{AT(type_array), 1, UINT16_MAX, "type_FixedArray__FIXED_ARRAY_TYPE", V8_ALL},
	{AT(type_deoptimization), 1, UINT16_MAX, "type_FixedArray__FIXED_ARRAY_TYPE", V8_11_3},
	{AT(type_deoptimization), 1, UINT16_MAX, "type_TrustedFixedArray__TRUSTED_FIXED_ARRAY_TYPE",
		V8_12_4},
	{AT(type_deoptimization), 1, UINT16_MAX,
		"type_ProtectedFixedArray__PROTECTED_FIXED_ARRAY_TYPE", V8_13_6},
	{AT(type_wrapper), 1, UINT16_MAX,
		"type_SharedFunctionInfoWrapper__SHARED_FUNCTION_INFO_WRAPPER_TYPE", V8_13_6},
	{AT(type_bytes), 1, UINT16_MAX, "type_ByteArray__BYTE_ARRAY_TYPE", V8_11_3 | V8_12_4},
	{AT(type_bytes), 1, UINT16_MAX, "type_TrustedByteArray__TRUSTED_BYTE_ARRAY_TYPE", V8_13_6},
	{AT(type_literals), 1, UINT16_MAX, "type_WeakFixedArray__WEAK_FIXED_ARRAY_TYPE",
		V8_11_3 | V8_12_4},
	{AT(type_literals), 1, UINT16_MAX,
		"type_TrustedWeakFixedArray__TRUSTED_WEAK_FIXED_ARRAY_TYPE", V8_13_6},
	{AT(type_function), 1, UINT16_MAX, "type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE",
		V8_ALL},
	{AT(type_bytecode), 1, UINT16_MAX, "type_BytecodeArray__BYTECODE_ARRAY_TYPE", V8_ALL},
	{AT(type_script), 1, UINT16_MAX, "type_Script__SCRIPT_TYPE", V8_ALL},
	{AT(type_scope), 1, UINT16_MAX, "type_ScopeInfo__SCOPE_INFO_TYPE", V8_ALL},
	{AT(first_nonstring), 1, UINT16_MAX, "FirstNonstringType", V8_ALL},
	{AT(type_external), 1, UINT16_MAX,
		"type_ExternalOneByteString__EXTERNAL_ONE_BYTE_STRING_TYPE", V8_ALL},
	{AT(type_uncached), 1, UINT16_MAX,
		"type_UncachedExternalString__UNCACHED_EXTERNAL_ONE_BYTE_STRING_TYPE",
		V8_12_4 | V8_13_6},
	{AT(form_mask), 1, UINT16_MAX, "StringRepresentationMask", V8_ALL},
	{AT(encoding_mask), 1, UINT16_MAX, "StringEncodingMask", V8_ALL},
	{AT(one_byte), 0, UINT16_MAX, "OneByteStringTag", V8_ALL},
	{AT(form_seq), 0, UINT16_MAX, "SeqStringTag", V8_ALL},
	{AT(form_cons), 0, UINT16_MAX, "ConsStringTag", V8_ALL},
	{AT(form_external), 0, UINT16_MAX, "ExternalStringTag", V8_ALL},
	{AT(form_sliced), 0, UINT16_MAX, "SlicedStringTag", V8_ALL},
	{AT(form_thin), 0, UINT16_MAX, "ThinStringTag", V8_ALL},
};

/* Values without a constant, from V8's sources (code.h, shared-function-info.tq, scope-info.tq,
 * instance-type.h), and the offset of an isolate's heap in builds of Node.js. Readers of such a
 * field verify it by its contents. */
static const struct {
	size_t field;
	int32_t value;
	unsigned of;
} known[] = {
	{AT(code_start), 40, V8_11_3},
	{AT(code_size), 56, V8_11_3},
	{AT(code_deoptimization), 8, V8_12_4 | V8_13_6},
	{AT(deoptimization_entries), 11, V8_11_3 | V8_12_4},
	{AT(deoptimization_entries), 12, V8_13_6},
	{AT(translation), V8_TRANSLATION_11_3, V8_11_3},
	{AT(translation), V8_TRANSLATION_12_4, V8_12_4},
	{AT(translation), V8_TRANSLATION_13_6, V8_13_6},
	{AT(function_data), 8, V8_12_4 | V8_13_6},
	{AT(scope_flags_shift), 32, V8_11_3 | V8_12_4},
	{AT(scope_module), -1, V8_11_3},
	{AT(scope_module), 3, V8_12_4},
	{AT(scope_module), 5, V8_13_6},
	{AT(uncached), 16, V8_ALL},
	{AT(isolate_heap), 0xd2c0, V8_11_3},
	{AT(isolate_heap), 0xdea0, V8_12_4},
	{AT(isolate_heap), 0xeff8, V8_13_6},
	{AT(chunk_header), -1, V8_11_3 | V8_12_4},
	{AT(chunk_heap), 16, V8_11_3},
	{AT(chunk_heap), 24, V8_12_4},
	{AT(chunk_header), 8, V8_13_6},
	{AT(chunk_heap), 64, V8_13_6},
};

/* Constants that heaptap's code relies on: 8-byte words, bit 0 marks a pointer, a small integer is
 * in the upper half of its word. */
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

/* `*ret_found` is false if the module does not export such a number. */
static struct ht_err *read_int(
	struct lookup *lookup, const char *symbol, int32_t *ret, bool *ret_found)
{
	Elf64_Sym found[DYNAMIC_VERSIONS_MAX];
	size_t count, got = 0;

	*ret_found = false;
	struct ht_err *err = dynamic_lookup(
		lookup->proc, &lookup->dynamic, symbol, lookup->budget, found, NULL, &count);
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

static int32_t *field_of(struct v8_layout *layout, size_t field)
{
	return (int32_t *)((uint8_t *)layout + field);
}

static struct ht_err *check_expected(struct lookup *lookup, char *ret_why, size_t why_bytes)
{
	struct ht_err *err = NULL;
	for (size_t i = 0; i < HT_ARRAY_SIZE(expected) && !err && !ret_why[0]; i++) {
		int32_t value;
		bool found;
		err = read_constant(lookup, expected[i].name, &value, &found);
		if (!err && !(found && value == expected[i].value))
			snprintf(ret_why, why_bytes, "%s has an unknown value", expected[i].name);
	}
	return err;
}

static struct ht_err *read_version(
	struct lookup *lookup, unsigned *ret, char *ret_why, size_t why_bytes)
{
	int32_t major = 0, minor = 0;
	bool found;
	struct ht_err *err = read_int(lookup, "_ZN2v88internal7Version6major_E", &major, &found);
	HT_THEN(err, read_int(lookup, "_ZN2v88internal7Version6minor_E", &minor, &found));
	*ret = 0;
	for (size_t i = 0; i < HT_ARRAY_SIZE(versions); i++)
		if (versions[i].major == major && versions[i].minor == minor)
			*ret = versions[i].bit;
	if (!err && !*ret)
		snprintf(ret_why, why_bytes, "version %d.%d", major, minor);
	return err;
}

static struct ht_err *read_constants(struct lookup *lookup, unsigned version, struct v8_layout *ret,
	char *ret_why, size_t why_bytes)
{
	struct ht_err *err = NULL;

	for (size_t i = 0; i < HT_ARRAY_SIZE(constants) && !err && !ret_why[0]; i++) {
		const struct constant *constant = &constants[i];
		int32_t value = 0;
		bool found;
		if (!(constant->of & version))
			continue;
		err = read_constant(lookup, constant->name, &value, &found);
		if (!err && !(found && value >= constant->lo && value <= constant->hi))
			snprintf(ret_why, why_bytes, "%s is missing", constant->name);
		*field_of(ret, constant->field) = value;
	}
	for (size_t i = 0; i < HT_ARRAY_SIZE(known); i++)
		if (known[i].of & version)
			*field_of(ret, known[i].field) = known[i].value;
	return err;
}

/* Checks constants that depend on each other; "" if they agree. */
static const char *find_misfit(const struct v8_layout *layout)
{
	/* Between the number of locals and their names there is nothing, or a position. */
	int32_t between = layout->scope_names_index - layout->scope_locals_index - 1;
	if (between != 0 && between != 2)
		return "scopeinfo_idx_first_vars";
	if (layout->type_uncached &&
		layout->type_uncached != (layout->type_external | layout->uncached))
		return "type_UncachedExternalString";
	return "";
}

static struct ht_err *read_module(
	struct lookup *lookup, struct v8_layout *ret, char *ret_why, size_t why_bytes)
{
	unsigned version = 0;
	struct ht_err *err = check_expected(lookup, ret_why, why_bytes);
	if (!err && !ret_why[0])
		err = read_version(lookup, &version, ret_why, why_bytes);
	if (!err && !ret_why[0])
		err = read_constants(lookup, version, ret, ret_why, why_bytes);
	const char *misfit = find_misfit(ret);
	if (!err && !ret_why[0] && misfit[0])
		snprintf(ret_why, why_bytes, "%s has an unknown value", misfit);
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
		HT_THEN(err, read_constant(&lookup, "HeapObjectTag", &value, &has));
		if (!err && has)
			err = read_module(&lookup, ret, ret_why, why_bytes);
		ret->module_lo = module->lo;
		ret->module_hi = module->hi;
		ret->module_id = module->id;
		ret->tls_bytes = module->tls_bytes;
		ret->code = module->natives.v8;
	}
	*ret_found = has && !ret_why[0];
	return err;
}
