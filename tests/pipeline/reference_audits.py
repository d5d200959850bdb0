"""Small audits of the reference model."""

import clinometer as cm
from clinometer.suites import load_suite


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
    return cm.audit("reference", globals()[suite](), out, **options)


def audit_by_one_thread(suite, out):
    """The same in a process of its own, which has the threads that torch chooses."""
    from clinometer._torch import torch

    torch.set_num_threads(1)
    audit(suite, out)
