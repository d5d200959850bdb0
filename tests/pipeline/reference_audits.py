"""Small audits of the reference model, which a process of its own can start by name."""

import clinometer as cm
from clinometer.suites import load_suite


def few_targets():
    suite = load_suite("reference").with_options(images=3)
    first = next(iter(suite.categories.items()))
    targets = first[1].model_copy(update={"targets": first[1].targets[:2]})
    return suite.model_copy(update={"categories": {first[0]: targets}})


def editing():
    suite = load_suite("downstream/editing-reference").with_options(images=2)
    return suite.model_copy(update={"strengths": (1.0,)})


def classification():
    suite = load_suite("downstream/classification-reference").with_options(images=4)
    return suite.model_copy(update={"noise_samples": (1, 6)})


SETTINGS = {
    "few_targets": {"model_options": {}, "steps": 2},
    "editing": {"steps": 2},
    "classification": {"portraits": "reference"},
}


def audit(suite, out, workers):
    options = SETTINGS[suite] | {"batch_size": 8, "device": "cpu", "workers": workers}
    return cm.audit("reference", globals()[suite](), out, **options)
