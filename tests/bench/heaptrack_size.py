# SPDX-License-Identifier: Apache-2.0
"""What heaptrack would write for a run: interpreted and compressed as its own script does it."""
import os
import shutil
import subprocess

from common import heaptrack_env

INTERPRET = "/usr/lib/heaptrack/libexec/heaptrack_interpret"
CHUNK = 1 << 20


def interpreted(raw, out):
    """Writes what the interpreter makes of the raw data, compressed; how many allocations and frees it has."""
    events, last = 0, b"\n"
    packer = ["zstd", "-qc"] if shutil.which("zstd") else ["gzip", "-c"]
    with open(raw, "rb") as source, open(out, "wb") as target, \
            subprocess.Popen([INTERPRET], stdin=source, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as reader, \
            subprocess.Popen(packer, stdin=subprocess.PIPE, stdout=target) as writer:
        while chunk := reader.stdout.read(CHUNK):
            text = last + chunk
            events += text.count(b"\n+") + text.count(b"\n-")
            last = chunk[-1:]
            writer.stdin.write(chunk)
        writer.stdin.close()
    return events


def heaptrack_size(run, folder):
    """Bytes and events of a run with heaptrack's library; run(env) is one. None without heaptrack."""
    env = heaptrack_env()
    if not env or not os.path.exists(INTERPRET):
        return None
    raw, packed = os.path.join(folder, "raw"), os.path.join(folder, "packed")
    run(dict(env, DUMP_HEAPTRACK_OUTPUT=raw))
    size = {"events": max(interpreted(raw, packed), 1), "bytes": os.path.getsize(packed)}
    os.unlink(raw)
    os.unlink(packed)
    return size
