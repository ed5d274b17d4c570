/* SPDX-License-Identifier: Apache-2.0
 *
 * Real programs under load: they answer before, during and after the capture, work correctly, and
 * are unchanged afterwards. The report names their functions.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define ANSWER_MS 30000
#define LOAD_MS	  90000

/* For a stack that contains `root`: the first frame that views show must be the program's own. */
static void check_site(const json_t *stack, const char *root, const char *own, size_t *skipped)
{
	const json_t *frames = report_at(stack, "frames"), *frame;
	uint64_t wrappers = report_u64(stack, "wrappers");
	size_t index;
	bool from_root = false;
	json_array_foreach(frames, index, frame)
	{
		const char *name = json_string_value(json_object_get(frame, "function"));
		from_root |= name && !strcmp(name, root);
	}
	if (!from_root)
		return;
	frame = json_array_get(frames, wrappers);
	const char *name = json_string_value(json_object_get(frame, "function"));
	ck_assert_msg(name && !strncmp(name, own, strlen(own)), "%s in %.2000s", name,
		json_dumps(stack, JSON_INDENT(1)));
	*skipped += wrappers;
}

/* Checks whether any stack that report --stacks prints begins with one of these wrappers, as
 * `expected`. */
static void check_page(
	const char *trace, const char *option, const char *const wrapper[2], bool expected)
{
	char *out, *line, *rest = NULL;
	int status = run_program((const char *[]){run_built("heaptap"), "report", "--stacks", trace,
					 "--limit=0", option, NULL},
		ANSWER_MS, &out, NULL);
	ck_assert_int_eq(status, 0);
	bool found = false;
	for (line = strtok_r(out, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
		for (size_t i = 0; i < 2 && !strncmp(line, "      ", 6); i++)
			found |= !strncmp(line + 6, wrapper[i], strlen(wrapper[i]));
	ck_assert_int_eq(found, expected);
	free(out);
}

static void check_pages(const char *trace, const char *const wrapper[2])
{
	check_page(trace, "--limit=0", wrapper, false);
	check_page(trace, "--show-wrappers", wrapper, true);
}

static void check_sites(const char *trace, const char *root, const char *own)
{
	json_t *report = report_load(trace), *stack;
	size_t index, skipped = 0;
	json_array_foreach(report_at(report, "stacks"), index, stack)
		check_site(stack, root, own, &skipped);
	ck_assert_uint_gt(skipped, 0);
	json_decref(report);
	check_pages(trace, (const char *const[]){"alloc::", "<alloc::"});
}

static void check_report(const char *trace, const char *function)
{
	json_auto_t *report = report_load(trace);
	ck_assert_uint_gt(report_u64(report, "totals.allocations"), 0);
	ck_assert_uint_gt(report_u64(report, "totals.frees"), 0);
	ck_assert_uint_eq(report_u64(report, "capture.dropped_events"), 0);
	size_t index, frame_index, found = 0;
	json_t *stack, *frame;
	json_array_foreach(report_at(report, "stacks"), index, stack)
		json_array_foreach(report_at(stack, "frames"), frame_index, frame)
	{
		const char *name = json_string_value(json_object_get(frame, "function"));
		found += name && strstr(name, function);
	}
	ck_assert_msg(found > 0, "no frame of %s", function);
}

/* --- programs that speak like the targets --- */

static uint64_t rounds_of(struct victim *victim)
{
	HT_FREED char *answer = victim_ask(victim, "count", ANSWER_MS);
	uint64_t rounds = strtoull(answer, NULL, 10);
	return rounds;
}

static void work_on(struct victim *victim, uint64_t rounds)
{
	uint64_t until = rounds_of(victim) + rounds;
	run_until(rounds_of(victim) >= until, LOAD_MS);
}

static void profile_script(struct tap *tap, const char *const argv[], unsigned flags,
	uint64_t rounds, const char *function)
{
	struct victim victim;
	victim_start(&victim, argv);
	work_on(&victim, rounds);
	struct procsnap *before = procsnap_take(victim.pid, flags);
	tap_start(tap, victim.pid, NULL);
	tap_wait_any(tap);
	work_on(&victim, rounds);
	victim_prove_alive(&victim);
	tap_check_clean(tap_stop(tap, 0));
	victim_prove_alive(&victim);
	work_on(&victim, rounds);
	procsnap_verify(before, victim.pid);
	victim_stop(&victim);
	check_report(tap->trace, function);
}

HT_TEST(node)
{
	struct tap tap;
	profile_script(&tap, (const char *[]){"/usr/bin/node", "tests/targets/script.js", NULL},
		PROCSNAP_NODE, 300, "node::");
}

/* V8 writes a perf map, but the trace has names, files and lines of JIT frames itself. --perf-map
 * must not replace those: it is for code that was gone before heaptap looked it up. */
HT_TEST(node_with_a_perf_map)
{
	struct victim victim;
	struct tap tap;
	char map[64], *out;
	victim_start(&victim, (const char *[]){"/usr/bin/node", "--perf-basic-prof-only-functions",
				      "tests/targets/script.js", NULL});
	work_on(&victim, 200);
	tap_start_changing(&tap, victim.pid, PROCSNAP_NODE | PROCSNAP_FILES_MOVE, NULL);
	tap_wait_any(&tap);
	work_on(&victim, 20);
	tap_check_clean(tap_stop(&tap, 0));
	victim_stop(&victim);
	snprintf(map, sizeof(map), "/tmp/perf-%d.map", victim.pid);
	int status = run_program((const char *[]){run_built("heaptap"), "report", "--stacks",
					 "--limit=0", "--perf-map", map, tap.trace, NULL},
		ANSWER_MS, &out, NULL);
	unlink(map);
	ck_assert_int_eq(status, 0);
	ck_assert_ptr_nonnull(strstr(out, "  script.js:"));
	free(out);
}

static bool report_says(const char *trace, const char *map, const char *text)
{
	HT_FREED char *out;
	const char *argv[] = {
		run_built("heaptap"), "report", "--stacks", "--limit=0", trace, NULL, NULL, NULL};
	if (map) {
		argv[5] = "--perf-map";
		argv[6] = map;
	}
	ck_assert_int_eq(run_program(argv, ANSWER_MS, &out, NULL), 0);
	bool says = strstr(out, text) != NULL;
	return says;
}

/* With this option each interpreted function has its own code, which only perf maps name. heaptap
 * finds one map itself; the other is given by --perf-map. */
HT_TEST(node_that_writes_maps)
{
	struct victim victim;
	struct tap named, unnamed;
	char command[4200], file[32], *dir = tmpdir_path(""), *dump;
	snprintf(command, sizeof(command),
		"script=$PWD/tests/targets/script.js; cd %s && exec /usr/bin/node --no-opt "
		"--no-sparkplug --interpreted-frames-native-stack --perf-basic-prof --perf-prof "
		"$script",
		dir);
	victim_start(&victim, (const char *[]){"/bin/sh", "-c", command, NULL});
	work_on(&victim, 20);
	tap_start_changing(&named, victim.pid, PROCSNAP_NODE | PROCSNAP_FILES_MOVE, NULL);
	tap_wait_any(&named);
	work_on(&victim, 20);
	tap_check_clean(tap_stop(&named, 0));
	tap_start_changing(&unnamed, victim.pid, PROCSNAP_NODE | PROCSNAP_FILES_MOVE,
		(const char *[]){"--symbolize", "later", NULL});
	tap_wait_any(&unnamed);
	work_on(&victim, 20);
	tap_check_clean(tap_stop(&unnamed, 0));
	victim_stop(&victim);
	snprintf(file, sizeof(file), "/tmp/perf-%d.map", victim.pid);
	unlink(file);
	snprintf(file, sizeof(file), "jit-%d.dump", victim.pid);
	dump = tmpdir_path(file);
	ck_assert(report_says(named.trace, NULL, "JS:~churn "));
	ck_assert(!report_says(unnamed.trace, NULL, "JS:~churn "));
	ck_assert(report_says(unnamed.trace, dump, "JS:~churn "));
	free(dump);
	free(dir);
}

HT_TEST(python_with_sqlite)
{
	struct tap tap;
	profile_script(&tap, (const char *[]){"/usr/bin/python3", "tests/targets/script.py", NULL},
		PROCSNAP_MASKS_CHANGE, 200, "sqlite3");
}

HT_TEST(cxx_with_threads)
{
	struct tap tap;
	profile_script(&tap, (const char *[]){run_built("tests/targets/cxx"), NULL},
		PROCSNAP_MASKS_CHANGE, 2000, "std::");
	check_pages(tap.trace, (const char *const[]){"operator new", "std::"});
	/* No std::function wrapper of a lambda, for which gcc writes no linkage name, may be
	 * shown. */
	check_page(tap.trace, "--limit=0", (const char *const[]){"_M_", "__cxa_"}, false);
}

/* Names in both mangling schemes of Rust. */
HT_TEST(rust)
{
	struct tap tap;
	profile_script(&tap, (const char *[]){run_built("tests/targets/rust"), NULL},
		PROCSNAP_MASKS_CHANGE, 2000, "alloc::");
	check_sites(tap.trace, "rust::run", "rust::");
}

HT_TEST(rust_v0)
{
	struct tap tap;
	profile_script(&tap, (const char *[]){run_built("tests/targets/rust-v0"), NULL},
		PROCSNAP_MASKS_CHANGE, 300, "<alloc::vec::Vec<u64>>::push");
	check_sites(tap.trace, "rust::run", "rust::");
}

/* --- servers --- */

static unsigned free_port(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(any);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
	ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&any, &length), 0);
	close(fd);
	return ntohs(any.sin_port);
}

