"""What lies in a folder, for tests that nothing of it was touched."""


def everything(folder):
    return {p.relative_to(folder): p.read_bytes() if p.is_file() else None for p in sorted(folder.rglob("*"))}
