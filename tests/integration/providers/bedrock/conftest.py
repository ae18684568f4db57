"""Of which provider this folder's tests are."""

import pytest
from bedrock_record import BEDROCK
from record import Record, Site
from s3_server import S3Server


@pytest.fixture
def record() -> Record:
    return BEDROCK


@pytest.fixture
def s3(site: Site) -> S3Server:
    assert site.s3 is not None
    return site.s3
