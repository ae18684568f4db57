"""The documentation is held to the code: settings, options, links, make targets and names."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import typer
from groupage.activities.settings import ActivitySettings, ProviderSettings
from groupage.cli.app import app
from groupage.schemas import JobPolicy, Outcome, Result
from groupage.schemas.catalog import load_catalog
from groupage.schemas.jobs import JobSpec
from groupage.schemas.signals import SEARCH_ATTRIBUTES
from groupage.schemas.states import Decision, ErrorClass, Health, JobState
from groupage.workers.settings import Settings

ROOT = Path(__file__).parents[2]
DOCS = sorted(
    [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "examples").glob("*.md")]
)


def text_of(name: str) -> str:
    return (ROOT / name).read_text()


def in_code(text: str) -> set[str]:
    """All words that stand in back quotes or in a block."""
    blocks = re.findall(r"```.*?```|^ {4}.*$", text, re.DOTALL | re.MULTILINE)
    return set(re.findall(r"[\w-]+", " ".join([*blocks, *re.findall(r"`([^`\n]+)`", text)])))


def anchors(text: str) -> set[str]:
    """GitHub's anchors of the headings."""
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_every_setting_is_in_the_page_of_settings():
    known = set(Settings.model_fields) | {each.name for each in fields(ProviderSettings)}
    # What the worker fills in itself has a setting of its own.
    known |= {each.name for each in fields(ActivitySettings)} - {"store_url", "spool_dir"}
    assert known - in_code(text_of("docs/settings.md")) == set()


def test_the_page_of_settings_states_the_defaults():
    page = text_of("docs/settings.md")
    for each in (*fields(ActivitySettings), *fields(ProviderSettings)):
        if isinstance(each.default, (int, float)) and not isinstance(each.default, bool):
            row = re.search(rf"^\| `{each.name}` \| (\S+) \|", page, re.MULTILINE)
            assert row, f"{each.name} has no row"
            assert float(row[1]) == float(each.default), each.name
    for name in ("max_concurrent_activities", "threads", "max_cached_workflows"):
        row = re.search(rf"^\| `{name}` \| (\S+) \|", page, re.MULTILINE)
        assert row, f"{name} has no row"
        assert float(row[1]) == Settings.model_fields[name].default


def test_every_adapter_and_its_variables_are_in_the_page_of_settings():
    words = in_code(text_of("docs/settings.md"))
    for name in load_catalog().providers:
        facts = load_catalog().get(name)
        assert facts is not None
        variables = (facts.api_key_env, facts.base_url_env, facts.root_env)
        assert {name, *(each.value for each in variables if each)} - words == set()


def test_the_page_of_providers_states_the_catalogs_limits_and_windows():
    page = text_of("docs/providers.md")
    for name in load_catalog().providers:
        facts = load_catalog().get(name)
        assert facts is not None
        row = re.search(rf"^\| `{name}` \|.*$", page, re.MULTILINE)
        assert row, f"{name} has no row"
        told = [f"{facts.max_requests.value:,} re", f"{facts.max_bytes.value // 1_000_000:,} MB"]
        told += [", ".join(facts.windows.value)] if facts.dialect == "openai" and name != "openai" else []
        told += [each.value for each in (facts.api_key_env, facts.base_url_env, facts.root_env) if each]
        assert [each for each in told if each not in row[0]] == [], name


@pytest.mark.parametrize("command", ["run", "submit", "results", "status", "watch", "cancel", "decide", "jobs"])
def test_every_option_about_jobs_is_in_the_page_of_jobs(command: str):
    group = typer.main.get_command(app)
    found = group.commands[command]  # type: ignore[attr-defined]
    options = {name for each in found.params for name in each.opts if name.startswith("--")}
    page = text_of("docs/run-a-job.md")
    # `jobs` alone has --limit, which its --help explains.
    assert {option for option in options - {"--limit"} if option not in page} == set()


@pytest.mark.parametrize("command", ["worker", "dev"])
def test_every_option_about_processes_is_in_the_page_of_settings(command: str):
    group = typer.main.get_command(app)
    found = group.commands[command]  # type: ignore[attr-defined]
    options = {name for each in found.params for name in each.opts if name.startswith("--")}
    page = text_of("docs/settings.md")
    assert {option for option in options if option not in page} == set()


def test_every_option_of_the_sweep_is_in_the_page_of_triage():
    group = typer.main.get_command(app)
    options = {name for each in group.commands["sweep"].params for name in each.opts}  # type: ignore[attr-defined]
    assert {option for option in options if option not in text_of("docs/triage.md")} <= {
        # As for every other command.
        *("--provider", "--profile", "--no-worker", "--json")
    }


