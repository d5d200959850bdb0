"""How much memory there is: the machine's, or what the groups grant that a process is in."""

import psutil
import pytest

from clinometer._memory import Memory, memory

UNLIMITED = 9223372036854771712
STAT = "cache 5\n{} 300\nanon 7\n"


def group(folder, limit, usage, *, version):
    folder.mkdir(parents=True, exist_ok=True)
    names = ("memory.max", "memory.current") if version == 2 else ("memory.limit_in_bytes", "memory.usage_in_bytes")
    for name, value in zip(names, (limit, usage), strict=True):
        (folder / name).write_text(f"{value}\n")
    (folder / "memory.stat").write_text(STAT.format("inactive_file" if version == 2 else "total_inactive_file"))


@pytest.fixture
def system(tmp_path):
    """A system that says nothing of groups yet."""
    (tmp_path / "proc/self").mkdir(parents=True)
    return tmp_path


def placed(system, *lines):
    (system / "proc/self/cgroup").write_text("\n".join(lines) + "\n")


def test_without_limits_it_is_the_machines(system, monkeypatch):
    machine = psutil.virtual_memory()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: machine)  # others may take some of it meanwhile
    placed(system, "4:memory:/jobs/7", "0::/jobs/7")
    group(system / "sys/fs/cgroup/memory/jobs/7", UNLIMITED, 10, version=1)
    group(system / "sys/fs/cgroup/jobs/7", "max", 10, version=2)
    for root in (system, system / "no such place"):
        found = memory(root)
        assert found.total == machine.total
        assert found.available == machine.available


@pytest.mark.parametrize("version", [1, 2])
def test_a_group_grants_its_limit_and_files_that_wait_in_memory_are_free(system, version):
    hierarchy = system / "sys/fs/cgroup" / ("memory" if version == 1 else "")
    placed(system, "4:cpu,memory:/jobs/7" if version == 1 else "0::/jobs/7", "1:name=systemd:/elsewhere")
    group(hierarchy / "jobs/7", 5000, 2000, version=version)
    assert memory(system) == Memory(5000, 3300)
    group(hierarchy / "jobs", 4000, 3900, version=version)  # a group around it is narrower
    assert memory(system) == Memory(4000, 400)


@pytest.mark.parametrize("version", [1, 2])
def test_a_container_that_names_its_groups_as_the_host_does_finds_its_own(system, version):
    placed(system, "4:memory:/docker/8a" if version == 1 else "0::/../8a")
    group(system / "sys/fs/cgroup" / ("memory" if version == 1 else ""), 5000, 6000, version=version)
    assert memory(system) == Memory(5000, 0)
