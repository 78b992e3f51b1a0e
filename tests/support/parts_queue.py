"""HyperQueue without its program `hq`, not on PyPI: a server with a job of parts, and workers of one core each.

    parts_queue.py server FOLDER PARTS PROGRAM WORD...   submits `PROGRAM WORD... --part i/PARTS` for each i; exits when all are done
    parts_queue.py worker FOLDER SERVER                  computes for the server in SERVER until it is killed
"""

import os
import sys
import threading

from hyperqueue import Job
from hyperqueue.cluster import LocalCluster


def server(folder, parts, *command):
    with LocalCluster(os.path.abspath(folder)) as cluster:
        job = Job(os.getcwd())
        for part in range(1, int(parts) + 1):
            job.program([*command, "--part", f"{part}/{parts}"])
        client = cluster.client()
        client.wait_for_jobs([client.submit(job)])


def worker(folder, server):
    # The package starts a worker only with its own server. That server gets no jobs: the worker reads the address
    # of a server from a file, which is replaced here by a link to the other server's.
    cluster = LocalCluster(os.path.abspath(folder))
    current = os.path.join(folder, "hq-current")
    os.remove(current)
    os.symlink(os.path.realpath(os.path.join(server, "hq-current")), current)
    cluster.cluster.add_worker(1)
    threading.Event().wait()


if __name__ == "__main__":
    {"server": server, "worker": worker}[sys.argv[1]](*sys.argv[2:])
