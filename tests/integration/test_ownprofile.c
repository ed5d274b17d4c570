/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets that profile their own heap: attach is refused without --force as long as the profiler is
 * active, and only then.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/compile.h"
#include "tests/support/ht_check.h"
#include "tests/support/procsnap.h"
#include "tests/support/report.h"
#include "tests/support/run.h"
#include "tests/support/tmpdir.h"
#include "tests/support/victim.h"

#define ANSWER_MS  30000
#define HEAPTAP_MS 60000

/* Source of an allocator with functions that unwind; each test passes its own body to MALLOC. */
#define HEAD                                                                                       \
	"#include <execinfo.h>\n#include <stdlib.h>\n#include <unwind.h>\n"                        \
	"extern void *__libc_malloc(size_t);\n"                                                    \
	"static __thread int within; static volatile int depth;\n"                                 \
	"static _Unwind_Reason_Code count(struct _Unwind_Context *c, void *a)\n"                   \
	"{ (void)c; (void)a; depth++; return 0; }\n"                                               \
	"static __attribute__((noinline)) void by_libc(void) { void *b[32]; depth = backtrace(b, " \
	"32); }\n"                                                                                 \
	"static __attribute__((noinline)) void by_libgcc(void) { _Unwind_Backtrace(count, 0); }\n" \
	"static __attribute__((noinline, noreturn)) void die(void) { by_libc(); abort(); }\n"      \
	"__attribute__((constructor)) static void load(void) { by_libc(); }\n"
#define MALLOC(body)                                                                               \
	HEAD "void *malloc(size_t n) { void *p = __libc_malloc(n);\n"                              \
	     "if (!within) { within = 1; " body " within = 0; } return p; }\n"

static const char *const shared[] = {"gcc", "-O2", "-fPIC", "-shared", "-x", "c", NULL};
static const char *const without_plt[] = {
	"gcc", "-O2", "-fno-plt", "-fPIC", "-shared", "-x", "c", NULL};
static const char *const with_libgcc[] = {
	"gcc", "-O2", "-static-libgcc", "-fPIC", "-shared", "-x", "c", NULL};

static struct victim victim;
static char pid[16];

static void start(const char *library, const char *setting)
{
	char preload[4200];
	snprintf(preload, sizeof(preload), "LD_PRELOAD=%s", library);
	victim_start(&victim, (const char *[]){"/usr/bin/env", preload, setting,
				      run_built("tests/targets/actor"), NULL});
	snprintf(pid, sizeof(pid), "%d", victim.pid);
}

static void check_doctor(bool active)
{
	json_auto_t *doctor = report_run("doctor", victim.pid, 0);
	ck_assert_msg(!report_text(doctor, "own_profile")[0] == !active, "%s",
		report_text(doctor, "own_profile"));
}

static void check_refused(void)
{
	struct procsnap *before = procsnap_take(victim.pid, 0);
	char *err, *trace = tmpdir_path("refused.htap");
	int status = run_program((const char *[]){run_built("heaptap"), "attach", "-p", pid, "-d",
					 "1ms", "-o", trace, NULL},
		HEAPTAP_MS, NULL, &err);
	ck_assert_msg(status == 3, "%d: %s", status, err);
	ck_assert_msg(strstr(err, "profiles its own heap") && strstr(err, "--force"), "%s", err);
	ck_assert_int_ne(access(trace, F_OK), 0);
	procsnap_verify(before, victim.pid);
	free(trace);
	free(err);
}

static void check_recorded(bool force)
{
	char *err, *trace = tmpdir_path("recorded.htap");
	int status = run_program((const char *[]){run_built("heaptap"), "attach", "-p", pid, "-d",
					 "1ms", "-o", trace, force ? "--force" : NULL, NULL},
		HEAPTAP_MS, NULL, &err);
	ck_assert_msg(status == 0, "%d: %s", status, err);
	ck_assert_msg(
		!strstr(err, "WARNING: the process profiles its own heap") == !force, "%s", err);
	ck_assert_int_eq(unlink(trace), 0);
	free(trace);
	free(err);
}

