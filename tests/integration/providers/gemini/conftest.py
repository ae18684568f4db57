"""Of which provider this folder's tests are."""

import pytest
from gemini_record import GEMINI
from record import Record


@pytest.fixture
def record() -> Record:
    return GEMINI