static bool redis_answers(const char *port)
{
	HT_FREED char *out;
	int status = run_program(
		(const char *[]){"redis-cli", "-p", port, "ping", NULL}, ANSWER_MS, &out, NULL);
	bool answers = status == 0 && !strcmp(out, "PONG\n");
	return answers;
}

static uint64_t redis_commands(const char *port)
{
	HT_FREED char *out;
	run_program((const char *[]){"redis-cli", "-p", port, "info", "stats", NULL}, ANSWER_MS,
		&out, NULL);
	const char *field = strstr(out, "total_commands_processed:");
	ck_assert_msg(field != NULL, "%s", out);
	uint64_t commands = strtoull(strchr(field, ':') + 1, NULL, 10);
	return commands;
}

HT_TEST(redis)
{
	char port[16];
	snprintf(port, sizeof(port), "%u", free_port());
	char *directory = tmpdir_path("");
	struct run server, load;
	run_start(
		&server, (const char *[]){"redis-server", "--bind", "127.0.0.1", "--port", port,
				 "--save", "", "--appendonly", "no", "--maxmemory", "200mb",
				 "--maxmemory-policy", "allkeys-random", "--dir", directory, NULL});
	run_until(redis_answers(port), ANSWER_MS);
	ck_assert(!run_has_ended(&server));
	run_start(
		&load, (const char *[]){"redis-benchmark", "-p", port, "-l", "-q", "-c", "20", "-r",
			       "50000", "-d", "100", "-t", "set,get,lpush,lpop,sadd,hset", NULL});
	run_until(redis_commands(port) > 20000, LOAD_MS);
	struct procsnap *before =
		procsnap_take(server.pid, PROCSNAP_FDS_CHANGE | PROCSNAP_THREADS_CHANGE);
	struct tap tap;
	tap_start(&tap, server.pid, NULL);
	tap_wait_any(&tap);
	uint64_t commands = redis_commands(port);
	run_until(redis_commands(port) > commands + 50000, LOAD_MS);
	ck_assert(redis_answers(port));
	tap_check_clean(tap_stop(&tap, 0));
	commands = redis_commands(port);
	run_until(redis_commands(port) > commands + 20000, LOAD_MS);
	ck_assert(!run_has_ended(&load));
	run_deinit(&load);
	procsnap_verify(before, server.pid);
	ck_assert(redis_answers(port));
	kill(server.pid, SIGTERM);
	ck_assert_int_eq(run_wait(&server, ANSWER_MS), 0);
	check_report(tap.trace, "processCommand");
}

