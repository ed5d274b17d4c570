/* SPDX-License-Identifier: Apache-2.0
 *
 * Exports of four kinds of program, read by the programs that they are for: each figure that the
 * man page lists for a format equals the report's. One trace per program serves all formats.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/browser.h"
#include "tests/support/faces.h"
#include "tests/support/figures.h"
#include "tests/support/ht_check.h"
#include "tests/support/packages.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/tap.h"
#include "tests/support/tmpdir.h"
#include "tests/support/tracebuild.h"
#include "tests/support/victim.h"

#define ANSWER_MS 60000
#define LOAD_MS	  90000

/* Checks exports of the whole trace, then of a part: without the stacks that contain `function`. */
static void check_formats(const char *trace, const char *function)
{
	const char *const part[] = {
		"--from", "+5ms", "--to", "-5ms", "--exclude", function, "--min-size", "16", NULL};
	figures_check_all(trace, NULL);
	figures_check_all(trace, part);
	faces_check(trace);
}

static uint64_t rounds_of(struct victim *victim)
{
	HT_FREED char *answer = victim_ask(victim, "count", ANSWER_MS);
	uint64_t rounds = strtoull(answer, NULL, 10);
	return rounds;
}

/* Captures a target while it does `rounds` of its own work; returns the trace's path. */
static char *check_target(
	const char *const argv[], unsigned changes, uint64_t rounds, const char *function)
{
	struct victim victim;
	struct tap tap;
	victim_start(&victim, argv);
	tap_start_changing(&tap, victim.pid, changes, NULL);
	tap_wait_any(&tap);
	uint64_t until = rounds_of(&victim) + rounds;
	run_until(rounds_of(&victim) >= until, LOAD_MS);
	tap_check_clean(tap_stop(&tap, 0));
	victim_stop(&victim);
	check_formats(tap.trace, function);
	return strdup(tap.trace);
}

HT_TEST(cxx)
{
	char *trace = check_target(
		(const char *[]){run_built("tests/targets/cxx"), NULL}, 0, 300, "fill");
	json_auto_t *report = report_load(trace);
	browser_check(trace, report_u64(report, "totals.allocated_bytes"));
	free(trace);
}

HT_TEST(rust)
{
	free(check_target((const char *[]){run_built("tests/targets/rust"), NULL}, 0, 300, "push"));
}

HT_TEST(node)
{
	char *trace =
		check_target((const char *[]){"/usr/bin/node", "tests/targets/script.js", NULL},
			PROCSNAP_NODE, 30, "churn");
	packages_check(trace);
	free(trace);
}

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

HT_TEST(redis)
{
	char port[16];
	struct run server;
	struct tap tap;
	snprintf(port, sizeof(port), "%u", free_port());
	run_start(&server,
		(const char *[]){"redis-server", "--bind", "127.0.0.1", "--port", port, "--save",
			"", "--appendonly", "no", "--dir", tmpdir_path(""), NULL});
	run_until(redis_answers(port), ANSWER_MS);
	tap_start_changing(&tap, server.pid, PROCSNAP_FDS_CHANGE | PROCSNAP_THREADS_CHANGE, NULL);
	tap_wait_any(&tap);
	int status = run_program(
		(const char *[]){"redis-benchmark", "-p", port, "-q", "-n", "10000", "-r", "5000",
			"-d", "100", "-t", "set,get,lpush,sadd,hset", NULL},
		LOAD_MS, NULL, NULL);
	ck_assert_int_eq(status, 0);
	tap_check_clean(tap_stop(&tap, 0));
	kill(server.pid, SIGTERM);
	ck_assert_int_eq(run_wait(&server, ANSWER_MS), 0);
	check_formats(tap.trace, "createClient");
}

/* --- names that no program has -----------------------------------------------------------------
 */

#define HOSTILE                                                                                    \
	"(3) \"a;b,'c\\d\"\n#-----------\nfn=(1) x\r\n</script><img src=x>\t\x1b]0;x\x07\xff\xfe"  \
	"\xe2\x80\xae\xf0\x9f\x98"

static void save(struct tracebuild *build, const char *path)
{
	struct bytes_out bytes = {0};
	tracebuild_slurp(tracebuild_finish(build), &bytes);
	FILE *file = fopen(path, "we");
	ck_assert(file && fwrite(bytes.data, bytes.length, 1, file) == 1 && fclose(file) == 0);
	bytes_out_deinit(&bytes);
}

/* Two stacks and a thread with such names; two of three blocks are never freed. */
static void build_hostile(const char *path)
{
	struct tracebuild build;
	struct eventbuild events = {0};
	char name[50000];
	memset(name, 'x', sizeof(name));
	memcpy(name, "=" HOSTILE, sizeof(HOSTILE));
	name[sizeof(name) - 1] = '\0';
	tracebuild_init(&build);
	tracebuild_start(&build, 4242, 1000000, 1000000);
	tracebuild_module(&build, 1, name, "\"id\n", 0x400000, 0x500000);
	tracebuild_thread(&build, 100, "-" HOSTILE);
	const uint32_t outer = tracebuild_node(&build, 0, 0x400100);
	const uint32_t leaf = tracebuild_node(&build, outer, 0x400200);
	tracebuild_symbol(&build, 1, 0xff, name, name, 10);
	eventbuild_thread(&events, 100, 0);
	eventbuild_alloc(&events, ABI_EVENT_ALLOC, 0, 1001008, 0x1000, 100, leaf);
	eventbuild_alloc(&events, ABI_EVENT_ALLOC, 0, 1002016, 0x2000, 30, outer);
	eventbuild_alloc(&events, ABI_EVENT_ALLOC, 0, 1003024, 0x3000, 7, 0);
	eventbuild_free(&events, ABI_EVENT_FREE, 0, 1004032, 0x3000, 24);
	tracebuild_events(&build, 0, &events);
	tracebuild_sync(&build, 50000000, 50000000);
	tracebuild_end(&build, REC_END_DURATION, 60000000, 60000000);
	save(&build, path);
	eventbuild_deinit(&events);
	tracebuild_deinit(&build);
}

HT_TEST(hostile_names)
{
	HT_FREED char *path = tmpdir_path("hostile.htap");
	build_hostile(path);
	figures_check_all(path, NULL);
	browser_check(path, 137);
	faces_check(path);
}

HT_SUITE("integration/formats")
