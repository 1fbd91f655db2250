"""The whole story on one machine: train, pack, serve, let edge and cloud answer together, switch. `make demo` runs it.

Everything goes through the command line and the served URLs, as a user would do it: nothing here imports Modelwright.
The manifests are those beside this folder. It works in a new folder with a control plane of its own, and removes both.
"""

from __future__ import annotations

import http.client
import pathlib
import subprocess
import sys
import tempfile

import archive
from plane import DemoFailed, control_plane
from story import Story, headline, say

HERE = pathlib.Path(__file__).resolve().parent
NO_SUM = "0" * 64


class Demo(Story):
    """The whole of it: what the models are trained and made from, too."""

    def train(self, *names: str) -> None:
        """Run trainings; each ends as a version that is packed, and pushed to the registry."""
        self._client.apply(*(self.manifest(f"train-{name}") for name in names))
        self._client.wait(*(f"tm/{version_of(name)}" for name in names))
        for name in names:
            status = self._client.status(f"mv/{version_of(name)}")
            size, measured = status["sizeBytes"], status["metrics"]["accuracy"]
            say(f"{version_of(name)}: accuracy {measured:.3f}, {size / 1000:,.0f} kB, {status['image']}")
            print(f"digest {status['imageDigest']}", flush=True)

    def serve(self, files: str) -> None:
        """The edge model from an archive of what is in the registry, the cloud model from its version."""
        self.serve_both(self.edge_manifest(files), self.manifest("serve-cloud"))

    def edge_manifest(self, files: str) -> str:
        image = self._client.status("mv/digits-edge-v1")["resolvedImage"]
        self._client.run("image", "pull", image, str(self._folder / "edge-v1"))
        digest = archive.pack(self._folder / "edge-v1", self._folder / "files" / "edge-v1.tar")
        local = (self._folder / "edge-v1.tar").as_uri()
        manifest = self.manifest("serve-edge-download").replace(local, f"{files}/edge-v1.tar")
        return manifest.replace(NO_SUM, digest)

    def lineage(self) -> None:
        print(self._client.run("lineage", "jis/digits").rstrip(), flush=True)


def version_of(name: str) -> str:
    """A training and its version are called alike: digits-edge-v1, digits-cloud-v2."""
    return f"digits-{name}" if name.endswith("-v2") else f"digits-{name}-v1"


def demo(folder: pathlib.Path) -> None:
    subprocess.run(
        [sys.executable, str(HERE.parent / "prepare.py"), str(folder)], check=True, stdout=subprocess.DEVNULL
    )
    (folder / "files").mkdir()
    with control_plane(folder) as client, archive.file_server(folder / "files") as files:
        say(f"control plane at {client.url}, data set and manifests in {folder}")
        story = Demo(client, folder)
        headline("Train a small model, and with two workers a strong one")
        story.train("edge", "cloud")
        headline("Serve the small one at the edge, from an archive, and the strong one in the cloud")
        story.serve(files)
        headline("Join them: the edge model answers, and asks the cloud model when it is not sure")
        story.join()
        headline("Where do these answers come from?")
        story.lineage()
        headline("Train a second cloud model from the first; switch to it and back while requests run")
        story.train("cloud-v2")
        story.switch()
        headline("Stop the cloud model while requests run, and start it again")
        story.lose_the_cloud()


def main() -> int:
    folder = tempfile.TemporaryDirectory(prefix="modelwright-demo-", ignore_cleanup_errors=True)
    try:
        demo(pathlib.Path(folder.name))
    except (DemoFailed, OSError, http.client.HTTPException, KeyError, ValueError, subprocess.SubprocessError) as error:
        print(f"demo: FAIL ({error if isinstance(error, DemoFailed) else repr(error)})", flush=True)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: stopped", flush=True)
        return 130
    finally:
        folder.cleanup()  # models are read-only, folders too: this knows how to remove them
    print("\ndemo: PASS", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