def test_the_page_of_jobs_names_every_field_and_word():
    words = in_code(text_of("docs/run-a-job.md"))
    assert set(JobPolicy.model_fields) - words == set()
    assert {field.serialization_alias or name for name, field in Result.model_fields.items()} - words == set()
    assert {*Outcome, *Decision} - words == set()
    # `profile`, `endpoint` and `fingerprint` have defaults that a first job does not need.
    assert set(JobSpec.model_fields) - words <= {"profile", "endpoint", "fingerprint"}


def test_the_page_of_triage_names_every_state_health_and_attribute():
    page = text_of("docs/triage.md")
    words = set(re.findall(r"\w+", page))
    running = {state for state in JobState if not state.ended}
    assert {*SEARCH_ATTRIBUTES, *running, *(set(Health) - {Health.unclaimed})} - words == set()


def test_every_error_class_is_explained_where_it_is_defined():
    assert ErrorClass.__doc__
    assert {each for each in ErrorClass if f"\n    {each} " not in ErrorClass.__doc__} == set()


def test_every_provider_is_where_people_look_for_it():
    for page in ("README.md", "docs/run-a-job.md", "docs/settings.md", "docs/providers.md"):
        assert set(load_catalog().providers) - in_code(text_of(page)) == set(), page


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_python_on_a_page_uses_no_name_that_it_does_not_define(page: Path):
    for block in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "-"]
        found = subprocess.run(command, input=block, capture_output=True, text=True, check=False)
        assert found.returncode == 0, found.stdout


def test_every_option_and_side_of_the_emulator_is_in_its_page():
    page = text_of("docs/emulator.md")
    helped = subprocess.run(
        [sys.executable, "-m", "groupage.emulator", "--help"], capture_output=True, text=True, check=True
    )
    assert {option for option in re.findall(r"--[a-z-]+", helped.stdout) if option not in page} <= {"--help"}
    adapters = {facts.dialect for facts in map(load_catalog().get, load_catalog().providers) if facts}
    headings = " ".join(re.findall(r"^## (.+)$", page, re.MULTILINE)).lower()
    assert {dialect for dialect in adapters if dialect not in headings} <= {"openai"}


def test_every_variable_of_our_own_is_in_the_page_of_settings():
    sources = (ROOT / "activities").rglob("*.py")
    used = {name for file in sources for name in re.findall(r"\bGROUPAGE_[A-Z_]+[A-Z]\b", file.read_text())}
    assert used
    assert used - in_code(text_of("docs/settings.md")) == set()


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_relative_link_leads_somewhere(page: Path):
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        if not there.exists() or (anchor and anchor not in anchors(there.read_text())):
            broken.append(target)
    assert broken == []


def test_every_page_that_code_or_documentation_names_is_in_the_repository():
    """By its path from the root, or from the folder of who names it. A page of somebody else's repository is named
    with the commit that was read: `page.md @0ec7a25f`.
    """
    sources = ("*.py", "*.toml", "*.md", "*.yml", "Makefile", "Dockerfile")
    listed = subprocess.run(["git", "ls-files", *sources], cwd=ROOT, capture_output=True, text=True, check=True)
    missing = []
    for name in listed.stdout.split():
        file = ROOT / name
        # One that was deleted may still be listed.
        text = file.read_text() if file.exists() else ""
        pages = re.findall(r"(?<![\w./-])([\w./-]+\.md)\b(?! @[0-9a-f]{8})", text.replace('"docs" / "', '"docs/'))
        there = [page for page in pages if (ROOT / page).exists() or (file.parent / page).exists()]
        missing += [f"{name}: {page}" for page in pages if page not in there]
    assert missing == []


@pytest.mark.parametrize("page", DOCS, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_make_target_that_is_named_exists(page: Path):
    targets = set(re.findall(r"^([a-z-]+):", text_of("Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:^ {4}|`)make ([a-z-]+)", page.read_text(), re.MULTILINE))
    assert named - targets == set()


def test_the_table_of_promises_names_files_and_tests_that_exist():
    _, _, table = text_of("docs/how-it-works.md").partition("## The promises and where they are kept")
    assert len(re.findall(r"^\| \d", table, re.MULTILINE)) == 10
    paths = re.findall(r"`([\w./-]+/[\w./-]+)`", table)
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
    tests = set(re.findall(r"`(test_\w+)`", table))
    known = {
        name for file in (ROOT / "tests").rglob("test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text())
    }
    assert tests
    assert tests - known == set()


def test_every_module_that_the_overview_names_exists():
    names = re.findall(r"`([\w/]+\.py)`", text_of("docs/how-it-works.md"))
    sources = [f"/{path.relative_to(ROOT)}" for path in ROOT.glob("*/groupage/**/*.py")]
    assert names
    elsewhere = [name for name in names if not any(source.endswith(f"/{name}") for source in sources)]
    assert [name for name in elsewhere if not (ROOT / name).exists()] == []
