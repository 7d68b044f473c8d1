#!/bin/sh
# Build docs/ to site/ by the generator of the extra "docs", in an environment of its own: .venv-docs.
# Ends with the generator's code; a page with a dead link is an error (mkdocs.yml: strict). Where the generator cannot be
# installed, it ends with 69 (EX_UNAVAILABLE of sysexits.h).
set -eu
venv=.venv-docs
stamp=$venv/installed
key=$(cksum <pyproject.toml)
python=${PYTHON:-python3}
[ ! -x .venv/bin/python ] || python=.venv/bin/python  # recent enough, as tools/install.sh found

if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$key" ]; then
    "$python" -m venv --clear "$venv"
    wanted=$("$venv/bin/python" -c '
import tomllib
print("\n".join(tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["docs"]))')
    printf '%s\n' "$wanted" >"$venv/wanted.txt"
    if ! "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$venv/wanted.txt"; then
        echo "[ERROR] the generator of the site cannot be installed here" >&2
        exit 69
    fi
    printf '%s\n' "$key" >"$stamp"
fi
# Material says at each build that Zensical will follow it (docs/decisions/0036-packages.md).
export NO_MKDOCS_2_WARNING=1
exec "$venv/bin/python" -m mkdocs build --quiet --strict
