/* SPDX-License-Identifier: Apache-2.0 */
#include "attach/daemon/orders.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define TICK_MS	   200
#define READ_BYTES (1u << 18)

struct ht_err *orders_put(
	struct bytes_out *queue, enum order_kind kind, const struct rec *rec, uint64_t events)
{
	struct order order = {.kind = kind, .events = events};
	const size_t start = queue->length;
	struct ht_err *err = bytes_out_put(queue, &order, sizeof(order));
	if (!err && rec)
		err = rec_encode(queue, rec);
	if (err) {
		queue->length = start;
		return err;
	}
	order.length = (uint32_t)(queue->length - start - sizeof(order));
	memcpy(queue->data + start, &order, sizeof(order));
	return NULL;
}

struct ht_err *orders_receive(struct orders *orders, pid_t parent, bool *ret_open)
{
	struct pollfd wait[] = {{.fd = orders->fd, .events = POLLIN}, {.fd = orders->next_fd}};
	const int ready = poll(wait, HT_ARRAY_SIZE(wait), TICK_MS);
	/* Look at the parent, too: a worker that cannot be killed may hold the writing end open
	 * after the daemon's death. */
	*ret_open = ready != 0 || !parent || getppid() == parent;
	if (ready > 0 && wait[1].revents)
		*ret_open = false;
	if (ready <= 0 || !*ret_open)
		return NULL;
	HT_TRY(bytes_out_reserve(&orders->in, READ_BYTES));
	const ssize_t got = read(orders->fd, orders->in.data + orders->in.length, READ_BYTES);
	if (got > 0)
		orders->in.length += (size_t)got;
	*ret_open = got > 0 || (got < 0 && errno == EINTR);
	return NULL;
}

bool orders_carry_out(struct orders *orders,
	bool (*carry_out)(void *context, const struct order *order, const uint8_t *record),
	void *context)
{
	struct bytes view = bytes_of(orders->in.data, orders->in.length);
	struct order order;
	const uint8_t *head, *record;
	bool go_on = true;
	for (struct bytes next = view; go_on && bytes_take(&next, sizeof(order), &head);) {
		memcpy(&order, head, sizeof(order));
		if (!bytes_take(&next, order.length, &record))
			break;
		go_on = carry_out(context, &order, record);
		view = next;
	}
	orders->in.length = bytes_left(&view);
	/* Without any order yet there is no memory. */
	if (orders->in.length)
		memmove(orders->in.data, view.at, orders->in.length);
	return go_on;
}
