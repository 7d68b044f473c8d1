#!/bin/sh
# Make .venv and install edgeserve with the given extra ("starter" or "dev") from this directory, editable.
# Does nothing, and asks no network, when that was done for this pyproject.toml and directory.
# PYTHON names the Python to build on; pip reads its usual configuration.
set -eu

extra=$1
venv=.venv
log=$venv/install.log
stamp=$venv/installed-$extra
mlx_whisper="mlx-whisper>=0.4.2,<0.5"
makers=https://abetlen.github.io/llama-cpp-python/whl/cpu
key="$(cksum <pyproject.toml) $PWD"

say() { printf '%s\n' "$*" >&2; }
fail() { say "[ERROR] $*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# The command that installs what this script misses: how_to_install <apt> <dnf> <pacman> <zypper> <apk> <mac>
how_to_install() {
    if [ "$(uname -s)" = Darwin ]; then printf '%s' "$6"; return; fi
    if have apt-get; then printf 'sudo apt-get install %s' "$1"
    elif have dnf; then printf 'sudo dnf install %s' "$2"
    elif have pacman; then printf 'sudo pacman -S %s' "$3"
    elif have zypper; then printf 'sudo zypper install %s' "$4"
    elif have apk; then printf 'sudo apk add %s' "$5"
    else printf 'your package manager (package: %s)' "$1"
    fi
}

recent() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }

find_python() {
    if [ -n "${PYTHON:-}" ]; then
        have "$PYTHON" || fail "PYTHON=$PYTHON: no such command"
        recent "$PYTHON" || fail "PYTHON=$PYTHON is $("$PYTHON" --version 2>&1); edgeserve needs 3.11 or newer"
        return
    fi
    for PYTHON in python3 python3.13 python3.12 python3.11; do
        if have "$PYTHON" && recent "$PYTHON"; then return; fi
    done
    found="no python3 was found"
    if have python3; then found="python3 is $(python3 --version 2>&1)"; fi
    fail "edgeserve needs Python 3.11 or newer; $found. Install it with:" \
        "$(how_to_install 'python3 python3-venv' python3.12 python python312 python3 'brew install python@3.12')" \
        "(or name another one: make serve PYTHON=/path/to/python3.12)"
}

# Whether pip is told to take a llama.cpp that is built already.
prebuilt() {
    case ",${PIP_ONLY_BINARY:-}," in *,llama-cpp-python,* | *,:all:,*) return 0 ;; esac
    return 1
}

need_compiler() {
    if prebuilt; then return 0; fi
    # On a Mac without its developer tools, cc is there but only opens a window that offers them.
    if [ "$(uname -s)" = Darwin ] && ! xcode-select -p >/dev/null 2>&1; then missing="no developer tools are"
    elif ! have "${CC:-cc}" && ! have gcc && ! have clang; then missing="no C compiler is"
    elif ! have "${CXX:-c++}" && ! have g++ && ! have clang++; then missing="no C++ compiler is"
    else return 0
    fi
    fail "$missing installed; llama-cpp-python is built from source and needs a C and a C++ compiler." \
        "Install them with:" \
        "$(how_to_install build-essential 'gcc gcc-c++ make' base-devel 'gcc gcc-c++ make' build-base 'xcode-select --install')"
}

usable_venv() { "$venv/bin/python" -c 'import pip' 2>/dev/null && recent "$venv/bin/python"; }

need_venv_module() {
    if "$PYTHON" -c 'import venv, ensurepip' 2>/dev/null; then return; fi
    version=$("$PYTHON" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    fail "$PYTHON cannot make virtual environments: its venv or ensurepip is missing. Install it with:" \
        "$(how_to_install "python$version-venv" python3-pip python python3-pip 'python3 py3-pip' 'brew install python@3.12')"
}

make_venv() {
    say "Making $venv with $("$PYTHON" --version 2>&1) ..."
    "$PYTHON" -m venv --clear "$venv"
}

# Seconds gone and pip's latest line: redrawn each second in a terminal, else a line every half minute.
tick() {
    seconds=0
    while kill -0 $$ 2>/dev/null; do
        line=$(tail -n 1 "$log" 2>/dev/null | cut -c 1-64)
        if [ -t 2 ]; then printf '\r  %4d s  %-64s' "$seconds" "$line" >&2
        elif [ $((seconds % 30)) -eq 0 ]; then printf '  %4d s  %s\n' "$seconds" "$line" >&2
        fi
        sleep 1
        seconds=$((seconds + 1))
    done
}

# GCC 12 drops most of the tile sizes that llama.cpp hands to AMX: the intrinsic reads 64 bytes and declares 8. The first
# product of reordered weights (repack = "on") then ends the process with SIGILL. A wheel in pip's own cache may have been
# built so, hence a cache of this environment's own.
leave_out_amx() {
    grep -q amx_int8 "${CPUINFO:-/proc/cpuinfo}" 2>/dev/null || return 0
    export CMAKE_ARGS="-DCMAKE_C_FLAGS=-mno-amx-int8 -DCMAKE_CXX_FLAGS=-mno-amx-int8 ${CMAKE_ARGS:-}"
    export PIP_CACHE_DIR="$PWD/$venv/cache"
}

# Free memory in MB: the system's, or that of a control group with a smaller limit. Nothing where it cannot be read.
free_mb() {
    available=
    while read -r name amount _; do
        [ "$name" != MemAvailable: ] || available=$((amount / 1024))
    done 2>/dev/null <"${MEMINFO:-/proc/meminfo}" || :
    limit=$(cat "${MEMORY_MAX:-/sys/fs/cgroup/memory.max}" 2>/dev/null || :)
    case $limit in
        "" | *[!0-9]*) ;;
        *) [ -n "$available" ] && [ "$available" -le $((limit / 1048576)) ] || available=$((limit / 1048576)) ;;
    esac
    printf '%s' "$available"
}

