"""Threads ahead of their reader: results in order, and no more at work than was allowed."""

import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clinometer.models.files.source import in_order


@settings(deadline=None, max_examples=40)
@given(weights=st.lists(st.integers(0, 30), max_size=30), most=st.integers(1, 40), workers=st.integers(1, 5))
def test_results_come_in_order_and_what_waits_is_weighed(weights, most, workers):
    lock, held, heaviest = threading.Lock(), [0, 0], [0]

    def work(item):
        with lock:
            held[0] += weights[item]
            held[1] += 1
            if held[1] > 1:
                heaviest[0] = max(heaviest[0], held[0])
        time.sleep(0.0002)
        with lock:
            held[0] -= weights[item]
            held[1] -= 1
        return item

    found = in_order(work, range(len(weights)), weight=weights.__getitem__, most=most, workers=workers)
    assert list(found) == list(range(len(weights)))
    assert heaviest[0] <= most  # an item that weighs more is alone


def test_nothing_is_read_much_ahead_of_its_reader():
    taken = []
    found = in_order(taken.append, iter(range(1000)), weight=lambda _: 0, most=1, workers=2)
    next(found)
    assert len(taken) <= 5
    found.close()
    assert len(taken) <= 5


def test_an_error_meets_the_reader_where_it_befell():
    found = in_order(lambda n: 1 // n, [2, 1, 0, 5], weight=lambda _: 1, most=9, workers=2)
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(ZeroDivisionError):
        next(found)
