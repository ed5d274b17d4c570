/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout is read from a library in this process that exports the constants of a V8 version. A
 * V8 without one of these constants is refused.
 */
#include "attach/v8/layout.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "attach/elf/modules.h"
#include "attach/memory/proc_maps.h"
#include "attach/process/proc_open.h"
#include "tests/support/compile.h"
#include "tests/support/ht_check.h"
#include "tests/unit/attach/v8plan.h"

#define WHY_BYTES 120u
#define ABSENT	  INT32_MIN
#define MAJOR	  "_ZN2v88internal7Version6major_E"
#define MINOR	  "_ZN2v88internal7Version6minor_E"

/* The constants that heaptap uses, as in node 20.20.2, 22.23.3 and 24.21.0. */
static const struct {
	const char *name;
	int32_t value[V8PLAN_COUNT];
} constants[] = {
	{MAJOR, {11, 12, 13}},
	{MINOR, {3, 4, 6}},
	{"v8dbg_TaggedSize", {8, 8, 8}},
	{"v8dbg_HeapObjectTag", {1, 1, 1}},
	{"v8dbg_HeapObjectTagMask", {3, 3, 3}},
	{"v8dbg_SmiTag", {0, 0, 0}},
	{"v8dbg_SmiTagMask", {1, 1, 1}},
	{"v8dbg_class_HeapObject__map__Map", {0, 0, 0}},
	{"v8dbg_StringTag", {0, 0, 0}},
	{"v8dbg_class_Map__instance_type__uint16_t", {12, 12, 12}},
	{"v8dbg_class_InstructionStream__instruction_start__uintptr_t", {16, 32, 32}},
	{"v8dbg_class_Code__instruction_start__Address", {ABSENT, 40, 40}},
	{"v8dbg_class_Code__instruction_size__int", {ABSENT, 52, 56}},
	{"v8dbg_class_Code__deoptimization_data__FixedArray", {16, ABSENT, ABSENT}},
	{"v8dbg_DeoptimizationDataSharedFunctionInfoIndex", {6, 6, ABSENT}},
	{"v8dbg_DeoptimizationDataWrappedSharedFunctionInfoIndex", {ABSENT, ABSENT, 7}},
	{"v8dbg_DeoptimizationDataLiteralArrayIndex", {2, 2, 3}},
	{"v8dbg_class_SharedFunctionInfoWrapper__shared_info__Tagged_SharedFunctionInfo_",
		{ABSENT, ABSENT, 8}},
	{"v8dbg_class_FixedArray__data__uintptr_t", {16, 16, 16}},
	{"v8dbg_class_FixedArrayBase__length__SMI", {8, 8, 8}},
	{"v8dbg_class_JSFunction__shared__SharedFunctionInfo", {24, 32, 32}},
	{"v8dbg_class_SharedFunctionInfo__function_data__Object", {8, ABSENT, ABSENT}},
	{"v8dbg_class_SharedFunctionInfo__name_or_scope_info__Object", {16, ABSENT, ABSENT}},
	{"v8dbg_class_SharedFunctionInfo__name_or_scope_info__Tagged_Object_",
		{ABSENT, 16, ABSENT}},
	{"v8dbg_class_SharedFunctionInfo__name_or_scope_info__Tagged_NameOrScopeInfoT_",
		{ABSENT, ABSENT, 24}},
	{"v8dbg_class_SharedFunctionInfo__script_or_debug_info__HeapObject", {32, ABSENT, ABSENT}},
	{"v8dbg_class_SharedFunctionInfo__script__Tagged_HeapObject_", {ABSENT, 32, 40}},
	{"v8dbg_class_Script__name__Object", {16, 16, 16}},
	{"v8dbg_class_Script__source__Object", {8, 8, 8}},
	{"v8dbg_class_Script__line_ends__Object", {56, 56, 56}},
	{"v8dbg_scopeinfo_idx_ncontextlocals", {2, 2, 2}},
	{"v8dbg_scopeinfo_idx_first_vars", {3, 3, 5}},
	{"v8dbg_class_String__length__int32_t", {12, 12, 12}},
	{"v8dbg_class_SeqOneByteString__chars__char", {16, 16, 16}},
	{"v8dbg_class_SeqTwoByteString__chars__char", {16, 16, 16}},
	{"v8dbg_class_ConsString__first__String", {16, 16, 16}},
	{"v8dbg_class_ConsString__second__String", {24, 24, 24}},
	{"v8dbg_class_SlicedString__parent__String", {16, 16, 16}},
	{"v8dbg_class_SlicedString__offset__SMI", {24, 24, 24}},
	{"v8dbg_class_ThinString__actual__String", {16, 16, 16}},
	{"v8dbg_class_ExternalString__resource__Object", {16, 16, 16}},
	{"v8dbg_off_fp_function", {-16, -16, -16}},
	{"v8dbg_off_fp_bytecode_array", {-32, -32, -32}},
	{"v8dbg_type_Map__MAP_TYPE", {255, 264, 272}},
	{"v8dbg_type_Code__CODE_TYPE", {245, 206, 187}},
	{"v8dbg_type_InstructionStream__INSTRUCTION_STREAM_TYPE", {252, 210, 192}},
	{"v8dbg_type_FixedArray__FIXED_ARRAY_TYPE", {175, 174, 205}},
	{"v8dbg_type_TrustedFixedArray__TRUSTED_FIXED_ARRAY_TYPE", {ABSENT, 213, ABSENT}},
	{"v8dbg_type_ProtectedFixedArray__PROTECTED_FIXED_ARRAY_TYPE", {ABSENT, ABSENT, 193}},
	{"v8dbg_type_SharedFunctionInfoWrapper__SHARED_FUNCTION_INFO_WRAPPER_TYPE",
		{ABSENT, ABSENT, 195}},
	{"v8dbg_type_ByteArray__BYTE_ARRAY_TYPE", {190, 186, ABSENT}},
	{"v8dbg_type_TrustedByteArray__TRUSTED_BYTE_ARRAY_TYPE", {ABSENT, ABSENT, 196}},
	{"v8dbg_type_WeakFixedArray__WEAK_FIXED_ARRAY_TYPE", {240, 247, ABSENT}},
	{"v8dbg_type_TrustedWeakFixedArray__TRUSTED_WEAK_FIXED_ARRAY_TYPE", {ABSENT, ABSENT, 199}},
	{"v8dbg_type_SharedFunctionInfo__SHARED_FUNCTION_INFO_TYPE", {262, 274, 282}},
	{"v8dbg_type_BytecodeArray__BYTECODE_ARRAY_TYPE", {191, 205, 186}},
	{"v8dbg_type_Script__SCRIPT_TYPE", {167, 167, 167}},
	{"v8dbg_type_ScopeInfo__SCOPE_INFO_TYPE", {261, 272, 280}},
	{"v8dbg_FirstNonstringType", {128, 128, 128}},
	{"v8dbg_type_ExternalOneByteString__EXTERNAL_ONE_BYTE_STRING_TYPE", {42, 42, 42}},
	{"v8dbg_type_UncachedExternalString__UNCACHED_EXTERNAL_ONE_BYTE_STRING_TYPE",
		{ABSENT, 58, 58}},
	{"v8dbg_StringRepresentationMask", {7, 7, 7}},
	{"v8dbg_StringEncodingMask", {8, 8, 8}},
	{"v8dbg_OneByteStringTag", {8, 8, 8}},
	{"v8dbg_SeqStringTag", {0, 0, 0}},
	{"v8dbg_ConsStringTag", {1, 1, 1}},
	{"v8dbg_ExternalStringTag", {2, 2, 2}},
	{"v8dbg_SlicedStringTag", {3, 3, 3}},
	{"v8dbg_ThinStringTag", {5, 5, 5}},
};

