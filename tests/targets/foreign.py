# SPDX-License-Identifier: Apache-2.0
#
# A Python program with an extension module of its own: threads call C that keeps books (foreign.c),
# which calls Python, which calls C. All the while another makes garbage and has it collected. Its
# one argument is the module's path.
import gc
import importlib.util
import os
import sys
import threading

WORKERS = 4
CALLS = 20
OPERATIONS = 1000

spec = importlib.util.spec_from_file_location("foreign", sys.argv[1])
foreign = importlib.util.module_from_spec(spec)
spec.loader.exec_module(foreign)
collections = 0
stopping = False


def wrong(what):
    print("WRONG:", what, file=sys.stderr, flush=True)
    os._exit(2)


def total(depth):
    return depth + total(depth - 1) if depth else 0


def climb(depth):
    if total(depth) != depth * (depth + 1) // 2:
        wrong("the sum to %d" % depth)


def back(seed):
    climb(100)
    foreign.work(seed, OPERATIONS // 10, None)


def work(seed):
    for i in range(CALLS):
        foreign.work((seed << 32) + i * 4711, OPERATIONS, back)
        climb(i * 10)


def collect():
    global collections
    while not stopping:
        rings = [[bytes(1000 + i)] for i in range(300)]
        for ring in rings:
            ring.append(ring)
        if [len(ring[0]) for ring in rings] != list(range(1000, 1300)):
            wrong("rings are lost")
        ring = rings = None
        if gc.collect() < 300:
            wrong("rings were not collected")
        collections += 1


def phase(more):
    before = collections
    if not more:
        foreign.begin()
    workers = [threading.Thread(target=work, args=(seed + 1,)) for seed in range(WORKERS)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    while collections == before:  # another one within the phase
        threading.Event().wait(0.001)
    foreign.say()


gc.disable()
load = threading.Thread(target=collect)
load.start()
print("ready", os.getpid(), flush=True)
for line in sys.stdin:
    if line == "ping\n":
        print("pong", flush=True)
    elif line in ("go\n", "more\n"):
        phase(line == "more\n")
    elif line.startswith("save "):
        foreign.save(line[5:-1])
        print("saved", flush=True)
    else:
        break
stopping = True
load.join()
