#!/bin/sh
# Build llama.cpp's RPC backend, which splits a model over machines, as a library beside the llama.cpp of an environment:
# rpc.sh VENV. The source comes from the package index, in the version that is installed. Half a minute on 2 cores.
set -eu

python="$1/bin/python"
where=$("$python" -c 'import importlib.util
from edgeserve.engines.llama.bindings import version
print(importlib.util.find_spec("llama_cpp").submodule_search_locations[0] + "/lib", version())')
version=${where##* }
folder=${where% *}
library="$folder/libggml-rpc-$version.so"
if [ -e "$library" ] || [ -e "$folder/libggml-rpc.so" ] || [ -e "$folder/libggml-rpc.dylib" ]; then exit 0; fi

echo "Building llama.cpp's RPC backend for llama-cpp-python $version." >&2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m pip download --disable-pip-version-check --quiet --no-deps --no-binary llama-cpp-python --dest "$work" \
    "llama-cpp-python==$version"
tar -xzf "$work"/*.tar.gz -C "$work"
source=$(echo "$work"/*/vendor/llama.cpp/ggml)
origin='$ORIGIN'
[ "$(uname -s)" != Darwin ] || origin=@loader_path
# A backend in a library of its own is llama.cpp's GGML_BACKEND_DL: ggml_backend_load() asks it for its functions.
"${CXX:-c++}" -O2 -std=c++17 -fPIC -shared -pthread -DGGML_BACKEND_DL -DGGML_BACKEND_BUILD -DGGML_BACKEND_SHARED \
    -DGGML_SHARED -I"$source/include" -I"$source/src" "$source/src/ggml-rpc/ggml-rpc.cpp" \
    "$source/src/ggml-rpc/transport.cpp" -o "$library.new" -L"$folder" -lggml-base -Wl,-rpath,"$origin"
mv "$library.new" "$library"
