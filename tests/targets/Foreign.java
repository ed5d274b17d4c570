// SPDX-License-Identifier: Apache-2.0
//
// A Java program with a JNI library: threads call C that keeps books (foreign.c), which calls Java,
// which calls C. All the while others make garbage, have it collected, and use null where they must
// not, which compiled code finds out by SIGSEGV, as it does that it is to wait for the collector;
// each checks what it has worked out.
//
// Its one argument is the library's path.

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;

final class Foreign {
	private static final int WORKERS = 4;
	private static final int CALLS = 20;
	private static final int OPERATIONS = 1000;

	private static volatile boolean stopping;
	private static final AtomicLong nulls = new AtomicLong();
	private static final AtomicLong collections = new AtomicLong();

	private int value = 7;

	private static native void begin();

	private static native void work(long seed, int operations, boolean andBack);

	private static native void say();

	private static native void save(String path);

	private static void wrong(String what) {
		System.err.println("WRONG: " + what);
		System.err.flush();
		Runtime.getRuntime().halt(2);
	}

	private static long sum(int depth) {
		return depth == 0 ? 0 : sum(depth - 1) + depth;
	}

	private static void climb(int depth) {
		long got = sum(depth);
		if (got != (long) depth * (depth + 1) / 2) {
			wrong("the sum to " + depth + " is " + got);
		}
	}

	/** The C code calls this by JNI. */
	private static void back(long seed) {
		climb(200);
		work(seed, OPERATIONS / 10, false);
	}

	private static void runWorker(long seed) {
		for (int i = 0; i < CALLS; i++) {
			work((seed << 32) + i * 4711L, OPERATIONS, true);
			climb(i * 50);
		}
	}

	private static int valueOf(Foreign foreign) {
		return foreign.value;
	}

	/** Every second one is null. */
	private static void useNulls() {
		Foreign[] foreign = {new Foreign(), null};
		while (!stopping) {
			int caught = 0;
			int values = 0;
			for (int i = 0; i < 200; i++) {
				try {
					values += valueOf(foreign[i % 2]);
				} catch (NullPointerException e) {
					caught++;
				}
			}
			if (caught != 100 || values != 700) {
				wrong(caught + " of 100 nulls were caught, values " + values);
			}
			nulls.addAndGet(caught);
		}
	}

	private static void collect() {
		while (!stopping) {
			Map<Integer, String> names = new HashMap<>();
			for (int i = 0; i < 2000; i++) {
				names.put(i, "name " + i);
			}
			System.gc();
			if (names.size() != 2000 || !names.get(1234).equals("name 1234")) {
				wrong("names are lost");
			}
			climb(2000);
			collections.incrementAndGet();
		}
	}

	/** Makes no call and no allocation: the collector can stop it only at the loop's safepoint
	 * poll. */
	private static void spin() {
		long x = 1;
		while (!stopping) {
			for (long i = 0; i < 100000L; i++) {
				x = x * 6364136223846793005L + 1442695040888963407L;
			}
			if (x == 0) {
				wrong("x is 0");
			}
		}
	}

	private static void awaitMore(AtomicLong count, long before) throws InterruptedException {
		while (count.get() == before) {
			Thread.sleep(1);
		}
	}

	private static void runPhase(boolean more) throws InterruptedException {
		long used = nulls.get();
		long collected = collections.get();
		Thread[] worker = new Thread[WORKERS];
		if (!more) {
			begin();
		}
		for (int i = 0; i < WORKERS; i++) {
			long seed = i + 1;
			worker[i] = new Thread(() -> runWorker(seed));
			worker[i].start();
		}
		for (Thread each : worker) {
			each.join();
		}
		// Wait for another collection and more null accesses within the phase.
		awaitMore(nulls, used);
		awaitMore(collections, collected);
		say();
	}

	private static boolean obey(String command) throws InterruptedException {
		if (command.equals("ping")) {
			System.out.println("pong");
		} else if (command.equals("go") || command.equals("more")) {
			runPhase(command.equals("more"));
		} else if (command.startsWith("save ")) {
			save(command.substring(5));
			System.out.println("saved");
		} else {
			return false;
		}
		return true;
	}

	public static void main(String[] args) throws IOException, InterruptedException {
		System.load(Path.of(args[0]).toAbsolutePath().toString());
		Thread[] load = {new Thread(Foreign::useNulls), new Thread(Foreign::collect),
			new Thread(Foreign::spin)};
		for (Thread each : load) {
			each.start();
		}
		System.out.println("ready " + ProcessHandle.current().pid());
		BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
		for (String line; (line = commands.readLine()) != null && obey(line);) {
		}
		stopping = true;
		for (Thread each : load) {
			each.join();
		}
	}
}
