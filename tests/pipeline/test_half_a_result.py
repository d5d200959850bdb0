"""A worker that is killed while it sends a result dies like any other: its driver does not wait for the rest."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

import pytest

from clinometer.pipeline.engines import Death
from clinometer.pipeline.engines.dispatch import LocalEngine


class Halved:
    """Work whose process dies in the middle of what it sends."""

    def open(self):
        return send_half


def send_half(unit):
    def half(connection, content, write=os.write):
        write(connection.fileno(), bytes(content[: len(content) // 2]))
        os.kill(os.getpid(), signal.SIGKILL)

    Connection._send = half
    return bytes(2**20)


@pytest.mark.thorough
def test_half_a_result_is_not_awaited():
    engine, thread = LocalEngine(1), ThreadPoolExecutor(1)
    try:
        first = thread.submit(lambda: next(iter(engine.map(Halved(), [(0,)])))).result(timeout=600)
        assert isinstance(first, Death)
    finally:
        thread.shutdown(wait=False)
    engine.close()