/* Compiles `source` and preloads it. `active`: attach must refuse without --force. */
static void check(const char *const command[], const char *source, bool active)
{
	char *library = compile(command, source, (const char *[]){"-ldl", NULL});
	ck_assert_ptr_nonnull(library);
	start(library, "NOTHING=1");
	check_doctor(active);
	if (active)
		check_refused();
	check_recorded(active);
	victim_prove_alive(&victim);
	victim_stop(&victim);
	free(library);
}

HT_TEST(an_allocator_that_unwinds)
{
	check(shared, MALLOC("by_libc();"), true);
	check(shared, MALLOC("by_libgcc();"), true);
	check(without_plt, MALLOC("by_libc();"), true);
	check(with_libgcc, MALLOC("by_libgcc();"), true);
}

HT_TEST(by_a_pointer)
{
	check(shared,
		"static void (*volatile unwind)(void);\n" MALLOC(
			"unwind();") "static void (*volatile unwind)(void) = by_libc;\n",
		true);
	check(shared,
		"struct way { int number; void (*unwind)(void); };\n"
		"struct way *way;\n" MALLOC(
			"way->unwind();") "static struct way one = {1, by_libgcc};\n"
					  "struct way *way = &one;\n",
		true);
}

/* Like a sampling profiler, which unwinds in one of many calls. */
HT_TEST(now_and_then)
{
	check(shared,
		"static volatile unsigned calls;\n" MALLOC("if (++calls % 100 == 0) by_libc();"),
		true);
}

HT_TEST(switched_off)
{
	check(shared,
		"static int on;\n" MALLOC("if (on) by_libc();") "void enable(void) { on = 1; }",
		false);
	check(shared, "int on;\n" MALLOC("if (on) by_libc();"), false);
	check(shared, "int on = 1;\n" MALLOC("if (on) by_libc();"), true);
	check(shared,
		"#include <stdbool.h>\nstatic bool on;\n" MALLOC(
			"if (on) by_libc();") "void enable(void) { on = true; }",
		false);
}

/* A crash handler also unwinds, but is no profiler. */
HT_TEST(crashes_only)
{
	check(shared, MALLOC("if (!p) die();"), false);
	check(shared,
		"#include <signal.h>\n" MALLOC(
			"") "static void handle(int s) { (void)s; die(); }\n"
			    "__attribute__((constructor)) static void set(void)\n"
			    "{ signal(SIGSEGV, handle); }\n",
		false);
}

#define JEMALLOC(on)                                                                               \
	"#include <stdbool.h>\nbool je_opt_prof = " on                                             \
	";\n" MALLOC("if (n > 5000) by_libgcc();") "int mallctl(const char *n, void *o, size_t "   \
						   "*ol, void *new, size_t nl)\n"                  \
						   "{ (void)n; (void)o; (void)ol; (void)new; "     \
						   "(void)nl; return 1; }\n"

HT_TEST(jemalloc_by_its_option)
{
	check(shared, JEMALLOC("false"), false);
	check(shared, JEMALLOC("true"), true);
}

static const char *library_of(const char *name)
{
	static char path[128];
	snprintf(path, sizeof(path), "/usr/lib/x86_64-linux-gnu/%s", name);
	if (access(path, R_OK) == 0)
		return path;
	printf("skipped: ownprofile: %s is not installed\n", name);
	return NULL;
}

static void check_library(const char *name, const char *setting, bool active)
{
	const char *library = library_of(name);
	if (!library)
		return;
	start(library, setting);
	check_doctor(active);
	if (active)
		check_refused();
	victim_prove_alive(&victim);
	victim_kill(&victim);
}

HT_TEST(jemalloc_by_its_settings)
{
	check_library("libjemalloc.so.2", "NOTHING=1", false);
	check_library("libjemalloc.so.2", "MALLOC_CONF=background_thread:false,prof:true", true);
	check_library("libjemalloc.so.2", "MALLOC_CONF=prof:true,prof_active:false", true);
	check_library("libjemalloc.so.2", "MALLOC_CONF=prof:true,prof:false", false);
}

HT_TEST(gperftools)
{
	char *path = tmpdir_path("profile"), setting[4200];
	snprintf(setting, sizeof(setting), "HEAPPROFILE=%s", path);
	check_library("libtcmalloc.so.4", "NOTHING=1", false);
	check_library("libtcmalloc.so.4", setting, true);
	free(path);
}

HT_SUITE("integration/ownprofile")
