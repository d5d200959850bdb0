"""Small audits of the reference model, and their end in the middle."""

import os
import signal

from clinometer.suites import load_suite
from tests import quick


def few_targets():
    """Two targets and one prompt a group: 14 images."""
    suite = load_suite("reference").with_options(images=4)
    name, category = next(iter(suite.categories.items()))
    groups = {each: group.model_copy(update={"prompts": group.prompts[:1]}) for each, group in suite.groups.items()}
    few = {
        "categories": {name: category.model_copy(update={"targets": category.targets[:2]})},
        "groups": groups,
        "images": suite.images.model_copy(update={"attribute": 2}),
    }
    return suite.model_copy(update=few)


def editing():
    suite = load_suite("downstream/editing-reference").with_options(images=2)
    return suite.model_copy(update={"strengths": (1.0,)})


def classification():
    suite = load_suite("downstream/classification-reference").with_options(images=4)
    return suite.model_copy(update={"noise_samples": (1, 3)})


SETTINGS = {
    "few_targets": {"model_options": {}, "steps": 2},
    "editing": {"steps": 2},
    "classification": {"portraits": "reference"},
}


def audit(suite, out, workers=None):
    options = SETTINGS[suite] | {"batch_size": 8, "device": "cpu", "workers": workers}
    return quick.audit("reference", globals()[suite](), out, **options)


def die_at(name):
    """Have this process kill itself as soon as a file of a run is in its place."""
    replace = os.replace

    def replace_and_die(source, target):
        replace(source, target)
        if str(target).endswith(name):
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = replace_and_die


def audit_until(name, suite, out):
    """The same in a process of its own, with one thread of torch, until a file is in its place."""
    from clinometer._torch import torch

    die_at(name)
    torch.set_num_threads(1)
    audit(suite, out)
