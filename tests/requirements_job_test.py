# SPDX-License-Identifier: Apache-2.0
"""What a job's requirements.txt installs: what the job's Python lacks, once, and no more."""

import os
import subprocess
import sys
import zipfile

import pytest

from stoker_home import LIMIT_S, Stoker, running
from waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="instances on this machine need root so far")


def test_requirements_that_cannot_be_installed_are_told_once_and_not_as_the_scripts_failure(stoker, script):
    path = script("print('never')")
    path.with_name("requirements.txt").write_text("./not-there\n")
    done = stoker("run", path)
    assert done.returncode == 125 and "never" not in done.stdout
    assert done.stdout.count("Invalid requirement") == 1 and done.stdout.endswith("stoker: requirements: pip could not install requirements.txt\n")
    last = done.stderr.splitlines()[-1]
    assert last.startswith("stoker: ClientError: pip could not install requirements.txt: Invalid requirement: ")
    assert last.endswith("; the script was not started (train/algo-1)") and done.stderr.count("not-there") == 1
    note = stoker("ps", "-a").stdout.splitlines()[-1]
    assert "Invalid requirement" in note and note.endswith("; the script was not started (train/algo-1)")  # whole where it is no terminal


def test_a_python_that_cannot_install_is_not_the_platforms_failure(stoker, script, tmp_path):
    path = script("print('never')")
    path.with_name("requirements.txt").write_text("there\n")
    for lacks, text in (("-c", "does not say where its packages are"), ("venv", "cannot make a virtual environment")):
        python = tmp_path / f"python-without{lacks}"
        python.write_text(f'#!/bin/sh\ncase "$*" in *{lacks}*) echo no such thing; exit 1;; esac\nexec {sys.executable} "$@"\n')
        python.chmod(0o755)
        done = stoker("run", path, "--python", python)
        last = done.stderr.splitlines()[-1]
        assert done.returncode == 125 and last.startswith(f"stoker: ClientError: {python} {text}"), done.stderr
        assert "no such thing" in done.stdout + last and "name another by --python" in last, done.stderr


