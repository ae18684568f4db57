"""Every failure that people have met with LLM batch jobs has a test that is named by its id.

`CASES` lists the ids of docs/cases.md; `NAMED` those that a certain provider is known for. A test's name holds the id with an underscore: `test_RP_05_missing_lines_...`.
A test of the contract that all adapters keep is a test of each provider that it is parametrised by.
Tests of the emulator do not count: they show that a trial can be made, not that Groupage passes it.
"""

import importlib
import re
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
CONTRACT = TESTS / "integration" / "providers" / "contract"
PAGE = TESTS.parent / "docs" / "cases.md"

CASES = [
    "IV-01",
    "IV-02",
    "IV-03",
    "IV-04",
    "IV-05",
    "IV-06",
    "IV-07",
    "IV-09",
    "IV-13",
    "IV-16",
    "IV-18",
    "IV-21",
    "IV-24",
    "IV-25",
    "SU-01",
    "SU-02",
    "SU-04",
    "SU-05",
    "SU-10",
    "QU-01",
    "QU-02",
    "QU-03",
    "QU-06",
    "QU-07",
    "PO-01",
    "PO-02",
    "PO-03",
    "PO-05",
    "PO-08",
    "PO-10",
    "PO-15",
    "PO-16",
    "PO-19",
    "PO-22",
    "RP-01",
    "RP-04",
    "RP-05",
    "RP-07",
    "RP-10",
    "RP-11",
    "RP-12",
    "RP-14",
    "RP-16",
    "RP-17",
    "RP-20",
    "PF-01",
    "PF-02",
    "PF-03",
    "PF-04",
    "PF-07",
    "PF-08",
    "PF-09",
    "PF-13",
    "PF-14",
    "EX-01",
    "EX-02",
    "EX-04",
    "CO-01",
    "CO-03",
    "CO-04",
    "CO-05",
    "CO-06",
    "CO-11",
    "CL-01",
    "CL-04",
    "CL-05",
    "CL-06",
    "CL-07",
    "SDK-02",
    "SDK-06",
    "SDK-07",
    "MS-02",
    "MS-05",
    "TE-01",
    "TE-02",
    "TE-04",
    "TE-05",
    "TE-06",
    "TE-08",
    "TE-09",
]

NAMED = {
    "IV-13": "gemini",
    "SU-02": "gemini",
    "PF-02": "gemini",
    "RP-16": "gemini",
    "CO-06": "gemini",
    "IV-21": "bedrock",
    "PO-10": "bedrock",
    "PF-03": "bedrock",
    "QU-02": "azure",
    "CL-01": "azure",
    "QU-06": "anthropic",
    "RP-01": "anthropic",
    "RP-17": "anthropic",
    "SDK-02": "anthropic",
}
"""Cases that were met with a provider other than OpenAI: at least one test of its adapter answers for them."""


def cases_tested() -> dict[str, list[str]]:
    """Ids to the files that hold a test named by them; of the contract's, with the providers that it runs with."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        if "emulator" in path.relative_to(TESTS).parts:
            continue
        for name in re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE):
            for kind, number in re.findall(r"(?<![A-Za-z])([A-Z]{2,3})_(\d\d)(?!\d)", name):
                found.setdefault(f"{kind}-{number}", []).append(path.name + _providers(path, name))
    return found


def _providers(path: Path, name: str) -> str:
    """As the end of the test's own ids would tell: "[azure bedrock]"; "" for a test that is no part of the contract."""
    if path.parent != CONTRACT:
        return ""
    for folder in (CONTRACT, CONTRACT.parent):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    everywhere = importlib.import_module("everywhere")
    test = getattr(importlib.import_module(path.stem), name)
    return f"[{' '.join(sorted(everywhere.providers_of(test)))}]"


def test_every_case_has_a_test_that_is_named_by_it():
    assert [case for case in CASES if case not in cases_tested()] == []


def test_tests_name_no_case_that_is_not_in_the_catalogue():
    assert {case: files for case, files in cases_tested().items() if case not in CASES} == {}


def test_no_case_is_listed_twice():
    assert len(CASES) == len(set(CASES))


def test_the_contract_is_of_every_provider_and_a_test_of_it_of_those_that_it_runs_with():
    files = [file for found in cases_tested().values() for file in found if "[" in file]
    assert "test_contract_finding.py[azure bedrock gemini openai vertex]" in files
    assert any("[gemini vertex]" in file for file in files), "and of no other"
    assert not any("[]" in file for file in files)


def test_the_page_of_cases_tells_each_case_once_and_no_other():
    rows = re.findall(r"^\| ([A-Z]{2,3}-\d\d) \| .+ \| .+ \|$", PAGE.read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(CASES)
    # A mention outside of the rows is of a case that has one.
    assert set(re.findall(r"\b[A-Z]{2,3}-\d\d\b", PAGE.read_text())) == set(CASES)


def test_a_case_that_names_a_provider_is_tested_with_it():
    assert {case: at for case, at in NAMED.items() if not any(at in file for file in cases_tested()[case])} == {}
