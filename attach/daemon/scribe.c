/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/scribe.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "format/clock.h"

/* Two steps take longer than scribe_options.patience_ns: looking up names (a minute), and writing a
 * large file to the disk before it is durable. */
#define APPEND_PATIENCE_NS 65000000000u
#define SYNC_PATIENCE_NS   60000000000u

struct scribe {
	const struct scribe_options *options;
	struct scribe_page *page;
	struct store *store;
	struct orders orders;
	uint64_t put_bytes;
};

#define show(at, value) __atomic_store_n(at, value, __ATOMIC_RELEASE)

static void show_text(struct scribe *scribe, const char *text)
{
	snprintf(scribe->page->text, sizeof(scribe->page->text), "%s", text);
}

static void show_state(struct scribe *scribe)
{
	struct scribe_page *page = scribe->page;
	const struct store_status status = store_status(scribe->store);
	show(&page->bytes, status.bytes);
	show(&page->dropped_events, status.dropped_events);
	show(&page->safe_events, status.safe_events);
	/* The state only gets worse: is_done may have set a state that the store does not have. */
	if (status.state <= page->state)
		return;
	show_text(scribe, status.problem ? status.problem : "no memory");
	show(&page->state, status.state);
}

static void show_progress(struct scribe *scribe)
{
	__atomic_fetch_add(&scribe->page->progress, 1, __ATOMIC_RELEASE);
}

/* Call it when all records that were put before have been written. */
static void show_safe(struct scribe *scribe)
{
	if (store_status(scribe->store).state == STORE_OK)
		show(&scribe->page->safe_bytes, scribe->put_bytes);
}

/* Takes `err`. False after an error other than one of the output, such as HT_ERR_NOMEM: nothing
 * more can be written. */
static bool is_done(struct scribe *scribe, struct ht_err *err)
{
	if (!err)
		return true;
	show_text(scribe, err->message);
	show(&scribe->page->state, STORE_BROKEN);
	ht_err_free(err);
	return false;
}

static bool put(struct scribe *scribe, const struct order *order, const uint8_t *data)
{
	struct bytes view = bytes_of(data, order->length);
	uint64_t bytes = store_status(scribe->store).bytes;
	struct rec rec;
	struct ht_err *err = rec_decode(&view, &rec);
	HT_THEN(err, store_put(scribe->store, &rec, order->events));
	if (!is_done(scribe, err))
		return false;
	/* The writer writes a full block before it takes the next record: all earlier records are
	 * written. */
	if (store_status(scribe->store).bytes != bytes)
		show_safe(scribe);
	scribe->put_bytes += order->length;
	return true;
}

static bool flush(struct scribe *scribe)
{
	if (!is_done(scribe, store_flush(scribe->store)))
		return false;
	show_safe(scribe);
	return true;
}

static bool append(struct scribe *scribe)
{
	const struct scribe_options *options = scribe->options;
	struct scribe_page *page = scribe->page;
	if (!options->append || store_status(scribe->store).state != STORE_OK)
		return true;
	show(&page->patience_ns, APPEND_PATIENCE_NS);
	show_progress(scribe);
	return is_done(scribe, options->append(scribe->store, options->context, page->appended,
				       sizeof(page->appended)));
}

static bool finish(struct scribe *scribe, bool named)
{
	if (!flush(scribe) || (named && !append(scribe)))
		return false;
	show(&scribe->page->patience_ns, SYNC_PATIENCE_NS);
	show_progress(scribe);
	return is_done(scribe, store_finish(scribe->store));
}

/* False after the last order, or if nothing more can be written. */
static bool carry_out(void *context, const struct order *order, const uint8_t *data)
{
	struct scribe *scribe = context;
	bool go_on = false;
	switch (order->kind) {
	case ORDER_PUT:
		go_on = put(scribe, order, data);
		break;
	case ORDER_FLUSH:
		go_on = flush(scribe);
		break;
	case ORDER_DISCARD:
		store_discard(scribe->store);
		break;
	case ORDER_FINISH:
	case ORDER_FINISH_NAMED:
		if (finish(scribe, order->kind == ORDER_FINISH_NAMED))
			show_safe(scribe);
		break;
	}
	show_state(scribe);
	if (order->kind != ORDER_PUT)
		show(&scribe->page->answers, scribe->page->answers + 1);
	show_progress(scribe);
	return go_on;
}

/* True: the last order was carried out, or nothing more can be written. False: no more orders come,
 * and the caller writes the rest. */
static bool serve(struct scribe *scribe, pid_t parent)
{
	bool is_open = true;
	while (is_open) {
		const size_t had = scribe->orders.in.length;
		struct ht_err *err = orders_receive(&scribe->orders, parent, &is_open);
		if (!is_done(scribe, err))
			return false;
		if (scribe->orders.in.length != had &&
			!orders_carry_out(&scribe->orders, carry_out, scribe))
			return true;
		uint64_t bytes = store_status(scribe->store).bytes;
		if (!is_done(scribe, store_tick(scribe->store, clock_mono_ns())))
			return true;
		if (store_status(scribe->store).bytes != bytes)
			show_safe(scribe);
		show_state(scribe);
	}
	return false;
}

static void show_opened(struct scribe *scribe, const struct ht_err *err)
{
	struct scribe_page *page = scribe->page;
	if (err) {
		page->failed = true;
		page->code = err->code;
		page->sys = err->sys;
		show_text(scribe, err->message);
	} else {
		show(&page->bytes, store_status(scribe->store).bytes);
		snprintf(page->beside, sizeof(page->beside), "%s",
			store_status(scribe->store).beside);
	}
	show(&page->answers, 1);
}

_Noreturn void scribe_run(
	int fd, pid_t parent, struct scribe_page *page, const struct scribe_options *options)
{
	struct scribe scribe = {
		.options = options, .page = page, .orders = {.fd = APART_FIRST_FD, .next_fd = -1}};
	struct store_options store = options->store;

	if (!apart_become("heaptap-writer", fd, options->kept_fd, !strcmp(store.path, "-")))
		_exit(1);
	page->patience_ns = options->patience_ns;
	store.progress = &page->progress;
	struct ht_err *err = store_create(&store, &scribe.store);
	show_opened(&scribe, err);
	if (err)
		_exit(0);
	if (!serve(&scribe, parent))
		ht_err_free(store_flush(scribe.store));
	store_destroy(scribe.store);
	_exit(0);
}
