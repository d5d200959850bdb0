"""What two processes do to one run's record. On its own, so that a process that is started for it imports little."""

from clinometer.runs import Run


def count_up(place, rounds):
    run = Run(place)
    for _ in range(rounds):
        run.ledger.update(lambda record: {"batch_size": (record["batch_size"] or 0) + 1})
