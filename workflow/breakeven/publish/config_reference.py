"""config/README.md from the JSON schemas: every key, once, in the words of its description.

`python -m breakeven.publish.config_reference > config/README.md` writes it anew; a test says when that is due.
"""

import json
from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import Any

INTRODUCTION = """\
# Configuration

`config.yaml` says what belongs to this machine; `experiments/<name>.yaml` is one experiment, which becomes
`reports/<name>.md`; `ledger/` holds entries and notes that people write by hand (see its own README).
Unknown keys are errors. Made from the schemas in `workflow/breakeven/schemas` by
`python -m breakeven.publish.config_reference`.

What makes a run out of date: an arm's own flags, environment, image or program measure that arm again; `workload`,
`seed` and `take` measure everything again; `expect`, `strict` and `variable` only verify again; everything else only
computes or prints again. Nothing in `config.yaml` ever does.

A real run, as opposed to the embedded demo: `tg: 256` or more, at least 12 prompts per class, the classes that the
server will see, depths up to the context in use, `rounds: auto`, and a `base_again: {repeat_of: base}` arm so that
the noise floor is known.
"""


def reference() -> str:
    """The whole page as Markdown."""
    parts = [INTRODUCTION]
    for name, title in (("machine", "config.yaml"), ("experiment", "experiments/&lt;name&gt;.yaml")):
        schema = json.loads((files("breakeven") / "schemas" / f"{name}.schema.json").read_text())
        parts.append(f"## {title}\n\n{schema['description']}\n")
        parts.append("| key | values | default | meaning |\n|---|---|---|---|")
        parts += [_row(*entry) for entry in _keys(schema, schema, "")]
        parts.append("")
    return "\n".join(parts)


def _keys(
    node: Mapping[str, Any], schema: Mapping[str, Any], path: str
) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    for name, key in node.get("properties", {}).items():
        resolved = _resolved(key, schema)
        yield f"{path}{name}", resolved, name in node.get("required", [])
        children = resolved.get("additionalProperties")
        if resolved.get("properties"):
            yield from _keys(resolved, schema, f"{path}{name}.")
        elif isinstance(children, Mapping) and _resolved(children, schema).get("properties"):
            yield from _keys(_resolved(children, schema), schema, f"{path}{name}.*.")
        elif _resolved(resolved.get("items", {}), schema).get("properties"):
            yield from _keys(_resolved(resolved["items"], schema), schema, f"{path}{name}[].")


def _resolved(key: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    if "$ref" not in key:
        return dict(key)
    target = schema["$defs"][key["$ref"].removeprefix("#/$defs/")]
    return dict(target) | {name: value for name, value in key.items() if name != "$ref"}


def _row(path: str, key: Mapping[str, Any], required: bool) -> str:
    default = "required" if required else json.dumps(key["default"]) if "default" in key else ""
    cells = (
        f"`{path}`",
        _values(key),
        f"`{default}`" if default and not required else default,
        key["description"],
    )
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _values(key: Mapping[str, Any]) -> str:
    if "enum" in key:
        return ", ".join(f"`{value}`" for value in key["enum"])
    if "const" in key:
        return f"`{json.dumps(key['const'])}`"
    if "oneOf" in key:
        return " or ".join(dict.fromkeys(_values(option) for option in key["oneOf"]))
    kinds = key.get("type", "any")
    return " or ".join(kinds) if isinstance(kinds, list) else str(kinds)


if __name__ == "__main__":
    print(reference(), end="")
