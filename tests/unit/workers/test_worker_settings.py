"""Settings of a worker, its plugin, its scratch space."""

import json
import logging
import traceback
from pathlib import Path

import pytest
import structlog
from groupage.activities.settings import ActivitySettings, ProviderSettings
from groupage.client.config import load_settings
from groupage.client.local_server import take_lock
from groupage.schemas.activity_calls import ALL_CALLS
from groupage.schemas.errors import UsageError
from groupage.schemas.secrets import know
from groupage.schemas.signals import TASK_QUEUE
from groupage.workers.plugin import GroupagePlugin, Role
from groupage.workers.settings import Settings
from groupage.workers.spool import spool_directory
from groupage.workers.stack import WorkerPlan
from groupage.workers.telemetry import configure_logging
from temporalio import activity


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GROUPAGE_STORE", raising=False)
    monkeypatch.setenv("GROUPAGE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def test_providers_and_waits_come_from_environment_and_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        'graceful_shutdown = "5s"\n[providers.openai]\napi_key_env = "MINE"\n'
        '[providers."openai/search"]\napi_key_env = "SEARCH"\nmax_requests = 10\n'
    )
    monkeypatch.setenv("GROUPAGE_CONFIG", str(file))
    monkeypatch.setenv("GROUPAGE_PROVIDERS__OPENAI__BASE_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("GROUPAGE_ACTIVITIES__CREATE_VISIBILITY_S", "7")
    monkeypatch.setenv("GROUPAGE_ACTIVITIES__DELETE_ATTEMPTS", "2")
    settings = load_settings(Settings)
    built = settings.activity_settings(tmp_path)
    assert settings.graceful_shutdown.total_seconds() == 5
    assert built.create_visibility_s == 7.0
    assert built.delete_attempts == 2
    assert isinstance(built.delete_attempts, int)
    assert built.not_visible_s == ActivitySettings(store_url="").not_visible_s
    assert built.spool_dir == tmp_path
    openai, search = built.provider("openai"), built.provider("openai", "search")
    assert openai is not None
    assert (openai.base_url, openai.api_key_env) == ("http://127.0.0.1:1/v1", "MINE")
    assert search is not None
    assert (search.api_key_env, search.max_requests) == ("SEARCH", 10)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("GROUPAGE_PROVIDERS__OPENAI__BASEURL", "http://x", "baseurl"),
        ("GROUPAGE_ACTIVITIES__CREATE_VISIBILTY_S", "1", "create_visibilty_s"),
        ("GROUPAGE_GRACEFUL_SHUTDOWN", "soon", "graceful_shutdown"),
        ("GROUPAGE_THREADS", "0", "threads"),
    ],
)
def test_a_misspelt_or_wrong_setting_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=said):
        load_settings(Settings)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("20", "20 is not a duration: write 90s"),
        ('"20"', "'20' is not a duration"),
        ('"9999999d"', "too long: at most"),
    ],
)
def test_a_duration_in_the_settings_file_has_a_unit_and_an_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: str, said: str
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f"graceful_shutdown = {given}\n")
    monkeypatch.setenv("GROUPAGE_CONFIG", str(file))
    with pytest.raises(UsageError, match=said):
        load_settings(Settings)


OWN = '[providers.mine]\ndialect = "openai"\nmax_requests = 3\n'


def test_a_catalog_beside_the_settings_file_is_found_from_anywhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "elsewhere").mkdir()
    file = tmp_path / "conf" / "config.toml"
    file.write_text('catalog = "mine.toml"\nstore = "data"\n[providers.openai]\ncatalog = "other.toml"\n')
    # A byte order mark means nothing.
    (tmp_path / "conf" / "mine.toml").write_bytes(b"\xef\xbb\xbf" + OWN.encode())
    (tmp_path / "conf" / "other.toml").write_text(OWN)
    monkeypatch.setenv("GROUPAGE_CONFIG", str(file))
    monkeypatch.chdir(tmp_path / "elsewhere")
    settings = load_settings(Settings)
    assert settings.catalog == tmp_path / "conf" / "mine.toml"
    assert settings.providers["openai"].catalog == tmp_path / "conf" / "other.toml"
    assert settings.store == (tmp_path / "conf" / "data").as_uri()
    # From the environment, from where the command is run.
    (tmp_path / "elsewhere" / "third.toml").write_text(OWN)
    monkeypatch.setenv("GROUPAGE_CATALOG", "third.toml")
    assert load_settings(Settings).catalog == tmp_path / "elsewhere" / "third.toml"
    monkeypatch.setenv("GROUPAGE_CATALOG", "")
    assert load_settings(Settings).catalog is None, "a variable that is set to nothing names no file"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("a directory", "Is a directory"),
        (b"[providers.m\n", "not TOML"),
        (b"# \xf6\n", "is not UTF-8"),
        (b"[providers.m]\nmax_request = 1\n", "providers.m.max_request: no such key"),
        (b"[providers.m]\nmax_requests = 1\n", "providers.m: it says no dialect"),
    ],
)
@pytest.mark.parametrize("place", ["environment", "file", "profile"])
def test_a_catalog_that_cannot_be_used_is_told_with_the_setting_that_names_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes | str | None, said: str, place: str
) -> None:
    catalog, file = tmp_path / "mine.toml", tmp_path / "config.toml"
    if isinstance(content, bytes):
        catalog.write_bytes(content)
    elif content:
        catalog.mkdir()
    if place == "environment":
        monkeypatch.setenv("GROUPAGE_CATALOG", str(catalog))
        setting = "catalog (GROUPAGE_CATALOG)"
    else:
        lines = {"file": "\ncatalog = 'mine.toml'\n", "profile": "[providers.openai]\ncatalog = 'mine.toml'\n"}
        file.write_text(lines[place])
        monkeypatch.setenv("GROUPAGE_CONFIG", str(file))
        named = {"file": f"catalog ({file}, line 2)", "profile": f"providers.openai.catalog ({file}, line 1)"}
        setting = named[place]
    with pytest.raises(UsageError) as caught:
        load_settings(Settings)
    assert f"catalog {catalog}" in str(caught.value)
    assert said in str(caught.value)
    assert f"the setting is {setting}" in str(caught.value)
    assert caught.value.hint