def wheel(folder, name, version, needs=()):
    """A wheel of one module, NAME.py, which says its version."""
    info = f"{name}-{version}.dist-info/"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", f"version = {version!r}\n")
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {need}" for need in needs)]
        archive.writestr(info + "METADATA", "\n".join(lines) + "\n")
        archive.writestr(info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(info + "RECORD", "")


@pytest.fixture
def environment(tmp_path):
    """A Python environment of its own with pip and the package `there` in version 1.5."""

    def make(name="environment"):
        folder = tmp_path / name
        subprocess.run([sys.executable, "-m", "venv", folder], check=True, timeout=LIMIT_S)
        wheel(tmp_path, "there", "1.5")
        install = [folder / "bin/python", "-m", "pip", "install", "-q", "--no-index", tmp_path / "there-1.5-py3-none-any.whl"]
        subprocess.run(install, check=True, timeout=LIMIT_S)
        return folder / "bin/python"

    pytest.importorskip("ensurepip")
    return make


def test_what_the_jobs_python_has_is_not_installed_again(stoker, script, environment):
    python = environment()
    path = script("import there; print(there.version, there.__file__)")
    path.with_name("requirements.txt").write_text("there>=1\n")
    nowhere = "PIP_INDEX_URL=http://127.0.0.1:9/"  # whoever asks it fails
    for _ in range(2):
        done = stoker("run", path, "--python", python, "--env", nowhere)
        assert done.returncode == 0, done.stdout
        version, where = done.stdout.splitlines()[-1].split()
        assert version == "1.5" and where.startswith(str(python.parent.parent))
    assert "installing" not in done.stdout  # the second knows
    assert [list(kept.iterdir()) for kept in (stoker.home / "cache/requirements").iterdir() if kept.is_dir()] == [[]]


def test_only_what_is_missing_is_installed_and_the_jobs_python_stays_as_it_is(stoker, script, environment):
    python, other = environment(), environment("other")
    path = script("import there, more; print(there.version, more.version, there.__file__)")
    wheel(path.parent, "there", "2.0")
    wheel(path.parent, "more", "1.0", needs=["there"])
    asks = path.with_name("requirements.txt")

    def run(python, list_):
        asks.write_text(f"--no-index\n--find-links .\n{list_}\n")
        done = stoker("run", path, "--python", python)
        assert done.returncode == 0, done.stdout
        return done.stdout.splitlines()[-1].split()

    assert run(python, "more")[:2] == ["1.5", "1.0"]
    there, more, where = run(python, "more\nthere>=2")
    assert (there, more) == ("2.0", "1.0") and where.startswith(str(stoker.home / "cache/requirements"))
    assert run(python, "more")[:2] == ["1.5", "1.0"]
    subprocess.run([other, "-m", "pip", "uninstall", "-q", "-y", "there"], check=True, timeout=LIMIT_S)
    assert run(other, "more")[:2] == ["2.0", "1.0"]  # the same list, another environment
    subprocess.run([python, "-m", "pip", "uninstall", "-q", "-y", "there"], check=True, timeout=LIMIT_S)
    assert run(python, "more")[:2] == ["2.0", "1.0"]  # the same list and environment, in which something has changed


def test_what_only_the_server_has_is_installed_for_the_job(stoker, script, environment, tmp_path):
    # pip sees the packages of the job's user, not those of the HOME and the user base that the server was started with.
    python = environment()
    # An environment has no user packages; what it is made of has.
    base = subprocess.run([python, "-c", "import os, sys; print(os.path.realpath(sys.executable))"], capture_output=True, text=True).stdout.strip()
    if subprocess.run([base, "-m", "pip", "--version"], capture_output=True).returncode:
        pytest.skip("the Python that the environments are made of has no pip")
    where = f"python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    wheel(tmp_path, "there_too", "1.0")
    for variable in "HOME", "PYTHONUSERBASE":
        home = tmp_path / variable
        packages = home / (".local/lib" if variable == "HOME" else "lib") / where
        subprocess.run([python, "-m", "pip", "install", "-q", "--no-index", "--target", packages, tmp_path / "there_too-1.0-py3-none-any.whl"],
                       check=True, timeout=LIMIT_S)
        path = script("import there_too; print(there_too.version)")
        wheel(path.parent, "there_too", "2.0")
        path.with_name("requirements.txt").write_text(f"--no-index\n--find-links .\nthere_too>=1 # {variable}\n")
        other = Stoker(stoker.home.with_name(variable.lower()))
        other.environment[variable] = str(home)
        try:
            done = other("run", path, "--python", base)
            assert done.returncode == 0 and done.stdout.endswith("2.0\n"), done.stdout + done.stderr
        finally:
            other("server", "--stop", "--force")


def test_what_leads_pip_elsewhere_leads_no_package_past_the_job(stoker, script, environment, tmp_path):
    python = environment()
    path = script("import more; print(more.version)")
    wheel(path.parent, "more", "1.0")
    asks = path.with_name("requirements.txt")
    for name in "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON":
        asks.write_text(f"--no-index\n--find-links .\nmore # {name}\n")
        elsewhere = tmp_path / name
        done = stoker("run", path, "--python", python, "--env", f"{name}={elsewhere}")
        assert done.returncode == 0 and done.stdout.endswith("1.0\n"), done.stdout + done.stderr
        assert not elsewhere.exists()
    for key in "target", "prefix", "root":
        asks.write_text(f"--no-index\n--find-links .\nmore # {key}\n")
        configuration = tmp_path / f"{key}.conf"
        configuration.write_text(f"[install]\n{key} = {tmp_path / key}\n")
        done = stoker("run", path, "--python", python, "--env", f"PIP_CONFIG_FILE={configuration}")
        if key == "target":
            assert done.returncode == 0 and done.stdout.endswith("1.0\n"), done.stdout + done.stderr
        else:
            assert done.returncode == 125 and "pip installed elsewhere" in done.stderr, done.stdout + done.stderr


def test_an_install_that_is_stopped_leaves_no_process_and_no_file(stoker, script, environment):
    path = script("print('never')")
    told, package = path.with_name("told"), path.with_name("slow")
    package.mkdir()
    (package / "pyproject.toml").write_text('[build-system]\nrequires = []\nbuild-backend = "slow"\nbackend-path = ["."]\n')
    (package / "slow.py").write_text(f"""
import os, subprocess, sys, tempfile, time
def get_requires_for_build_wheel(settings=None):
    folder = tempfile.mkdtemp()
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", folder], start_new_session=True)
    open({str(told)!r} + "~", "w").write(folder)
    os.rename({str(told)!r} + "~", {str(told)!r})
    time.sleep(600)
""")
    path.with_name("requirements.txt").write_text(f"--no-index\n{package}\n")
    name = stoker.detach(path, "--python", environment())
    wait_until(told.exists, lambda: stoker("logs", name).stdout)
    folder = told.read_text()
    assert folder.startswith(str(stoker.home)) and os.path.isdir(folder)
    assert any(folder in command for command in running())
    assert stoker("stop", name).returncode == 0
    assert not os.path.exists(folder)
    assert not [command for command in running() if folder in command or str(package) in command]
    assert not list((stoker.home / "jobs" / name).glob("*.unfinished"))