static void write_nginx_files(unsigned port)
{
	char *conf = tmpdir_path("nginx.conf"), *page = tmpdir_path("page.html");
	FILE *file = fopen(conf, "we");
	ck_assert_ptr_nonnull(file);
	fprintf(file,
		"daemon off;\nmaster_process off;\npid nginx.pid;\nerror_log stderr;\n"
		"events { worker_connections 256; }\n"
		"http { access_log off; client_body_temp_path b; proxy_temp_path p;\n"
		"fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;\n"
		"server { listen 127.0.0.1:%u; root .; } }\n",
		port);
	ck_assert_int_eq(fclose(file), 0);
	file = fopen(page, "we");
	ck_assert(file && fputs("a page", file) >= 0 && fclose(file) == 0);
}

/* Sends `requests` requests; true if none failed. */
static bool nginx_serves(const char *url, const char *requests)
{
	HT_FREED char *out;
	int status = run_program((const char *[]){"ab", "-q", "-n", requests, "-c", "8", url, NULL},
		LOAD_MS, &out, NULL);
	bool serves = status == 0 && strstr(out, "Failed requests:        0\n") &&
		      !strstr(out, "Non-2xx");
	return serves;
}

HT_TEST(nginx)
{
	unsigned port = free_port();
	write_nginx_files(port);
	char url[64];
	snprintf(url, sizeof(url), "http://127.0.0.1:%u/page.html", port);
	struct run server;
	run_start(&server, (const char *[]){"/usr/sbin/nginx", "-p", tmpdir_path(""), "-c",
				   tmpdir_path("nginx.conf"), NULL});
	run_until(nginx_serves(url, "10"), ANSWER_MS);
	struct procsnap *before = procsnap_take(server.pid, PROCSNAP_FDS_CHANGE);
	struct tap tap;
	tap_start(&tap, server.pid, NULL);
	tap_wait_any(&tap);
	ck_assert(nginx_serves(url, "20000"));
	tap_check_clean(tap_stop(&tap, 0));
	ck_assert(nginx_serves(url, "5000"));
	procsnap_verify(before, server.pid);
	kill(server.pid, SIGQUIT);
	ck_assert_int_eq(run_wait(&server, ANSWER_MS), 0);
	check_report(tap.trace, "libc");
}

