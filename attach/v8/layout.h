/* SPDX-License-Identifier: Apache-2.0
 *
 * How V8 lays out its heap, as its own constants for debuggers say (v8dbg_*, exported by node and
 * libnode): where the fields of objects are and what types are called by number. They are of the
 * very build that runs.
 */
#pragma once

#include "attach/elf/modules.h"

/* Offsets are in bytes from an object's first byte. */
struct v8_layout {
	raddr_t module_lo, module_hi; /* the module that has V8 in it: constant strings */
	uint64_t module_id;
	uint64_t tls_bytes; /* module.tls_bytes */
	struct natives_v8 code;
	int32_t instance_type;	       /* in a map, 16 bits */
	int32_t instructions;	       /* from an instruction stream to its first instruction */
	int32_t code_start, code_size; /* where the first is noted in a Code object, and how many
					  bytes (32 bits) they are */
	int32_t code_deoptimization;
	int32_t deoptimization_function; /* index of the function in that array */
	int32_t wrapper_function;	 /* of what stands there for it; 0: it is there itself */
	int32_t array_elements, array_length;
	int32_t closure_function; /* of a JSFunction: its SharedFunctionInfo */
	int32_t function_data, function_name, function_script;
	int32_t script_name, script_source, script_line_ends;
	/* In words of a ScopeInfo behind its map: the number of locals, what comes behind all
	 * counts (in newer ones the position before it). */
	int32_t scope_locals_index, scope_names_index;
	int32_t scope_flags_shift; /* 32: a small integer, 0: the lower half of their word */
	int32_t scope_module; /* type of a module's scope, in the flags' lower bits: the number of
				 its variables is in front of the names; -1: never */
	int32_t string_length, one_byte_chars, two_byte_chars;
	int32_t cons_first, cons_second, sliced_parent, sliced_offset, thin_actual;
	int32_t external_resource;
	int32_t frame_function; /* from rbp: the JSFunction of a JavaScript frame */
	int32_t frame_bytecode; /* and the BytecodeArray of one that is interpreted */
	int32_t isolate_heap;	/* where an isolate has its heap */
	/* What a chunk of the heap begins with says at chunk_heap whose it is; it is there itself,
	 * or where that begins which the word at chunk_header leads to (-1: itself). */
	int32_t chunk_header, chunk_heap;

	/* Instance types. */
	int32_t type_map, type_code, type_instructions, type_array, type_deoptimization,
		type_wrapper, type_function, type_bytecode, type_script, type_scope;
	int32_t type_external, type_uncached; /* of one-byte strings; 0: it is not told */
	int32_t first_nonstring;
	/* Bits of the type of a string. */
	int32_t form_mask, encoding_mask, one_byte, uncached;
	int32_t form_seq, form_cons, form_external, form_sliced, form_thin;
};

/* The layout of the V8 that is among `modules`. False: there is none, or one that does not say what
 * is needed, or differs from what is understood here. `ret_why`: what is wrong with the one there
 * is, for a person; "" when there is none. */
HT_MUST_CHECK
struct ht_err *v8_layout_read(const struct proc *proc, const struct modules *modules,
	struct v8_layout *ret, bool *ret_found, char *ret_why, size_t why_bytes);
