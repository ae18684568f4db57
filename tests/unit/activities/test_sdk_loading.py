"""SDKs are imported by one thread at a time: Google's broke where several shards began at once."""

import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path
from types import ModuleType

import pytest
from groupage.activities.providers import sdk_loading
from groupage.activities.registry import ADAPTERS
from groupage.schemas import ErrorClass
from groupage.schemas.errors import ProviderError

BEGINNERS = """
    import sys, threading
    from groupage.activities.providers.vertex_errors import translated
    from groupage.activities.providers.vertex_tables import called

    sys.setswitchinterval(1e-6)
    wrong = []

    def jobs():
        from google.cloud.aiplatform_v1.services.job_service import JobServiceClient
        from google.cloud.aiplatform_v1.types import BatchPredictionJob

    def tables():
        from google.cloud import bigquery

    def begin(run, work):
        try:
            run("a call", work)
        except BaseException as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=begin, args=pair) for pair in [(translated, jobs), (called, tables)] * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.exit("; ".join(wrong) or 0)
"""


def test_calls_that_begin_at_once_load_googles_packages_one_after_the_other() -> None:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(BEGINNERS)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_no_two_threads_import_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    importing, most = [0], [0]

    def slow(name: str) -> ModuleType:
        importing[0] += 1
        most[0] = max(most[0], importing[0])
        time.sleep(0.05)
        importing[0] -= 1
        return ModuleType(name)

    monkeypatch.setattr(sdk_loading, "_loaded", set())
    monkeypatch.setattr(sdk_loading.importlib, "import_module", slow)
    threads = [
        threading.Thread(target=sdk_loading.load, args=(f"sdk_{number % 2}",), kwargs={"extra": "x"})
        for number in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert sdk_loading._loaded == {"sdk_0", "sdk_1"}


def test_what_failed_to_load_is_loaded_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "shaky_sdk"
    package.mkdir()
    (package / "__init__.py").write_text("from shaky_sdk import core\n")
    (package / "core.py").write_text(
        "import pathlib\nif not pathlib.Path(__file__).with_name('ready').exists():\n    raise SystemError('not yet')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SystemError, match="not yet"):
        sdk_loading.load("shaky_sdk", extra="x")
    assert not [name for name in sys.modules if name.startswith("shaky_sdk")], "nothing half made stays behind"
    (package / "ready").touch()
    sdk_loading.load("shaky_sdk", extra="x")
    assert "shaky_sdk.core" in sys.modules


def test_what_cannot_be_imported_is_a_persons_matter_and_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "old_sdk.py").write_text("from pathlib import NameOfANewerVersion\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for module in ("old_sdk", "sdk_that_nobody_has"):
        with pytest.raises(ProviderError, match="cannot be imported") as failed:
            sdk_loading.load(module, extra="vertex")
        assert failed.value.error_class is ErrorClass.account
        assert failed.value.hint == "pip install 'groupage[vertex]'"


def test_every_adapter_says_what_it_cannot_do_without_and_looking_imports_none_of_it() -> None:
    assert set(sdk_loading.SDKS) == set(ADAPTERS)
    code = f"""
        import sys
        from groupage.activities.providers.sdk_loading import check_installed

        for dialect in {sorted(ADAPTERS)}:
            check_installed("name", dialect)
        print([name for name in sys.modules if name.startswith(("openai", "anthropic", "boto", "google.c", "google.g"))])
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in {"[]", "['google.cloud']"}