static struct proc self;
static void *library;

/* --- the library ---------------------------------------------------------------------------------
 */

static void load(enum v8plan version)
{
	static const char *const command[] = {"gcc", "-shared", "-fPIC", NULL};
	char *source = NULL;
	size_t bytes = 0;
	FILE *text = open_memstream(&source, &bytes);
	for (size_t i = 0; i < HT_ARRAY_SIZE(constants); i++)
		if (constants[i].value[version] != ABSENT)
			fprintf(text, "int %s = %d;\n", constants[i].name,
				constants[i].value[version]);
	fclose(text);
	char *path = compile(command, source, NULL);
	ck_assert_ptr_nonnull(path);
	library = dlopen(path, RTLD_NOW);
	ck_assert_msg(library != NULL, "%s", dlerror());
	free(path);
	free(source);
	ck_no_err(proc_open(getpid(), &self));
	ck_no_err(proc_open_mem(&self));
}

static void unload(void)
{
	proc_close(&self);
	dlclose(library);
}

static void set(const char *name, int32_t value)
{
	int32_t *constant = dlsym(library, name);
	ck_assert_msg(constant != NULL, "no %s", name);
	*constant = value;
}

/* --- reading it ----------------------------------------------------------------------------------
 */

static bool read_layout(struct v8_layout *ret, char why[WHY_BYTES])
{
	struct proc_maps maps;
	struct modules modules;
	bool found;
	ck_no_err(proc_maps_read(&self, &maps));
	ck_no_err(modules_read(&self, &maps, &modules));
	ck_no_err(v8_layout_read(&self, &modules, ret, &found, why, WHY_BYTES));
	modules_deinit(&modules);
	proc_maps_deinit(&maps);
	return found;
}

