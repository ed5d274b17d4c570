/* SPDX-License-Identifier: Apache-2.0
 *
 * The same as chain.c for what C++ adds: exceptions thrown and caught between allocations,
 * destructors that allocate while a stack is being unwound, virtual calls, operator new. Same
 * commands and answers.
 */
#include <new>

#include "tests/targets/chain.h"

namespace chainxx
{

/* operator new calls malloc from libstdc++: one more frame, in another module. */
#define CHAIN_NEW()                                                                                \
	do {                                                                                       \
		size_t chain_bytes = chain_size();                                                 \
		char *volatile chain_ptr = new char[chain_bytes];                                  \
		chain_book(chain_bytes);                                                           \
		delete[] chain_ptr;                                                                \
	} while (0)

struct problem {
	unsigned levels; /* function levels that it still passes */
};

/* Allocates at the end of its scope, also during an exception, when the frames that its owner
 * called are gone. */
class guard
{
	unsigned owner_depth;

      public:
	explicit guard(unsigned mark) : owner_depth(mark + 1)
	{
	}
	CHAIN_FUNCTION ~guard()
	{
		chain_now->depth = owner_depth;
		CHAIN_ENTER();
		CHAIN_ALLOC();
		CHAIN_LEAVE();
	}
};

CHAIN_FUNCTION void thrower(unsigned levels)
{
	CHAIN_ENTER();
	CHAIN_ALLOC();
	if (levels)
		throw problem{levels};
	CHAIN_LEAVE();
}

CHAIN_FUNCTION void descend(unsigned left, unsigned levels)
{
	CHAIN_ENTER();
	{
		guard leaving(chain_mark);
		CHAIN_NEW();
		if (left) {
			try {
				descend(left - 1, levels);
			} catch (problem &thrown) {
				CHAIN_BACK();
				CHAIN_ALLOC();
				if (--thrown.levels)
					throw;
			}
		} else {
			thrower(levels);
		}
		CHAIN_ALLOC();
	}
	CHAIN_LEAVE();
}

class shape
{
      public:
	virtual ~shape() = default;
	virtual void draw(unsigned depth) = 0;
	static shape *any();
};

class circle : public shape
{
	CHAIN_FUNCTION void draw(unsigned depth) override
	{
		CHAIN_ENTER();
		CHAIN_NEW();
		if (depth)
			any()->draw(depth - 1);
		CHAIN_ALLOC();
		CHAIN_LEAVE();
	}
};

class padding
{
      public:
	virtual ~padding() = default;
	virtual void nothing()
	{
	}
	volatile long room[3];
};

/* Reached through a thunk that adjusts `this`. */
class square : public padding, public shape
{
	CHAIN_FUNCTION void draw(unsigned depth) override
	{
		CHAIN_ENTER();
		volatile double lane[4] __attribute__((aligned(32)));
		lane[0] = depth;
		CHAIN_ALLOC();
		if (depth)
			any()->draw(depth - 1);
		if (lane[0] != depth)
			speak_fail("aligned frame overwritten");
		CHAIN_LEAVE();
	}
};

static circle a_circle;
static square a_square;

shape *shape::any()
{
	if (chain_random() % 2)
		return &a_circle;
	return &a_square;
}

CHAIN_FUNCTION void run_all()
{
	CHAIN_ENTER();
	for (unsigned i = 0; i < 200; i++) {
		try {
			descend(i % 12, i % 7);
		} catch (problem &thrown) {
			CHAIN_BACK();
			CHAIN_ALLOC();
		}
		shape::any()->draw(i % 20);
	}
	CHAIN_LEAVE();
}

template <typename T> CHAIN_FUNCTION void make(T *&ret, size_t size)
{
	ret = static_cast<T *>(malloc(size));
	__asm__ volatile("");
}

CHAIN_FUNCTION static void names(unsigned rounds)
{
	for (unsigned i = 0; i < rounds; i++) {
		char *volatile kept;
		char *ptr;
		make<char>(ptr, 1000003);
		kept = ptr;
		free(kept);
	}
}

} // namespace chainxx

extern "C" CHAIN_FUNCTION void run_names(void)
{
	chainxx::names(25);
	speak_add("{\"chains\":[{\"size\":1000003,\"count\":25,\"frames\":["
		  "\"void chainxx::make<char>(char*&, unsigned long)\","
		  "\"chainxx::names(unsigned int)\",\"run_names\",\"main\"]}]}");
	speak_send();
}

int main()
{
	chain_now = &chain_main_shadow;
	CHAIN_ENTER();
	speak_ready();
	for (const char *command; strcmp(command = speak_hear(), "stop");) {
		if (!strcmp(command, "go")) {
			chain_size_next = CHAIN_SIZE_LO;
			chainxx::run_all();
			speak_add("done %lu", chain_size_next - CHAIN_SIZE_LO);
			speak_send();
		} else if (!strncmp(command, "save ", 5)) {
			chain_save(command + 5);
			speak_add("saved");
			speak_send();
		} else if (!strcmp(command, "names")) {
			run_names();
		}
	}
	CHAIN_LEAVE();
	return 0;
}
