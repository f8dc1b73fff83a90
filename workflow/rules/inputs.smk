"""Inputs that depend on what is there already. Reads results/ and config/ledger/."""


def model(wildcards):
    """The generated model, where the experiment uses it; a rebuilt file is the same file, so its age never counts."""
    spec = experiment(wildcards.experiment)
    arm = wildcards.get("arm", spec["baseline"])
    path = Path(spec["arms"][arm]["server"]["args"].get("model", ""))
    generated = settings.DEMO_MODELS / path.name
    return ancient(str(generated)) if path.name == settings.Recipe().file_name else []


def gate(wildcards):
    """A measured launch outlives a changed expectation; a refused one is tried again with it."""
    base = f"results/{wildcards.experiment}/{wildcards.arm}"
    launch = Path(base, str(wildcards.round), "launch.json")
    measured = launch.exists() and json.loads(launch.read_text())["status"] == "measured"
    return ancient(f"{base}/verify.json") if measured else f"{base}/verify.json"


def final_look(wildcards):
    """The last look: fixed rounds are one look, `auto` goes on until it is decided."""
    rounds = experiment(wildcards.experiment)["rounds"]
    for look in settings.LOOKS if rounds == "auto" else [rounds]:
        path = f"results/{wildcards.experiment}/look{look}/verdict.json"
        if rounds == "auto":
            checkpoints.verdict.get(experiment=wildcards.experiment, look=look)
            if json.loads(Path(path).read_text())["decided"]:
                break
    return path


def final_findings(wildcards):
    return str(Path(final_look(wildcards)).with_name("findings.json"))


def hand_written(wildcards):
    """Entries, notes and changes of status that people keep in config/ledger."""
    kept = Path("config/ledger")
    return sorted(str(path) for path in kept.glob("*") if path.suffix in {".yaml", ".json", ".jsonl"})
