"""Work is put to cores in order, never far ahead, and with one thread for each matrix product."""

import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from clinometer._cores import mapped_by_threads, one_thread


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_order_and_items_are_taken_when_there_is_room(threads):
    taken = []

    def items():
        for item in range(20):
            taken.append(item)
            yield item

    results = mapped_by_threads(lambda item: item * item, items(), threads)
    assert taken == []
    assert next(results) == 0
    assert len(taken) <= 2 * threads
    assert list(results) == [item * item for item in range(1, 20)]


def test_several_threads_are_at_work_at_once():
    together = threading.Barrier(3, timeout=600)
    assert len(list(mapped_by_threads(lambda item: together.wait(), range(3), 3))) == 3


@pytest.mark.parametrize("threads", [1, 3])
def test_the_first_error_ends_it(threads):
    def reciprocal(item):
        return 1 / item

    with pytest.raises(ZeroDivisionError):
        list(mapped_by_threads(reciprocal, [1, 2, 0, 4, 5], threads))


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


def test_matrix_products_take_one_thread_meanwhile():
    np.ones((2, 2)) @ np.ones((2, 2))
    before = blas_threads()
    with one_thread():
        assert blas_threads() == {1}
    assert blas_threads() == before


def test_the_last_of_several_threads_gives_matrix_products_theirs_back():
    """Who came first leaves first: the others still have one thread each, and afterwards all is as it was."""
    np.ones((2, 2)) @ np.ones((2, 2))
    with threadpool_limits(limits=2, user_api="blas"):
        first, second = one_thread(), one_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == {2}


def test_torch_takes_one_thread_meanwhile_and_has_its_own_back():
    torch = pytest.importorskip("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        first, second = one_thread(), one_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert torch.get_num_threads() == 1
        second.__exit__(None, None, None)
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
