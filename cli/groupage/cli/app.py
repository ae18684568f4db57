"""The commands and their options. Bodies import what they need, so that --help is instant."""

# ruff: noqa: PLR0917 - typer reads a command's options from its parameters
from pathlib import Path
from typing import Annotated

import typer


def finish(code: int, **_: object) -> None:
    """A command's return value is the exit code."""
    raise typer.Exit(code)


app = typer.Typer(
    result_callback=finish,
    name="groupage",
    help="LLM requests that can wait, at the providers' half-price batch rates, durably, by a deadline.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 all succeeded, 1 error, 2 refused (nothing sent), 3 completed with failures, "
    "4 failed or cancelled, 130 interrupted (the job goes on).",
)


def _show_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"groupage {version('groupage')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", is_eager=True, callback=_show_version)
    ] = False,
) -> None:
    del version


InputArgument = Annotated[str, typer.Argument(metavar="IN.jsonl", help="One request a line; - is stdin.")]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The job's key, or tenant/key.")]
Output = Annotated[
    str, typer.Option("--output", "-o", metavar="OUT.jsonl", help="Written whole or not at all; - is stdout.")
]
Provider = Annotated[str, typer.Option(help="openai, anthropic, bedrock, … (groupage catalog)")]
Profile = Annotated[str, typer.Option(help="The worker's credential profile.")]
Model = Annotated[str | None, typer.Option(help="For requests that name none.")]
Endpoint = Annotated[str | None, typer.Option(help="For requests that name none [default: /v1/chat/completions].")]
Deadline = Annotated[str, typer.Option(help="From now: 90m, 6h, 1d. What is unanswered then goes by sync in time.")]
Key = Annotated[str | None, typer.Option(help="The job's name [default: a fingerprint of the content].")]
Tenant = Annotated[str, typer.Option(help="Whose job it is.")]
Label = Annotated[list[str] | None, typer.Option(metavar="K=V", help="Kept with the job; may be repeated.")]
MaxRounds = Annotated[int | None, typer.Option(help="How often a request is sent by batch at most.")]
MaxCost = Annotated[float | None, typer.Option(metavar="USD", help="Ask before an estimate above it is spent.")]
SyncRpm = Annotated[int | None, typer.Option(help="Requests a minute to the sync API at most.")]
Poll = Annotated[str | None, typer.Option(help="Pause between two looks at a batch: 30s.")]
OnInvalid = Annotated[str | None, typer.Option(metavar="refuse|skip", help="What to do if there are bad lines.")]
Policy = Annotated[
    list[str] | None, typer.Option(metavar="FIELD=VALUE", help="Any other field of the policy (docs); may be repeated.")
]
Json = Annotated[bool, typer.Option("--json", help="Machine-readable output.")]
NoWorker = Annotated[bool, typer.Option("--no-worker", help="Run no worker in this process.")]


@app.command()
def run(
    source: InputArgument,
    output: Output = "-",
    provider: Provider = "openai",
    profile: Profile = "default",
    model: Model = None,
    endpoint: Endpoint = None,
    deadline: Deadline = "24h",
    key: Key = None,
    tenant: Tenant = "default",
    label: Label = None,
    max_rounds: MaxRounds = None,
    max_cost: MaxCost = None,
    sync_rpm: SyncRpm = None,
    poll: Poll = None,
    on_invalid: OnInvalid = None,
    policy: Policy = None,
    no_worker: NoWorker = False,
    as_json: Json = False,
) -> int:
    """Run a job and wait for its results. The same command again goes on where it was, or returns what is there."""
    from groupage.cli.options import JobOptions
    from groupage.cli.run import run_job

    options = JobOptions.parse(
        source,
        provider=provider,
        profile=profile,
        model=model,
        endpoint=endpoint,
        deadline=deadline,
        key=key,
        tenant=tenant,
        labels=label,
        policy=policy,
        max_rounds=max_rounds,
        max_cost_usd=max_cost,
        sync_rpm=sync_rpm,
        poll=poll,
        on_invalid=on_invalid,
    )
    return run_job(options, output=output, worker=not no_worker, as_json=as_json)


@app.command()
def submit(
    source: InputArgument,
    provider: Provider = "openai",
    profile: Profile = "default",
    model: Model = None,
    endpoint: Endpoint = None,
    deadline: Deadline = "24h",
    key: Key = None,
    tenant: Tenant = "default",
    label: Label = None,
    max_rounds: MaxRounds = None,
    max_cost: MaxCost = None,
    sync_rpm: SyncRpm = None,
    poll: Poll = None,
    on_invalid: OnInvalid = None,
    policy: Policy = None,
    as_json: Json = False,
) -> int:
    """Hand in a job and return at once. A worker elsewhere runs it (`groupage worker`, `groupage dev`)."""
    from groupage.cli.options import JobOptions
    from groupage.cli.run import submit_job

    options = JobOptions.parse(
        source,
        provider=provider,
        profile=profile,
        model=model,
        endpoint=endpoint,
        deadline=deadline,
        key=key,
        tenant=tenant,
        labels=label,
        policy=policy,
        max_rounds=max_rounds,
        max_cost_usd=max_cost,
        sync_rpm=sync_rpm,
        poll=poll,
        on_invalid=on_invalid,
    )
    return submit_job(options, as_json=as_json)


@app.command()
def status(key: KeyArgument, tenant: Tenant = "default", as_json: Json = False) -> int:
    """Where a job stands."""
    from groupage.cli.jobs import show_status

    return show_status(tenant, key, as_json=as_json)


