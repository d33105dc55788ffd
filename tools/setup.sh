#!/bin/sh
# Make .venv ready for the Makefile.
#   sh tools/setup.sh python     print the Python that would be used, or say what is missing
#   sh tools/setup.sh EXTRAS     create .venv if need be and install regard with these extras, editable
# PYTHON= names the interpreter, TORCH_INDEX= the index for torch: a URL, or "default" for pip's own.
set -eu
cd "$(dirname "$0")/.."

venv=.venv
unfinished=.venv.unfinished # exists while pip works; if it is found at the start, the last run was cut off
cpu_index=https://download.pytorch.org/whl/cpu

say() { printf '%s\n' "$*"; }
fail() {
    printf 'set-up: %s\n' "$*" >&2
    exit 1
}

# Prints "3.11 able" or "3.11 bare" (cannot create virtual environments). Python 2 can read it too.
describe='
import sys
try:
    import ensurepip, venv
    state = "able"
except ImportError:
    state = "bare"
print("%d.%d %s" % (sys.version_info[0], sys.version_info[1], state))'

find_python() {
    if [ -n "${PYTHON:-}" ]; then set -- "$PYTHON"; else set -- python3.13 python3.12 python3.11 python3; fi
    old='' bare='' bare_version=''
    for candidate in "$@"; do
        # A name on PATH may still not run (version managers leave such stubs), so ask it.
        answer=$("$candidate" -c "$describe" 2>/dev/null) || continue
        version=${answer% *}
        case "$version" in
            [012].* | 3.[0-9] | 3.10) old="$old $candidate is $version;" ;;
            *)
                if [ "${answer#* }" = able ]; then
                    python=$candidate
                    return
                fi
                [ -n "$bare" ] || { bare=$candidate bare_version=$version; }
                ;;
        esac
    done
    if [ -n "$bare" ]; then
        fail "$bare (Python $bare_version) has no ensurepip, so it cannot create $venv." \
            "On Debian and Ubuntu: sudo apt install python$bare_version-venv (or python3-venv), then run make again."
    fi
    fail "Python 3.11 or newer is needed;${old:- none found among: $*;}" \
        "name one with PYTHON=, for example: make demo PYTHON=/usr/bin/python3.12"
}

make_venv() {
    if [ ! -e "$unfinished" ] && "$venv/bin/python" -c 'import pip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        [ -z "${PYTHON:-}" ] || say "Keeping the $venv that exists; 'make clean' first to build it with $PYTHON."
        return
    fi
    find_python
    [ ! -e "$unfinished" ] || say "The last set-up was cut off; starting $venv again."
    say "Creating $venv with $python."
    : >"$unfinished"
    "$python" -m venv --clear "$venv" || fail "$python -m venv $venv did not work; its message is above."
}

# pip cleans up after its own errors, but not when it is killed: then the mark stays.
install() {
    : >"$unfinished"
    status=0
    "$venv/bin/python" -m pip --disable-pip-version-check install -c constraints.txt "$@" || status=$?
    [ "$status" -gt 128 ] || rm -f "$unfinished"
    return "$status"
}

# The wait for a name server is not covered by urlopen's timeout, hence the timer.
answers() {
    "$venv/bin/python" - "$1" <<'PYTHON' 2>/dev/null
import os, sys, threading, urllib.request
timer = threading.Timer(8, os._exit, [1])
timer.daemon = True
timer.start()
urllib.request.urlopen(sys.argv[1] + "/torch/", timeout=5).close()
PYTHON
}

install_torch() {
    pin=$(sed -n 's/^torch==//p' constraints.txt)
    ! "$venv/bin/python" -c "import importlib.metadata as m, sys; sys.exit(m.version('torch').split('+')[0] != '$pin')" 2>/dev/null || return 0

    index=${TORCH_INDEX:-}
    if [ -z "$index" ] && [ "$(uname -s)" = Linux ]; then
        if answers "$cpu_index"; then
            say "Installing torch $pin from PyTorch's CPU index, $cpu_index: about 200 MB."
            install --index-url "$cpu_index" "torch==$pin" && return
            say "That did not work; trying pip's default index."
        else
            say "PyTorch's CPU index, $cpu_index, does not answer from here; using pip's default index."
        fi
    fi
    case "$index" in
        '' | default)
            if [ "$(uname -s)" = Linux ]; then
                say "Installing torch $pin from pip's default index: PyPI's build for Linux brings CUDA, several GB;" \
                    "a CPU build is about 200 MB. To choose: make demo TORCH_INDEX=URL"
            else
                say "Installing torch $pin from pip's default index: about 100 MB."
            fi
            install "torch==$pin"
            ;;
        *)
            say "Installing torch $pin from $index (TORCH_INDEX)."
            install --index-url "$index" "torch==$pin"
            ;;
    esac || fail "torch $pin could not be installed; pip's message is above."
}

trap 'exit 130' INT
trap 'exit 143' TERM

case "${1:-}" in
    '') fail "usage: sh tools/setup.sh python | EXTRAS" ;;
    python)
        find_python
        say "$python"
        ;;
    *)
        make_venv
        install_torch
        say "Installing regard[$1] in $venv."
        install --quiet --editable ".[$1]" || fail "regard[$1] could not be installed; pip's message is above."
        ;;
esac
