"""A real Kubernetes of two nodes on this machine, to play with.

up       install what is missing, start it (or find it running), print how to use it
status   say what runs
enter    run a command on a node: `enter edge-0 ip route`; a shell by default
down     stop it and leave nothing behind; also mends what a killed `up` left
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

from tests.cluster.rig import consent, lifecycle, names, node, processes, state
from tests.cluster.rig.cluster import Cluster
from tests.tools import install


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    match options.verb:
        case "up":
            return up(options.name)
        case "status":
            return status(options.name)
        case "enter":
            return enter(options.name, options.node, options.command or ["sh"])
        case _:
            lifecycle.down(options.name)
            return 0


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.cluster.rig", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    for verb in ("up", "status", "enter", "down"):
        words = verbs.add_parser(verb)
        words.add_argument("--name", default="dev", type=names.check_name, help="which cluster (default: dev)")
        if verb == "enter":
            words.add_argument("node", choices=names.ALL_NODES)
            words.add_argument("command", nargs=argparse.REMAINDER)
    return parser.parse_args(arguments)


def up(name: str) -> int:
    try:
        consent.check()
    except consent.NoConsent:
        print(f"{consent.plan()}\n{install.CLUSTER_VARIABLE}=1 lets it.", file=sys.stderr)
        return 2
    except consent.Refused as refusal:
        print(refusal, file=sys.stderr)
        return 2
    programs = consent.install_programs()
    began = time.monotonic()
    cluster = lifecycle.up(name, programs)
    print(f"# ready in {time.monotonic() - began:.1f} s; `python -m tests.cluster.rig down --name {name}` removes it")
    describe(cluster)
    return 0


def status(name: str) -> int:
    cluster = lifecycle.find(name)
    if cluster is None:
        print(f"no cluster {name} is running", file=sys.stderr)
        return 1
    for program in processes.started(name):
        running = "running" if processes.is_running(name, program) else "stopped"
        print(f"# {program}: {running}, process {cluster.pid(program)}, {processes.log_file(name, program)}")
    describe(cluster)
    return 0


def enter(name: str, on: str, command: list[str]) -> int:
    if lifecycle.find(name) is None:
        print(f"no cluster {name} is running", file=sys.stderr)
        return 1
    return subprocess.run([*node.enter(name, on), *command]).returncode


def describe(cluster: Cluster) -> None:
    """Comments for people, and lines that a shell can take as they are."""
    private = cluster.private_registry
    print(f"# state: {state.state_file(cluster.name)}; audit log: {cluster.audit_log}")
    for each in cluster.nodes:
        print(f"# node {each.name}: {each.address}, its root file system: {each.root}")
    for path, folder in cluster.state.storage.exports.items():
        print(f"# NFS: {cluster.state.storage.server}:{path} is {folder}")
    print(f"# registry: {cluster.registry} (plain http)")
    print(f"# private registry: {private.host}, user {private.user}, password {private.password}, CA {private.ca_file}")
    print(f'# in your shell: eval "$(.venv/bin/python -m tests.cluster.rig status --name {cluster.name})"')
    print(f"export PATH={cluster.programs}:$PATH")
    print(f"export KUBECONFIG={cluster.kubeconfig}")
    print(f"export REGISTRY={cluster.registry}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
