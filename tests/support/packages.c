/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/packages.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/support/figures.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"

#define ANSWER_MS 120000

/* Runs a script or program of a package with its home in the test's directory. */
static char *run_node(const char *modules, const char *const words[])
{
	char node[4200], path[4200], home[4200], *directory = tmpdir_path(""), *out, *err;
	const char *argv[16] = {"env", home, path, node};
	size_t count = 4;
	snprintf(node, sizeof(node), "%s/node/bin/node", modules);
	snprintf(path, sizeof(path), "NODE_PATH=%s", modules);
	snprintf(home, sizeof(home), "HOME=%s", directory);
	while (*words)
		argv[count++] = *words++;
	int status = run_program(argv, ANSWER_MS, &out, &err);
	ck_assert_msg(status == 0, "%s %s ended with %d: %.2000s", words[-1], node, status, err);
	free(err);
	free(directory);
	return out;
}

static void check_schema(const char *modules, const char *trace)
{
	static const char script[] =
		"const fs = require('fs');"
		"const schema = require('speedscope/dist/release/file-format-schema.json');"
		"const check = new (require('ajv'))({strict: false}).compile(schema);"
		"const is_valid = check(JSON.parse(fs.readFileSync(process.argv[1])));"
		"console.log(is_valid ? 'valid' : JSON.stringify(check.errors.slice(0, 3)));";
	char *path = figures_export(trace, "speedscope", NULL, NULL);
	char *out = run_node(modules, (const char *[]){"-e", script, path, NULL});
	ck_assert_str_eq(out, "valid\n");
	free(out);
	free(path);
}

/* Bytes of blocks that have a stack and are live at the end, summed from the export itself. */
static uint64_t retained_bytes(const char *path)
{
	json_error_t error;
	json_t *root = json_load_file(path, 0, &error), *stack;
	ck_assert_msg(root, "%s", error.text);
	const json_t *thread = json_array_get(report_at(root, "threads"), 0);
	const json_t *weights = report_at(thread, "nativeAllocations.weight");
	size_t index;
	json_int_t sum = 0;
	json_array_foreach(report_at(thread, "nativeAllocations.stack"), index,
		stack) if (!json_is_null(stack)) sum +=
		json_integer_value(json_array_get(weights, index));
	json_decref(root);
	return (uint64_t)sum;
}

static char *run_profiler(const char *modules, const char *a, const char *b, const char *c)
{
	char program[4200];
	snprintf(program, sizeof(program), "%s/@firefox-devtools/profiler-cli/dist/profiler-cli.js",
		modules);
	return run_node(modules, (const char *[]){program, a, b, c, NULL});
}

/* The profiler must accept the export's format version, and find the same retained bytes. */
static void check_profiler(const char *modules, const char *trace)
{
	char *path = figures_export(trace, "firefox", NULL, NULL);
	json_t *function;
	size_t index;
	uint64_t sum = 0;
	free(run_profiler(modules, "load", path, NULL));
	free(run_profiler(modules, "strategy", "native-retained-allocations", NULL));
	char *out = run_profiler(modules, "thread", "functions", "--json");
	free(run_profiler(modules, "stop", "--all", NULL));
	json_t *functions = report_parse(out);
	json_array_foreach(report_at(functions, "functions"), index, function) sum +=
		report_u64(function, "selfSamples");
	ck_assert_uint_eq(sum, retained_bytes(path));
	json_decref(functions);
	free(out);
	free(path);
}

void packages_check(const char *trace)
{
	const char *modules = getenv("HEAPTAP_NODE_MODULES");
	if (!modules || access(modules, X_OK) < 0) {
		printf("skipped: formats: speedscope's schema and Firefox Profiler: "
		       "HEAPTAP_NODE_MODULES names no directory of npm packages\n");
		return;
	}
	check_schema(modules, trace);
	check_profiler(modules, trace);
}
