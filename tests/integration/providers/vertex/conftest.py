"""Of which provider this folder's tests are."""

import pytest
from gcs_server import GcsServer
from record import Record, Site
from vertex_record import VERTEX


@pytest.fixture
def record() -> Record:
    return VERTEX


@pytest.fixture
def gcs(site: Site) -> GcsServer:
    assert site.gcs is not None
    return site.gcs
