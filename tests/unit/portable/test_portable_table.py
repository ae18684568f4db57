"""The table in docs/portable-requests.md is what the code does, cell by cell."""

from pathlib import Path

import pytest
from groupage.schemas.portable import Inexpressible, translate
from portable_rows import ROWS, body_of
from portable_targets import CHAT, TARGETS, is_in

PAGE = Path(__file__).parents[3] / "docs" / "portable-requests.md"
COLUMNS = {
    "Anthropic": "anthropic",
    "Claude on Bedrock": "bedrock-claude",
    "Claude on Vertex": "vertex-claude",
    "Gemini API": "gemini",
    "Gemini on Vertex": "vertex-gemini",
    "Bedrock Converse": "bedrock-converse",
    "Bedrock Nova": "bedrock-nova",
    "Bedrock OpenAI": "bedrock-openai",
}


def _table() -> dict[str, dict[str, str]]:
    lines = [line.strip("|").split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    head = next(number for number, cells in enumerate(lines) if cells[0].strip() == "what can be said")
    names = [cell.strip() for cell in lines[head][1:]]
    return {
        cells[0].strip(): dict(zip(names, (cell.strip() for cell in cells[1:]), strict=True))
        for cells in lines[head + 1 :]
        if len(cells) == len(names) + 1
    }


TABLE = _table()


def test_every_row_and_target_is_in_the_table() -> None:
    assert list(TABLE) == list(ROWS)
    assert all(set(cells) == set(COLUMNS) for cells in TABLE.values())


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("row", ROWS)
def test_the_table_tells_the_truth(row: str, column: str) -> None:
    target, body = TARGETS[COLUMNS[column]], body_of(ROWS[row])
    try:
        said = translate(target.provider, target.model, CHAT, body)
    except Inexpressible as error:
        found, place = "no", error.field
    else:
        found, place = "yes", "messages"
        target.check(said)
    assert (found, is_in(place, body)) == (TABLE[row][column], True)
