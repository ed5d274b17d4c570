# SPDX-License-Identifier: Apache-2.0
#
# A Python program with native allocations: sqlite3, zlib, json and large byte strings in a thread.
# "count" answers with the rounds so far.
import json
import os
import sqlite3
import sys
import threading
import zlib

rounds = 0
stopping = False


def turn(database):
    database.execute("create table t (id integer primary key, name text)")
    database.executemany(
        "insert into t (name) values (?)", (("name %d" % i * 20,) for i in range(200))
    )
    assert database.execute("select count(*) from t where name like '%7%'").fetchone()[0] == 38
    database.execute("drop table t")
    data = json.dumps([{"key %d" % i: "v" * i} for i in range(100)]).encode()
    assert zlib.decompress(zlib.compress(data)) == data
    assert len(bytearray(100000)) == 100000


def run():
    global rounds
    database = sqlite3.connect(":memory:", check_same_thread=False)
    while not stopping:
        turn(database)
        rounds += 1


worker = threading.Thread(target=run)
worker.start()
print("ready", os.getpid(), flush=True)
for line in sys.stdin:
    if line == "stop\n":
        break
    print("pong" if line == "ping\n" else rounds, flush=True)
stopping = True
worker.join()
