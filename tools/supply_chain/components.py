"""Write lists of components (SBOM) in CycloneDX's JSON: ``python -m tools.supply_chain.components FOLDER [IMAGE]``.

``wheel.cdx.json`` describes the wheel, which is built for it, with the packages of the lock that it runs with.
``image.cdx.json`` describes an image by what is found in it. A list is validated against CycloneDX's schema before it
is written.
"""

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.utils import canonicalize_name, parse_wheel_filename

from tools.supply_chain.contents import NOT_STATED, hash_file, read_licence
from tools.supply_chain.licences import read_installed
from tools.supply_chain.locks import ALL, ROOT, find_lock, read_pins

TYPES = {".safetensors": ComponentType.MACHINE_LEARNING_MODEL, ".jar": ComponentType.LIBRARY}


def describe_python(name: str, version: str, licence: str) -> Component:
    """Return a Python package as a component."""
    known = [LicenseFactory().make_from_string(licence)] if licence and licence != NOT_STATED else []
    purl = PackageURL("pypi", name=canonicalize_name(name), version=version)
    return Component(name=name, version=version, licenses=known, purl=purl, bom_ref=str(purl))


def describe_debian(name: str, version: str, architecture: str) -> Component:
    """Return a package of the distribution as a component."""
    purl = PackageURL("deb", "debian", name, version, {"arch": architecture})
    return Component(name=name, version=version, purl=purl, bom_ref=str(purl))


def describe_file(path: str, digest: str) -> Component:
    """Return a model or a jar as a component."""
    hashes = [HashType(alg=HashAlgorithm.SHA_256, content=digest)]
    return Component(name=path, type=TYPES[Path(path).suffix], hashes=hashes, bom_ref=f"file:{path}")


def assemble(root: Component, components: Iterable[Component]) -> Bom:
    """Return the list of components of ``root``, which depends on all of them."""
    bom = Bom(components=components)
    bom.metadata.component = root
    bom.register_dependency(root, bom.components)
    return bom


def describe_wheel(wheel: Path) -> Bom:
    """Return the wheel, what it contains of others, and the tested versions of what it runs with."""
    name, version, _, _ = parse_wheel_filename(wheel.name)
    digest = HashType(alg=HashAlgorithm.SHA_256, content=hash_file(wheel))
    licences = [LicenseFactory().make_from_string("MIT")]
    root = Component(name=name, version=str(version), hashes=[digest], licenses=licences, bom_ref="wheel")
    installed = read_installed([])
    pins = {(p.name, p.version) for p in read_pins(find_lock(ALL)) if p.section in ("run", "torch")}
    components = [
        describe_python(n, v, read_licence(installed[n]) if n in installed and installed[n].version == v else "")
        for n, v in sorted(pins)
    ]
    with zipfile.ZipFile(wheel) as archive:
        models = [path for path in archive.namelist() if path.endswith(".safetensors")]
        components += [describe_file(path, hashlib.sha256(archive.read(path)).hexdigest()) for path in models]
    return assemble(root, components)


def describe_image(image: str) -> Bom:
    """Return an image and what is found in it."""
    script = Path(__file__).with_name("contents.py").read_text(encoding="utf-8")
    words = ["docker", "run", "--rm", "--interactive", "--network", "none", "--entrypoint", "python", image, "-"]
    printed = subprocess.run(words, input=script, check=True, capture_output=True, text=True).stdout
    inspect = ["docker", "image", "inspect", "--format", "{{.Id}}", image]
    identity = subprocess.run(inspect, check=True, capture_output=True, text=True).stdout.strip()
    found: dict[str, Any] = json.loads(printed)
    root = Component(name=image, version=identity, type=ComponentType.CONTAINER, bom_ref="image")
    packages = [
        *(describe_python(*row) for row in found["python"]),
        *(describe_debian(*row) for row in found["debian"]),
    ]
    return assemble(root, [*packages, *(describe_file(*row) for row in found["files"])])


def render(bom: Bom) -> str:
    """Return a list of components as JSON that agrees with the schema.

    Raises:
        ValueError: it does not agree.
    """
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text):
        raise ValueError(f"not CycloneDX 1.6: {error}")
    return text


def build_wheel(folder: Path) -> Path:
    """Return the wheel of this clone, built in ``folder``."""
    words = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir"]
    subprocess.run([*words, str(folder), str(ROOT)], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def main() -> None:
    """Write the list of the wheel, and that of an image if one is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("image", nargs="?")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        boms = {"wheel": describe_wheel(build_wheel(Path(scratch)))}
    if options.image:
        boms["image"] = describe_image(options.image)
    for name, bom in boms.items():
        path = options.folder / f"{name}.cdx.json"
        path.write_text(render(bom), encoding="utf-8")
        print(f"{path}: {len(bom.components)} components")


if __name__ == "__main__":
    main()
