/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "attach/daemon/apart.h"
#include "format/cull/cull.h"

#define WRITE_BYTES (64u << 10) /* orders are collected up to this size before a write */

struct filter {
	struct filter_page *page;
	struct cull *cull;
	struct orders orders;
	struct bytes_out out;
	bool is_closed; /* writing to the scribe has failed: it has ended */
	struct ht_err *err;
};

#define show(at, value) __atomic_store_n(at, value, __ATOMIC_RELEASE)

static void write_out(struct filter *filter)
{
	size_t done = 0;
	while (done < filter->out.length && !filter->is_closed) {
		const ssize_t n =
			write(APART_SECOND_FD, filter->out.data + done, filter->out.length - done);
		if (n > 0)
			done += (size_t)n;
		else if (n < 0 && errno != EINTR)
			filter->is_closed = true;
	}
	filter->out.length = 0;
}

static struct ht_err *pass_on(
	struct filter *filter, enum order_kind kind, const struct rec *rec, uint64_t events)
{
	HT_TRY(orders_put(&filter->out, kind, rec, events));
	if (filter->out.length >= WRITE_BYTES)
		write_out(filter);
	return NULL;
}

static struct ht_err *pass_record(void *context, const struct rec *rec, uint64_t events)
{
	return pass_on(context, ORDER_PUT, rec, events);
}

static struct ht_err *take_record(
	struct filter *filter, const struct order *order, const uint8_t *record)
{
	struct bytes view = bytes_of(record, order->length);
	struct rec rec;
	HT_TRY(rec_decode(&view, &rec));
	return cull_take(filter->cull, &rec);
}

static struct ht_err *take_order(
	struct filter *filter, const struct order *order, const uint8_t *record)
{
	if (order->kind == ORDER_PUT)
		return take_record(filter, order, record);
	if (order->kind != ORDER_DISCARD)
		HT_TRY(cull_finish(filter->cull));
	return pass_on(filter, order->kind, NULL, 0);
}

/* False if nothing can be passed on any more. */
static bool carry_out(void *context, const struct order *order, const uint8_t *record)
{
	struct filter *filter = context;
	filter->err = take_order(filter, order, record);
	return !filter->err && !filter->is_closed;
}

static void show_sizes(struct filter *filter)
{
	const struct cull_sizes sizes = cull_sizes(filter->cull);
	show(&filter->page->live_blocks, sizes.live_blocks);
	show(&filter->page->table_bytes, sizes.bytes);
}

static void serve(struct filter *filter, pid_t parent)
{
	bool is_open = true, goes_on = true;
	while (is_open && goes_on) {
		filter->err = orders_receive(&filter->orders, parent, &is_open);
		if (!filter->err)
			goes_on = orders_carry_out(&filter->orders, carry_out, filter);
		goes_on &= !filter->err;
		write_out(filter);
		show_sizes(filter);
	}
	/* The daemon may have ended without an order to finish. */
	if (goes_on)
		filter->err = cull_finish(filter->cull);
	write_out(filter);
}

/* Makes the kernel end this process first when memory runs short. A process may always raise its
 * own score. */
static void offer_to_oom_killer(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	/* If the write fails, the filter is one candidate among others. */
	(void)!write(fd, "1000", 4);
	close(fd);
}

_Noreturn void filter_run(const struct filter_options *options)
{
	struct filter filter = {.page = options->page,
		.orders = {.fd = APART_FIRST_FD, .next_fd = APART_SECOND_FD}};
	const pid_t parent = options->parent;
	offer_to_oom_killer();
	if (!apart_become("heaptap-filter", options->from, options->to, false) ||
		!apart_drop_rights(APART_NOBODY, APART_NOBODY))
		filter.err = ht_err_new(HT_ERR_INTERNAL, "it cannot give up its rights");
	HT_THEN(filter.err, cull_create(options->cull_ns, pass_record, &filter, &filter.cull));
	if (!filter.err)
		serve(&filter, parent);
	if (!filter.err) {
		show(&filter.page->ended, true);
		_exit(0);
	}
	snprintf(filter.page->text, sizeof(filter.page->text), "%s", filter.err->message);
	show(&filter.page->failed, true);
	_exit(1);
}
