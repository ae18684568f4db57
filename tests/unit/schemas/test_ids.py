"""Wire ids are unique, decodable and fit every provider's rule."""

import re

import pytest
from groupage.schemas import ids
from hypothesis import given
from hypothesis import strategies as st

PORTABLE = re.compile(r"[a-z0-9_-]{1,63}")
texts = st.text(min_size=1, max_size=60)
rounds = st.integers(0, 99)
shards = st.integers(0, 999_999)
indices = st.integers(0, 2**32 - 1)


@given(texts, texts, texts, texts, rounds, shards, indices)
def test_a_wire_id_fits_every_provider_and_decodes_to_what_it_was_made_of(
    deployment, tenant, key, salt, round_, shard, index
):
    token = ids.job_token(ids.owner_code(deployment), tenant, key, salt)
    tag = ids.submission_tag(token, round_, shard)
    wire = ids.wire_id(tag, index)

    assert PORTABLE.fullmatch(wire)
    assert ids.decode_wire_id(wire) == ids.WireId(token, round_, shard, index)
    assert ids.decode_tag(tag) == (token, round_, shard)
    assert ids.WireId(token, round_, shard, index).tag == tag


@given(st.text(max_size=80))
def test_a_text_that_is_not_ours_decodes_to_none_and_never_raises(text):
    decoded = ids.decode_wire_id(text)
    assert decoded is None or ids.wire_id(decoded.tag, decoded.index) == text


def test_IV_02_two_jobs_with_the_same_caller_ids_share_no_wire_id():
    owner = ids.owner_code("d")
    tokens = {ids.job_token(owner, "t", key, salt) for key in ("a", "b") for salt in ("1", "2")}
    assert len(tokens) == 4


@pytest.mark.parametrize("key", ["", " ", "a/b", "é", "-a", "a" * 129, "a\nb"])
def test_a_key_that_cannot_be_a_workflow_id_is_refused(key):
    with pytest.raises(ValueError, match="key"):
        ids.job_workflow_id("default", key)


def test_workflow_ids_read_well_and_parse_back():
    assert ids.shard_workflow_id("search", "labels-2026-11-29", 0, 7) == "job/search/labels-2026-11-29/r0-s007"
    assert ids.parse_job_workflow_id("job/search/labels-2026-11-29") == ("search", "labels-2026-11-29")
    assert ids.parse_job_workflow_id("lane/search/x") is None
