"""The object store's interface: conditional puts, whole or nothing, errors that say what happened."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from groupage.schemas import JobManifest, Rejected
from groupage.schemas.errors import StoreError, UsageError
from groupage.store import keys
from groupage.store.deployment import deployment_owner
from groupage.store.objects import ObjectMissing, Store, open_store, stream_url


@pytest.fixture(params=["file", "memory"])
def any_store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return open_store(f"file://{tmp_path}/a%20store" if request.param == "file" else "memory://")


def test_an_object_reads_back_as_it_was_put(any_store: Store) -> None:
    any_store.put("t/jobs/a:b@c=d+e/x.bin", b"\x00\xff\n")
    assert any_store.get("t/jobs/a:b@c=d+e/x.bin") == b"\x00\xff\n"
    assert any_store.size("t/jobs/a:b@c=d+e/x.bin") == 3
    assert b"".join(any_store.stream("t/jobs/a:b@c=d+e/x.bin")) == b"\x00\xff\n"


def test_only_the_first_conditional_put_counts(any_store: Store) -> None:
    assert any_store.put_new("k/one", b"1")
    assert not any_store.put_new("k/one", b"2")
    assert any_store.get("k/one") == b"1"
    any_store.put("k/one", b"3")
    assert any_store.get("k/one") == b"3"


def test_of_many_conditional_puts_at_once_exactly_one_wins(any_store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda n: any_store.put_new("k/race", b"%d" % n), range(40)))
    assert won.count(True) == 1
    assert any_store.get("k/race") == b"%d" % won.index(True)


def test_what_is_not_there_is_said_by_name(any_store: Store, tmp_path: Path) -> None:
    assert any_store.get_or_none("no/such") is None
    assert any_store.size("no/such") is None
    assert not any_store.exists("no/such")
    with pytest.raises(ObjectMissing, match="no object no/such"):
        any_store.get("no/such")
    with pytest.raises(ObjectMissing):
        any_store.get_to_file("no/such", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_files_go_in_and_out(any_store: Store, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(bytes(range(256)) * 30_000)  # above one multipart piece
    any_store.put_file("k/big", source)
    assert any_store.get_to_file("k/big", tmp_path / "deep" / "copy") == 7_680_000
    assert (tmp_path / "deep" / "copy").read_bytes() == source.read_bytes()


def test_an_object_that_is_replaced_while_it_is_read_is_an_error_not_a_mixture(
    any_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupage.store.objects.PIECE_BYTES", 1000)
    any_store.put("k/one", b"a" * 2500)
    pieces = any_store.stream("k/one")
    assert next(pieces) == b"a" * 1000
    any_store.put("k/one", b"b" * 2600)
    with pytest.raises(StoreError, match="replaced while it was read"):
        next(pieces)
    assert [len(piece) for piece in any_store.stream("k/one")] == [1000, 1000, 600]


WRITER = """
import sys
from groupage.store.objects import open_store
store = open_store(sys.argv[1])
for letter in (b"a", b"b") * 100_000:
    store.put("k/one", letter * 3_000_000)
    print("put", flush=True)
"""


def test_a_killed_writer_leaves_the_old_object_or_the_whole_new_one(tmp_path: Path) -> None:
    store = open_store(tmp_path.as_uri())
    for trial in range(4):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, tmp_path.as_uri()], stdout=subprocess.PIPE)
        assert writer.stdout is not None
        for _ in range(3 + 5 * trial):
            writer.stdout.readline()
        writer.kill()
        writer.wait(10)
        writer.stdout.close()
        data = store.get("k/one")
        assert data in (b"a" * 3_000_000, b"b" * 3_000_000)
        assert list(store.list("k")) == ["k/one"]


def test_list_names_all_under_a_prefix_and_nothing_beside_it(any_store: Store) -> None:
    for name in ("a/1", "a/b/2", "ab/3"):
        any_store.put(name, b"")
    assert sorted(any_store.list("a")) == ["a/1", "a/b/2"]
    assert list(any_store.list("nothing")) == []


def test_deleting_what_is_gone_is_no_error_and_stops_nothing(any_store: Store) -> None:
    any_store.put("a/1", b"")
    any_store.put("a/2", b"")
    any_store.delete(["a/1", "a/gone", "a/2"])
    assert list(any_store.list("a")) == []


def test_a_damaged_message_is_a_store_error_that_names_the_object(any_store: Store) -> None:
    any_store.put("k/m.json", b'{"index": "x"')
    with pytest.raises(StoreError, match=r"k/m\.json .* is damaged"):
        any_store.get_message("k/m.json", Rejected)
    assert any_store.get_message_or_none("k/none.json", JobManifest) is None


def test_a_named_memory_store_is_shared_and_an_unnamed_one_is_not() -> None:
    open_store("memory://shared-by-test").put("k", b"1")
    assert open_store("memory://shared-by-test").get("k") == b"1"
    assert open_store("memory://").get_or_none("k") is None


def test_a_url_that_cannot_be_a_store_is_refused_with_a_hint() -> None:
    with pytest.raises(UsageError, match="cannot open a store") as caught:
        open_store("ftp://somewhere/x")
    assert "s3://" in caught.value.hint


def test_errors_of_a_store_that_cannot_be_reached_hold_no_secret() -> None:
    store = open_store(
        "s3://user:hunter2@bucket/prefix",
        endpoint="http://127.0.0.1:9",
        access_key_id="AKIAID",
        secret_access_key="s3cr3t",
        region="us-east-1",
        retry_config={"max_retries": 0},
    )
    with pytest.raises(StoreError) as caught:
        store.get("k")
    with pytest.raises(StoreError, match="could not list s3://"):
        list(store.list(""))
    text = f"{caught.value} {store!r}"
    assert "could not read k" in text
    assert "s3cr3t" not in text
    assert "hunter2" not in text


def test_a_file_that_is_missing_at_the_top_of_the_file_system_is_missing() -> None:
    with pytest.raises(ObjectMissing, match=r"no-such-file\.jsonl"):
        next(iter(stream_url("file:///no-such-file.jsonl")))


def test_stream_url_reads_one_file_and_says_which_one_is_missing(tmp_path: Path) -> None:
    (tmp_path / "in put.jsonl").write_bytes(b"1\n2\n")
    assert b"".join(stream_url((tmp_path / "in put.jsonl").as_uri())) == b"1\n2\n"
    assert b"".join(stream_url(str(tmp_path / "in put.jsonl"))) == b"1\n2\n"
    with pytest.raises(ObjectMissing, match=r"gone\.jsonl"):
        next(iter(stream_url((tmp_path / "folder" / "gone.jsonl").as_uri())))
    assert not (tmp_path / "folder").exists()


def test_one_deployment_has_one_owner_code_whoever_asks_first(any_store: Store) -> None:
    with ThreadPoolExecutor(8) as pool:
        codes = set(pool.map(lambda _: deployment_owner(any_store), range(16)))
    assert len(codes) == 1
    assert len(codes.pop()) == 6
    assert deployment_owner(open_store("memory://")) != deployment_owner(any_store)


def test_keys_lie_under_their_tenant_and_job_and_refuse_what_could_climb_out() -> None:
    assert keys.segment_data("search", "labels-1", 7) == "search/jobs/labels-1/requests/00007.jsonl.zst"
    assert keys.shard_members("search", "labels-1", 2, 13) == "search/jobs/labels-1/shards/2-13/members.u32"
    for bad in ("../x", "a/b", "", ".hidden"):
        with pytest.raises(ValueError):
            keys.job("search", bad)
        with pytest.raises(ValueError):
            keys.job(bad, "labels-1")
