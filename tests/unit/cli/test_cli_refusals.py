"""A command that is refused leaves nothing behind: the corrected one may have the same key."""

import json
import os
import re
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from groupage.cli import entry
from groupage.cli.console import Console
from groupage.cli.run import Progress, how_to_go_on
from groupage.client.config import WORKER_SETTINGS, ClientSettings, unknown_variables
from groupage.workers.settings import Settings

LINE = b'{"id": "1", "prompt": "hello"}\n'


def accepted(source: Path) -> list[Path]:
    return list((source.parent / "state").rglob("manifest.json"))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--provider", "openia"], "no adapter is known for provider 'openia' (did you mean 'openai'?)"),
        (["--profile", "work"], "no credential profile 'work'"),
        ([], "no API key is known"),
        (["--provider", "openai-compatible"], "no address is known"),
    ],
)
def test_a_provider_that_cannot_be_used_is_refused_before_the_key_is_taken(
    source: Path, capsys: pytest.CaptureFixture[str], more: list[str], said: str
) -> None:
    command = ["run", str(source), "-o", str(source.parent / "out.jsonl"), "--model", "m", "--key", "k"]
    assert entry.run([*command, *more]) == 2
    assert said in capsys.readouterr().err
    assert accepted(source) == []


@pytest.mark.parametrize(
    ("provider", "missing", "extra"),
    [
        ("openai", "openai", "openai"),
        ("groq", "openai", "openai"),
        ("azure", "openai", "azure"),
        ("anthropic", "anthropic", "anthropic"),
        ("bedrock", "boto3", "bedrock"),
        ("gemini", "google.genai", "gemini"),
        ("vertex", "google.cloud.aiplatform_v1", "vertex"),
        ("vertex", "google.cloud", "vertex"),
    ],
)
def test_a_provider_whose_sdk_is_not_installed_is_refused_with_the_command_that_installs_it(
    source: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
    missing: str,
    extra: str,
) -> None:
    for name in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "http://127.0.0.1:9")
    for name in [each for each in sys.modules if f"{each}.".startswith(f"{missing}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    assert entry.run(["run", str(source), "--provider", provider, "--model", "m", "--key", "k"]) == 2
    said = capsys.readouterr().err
    assert f"provider {provider}: its SDK is not installed" in said
    assert "nothing was sent" in said
    assert f"→ pip install 'groupage[{extra}]'" in said
    assert accepted(source) == []


@pytest.mark.parametrize(
    ("profile", "setting"), [("default", "providers.openai"), ("search", 'providers."openai/search"')]
)
def test_the_hint_names_the_profiles_own_setting(
    source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, profile: str, setting: str
) -> None:
    monkeypatch.setenv("GROUPAGE_PROVIDERS", '{"openai/search": {"api_key_env": "SEARCH_OPENAI_KEY"}}')
    monkeypatch.delenv("SEARCH_OPENAI_KEY", raising=False)
    assert entry.run(["run", str(source), "--profile", profile, "--model", "m", "--key", "k"]) == 2
    assert f"in the settings ({setting}.api_key_env)" in capsys.readouterr().err
    assert entry.run(["run", str(source), "--profile", "foo", "--model", "m", "--key", "k"]) == 2
    assert 'as providers."openai/foo"' in capsys.readouterr().err


@pytest.mark.parametrize("command", ["run", "submit"])
def test_without_a_server_the_key_is_not_taken(
    source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    assert entry.run([command, str(source), "--model", "m", "--key", "k"]) == 1
    assert "cannot be reached" in capsys.readouterr().err
    assert accepted(source) == []


def test_an_output_that_is_the_input_is_refused(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["run", str(source), "-o", str(source), "--model", "m"]) == 2
    assert "the input itself" in capsys.readouterr().err
    assert source.read_bytes() == LINE


@pytest.mark.parametrize(
    ("progress", "said", "unsaid"),
    [
        (Progress(), "nothing was sent", "watch"),
        (Progress("default/k"), "had not started it yet", "watch"),
        (Progress("default/k", started=True), "groupage watch default/k", "nothing was sent"),
    ],
)
def test_a_stopped_run_says_what_is_true_by_then(progress: Progress, said: str, unsaid: str) -> None:
    for worker in (True, False):
        told = how_to_go_on(progress, worker=worker)
        assert said in told
        assert unsaid not in told


def test_a_file_shared_with_workers_may_hold_whatever_they_read() -> None:
    assert {*WORKER_SETTINGS} == {*Settings.model_fields} - {*ClientSettings.model_fields}


def test_every_variable_of_our_own_that_is_documented_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that adapters read as well."""
    for name in list(os.environ):
        if name.startswith("GROUPAGE_"):
            monkeypatch.delenv(name)
    docs = "".join(path.read_text() for path in (Path(__file__).parents[3] / "docs").glob("*.md"))
    names = set(re.findall(r"GROUPAGE_[A-Z_]*[A-Z]", docs))
    assert len(names) > 10
    for name in names:
        monkeypatch.setenv(name, "1")
    assert unknown_variables() == []


@pytest.mark.parametrize("name", ["GROUPAGE_PROVIDERS", "GROUPAGE_ACTIVITIES"])
def test_wrong_settings_are_no_bug_of_ours(
    source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "foo")
    assert entry.run(["run", str(source), "--model", "m"]) == 2
    said = capsys.readouterr().err
    assert f"{name} is not JSON" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("provider", "variable", "address"),
    [
        ("openai", "OPENAI_BASE_URL", "127.0.0.1:8000/v1"),
        ("openai", "OPENAI_BASE_URL", "localhost:8000/v1"),
        ("openai", "OPENAI_BASE_URL", "http://"),
        ("openai", "OPENAI_BASE_URL", "http://host:port/v1"),
        ("azure", "AZURE_OPENAI_ENDPOINT", "name.openai.azure.com"),
        ("anthropic", "ANTHROPIC_BASE_URL", "proxy/anthropic"),
        ("gemini", "GOOGLE_GEMINI_BASE_URL", "proxy"),
        ("groq", "GROQ_OPENAI_BASE_URL", "proxy/v1"),
        ("bedrock", "GROUPAGE_PROVIDERS__BEDROCK__BASE_URL", "bedrock.local"),
    ],
)
def test_an_address_that_is_none_is_refused_at_the_start(
    source: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    provider: str,
    variable: str,
    address: str,
) -> None:
    for name in ("OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GROQ_API_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv(variable, address)
    assert entry.run(["run", str(source), "--provider", provider, "--model", "m", "--key", "k"]) == 2
    said = capsys.readouterr().err
    assert f"the address {address!r}" in said
    assert ("base_url" if "PROVIDERS" in variable else variable) in said
    assert "http://" in said
    assert accepted(source) == []


def test_doctor_goes_on_where_the_store_cannot_be_opened(
    source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROUPAGE_STORE", str(source / "store"))
    monkeypatch.setenv("GROUPAGE_LOG_LEVLE", "1")
    assert entry.run(["doctor", "--json"]) == 1
    found = {each["check"]: each for each in json.loads(capsys.readouterr().out)}
    assert found["store"]["verdict"] == "wrong"
    assert "GROUPAGE_STORE" in found["store"]["hint"]
    assert "provider openai" in found
    assert "GROUPAGE_LOG_LEVLE" in found["settings"]["detail"]


def test_tables_show_brackets_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    Console(as_json=False).table("a [b]", ("", ""), [("pip install 'groupage[embedded]'", "[red]no[/red] [/]")])
    shown = capsys.readouterr().out
    assert "a [b]" in shown
    assert "groupage[embedded]" in shown
    assert "[red]no[/red] [/]" in shown


@pytest.mark.parametrize(
    ("command", "missing", "hint"),
    [
        (["emulator", "--state", "emulated"], "uvicorn", "pip install 'groupage[emulator]'"),
        (["demo"], "uvicorn", "pip install 'groupage[openai,emulator,embedded]'"),
        (["demo"], "openai", "pip install 'groupage[openai,emulator,embedded]'"),
    ],
)
def test_what_an_extra_brings_is_named_where_it_is_missing(
    source: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    missing: str,
    hint: str,
) -> None:
    monkeypatch.chdir(source.parent)
    for name in [each for each in sys.modules if f"{each}.".startswith((f"{missing}.", "groupage.emulator.server."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    assert entry.run(command) == 2
    said = capsys.readouterr().err
    assert f"{missing} is not installed" in said
    assert hint in said
    assert "Traceback" not in said


def test_doctor_asks_all_whose_variables_are_set_or_the_one_that_is_named(
    source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    del source
    known = ("AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "LITELLM_BASE_URL")
    for name in (*known, "GROUPAGE_VERTEX_DATA", "GROUPAGE_BEDROCK_BUCKET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GROUPAGE_PROVIDERS", '{"litellm": {"base_url": "http://127.0.0.1:9/v1"}}')
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("GROUPAGE_BEDROCK_ROLE_ARN", "arn")

    def checked(*more: str) -> list[str]:
        entry.run(["doctor", "--json", *more])
        checks = [each["check"] for each in json.loads(capsys.readouterr().out)]
        return [each.removeprefix("provider ") for each in checks if each.startswith("provider ")]

    assert checked() == ["litellm", "anthropic", "bedrock"]
    assert checked("--provider", "anthropic") == ["anthropic"]
    monkeypatch.delenv("GROUPAGE_PROVIDERS")
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "GROUPAGE_BEDROCK_ROLE_ARN"):
        monkeypatch.delenv(name)
    assert checked() == ["openai"]


def test_a_variable_that_a_profile_names_and_nobody_sets_is_refused_at_any_address(
    source: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("GROUPAGE_PROVIDERS", '{"openai/search": {"api_key_env": "SEARCH_OPENAI_KEY"}}')
    assert entry.run(["run", str(source), "--profile", "search", "--model", "m", "--key", "k"]) == 2
    assert "set SEARCH_OPENAI_KEY" in capsys.readouterr().err
    assert accepted(source) == []


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.run(["--version"]) == 0
    assert capsys.readouterr().out == f"groupage {version('groupage')}\n"


def test_the_demo_says_what_is_wrong_with_a_turnaround(source: Path, capsys: pytest.CaptureFixture[str]) -> None:
    del source
    assert entry.run(["demo", "--turnaround", "soon"]) == 2
    assert "--turnaround 'soon': 'soon' is not a duration" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--turnaround", "--cancel-takes"])
def test_the_emulator_says_what_is_wrong_with_an_option(capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert entry.run(["emulator", "--state", "x", option, "soon"]) == 2
    said = capsys.readouterr().err
    assert "'soon' is not a duration" in said
    assert "parse_turnaround" not in said
