"""What ran, where, when and how: enough to run it again and to doubt it in a year."""

import shlex
from collections.abc import Iterator

from breakeven.publish.engine_version import engine_version
from breakeven.publish.escape import Markdown, markdown_code, markdown_text
from breakeven.publish.report.numbers import moment, size, whole
from breakeven.publish.report.run import Document, Run
from breakeven.publish.report.table import Table
from breakeven.software import versions


def facts_table(run: Run) -> Markdown:
    """Engine, program, model, machine and dates."""
    table = Table(["what", "value"])
    for what, value in _facts(run):
        table.add(what, value)
    return table.markdown()


def _facts(run: Run) -> Iterator[tuple[str, str | None]]:
    described = run.arms[run.baseline].bring_up.get("described") or {}
    yield "engine", f"{run.experiment['engine']}, version {version_of_engine(run)}"
    yield "runtime", run.experiment["runtime"]
    yield "program or image", markdown_code(str(described.get("program") or "unknown"), in_table=True)
    yield "its hash", markdown_code(str(described.get("digest") or "unknown"), in_table=True)
    for name, found in sorted((described.get("packages") or {}).items()):
        yield f"package {name}", found
    for flag, files in sorted((described.get("models") or {}).items()):
        for name, file in (files or {}).items():
            digest = file.get("sha256") or file.get("sha256_of_ends")
            what = "SHA-256" if file.get("sha256") else "SHA-256 of both ends"
            code = markdown_code(f"{name}", in_table=True)
            yield (
                f"model file (--{flag})",
                Markdown(
                    f"{code}, {size(file.get('bytes'))}, {what} {markdown_code(str(digest), in_table=True)}"
                ),
            )
    for number, host in enumerate(hosts(run)):
        yield from _host(host, "" if number == 0 else f" {number + 1}")
    began, ended = dates(run)
    yield "first launch", moment(began)
    yield "last launch ended", moment(ended)
    yield "seed of salts and order", str(run.experiment["seed"])
    yield "rounds planned", str(run.experiment["rounds"])


def _host(host: Document, number: str) -> Iterator[tuple[str, str | None]]:
    yield f"host{number}", host.get("host")
    yield f"system{number}", f"{host.get('system') or 'unknown'}, kernel {host.get('kernel') or 'unknown'}"
    cores = f"{whole(host.get('cores'))} cores, {whole(host.get('threads'))} threads"
    yield f"CPU{number}", f"{host.get('cpu_model') or 'model unknown'}, {cores}"
    yield f"CPU governor{number}", host.get("cpu_governor")
    yield f"memory{number}", size(host.get("memory_bytes"))
    yield f"boot{number}", host.get("boot_id")
    for gpu in host.get("gpus") or ():
        yield f"GPU{number}", ", ".join(f"{key} {value}" for key, value in gpu.items() if value is not None)


def version_of_engine(run: Run) -> str:
    """The engine's version at the baseline's verified launch."""
    arm = run.arms[run.baseline]
    facts = (arm.verify.get("facts") or {}).get("facts") or {}
    return engine_version(facts, arm.bring_up) or "unknown"


def engine_definitions(run: Run) -> list[str]:
    """Under which definitions the engine's own figures were read, from the log of the first arm that has some."""
    for arm in (run.arms[name] for name in run.candidates):
        found = (arm.verify.get("facts") or {}).get("statistics") or {}
        said = [
            entry["definition"]
            for entry in found.values()
            if isinstance(entry, dict) and entry.get("definition")
        ]
        first = ((found.get("windows") or {}).get("first") or [{}])[0]
        if first.get("mean_len_definition"):
            said.append(
                f"its mean acceptance length is {first['mean_len_definition'].replace('_', ' ')} token"
            )
        if said:
            return said
    return []


def hosts(run: Run) -> list[Document]:
    """The machines of all launches, each once."""
    found: list[Document] = []
    for arm in run.arms.values():
        for launch in arm.launches.values():
            if (host := launch.get("host")) and host not in found:
                found.append(host)
    return found


def dates(run: Run) -> tuple[float | None, float | None]:
    """Start of the first launch and end of the last, in seconds since 1970."""
    launches = [launch for arm in run.arms.values() for launch in arm.launches.values()]
    began = [launch["started_at"] for launch in launches if launch.get("started_at") is not None]
    ended = [launch["ended_at"] for launch in launches if launch.get("ended_at") is not None]
    return min(began, default=None), max(ended, default=None)


def command_lines(run: Run) -> list[tuple[str, Markdown]]:
    """(arm, its command line as a code block)."""
    found = []
    for name, arm in run.arms.items():
        identity = arm.bring_up.get("identity") or {}
        argv = identity.get("argv")
        if argv is None:
            found.append((name, markdown_text("unknown: the server was not started, or was there already")))
            continue
        env = [f"{key}={value}" for key, value in sorted((identity.get("env") or {}).items())]
        words = [*env, *([identity["program"]] if identity.get("program") else []), *argv]
        found.append((name, markdown_code(shlex.join(str(word) for word in words))))
    return found


def software_table(run: Run) -> Markdown:
    """Versions at the launches and now; several where they changed between launches."""
    launches = [launch for arm in run.arms.values() for launch in arm.launches.values()]
    measured = [launch["software"] for launch in launches if "software" in launch]
    now = versions()
    table = Table(["software", "at the launches", "at this report"])
    for name in dict.fromkeys([*now, *(name for one in measured for name in one)]):
        then = " and ".join(sorted({one[name] for one in measured if name in one}))
        table.add(name, then or "unknown", now.get(name, "unknown"))
    return table.markdown()