@app.command()
def watch(key: KeyArgument, tenant: Tenant = "default", no_worker: NoWorker = False, as_json: Json = False) -> int:
    """Follow a job until it ends, with a worker that helps it along."""
    from groupage.cli.jobs import watch_job

    return watch_job(tenant, key, worker=not no_worker, as_json=as_json)


@app.command()
def results(
    key: KeyArgument,
    output: Output = "-",
    tenant: Tenant = "default",
    max_age: Annotated[str | None, typer.Option(help="Refuse results that are older: 12h.")] = None,
    as_json: Json = False,
) -> int:
    """Write the results of a job that has ended."""
    from groupage.cli.jobs import write_job_results

    return write_job_results(tenant, key, output=output, max_age=max_age, as_json=as_json)


@app.command()
def cancel(
    key: KeyArgument,
    tenant: Tenant = "default",
    reason: Annotated[str, typer.Option(help="Kept with the job.")] = "",
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait until everything has ended.")] = False,
    no_worker: NoWorker = False,
    as_json: Json = False,
) -> int:
    """Cancel a job; what is answered already is kept."""
    from groupage.cli.jobs import cancel_job

    return cancel_job(tenant, key, reason=reason, wait=not no_wait, worker=not no_worker, as_json=as_json)


@app.command()
def decide(
    key: KeyArgument,
    decision: Annotated[str, typer.Argument(metavar="go_on|retry|accept|abort")],
    tenant: Tenant = "default",
    reason: Annotated[str, typer.Option(help="Kept with the job.")] = "",
    no_worker: NoWorker = False,
    as_json: Json = False,
) -> int:
    """Answer a job that waits in needs_decision."""
    from groupage.cli.jobs import decide_job

    return decide_job(tenant, key, decision, reason=reason, worker=not no_worker, as_json=as_json)


@app.command()
def jobs(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="The newest so many.")] = 50,
    as_json: Json = False,
) -> int:
    """List jobs, running and finished."""
    from groupage.cli.jobs import list_jobs

    return list_jobs(tenant, limit=limit, as_json=as_json)


@app.command(short_help="End what carries our tag at the provider and no job needs.")
def sweep(
    provider: Provider = "openai",
    profile: Profile = "default",
    grace: Annotated[str, typer.Option(help="Leave alone what is younger.")] = "1h",
    every: Annotated[str | None, typer.Option(help="Make a Temporal schedule of it: 6h, 1d.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would be done.")] = False,
    keep_files: Annotated[bool, typer.Option("--keep-files", help="Cancel batches, delete no file.")] = False,
    no_worker: NoWorker = False,
    as_json: Json = False,
) -> int:
    """End batches and files at the provider that carry our tag and that no job needs."""
    from groupage.cli.options import positive_duration
    from groupage.cli.sweep import sweep as run_sweep
    from groupage.schemas.activity_calls import SweepOrphans

    request = SweepOrphans(
        provider=provider,
        profile=profile,
        grace_s=positive_duration("--grace", grace, zero=True).total_seconds(),
        delete_files=not keep_files,
        dry_run=dry_run,
    )
    return run_sweep(request, every=every, worker=not no_worker, as_json=as_json)


@app.command()
def worker(
    only: Annotated[str | None, typer.Option(metavar="workflows|activities", help="Take on only these.")] = None,
    task_queue: Annotated[str | None, typer.Option(help="Only this task queue.")] = None,
    metrics: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Serve Prometheus metrics.")] = None,
) -> int:
    """Run a worker until SIGTERM or Ctrl-C."""
    from groupage.cli.serve import run_worker

    return run_worker(only=only, task_queue=task_queue, metrics=metrics)


@app.command()
def dev(
    stop: Annotated[bool, typer.Option("--stop", help="Stop an embedded Temporal that was left running.")] = False,
    no_worker: NoWorker = False,
) -> int:
    """Keep Temporal, its Web UI and a worker in the foreground."""
    from groupage.cli.serve import run_dev, stop_dev

    return stop_dev() if stop else run_dev(worker=not no_worker)


@app.command()
def demo(
    requests: Annotated[int, typer.Option(min=1, help="How many requests.")] = 2000,
    turnaround: Annotated[str, typer.Option(help="How long the emulated provider takes for a batch.")] = "4s",
    state: Annotated[Path | None, typer.Option(help="State directory [default: a temporary one].")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave everything running until Ctrl-C.")] = False,
    as_json: Json = False,
) -> int:
    """A job with injected faults against an emulated provider.

    Nothing to configure, and nothing leaves this machine.
    """
    from groupage.cli.demo import run_demo

    return run_demo(requests=requests, turnaround=turnaround, state=state, keep=keep, as_json=as_json)


@app.command()
def doctor(
    provider: Annotated[
        str | None, typer.Option(help="Of the providers only this one, or one profile: openai/search.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Check server, store, credentials, workers and clock."""
    from groupage.cli.doctor import run_doctor

    return run_doctor(provider, as_json=as_json)


@app.command(short_help="What is known of the providers, and from where.")
def catalog(
    provider: Annotated[str | None, typer.Argument(metavar="[PROVIDER]", help="Only this one, in full.")] = None,
    model: Annotated[str, typer.Option(help="As it is for this model.")] = "",
    as_json: Json = False,
) -> int:
    """What is known of the providers (limits, windows, discounts, dialects), and from where."""
    from groupage.cli.catalog import show_catalog

    return show_catalog(provider, model, as_json=as_json)


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
    short_help="Run the emulated provider (--help: its options).",
)
def emulator(context: typer.Context) -> int:
    """Run the emulated provider; options as `python -m groupage.emulator`."""
    from groupage.cli.serve import run_emulator

    return run_emulator(context.args)
