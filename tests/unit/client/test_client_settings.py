"""Where a client finds its store and server, and which task queue it uses."""

import subprocess
import sys
from pathlib import Path

import pytest
from groupage.client import config
from groupage.client.config import ClientSettings, config_file, load_settings, temporal_connect_config
from groupage.client.connection import choose_task_queue, connect_temporal
from groupage.schemas.errors import UsageError
from groupage.store.objects import open_store

HEAVY = ("openai", "anthropic", "boto3", "pyarrow", "groupage.workers", "groupage.activities", "groupage.workflows")


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("GROUPAGE_STORE", "GROUPAGE_CONFIG", "GROUPAGE_TASK_QUEUE", "TEMPORAL_ADDRESS", "TEMPORAL_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GROUPAGE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(tmp_path / "none.toml"))


def test_the_store_lies_under_the_state_directory_unless_told_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert load_settings(ClientSettings).store_url == (tmp_path / "state" / "store").as_uri()
    monkeypatch.setenv("GROUPAGE_STORE", "s3://bucket/prefix")
    assert load_settings(ClientSettings).store_url == "s3://bucket/prefix"
    monkeypatch.setenv("GROUPAGE_STORE", str(tmp_path / "a b"))
    assert load_settings(ClientSettings).store_url == (tmp_path / "a b").as_uri()
    assert load_settings(ClientSettings, store="gs://given").store_url == "gs://given"


def test_environment_is_stronger_than_the_file_and_the_file_than_defaults(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "groupage.toml"
    file.write_text('store = "s3://from-file"\ntask_queue = "from-file"\n[store_options]\nregion = "eu"\n')
    monkeypatch.setenv("GROUPAGE_CONFIG", str(file))
    monkeypatch.setenv("GROUPAGE_TASK_QUEUE", "from-environment")
    settings = load_settings(ClientSettings)
    assert (settings.store, settings.task_queue) == ("s3://from-file", "from-environment")
    assert settings.store_options == {"region": "eu"}


def test_the_users_own_file_is_read_and_one_in_the_working_directory_is_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "groupage.toml").write_text('store = "s3://from-somebody-else"\n')
    monkeypatch.chdir(tmp_path)
    assert config_file() is None
    (tmp_path / "config" / "groupage").mkdir(parents=True)
    (tmp_path / "config" / "groupage" / "config.toml").write_text('store = "s3://mine"\n')
    assert load_settings(ClientSettings).store == "s3://mine"


def test_a_named_file_that_is_not_there_is_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GROUPAGE_CONFIG", str(tmp_path / "missing.toml"))
    with pytest.raises(UsageError, match=r"missing\.toml"):
        load_settings(ClientSettings)


def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUPAGE_STORE_OPTIONS", "7")
    with pytest.raises(UsageError, match="store_options"):
        load_settings(ClientSettings)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"store = s3://x\n", "is not TOML"),
        ('store = "x"\n'.encode("utf-16"), "is not UTF-8"),
        (b'# mine\nstoer = "s3://x"\n', "line 2: there is no setting stoer: did you mean store?"),
        (b'store = "s3://x"\n[provider.openai]\napi_key_env = "X"\n', "line 2: there is no setting provider"),
        (b"\n[store_options]\nregion = 7\n", "store_options.region"),
    ],
)
def test_a_wrong_file_is_named_with_line_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes, said: str
) -> None:
    file = tmp_path / "groupage.toml"
    file.write_bytes(content)
    monkeypatch.setenv("GROUPAGE_CONFIG", str(file))
    with pytest.raises(UsageError) as caught:
        load_settings(ClientSettings)
    assert said in str(caught.value)
    assert "groupage.toml" in str(caught.value)
    assert caught.value.hint


def test_a_byte_order_mark_before_the_settings_means_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "groupage.toml"
    file.write_bytes(b'\xef\xbb\xbfstore = "s3://x"\nlog_level = "warning"\n')
    monkeypatch.setenv("GROUPAGE_CONFIG", str(file))
    assert load_settings(ClientSettings).store == "s3://x"


def test_a_variable_that_should_be_json_and_is_not_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GROUPAGE_STORE_OPTIONS", "foo")
    with pytest.raises(UsageError, match="GROUPAGE_STORE_OPTIONS is not JSON") as caught:
        load_settings(ClientSettings)
    assert "GROUPAGE_STORE_OPTIONS__" in caught.value.hint


def test_a_misspelt_variable_is_warned_of_and_others_are_not(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("GROUPAGE_LOG_LEVLE", "GROUPAGE_BEDROCK_BUCKET", "GROUPAGE_PROVIDERS__X__KIND", "GROUPAGE_THREADS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr(config, "_warned", set())
    caplog.set_level("WARNING")
    load_settings(ClientSettings)
    load_settings(ClientSettings)
    assert [record.message for record in caplog.records] == [
        "nothing reads GROUPAGE_LOG_LEVLE: did you mean GROUPAGE_LOG_LEVEL?"
    ]


def test_a_server_is_configured_by_address_or_profile_and_by_nothing_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert temporal_connect_config() is None
    monkeypatch.setenv("TEMPORAL_ADDRESS", "temporal.example:7233")
    configured = temporal_connect_config()
    assert configured is not None
    assert configured["target_host"] == "temporal.example:7233"
    monkeypatch.delenv("TEMPORAL_ADDRESS")
    (tmp_path / "temporal.toml").write_text('[profile.prod]\naddress = "prod.example:7233"\nnamespace = "batch"\n')
    monkeypatch.setenv("TEMPORAL_CONFIG_FILE", str(tmp_path / "temporal.toml"))
    assert temporal_connect_config() is None
    monkeypatch.setenv("TEMPORAL_PROFILE", "prod")
    assert temporal_connect_config() == {"target_host": "prod.example:7233", "namespace": "batch"}
    monkeypatch.setenv("TEMPORAL_PROFILE", "missing")
    with pytest.raises(UsageError, match="missing"):
        temporal_connect_config()


@pytest.mark.parametrize(
    ("store", "server", "queue"),
    [
        (None, False, "groupage"),
        ("s3://bucket", True, "groupage"),
        ("s3://bucket", False, "groupage-abcdef"),
        (None, True, "groupage-abcdef"),
    ],
)
def test_no_task_queue_mixes_two_stores(store: str | None, server: bool, queue: str) -> None:
    settings = load_settings(ClientSettings, store=store)
    assert choose_task_queue(settings, "abcdef", server_configured=server) == queue
    told = load_settings(ClientSettings, store=store, task_queue="mine")
    assert choose_task_queue(told, "abcdef", server_configured=server) == "mine"


async def test_without_any_server_the_client_says_how_to_get_one() -> None:
    with pytest.raises(UsageError, match="no Temporal server") as caught:
        await connect_temporal(load_settings(ClientSettings), open_store("memory://"))
    assert "groupage dev" in caught.value.hint


def test_the_client_is_light() -> None:
    code = (
        "import sys, groupage.client; "
        f"print(*[m for m in sys.modules if any(m == h or m.startswith(h + '.') for h in {HEAVY!r})])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
