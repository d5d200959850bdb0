"""The door to torch."""

import os
import platform
import subprocess
import sys

import pytest

from clinometer._torch import dtype_name, is_out_of_memory, resolve_device, resolve_dtype, to_device, torch
from clinometer.errors import Code, ModelError
from tests.models.first_import import policies
from tests.quick import thorough_but
from tests.raising import raises


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_without_torch_there_is_a_message():
    found = run("import sys; sys.modules['torch'] = None; import clinometer._torch")
    assert "ModelError: PyTorch is not installed" in found.stderr
    assert "pip install 'clinometer[models]'" in found.stderr


DOORS = {
    "the module": ("python", "-m", "clinometer", "audit", "--out", "run"),
    "the command": ("clinometer", "audit", "--out", "run"),
    "the package": ("python", "-c", "import clinometer as cm; cm.audit(out='run')"),
    "a pipeline": ("python", "-c", "import clinometer.models.diffusers.pipeline"),
    "an encoder": ("python", "-c", "import clinometer.models.encoders.open_clip"),
    "a worker": ("python", "-m", "tests.models.torch_in_workers"),
    "a test": ("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--numprocesses=1", __file__),
}


@pytest.mark.parametrize("door", thorough_but(DOORS, "the command", "a worker"))
def test_idle_threads_sleep_by_every_door(tmp_path, door):
    """Asked when torch is first looked for, which fails then: it would load OpenMP, which asks once."""
    said = policies(tmp_path, DOORS[door], torch=False)
    assert said
    assert set(said) == {"PASSIVE"}


@pytest.mark.thorough
@pytest.mark.parametrize("way", ["copied", "spawned"])
def test_idle_threads_sleep_in_workers_of_who_has_torch(tmp_path, way):
    """The process that is copied imports torch by itself, before any worker is told its environment."""
    command = ("python", "-m", "tests.models.torch_in_workers", way)
    assert policies(tmp_path, command, torch=True) == ["PASSIVE"] * 2


@pytest.mark.thorough
@pytest.mark.slow
def test_idle_threads_sleep_in_actors_of_a_cluster_that_was_there_before(tmp_path):
    """Its processes know nothing of what the driver sets, and here the actor alone looks for torch."""
    pytest.importorskip("ray")
    said = policies(tmp_path, ("python", "-m", "tests.models.torch_in_workers", "ray"), torch=False)
    assert set(said) == {"PASSIVE"}


def test_what_the_environment_says_of_idle_threads_stays(tmp_path):
    assert set(policies(tmp_path, DOORS["a pipeline"], torch=False, OMP_WAIT_POLICY="ACTIVE")) == {"ACTIVE"}


FAULTS = """
import os, resource
from clinometer._torch import torch
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.zeros(2**23)  # 32 MiB: above what glibc takes from the heap, whatever it has learnt
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
faults()
print(faults())
"""


@pytest.mark.thorough
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries are left as they are")
def test_freed_memory_is_kept_unless_the_environment_says_how_to_allocate():
    kept, given_back = (
        int(subprocess.check_output([sys.executable, "-c", FAULTS], env=os.environ | env))
        for env in ({}, {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=7"})  # its own default
    )
    assert kept < 1000
    assert given_back > 100_000  # each page of each block again


@pytest.mark.parametrize(
    "others",
    ["pass", pytest.param("import open_clip; from transformers import CLIPModel", marks=pytest.mark.thorough)],
    ids=["alone", "before others"],
)
def test_torchvision_and_all_that_needs_it_can_be_imported(others):
    asked = "torch.ops.torchvision.nms; torch.ops.torchvision.qnms"
    found = run(f"from clinometer._torch import torch; import torchvision\n{others}\n{asked}")
    assert found.returncode == 0, found.stderr


def test_devices():
    assert resolve_device("cpu").type == "cpu"
    assert resolve_device("auto") == resolve_device(None)
    with raises(ModelError, code=Code.UNKNOWN_NAME, field="device"):
        resolve_device("gpu")
    if not torch.cuda.is_available():
        with raises(ModelError, code=Code.NOT_FOUND, field="device", match="'cuda'"):
            resolve_device("cuda")


def test_dtypes():
    assert resolve_dtype("auto", torch.device("cpu")) is torch.float32
    assert resolve_dtype(None, torch.device("cuda")) is torch.float16
    assert dtype_name(resolve_dtype("bfloat16", torch.device("cpu"))) == "bfloat16"
    with raises(ModelError, code=Code.UNKNOWN_NAME, field="dtype"):
        resolve_dtype("int8", torch.device("cpu"))


def test_a_copy_to_cuda_is_pinned_and_waits_for_nothing():
    """Stands in for a tensor, where there is no CUDA: which calls are made, in which order."""

    class Tensor:
        device = torch.device("cpu")

        def pin_memory(self):
            return calls.append("pinned") or self

        def to(self, device, non_blocking=False):
            return calls.append((str(device), non_blocking)) or self

    calls = []
    to_device(Tensor(), torch.device("cuda:0"))
    to_device(Tensor(), torch.device("mps"))
    assert calls == ["pinned", ("cuda:0", True), ("mps", False)]
    assert torch.equal(to_device(torch.arange(3), torch.device("cpu")), torch.arange(3))


def test_out_of_memory():
    assert is_out_of_memory(torch.OutOfMemoryError())
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(RuntimeError("MPS backend out of memory (MPS allocated: 1 GB)"))
    for words in ("CUDA error: out of memory", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate"):
        assert is_out_of_memory(RuntimeError(words))
    assert not is_out_of_memory(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not is_out_of_memory(KeyboardInterrupt())


def test_onnxruntime_sends_no_telemetry_and_leaves_no_file(tmp_path):
    """From 1.30 on it does both unless it is told before it is imported, and diffusers imports it where it can."""
    code = (
        "import os, clinometer, onnxruntime\n"
        "assert os.environ['ORT_DISABLE_TELEMETRY'] == '1'\n"
        "onnxruntime.SessionOptions(); print(os.listdir('.'))"
    )
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == "[]"
