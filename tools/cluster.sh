#!/bin/sh
# Run the tests of several boxes with Ray and Caddy, in an environment of their own below .venv-cluster. .venv has
# everything else, llama.cpp's RPC backend too: its packages are seen through a .pth file. ollama-herd, the balancer of
# other makers, has an environment below that one, since its packages are other versions. Arguments are pytest's.
set -eu

folder=.venv-cluster
python="$folder/bin/python"
stamp="$folder/installed"
key="$(cksum <pyproject.toml) $PWD"

if [ ! -f "$stamp" ] || [ "$(cat "$stamp")" != "$key" ]; then
    echo "Installing Ray and Caddy into $folder." >&2
    .venv/bin/python -m venv --clear "$folder"
    packages=$(.venv/bin/python -c 'import tomllib
extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]
print("\n".join(one.partition(";")[0] for one in extras["cluster"] + extras["caddy"]))')
    ours=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    .venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' >"$ours/edgeserve.pth"
    echo "$PWD" >>"$ours/edgeserve.pth"
    # shellcheck disable=SC2086
    if "$python" -m pip install --disable-pip-version-check --quiet $packages; then
        printf '%s\n' "$key" >"$stamp"
    else
        echo "[WARNING] Ray or Caddy cannot be installed here: the tests that need them are left out" >&2
    fi
fi
if [ ! -x "$folder/herd/bin/herd" ]; then
    .venv/bin/python -m venv --clear "$folder/herd"
    "$folder/herd/bin/python" -m pip install --disable-pip-version-check --quiet ollama-herd==0.11.4 ||
        echo "[WARNING] ollama-herd cannot be installed here: its test is left out" >&2
fi
sh tools/rpc.sh .venv || echo "[WARNING] llama.cpp's RPC cannot be built here: tests of splits are left out" >&2
export PATH="$PWD/$folder/bin:$PWD/$folder/herd/bin:$PATH"
exec "$python" -m pytest tests/edgeserve/cluster "$@"