static void check_refused(const char *expected)
{
	struct v8_layout layout;
	char why[WHY_BYTES];
	ck_assert(!read_layout(&layout, why));
	ck_assert_str_eq(why, expected);
}

static void check_version(enum v8plan version)
{
	struct v8_layout layout;
	char why[WHY_BYTES];
	ck_assert_msg(read_layout(&layout, why), "%s", why);
	ck_assert_str_eq(why, "");
	const raddr_t constant = (raddr_t)(uintptr_t)dlsym(library, MAJOR);
	ck_assert(constant >= layout.module_lo && constant < layout.module_hi);
	layout.module_lo = layout.module_hi = 0;
	ck_assert_uint_ne(layout.module_id, 0);
	layout.module_id = layout.tls_bytes = 0;
	layout.code = (struct natives_v8){0};
	ck_assert_mem_eq(&layout, &v8plan[version], sizeof(layout));
}

/* heaptap refuses a V8 that states an unknown value for any of these constants. */
static void distort_each_constant(enum v8plan version)
{
	struct v8_layout layout;
	char why[WHY_BYTES];
	for (size_t i = 0; i < HT_ARRAY_SIZE(constants); i++) {
		const int32_t value = constants[i].value[version];
		if (value == ABSENT)
			continue;
		set(constants[i].name, INT32_MAX);
		ck_assert_msg(!read_layout(&layout, why) && why[0], "%s", constants[i].name);
		set(constants[i].name, value);
	}
}

HT_TEST(known_versions)
{
	for (enum v8plan version = 0; version < V8PLAN_COUNT; version++) {
		load(version);
		check_version(version);
		distort_each_constant(version);
		check_version(version);
		unload();
	}
}

HT_TEST(other_versions)
{
	load(V8PLAN_12_4);
	set(MINOR, 5);
	check_refused("version 12.5");
	set(MAJOR, 14);
	check_refused("version 14.5");
	set(MAJOR, 11);
	set(MINOR, 3); /* its constants are those of 12.4 */
	check_refused("class_Code__deoptimization_data__FixedArray is missing");
}

HT_TEST(constants_that_do_not_fit_together)
{
	load(V8PLAN_13_6);
	set("v8dbg_scopeinfo_idx_first_vars", 4);
	check_refused("scopeinfo_idx_first_vars has an unknown value");
	set("v8dbg_scopeinfo_idx_first_vars", 5);
	set("v8dbg_type_UncachedExternalString__UNCACHED_EXTERNAL_ONE_BYTE_STRING_TYPE", 59);
	check_refused("type_UncachedExternalString has an unknown value");
}

HT_SUITE("attach/v8/layout")
