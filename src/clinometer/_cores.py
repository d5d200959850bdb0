"""How many cores there are to work with."""

import os


def available_cores() -> int:
    """Cores that this process may use: a container or a cluster's scheduler may have narrowed them."""
    affinity = getattr(os, "sched_getaffinity", None)  # not every system can say
    return len(affinity(0)) if affinity else os.cpu_count() or 1
