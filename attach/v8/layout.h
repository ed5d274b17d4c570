/* SPDX-License-Identifier: Apache-2.0
 *
 * The layout of V8's heap, from its constants for debuggers (v8dbg_*, exported by node and
 * libnode): offsets of fields and numbers of types, of exactly the build that runs.
 */
#pragma once

#include "attach/elf/modules.h"
#include "attach/v8/translation.h"

/* Offsets are in bytes from an object's first byte. */
struct v8_layout {
	raddr_t module_lo, module_hi; /* module that contains V8, and constant strings */
	uint64_t module_id;
	uint64_t tls_bytes; /* module.tls_bytes */
	struct natives_v8 code;
	int32_t instance_type;	       /* in a map, 16 bits */
	int32_t instructions;	       /* from an instruction stream to its first instruction */
	int32_t code_start, code_size; /* fields of a Code object: first instruction, and the size
					  of the instructions (32 bits) */
	int32_t code_deoptimization;
	int32_t deoptimization_function; /* index of the function in the deoptimization data */
	int32_t deoptimization_literals; /* index of the array of literals in it */
	int32_t deoptimization_entries;	 /* index of its first deopt entry */
	int32_t translation;		 /* enum v8_translation_form */
	int32_t wrapper_function; /* of the wrapper that leads to the function; 0: there is no
				     wrapper */
	int32_t array_elements, array_length;
	int32_t closure_function; /* of a JSFunction: its SharedFunctionInfo */
	int32_t function_data, function_name, function_script;
	int32_t script_name, script_source, script_line_ends;
	/* In words of a ScopeInfo behind its map: the number of locals; the position behind all
	 * counts (newer versions have the source position before it). */
	int32_t scope_locals_index, scope_names_index;
	int32_t scope_flags_shift; /* 32: a small integer; 0: the lower half of the word */
	int32_t scope_module; /* value of the flags' lower bits for a module's scope, in which the
				 number of variables precedes the names; -1: never */
	int32_t string_length, one_byte_chars, two_byte_chars;
	int32_t cons_first, cons_second, sliced_parent, sliced_offset, thin_actual;
	int32_t external_resource;
	int32_t frame_function; /* offset from rbp of a JavaScript frame's JSFunction */
	int32_t frame_bytecode; /* the same for an interpreted frame's BytecodeArray */
	int32_t isolate_heap;	/* offset of the heap in an isolate */
	/* A chunk of the heap names its heap at chunk_heap: in the chunk itself if chunk_header is
	 * -1, otherwise in the object that the word at chunk_header leads to. */
	int32_t chunk_header, chunk_heap;

	/* Instance types. */
	int32_t type_map, type_code, type_instructions, type_array, type_deoptimization,
		type_wrapper, type_bytes, type_literals, type_function, type_bytecode, type_script,
		type_scope;
	int32_t type_external, type_uncached; /* of one-byte strings; 0: unknown */
	int32_t first_nonstring;
	/* Bits of the type of a string. */
	int32_t form_mask, encoding_mask, one_byte, uncached;
	int32_t form_seq, form_cons, form_external, form_sliced, form_thin;
};

/* Reads the layout of the V8 among `modules`. `*ret_found` is false without a V8, or if it lacks a
 * constant or differs from the versions that heaptap knows. `ret_why` says, for a person, what is
 * wrong with it; "" without a V8. */
HT_MUST_CHECK
struct ht_err *v8_layout_read(const struct proc *proc, const struct modules *modules,
	struct v8_layout *ret, bool *ret_found, char *ret_why, size_t why_bytes);