def test_a_worker_tells_which_providers_jobs_may_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(OWN)
    monkeypatch.setenv("GROUPAGE_CATALOG", str(tmp_path / "mine.toml"))
    monkeypatch.setenv("GROUPAGE_PROVIDERS__VLLM__KIND", "openai-compatible")
    monkeypatch.setenv("GROUPAGE_PROVIDERS__ODD__KIND", "nothing-known")
    known = GroupagePlugin(load_settings(Settings)).context.known_providers()
    assert {"openai", "bedrock", "mine", "vllm"} <= set(known)
    assert "odd" not in known


def test_no_secret_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUPAGE_PROVIDERS__OPENAI__API_KEY", "sk-secret")
    settings = load_settings(Settings)
    assert settings.providers["openai"].api_key == "sk-secret"
    assert "sk-secret" not in repr(settings) + str(settings) + repr(settings.activity_settings(None))
    monkeypatch.setenv("GROUPAGE_PROVIDERS__OPENAI__MAX_REQUESTS", "many")
    with pytest.raises(UsageError) as caught:
        load_settings(Settings)
    # A traceback shows what the error was raised from, too.
    assert "sk-secret" not in "".join(traceback.format_exception(caught.value))
    monkeypatch.delenv("GROUPAGE_PROVIDERS__OPENAI__MAX_REQUESTS")
    monkeypatch.setenv("GROUPAGE_PROVIDERS__OPENAI__APIKEY", "sk-secret")
    with pytest.raises(UsageError, match="apikey") as caught:
        load_settings(Settings)
    assert "sk-secret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("shape", ["json", "console"])
def test_logs_and_their_tracebacks_are_without_the_secrets_that_are_known(
    capsys: pytest.CaptureFixture[str], shape: str
) -> None:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    know("sk-logged-94f1c2\n")
    try:
        configure_logging("info", shape)
        error = ValueError("Illegal header value b'Bearer sk-logged-94f1c2\\n'")
        logging.getLogger("temporalio.activity").warning("failed with %s", "sk-logged-94f1c2", exc_info=error)
        said = capsys.readouterr().err
        assert "ValueError" in said
        assert "failed with" in said
        assert "sk-logged" not in said
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.reset_defaults()


async def test_the_plugin_brings_every_activity_of_the_contract_by_name(tmp_path: Path) -> None:
    plugin = GroupagePlugin(load_settings(Settings, store=(tmp_path / "store").as_uri()))
    names = {activity._Definition.must_from_callable(each).name for each in plugin.activities or ()}
    assert {call.name for call in ALL_CALLS} <= names
    assert {each.__name__ for each in plugin.workflows or ()} == {"BatchJob", "ProviderBatch", "Sweep"}
    # Async ones all: the worker brings no executor for others.
    assert all(activity._Definition.must_from_callable(each).is_async for each in plugin.activities or ())
    await plugin.context.close()


async def test_a_role_leaves_out_what_is_not_its_own(tmp_path: Path) -> None:
    settings = load_settings(Settings, store=(tmp_path / "store").as_uri())
    only_workflows = GroupagePlugin(settings, role=Role.workflows)
    assert (len(only_workflows.workflows or ()), len(only_workflows.activities or ())) == (3, 0)
    only_activities = GroupagePlugin(settings, role=Role.activities)
    assert not only_activities.workflows
    assert only_activities.activities


def test_scratch_space_of_killed_processes_is_removed_and_that_of_living_ones_kept(tmp_path: Path) -> None:
    with spool_directory(tmp_path) as first:
        (first / "file").write_text("x")
        abandoned = tmp_path / "spool" / "abandoned"
        abandoned.mkdir()
        (abandoned / ".lock").touch()
        just_made = tmp_path / "spool" / "just-made"
        just_made.mkdir()
        with spool_directory(tmp_path) as second:
            assert first.exists()
            assert second != first
            assert not abandoned.exists()
            assert just_made.exists()
            assert take_lock(first / ".lock") is None
        assert not second.exists()
    assert not first.exists()


def test_logs_are_json_lines_on_stderr_for_ours_and_for_libraries(capsys: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        configure_logging("info", "json")
        structlog.get_logger("groupage.test").info("worker_started", task_queue=TASK_QUEUE)
        logging.getLogger("temporalio.worker").warning("from a library")
        said = capsys.readouterr()
        lines = [json.loads(line) for line in said.err.splitlines()]
        assert said.out == ""
        assert [line["event"] for line in lines] == ["worker_started", "from a library"]
        assert lines[0]["task_queue"] == TASK_QUEUE
        assert lines[1]["level"] == "warning"
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        structlog.reset_defaults()


def test_a_deployments_worker_also_polls_the_queue_that_plain_json_names() -> None:
    class Connection:
        task_queue = "groupage-abcdef"

    connection: object = Connection()
    assert WorkerPlan(every_queue=True).queues(connection) == ["groupage-abcdef", "groupage"]  # type: ignore[arg-type]
    assert WorkerPlan().queues(connection) == ["groupage-abcdef"]  # type: ignore[arg-type]


def test_provider_settings_without_a_profile_are_the_defaults() -> None:
    settings = load_settings(Settings).activity_settings(None)
    assert settings.provider("openai") == ProviderSettings()
    assert settings.provider("openai", "nobody") is None