# The largest files of llama.cpp take a compiler 0.8 GB each. More compilers at a time than memory has room for end in
# a kill by the system, or in hours of swapping. CMAKE_BUILD_PARALLEL_LEVEL, where it is set, is the user's word.
compilers_at_a_time() {
    available=$(free_mb)
    cores=$(grep -c '^processor' "${CPUINFO:-/proc/cpuinfo}" 2>/dev/null) || cores=
    if [ -z "$available" ] || [ -z "$cores" ] || [ -n "${CMAKE_BUILD_PARALLEL_LEVEL:-}" ]; then return 0; fi
    jobs=$((available / 800))
    if [ "$jobs" -lt 1 ]; then
        jobs=1
        say "Only $available MB of memory are free, and the build takes 800: end other programs, or add swap."
    fi
    if [ "$jobs" -lt "$cores" ]; then
        export CMAKE_BUILD_PARALLEL_LEVEL=$jobs
        say "$available MB of memory are free: $jobs compilers at a time, not $cores. That takes longer."
    fi
}

announce_build() {
    if "$venv/bin/python" -m pip show --quiet llama-cpp-python 2>/dev/null; then return; fi
    if prebuilt; then say "llama-cpp-python is not compiled: pip takes a built one. Log: $log"; return; fi
    say "llama-cpp-python is built from source on this machine: about 4 minutes on 2 cores. Log: $log"
    say "Its makers have built ones, which fit any processor and so may answer slower. To use those:" \
        "PIP_EXTRA_INDEX_URL=$makers PIP_ONLY_BINARY=llama-cpp-python make serve"
    compilers_at_a_time
}

install() {
    say "Installing edgeserve[$extra] into $venv."
    announce_build
    : >"$log"
    tick &
    ticker=$!
    trap 'kill $ticker 2>/dev/null || :' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    status=0
    leave_out_amx
    "$venv/bin/python" -m pip install --progress-bar off --editable ".[$extra]" >>"$log" 2>&1 || status=$?
    kill $ticker 2>/dev/null || :
    [ ! -t 2 ] || say ""
    if [ $status -ne 0 ]; then
        tail -n 25 "$log" >&2
        fail "pip ended with code $status; the lines above are the end of $log"
    fi
}

# For the tests of the engine on MLX. Wheels only, of which there are none for some machines: they test the rest.
install_mlx() {
    say "Installing MLX into $venv, without torch."
    pip_install="$venv/bin/python -m pip install --disable-pip-version-check --progress-bar off"
    if $pip_install --only-binary :all: --editable ".[mlx]" >>"$log" 2>&1 &&
        $pip_install --no-deps "$mlx_whisper" >>"$log" 2>&1
    then return 0
    fi
    say "MLX cannot be installed here, so its tests are skipped. pip said: $(tail -n 1 "$log")"
}

# EDGESERVE_RPC=1 adds what splits a model over several machines (docs/cluster.md).
add_rpc() {
    [ -n "${EDGESERVE_RPC:-}" ] || return 0
    sh tools/rpc.sh "$venv" || fail "llama.cpp's RPC backend cannot be built; the lines above say why"
}

# dev contains starter.
for done_before in "$stamp" "$venv/installed-dev"; do
    if [ -f "$done_before" ] && [ "$(cat "$done_before")" = "$key" ]; then add_rpc; exit 0; fi
done
rm -f "$stamp"
# Some programs unpack a link as a file with the link's text. The package would be built without engines.
if [ -f edgeserve/engines ]; then
    fail "edgeserve/engines is a file, and has to be a link to the folder engines: unpack edgeserve with tar, unzip or" \
        "git, or mend it with: ln -sf ../engines edgeserve/engines"
fi
if ! usable_venv; then find_python; need_venv_module; fi
need_compiler
usable_venv || make_venv
install
[ "$extra" != dev ] || install_mlx
add_rpc
# Written last and in one step: an install that was broken off leaves no stamp.
printf '%s\n' "$key" >"$stamp.new"
mv "$stamp.new" "$stamp"
say "Installed."
