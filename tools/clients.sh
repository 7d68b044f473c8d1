#!/bin/sh
# Run the clients of other makers against a server on the starter models, each in its latest version of the package
# index, and write docs/clients.md. EDGESERVE_CLIENTS_PYTHON, else .venv, has the server. Each line of tools/clients.txt
# has an environment of its own below .venv-clients, since the needs of clients do not go together.
#   tools/clients.sh openai litellm    these lines alone; docs/clients.md is written only when all lines run
set -eu

folder=.venv-clients
found="$PWD/$folder/found.json"
server="${EDGESERVE_CLIENTS_PYTHON:-$PWD/.venv/bin/python}"
node="$PWD/$folder/node_modules"
failed=""

have() { command -v "$1" >/dev/null 2>&1; }

# test <name> <packages…>: install the packages, and run tests/clients/test_<name>.py
test_client() {
    name=$1
    shift
    python="$folder/$name/bin/python"
    [ -x "$python" ] || "$server" -m venv "$folder/$name"
    # A client that cannot be installed here is left out, and its tests say so.
    "$python" -m pip install --disable-pip-version-check --quiet --upgrade pytest pytest-timeout "$@" ||
        echo "[WARNING] not installed: $*" >&2
    "$python" -m pytest -c tests/clients/pytest.ini --confcutdir tests/clients "tests/clients/test_$name.py" ||
        { status=$?; [ $status -eq 5 ] || failed="$failed $name"; }  # 5: all of a module is skipped
}

mkdir -p "$folder"
rm -f "$found"
if have node && have npm; then
    grep -v '^#' tools/clients-npm.txt | while read -r package; do
        npm install --silent --no-audit --no-fund --prefix "$folder" "$package" </dev/null ||
            echo "[WARNING] not installed: $package" >&2
    done
fi
export EDGESERVE_CLIENTS_PYTHON="$server" EDGESERVE_CLIENTS_NODE="$node" EDGESERVE_CLIENTS_FOUND="$found"
while read -r name packages; do
    case "$name" in ''|'#'*) continue ;; esac
    if [ $# -gt 0 ]; then case " $* " in *" $name "*) ;; *) continue ;; esac; fi
    # shellcheck disable=SC2086
    test_client "$name" $packages </dev/null
done <tools/clients.txt
[ $# -gt 0 ] || "$server" tools/clients_page.py "$found" docs/clients.md
[ -z "$failed" ] || { echo "[ERROR] clients that failed:$failed" >&2; exit 1; }