/* The benchmark of rocksdb makes its own load and runs to its end while captures begin and end. */
HT_TEST(rocksdb)
{
	char database[4096], link[64], exe[4096] = "";
	snprintf(database, sizeof(database), "--db=%s", tmpdir_path("db"));
	struct run bench;
	run_start(&bench,
		(const char *[]){"/usr/bin/db_bench", "--benchmarks=fillseq,readwhilewriting",
			"--num=300000", "--threads=2", "--duration=20", database, NULL});
	snprintf(link, sizeof(link), "/proc/%d/exe", bench.pid);
	run_until(readlink(link, exe, sizeof(exe) - 1) > 0 && strstr(exe, "db_bench"), ANSWER_MS);
	run_until(strstr(run_out(&bench), "RocksDB") != NULL, ANSWER_MS);
	struct tap tap[2];
	for (size_t i = 0; i < HT_ARRAY_SIZE(tap); i++) {
		struct procsnap *before = procsnap_take(bench.pid,
			PROCSNAP_FDS_CHANGE | PROCSNAP_THREADS_CHANGE | PROCSNAP_MASKS_CHANGE);
		tap_start(&tap[i], bench.pid, (const char *[]){"--lossless", NULL});
		tap_wait_any(&tap[i]);
		uint64_t end = run_now_ms() + 500;
		while (run_now_ms() < end)
			run_pause();
		tap_check_clean(tap_stop(&tap[i], 0));
		procsnap_verify(before, bench.pid);
	}
	ck_assert_int_eq(run_wait(&bench, LOAD_MS), 0);
	for (size_t i = 0; i < HT_ARRAY_SIZE(tap); i++)
		check_report(tap[i].trace, "rocksdb::");
	char *out = run_out(&bench);
	ck_assert_msg(strstr(out, "readwhilewriting :"), "%s", out);
}

HT_SUITE("integration/programs")
