/* SPDX-License-Identifier: Apache-2.0
 *
 * heaptap-analyze push: sends windows to Pyroscope and ClickHouse, and keeps windows that they do
 * not accept.
 */
#include "analyzer/cmd.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analyzer/push/send.h"
#include "analyzer/push/spool.h"

#define SPOOL_MAX_BYTES (256u << 20)
#define TIMEOUT_NS	30000000000u

struct target {
	struct push_address address;
	struct push_spool spool;
};

struct push {
	const struct option_values *values;
	struct target target[OPTION_REPEAT_MAX];
	size_t count;
};

/* --- into the spool --------------------------------------------------------------------------- */

struct request {
	const struct push_address *address;
	const struct push_window *window;
};

static struct ht_err *write_request(FILE *out, void *context)
{
	const struct request *request = context;
	return push_request_write(out, request->address, request->window);
}

static struct ht_err *add(struct target *target, const struct push_window *window, bool is_quiet)
{
	struct request request = {&target->address, window};
	enum push_added added;
	size_t dropped;
	HT_TRY(push_spool_add(
		&target->spool, window->key, write_request, &request, &added, &dropped));
	if (added == PUSH_SENT && !is_quiet)
		fprintf(stderr, "push: %s: has this window already\n", target->address.shown);
	if (dropped)
		fprintf(stderr,
			"push: %s: the spool is full: the oldest %s gone; %" PRIu64
			" since it exists\n",
			target->address.shown, dropped == 1 ? "window is" : "windows are",
			push_spool_dropped(&target->spool));
	return NULL;
}

/* Adds the window of a trace to each spool. */
static struct ht_err *add_trace(struct push *push, const char *path)
{
	struct cmd_view view;
	struct push_window window;
	struct ht_err *err = cmd_view_open(push->values, path, false, &view);
	if (!err)
		push_window_init(&window, view.view, option_text(push->values, OPTION_HOST, NULL),
			option_text(push->values, OPTION_SERVICE, NULL));
	for (size_t i = 0; i < push->count && !err; i++)
		err = add(&push->target[i], &window, option_is_given(push->values, OPTION_QUIET));
	cmd_view_close(&view);
	return err;
}

/* --- out of the spool ------------------------------------------------------------------------- */

struct sending {
	size_t sent;
	char why[PUSH_WHY_BYTES]; /* why a window was not accepted; "": all were accepted */
	bool is_over;
};

static struct ht_err *send_one(
	struct target *target, const char *name, uint64_t timeout_ns, struct sending *sending)
{
	struct push_head head;
	struct push_answer answer;
	const int fd = push_spool_read(&target->spool, name);
	if (fd < 0)
		return NULL;
	if (!push_request_read(fd, &head)) {
		close(fd);
		snprintf(sending->why, sizeof(sending->why), "%s in the spool is damaged", name);
		return NULL;
	}
	struct ht_err *err = push_send(&target->address, &head, fd, timeout_ns, &answer);
	close(fd);
	if (err)
		return err;
	if (answer.result == PUSH_TAKEN) {
		push_spool_taken(&target->spool, name, head.key);
		sending->sent++;
	} else {
		memcpy(sending->why, answer.why, sizeof(sending->why));
	}
	sending->is_over = answer.result == PUSH_AWAY;
	return NULL;
}

static struct ht_err *send_all(struct target *target, uint64_t timeout_ns, struct sending *sending)
{
	char name[PUSH_SPOOL_NAME_BYTES] = "";
	while (!sending->is_over && push_spool_next(&target->spool, name, name))
		HT_TRY(send_one(target, name, timeout_ns, sending));
	return NULL;
}

static struct ht_err *report(
	const struct target *target, const struct sending *sending, bool is_quiet)
{
	size_t windows;
	uint64_t bytes;
	if (sending->sent && !is_quiet)
		fprintf(stderr, "push: %s: %zu window%s sent\n", target->address.shown,
			sending->sent, sending->sent == 1 ? "" : "s");
	if (!*sending->why)
		return NULL;
	push_spool_count(&target->spool, &windows, &bytes);
	return ht_err_new(HT_ERR_SYS, "push: %s: %s; %zu window%s (%" PRIu64 " KiB) wait%s in %s",
		target->address.shown, sending->why, windows, windows == 1 ? "" : "s",
		(bytes + 1023) / 1024, windows == 1 ? "s" : "", target->spool.path);
}

/* Sends all windows of a spool. Only one process sends; it also sends the windows that other
 * processes add. */
static struct ht_err *empty(struct target *target, uint64_t timeout_ns, bool is_quiet)
{
	struct sending sending = {0};
	char name[PUSH_SPOOL_NAME_BYTES];
	struct ht_err *err = NULL;
	do {
		if (!push_spool_lock(&target->spool))
			break;
		err = send_all(target, timeout_ns, &sending);
		push_spool_unlock(&target->spool);
		/* Another process may have added a window meanwhile, and ended because this one
		 * holds the lock. */
	} while (!err && !*sending.why && push_spool_next(&target->spool, "", name));
	return err ? err : report(target, &sending, is_quiet);
}

/* --- the command ------------------------------------------------------------------------------ */

static struct ht_err *open_targets(struct push *push)
{
	const struct option_value *value = NULL;
	struct ht_err *err = NULL;
	while (!err && (value = option_next(push->values, OPTION_ADDRESS, value))) {
		struct target *target = &push->target[push->count++];
		target->spool.dir = target->spool.lock = -1;
		err = push_address_parse(value->text, &target->address);
		HT_THEN(err, push_spool_open(option_text(push->values, OPTION_SPOOL, NULL),
				     target->address.shown,
				     option_number(push->values, OPTION_SPOOL_MAX, SPOOL_MAX_BYTES),
				     &target->spool));
	}
	if (!err && !push->count)
		err = ht_err_new(HT_ERR_USAGE,
			"push: --to is missing: --to pyroscope+http://HOST:4040 or --to "
			"clickhouse+http://HOST:8123");
	return err;
}

struct ht_err *cmd_push(const struct option_values *values)
{
	struct push push = {.values = values};
	const uint64_t timeout_ns = option_number(values, OPTION_TIMEOUT, TIMEOUT_NS);
	struct ht_err *err = open_targets(&push);
	const bool is_ready = !err;
	for (size_t i = 0; is_ready && i < values->operand_count; i++)
		err = ht_err_first(err, add_trace(&push, values->operand[i]));
	for (size_t i = 0; is_ready && i < push.count; i++)
		err = ht_err_first(err,
			empty(&push.target[i], timeout_ns, option_is_given(values, OPTION_QUIET)));
	for (size_t i = 0; i < push.count; i++) {
		push_spool_close(&push.target[i].spool);
		push_address_deinit(&push.target[i].address);
	}
	return err;
}
