"""Makes the initial RAM disk of a soft-RoCE node out of unpacked Debian packages.

usage: initrd.py PACKAGES_ROOT INIT TEST OUTPUT [PROGRAM…]

Programs and the test become /bin/NAME and /test; each program's libraries are taken from the packages.
"""

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

# rxe, whose checksums name no module, and what a test needs of the kernel: verbs for programs, the network card, and tc's ways to slow a link
MODULES = ["crc32_generic", "rdma_rxe", "ib_uverbs", "rdma_ucm", "virtio_pci", "virtio_net", "sch_tbf", "sch_netem"]
PROGRAMS = ["bin/busybox", "sbin/tc", "usr/bin/rdma", "usr/bin/ib_write_bw", "usr/bin/ib_read_bw", "usr/bin/ib_send_bw",
            "usr/bin/ib_write_lat", "usr/bin/ib_send_lat", "usr/bin/ibv_devinfo"]
LIBRARY_FOLDERS = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"]
# opened at run time, so that no program lists them
OPENED = ["libibverbs.so.1", "libgcc_s.so.1"]


def modules_in_order(root: Path) -> list[Path]:
    files = {path.stem.replace("-", "_"): path for path in root.glob("lib/modules/*/kernel/**/*.ko")}
    order: list[Path] = []

    def visit(name: str) -> None:
        found = re.search(rb"depends=([^\0]*)\0", files[name].read_bytes())
        for needed in filter(None, found.group(1).decode().split(",") if found else []):
            visit(needed.replace("-", "_"))
        if files[name] not in order:
            order.append(files[name])

    for name in MODULES:
        # one that is built into the kernel is no file
        if name in files:
            visit(name)
    return order


def needed_by(file: Path) -> list[str]:
    text = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", text)


def libraries(root: Path, programs: list[Path]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    wanted = [name for program in programs for name in needed_by(program)] + OPENED
    while wanted:
        name = wanted.pop()
        if name in found:
            continue
        for folder in LIBRARY_FOLDERS:
            file = root / folder / name
            if file.exists():
                found[name] = file.resolve()
                wanted += needed_by(file)
                break
        else:
            sys.exit(f"initrd.py: no package has the library {name}")
    return found


class Cpio:
    """An archive in the format that the kernel unpacks (its document initramfs-buffer-format)."""

    def __init__(self, file: str) -> None:
        self.out = gzip.open(file, "wb", 1)
        self.inode = 0
        self.folders: set[str] = set()

    def emit(self, name: str, mode: int, data: bytes = b"") -> None:
        self.inode += 1
        encoded = name.encode() + b"\0"
        numbers = [self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0]
        head = b"070701" + b"".join(b"%08X" % number for number in numbers) + encoded
        self.out.write(head + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4))

    def folder(self, name: str) -> None:
        parent = os.path.dirname(name)
        if parent:
            self.folder(parent)
        if name not in self.folders:
            self.folders.add(name)
            self.emit(name, 0o040755)

    def file(self, name: str, source: Path) -> None:
        self.folder(os.path.dirname(name) or "bin")
        self.emit(name, 0o100755, source.read_bytes())

    def text(self, name: str, text: str) -> None:
        self.folder(os.path.dirname(name))
        self.emit(name, 0o100644, text.encode())

    def close(self) -> None:
        self.emit("TRAILER!!!", 0)
        self.out.close()


def main() -> None:
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    root, init, test, output = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4]
    programs = [root / name for name in PROGRAMS] + [Path(name) for name in sys.argv[5:]]
    cpio = Cpio(output)
    for name in ["dev", "proc", "sys", "tmp"]:
        cpio.folder(name)
    cpio.file("init", init)
    cpio.file("test", test)
    for program in programs:
        cpio.file(f"bin/{program.name}", program)
    provider = next(root.glob("usr/lib/x86_64-linux-gnu/libibverbs/librxe-*.so"))
    for name, file in libraries(root, [p for p in programs if p.name != "busybox"] + [provider]).items():
        # the loader has its path from the programs
        cpio.file(f"lib64/{name}" if name.startswith("ld-linux") else f"lib/{name}", file)
    cpio.file(f"usr/lib/x86_64-linux-gnu/libibverbs/{provider.name}", provider)
    cpio.file("etc/libibverbs.d/rxe.driver", root / "etc/libibverbs.d/rxe.driver")
    order = modules_in_order(root)
    for module in order:
        cpio.file(f"modules/{module.name}", module)
    cpio.text("modules/order", "".join(f"{module.stem}\n" for module in order))
    cpio.close()


main()
