# Sourced by the other scripts here, which set `root` (the checkout) first: keeps root/.venv usable.
#
#   venv_need PART...   makes sure that .venv holds turnctl and the extra PART (`run` is turnctl alone)
#
# When nothing is to be done it costs a few stat calls: no process is started. Otherwise the work is done by one
# process at a time, under a lock, and told on stderr. PYTHON=... chooses the interpreter of a .venv yet to be made.
#
# What says that .venv is good:
#   .made          a link to the checkout that it was made for; another place (moved, copied) is another .venv
#   .busy          there while an install runs; if it is found and nobody holds the lock, a set-up was killed
#   .ready-PART    the pyproject.toml that PART was installed by, with its time stamp, set after the install
# A .venv without .lock was made by somebody else: it is used, and never deleted.

venv_is_ready() {
    [ "$root/.venv/.made/" -ef "$root/" ] && [ -x "$root/.venv/bin/python" ] && [ ! -e "$root/.venv/.busy" ] || return 1
    for venv_part in "$@"; do
        # neither newer nor older: a checkout of an old revision also changes the file
        [ -e "$root/.venv/.ready-$venv_part" ] &&
            ! [ "$root/.venv/.ready-$venv_part" -nt "$root/pyproject.toml" ] &&
            ! [ "$root/pyproject.toml" -nt "$root/.venv/.ready-$venv_part" ] || return 1
    done
}

venv_need() {
    venv_is_ready "$@" && return
    # a process of its own: what it does to the environment, the folder and descriptors is not for what runs after
    # (not `|| exit`: on the left of one, `set -e` is off)
    venv_struck=
    # not at once: the set-up is hit by a Ctrl-C as well, and this shell waits for it to end
    trap 'venv_struck=yes' INT
    if (exec 3>&2); then
        (trap 'exit 130' INT; set -eu; venv_set_up "$@") </dev/null >&2
    else # stderr is closed: what is said is for nobody, and no file may get its number
        (trap 'exit 130' INT; set -eu; venv_set_up "$@") </dev/null 2>/dev/null >&2
    fi
    venv_status=$?
    trap - INT
    if [ "$venv_status" -eq 130 ] || [ -n "$venv_struck" ]; then
        venv_say "interrupted; .venv is set up at the next use"
        kill -s INT $$ # so that whoever called this sees what it was
        exit 130
    fi
    [ "$venv_status" -eq 0 ] || exit 125
}

# venv_module PYTHON MODULE ARG... runs a module that dies of Ctrl-C without showing where it struck; of what it starts
# nothing is shown either, since it reads their output
venv_module() {
    venv_python=$1
    shift
    "$venv_python" -c '
import signal
signal.signal(signal.SIGINT, signal.SIG_DFL)
import runpy, sys
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
' "$@"
}

venv_say() { echo "turnctl: $*" >&2; }

venv_fail() {
    venv_say "$*"
    exit 125
}

# 0 and nothing printed, or what is wrong with it
venv_judge_python() {
    if ! command -v "$1" >/dev/null; then
        echo "was not found"
        return 1
    fi
    "$1" -c '
import sys
if sys.version_info < (3, 11):
    print("is Python %d.%d" % sys.version_info[:2])
    sys.exit(1)
try:
    import venv, ensurepip, fcntl
except ImportError as missing:
    print("has no module %s (on Debian and Ubuntu: apt install python3-venv)" % missing.name)
    sys.exit(1)
' 2>/dev/null && return
    # a stand-in of a version manager for a version that is not chosen says its own things, on stderr
    return 1
}

venv_find_python() {
    if [ -n "${PYTHON:-}" ]; then
        python=$PYTHON
        why=$(venv_judge_python "$python") ||
            venv_fail "PYTHON=$PYTHON ${why:-cannot be run}; turnctl needs Python 3.11 or newer"
        return
    fi
    tried=
    for python in python3 python3.14 python3.13 python3.12 python3.11; do
        why=$(venv_judge_python "$python") && return
        if command -v "$python" >/dev/null; then tried="$tried; $python ${why:-cannot be run}"; fi
    done
    venv_fail "needs Python 3.11 or newer, and found none$tried. Install one, or name it: PYTHON=/path/to/python3 $0"
}

venv_set_up() {
    umask 022
    unset PYTHONHOME PYTHONPATH PYTHONSAFEPATH PIP_TARGET PIP_PREFIX PIP_USER PIP_ROOT PIP_REQUIRE_VIRTUALENV
    cd -P "$root" || venv_fail "cannot enter $root"
    venv_find_python

    ours=yes
    if [ -e .venv/pyvenv.cfg ] && [ ! -e .venv/.lock ]; then ours=; fi
    mkdir -p .venv || venv_fail "cannot make $PWD/.venv"
    if [ -n "$ours" ]; then lock=.venv/.lock; else lock=.venv/pyvenv.cfg; fi
    # the lock belongs to the open file, which pip inherits: if this shell is killed, it stays until pip has ended
    exec 9>>"$lock" || venv_fail "cannot write to $PWD/.venv"
    "$python" -c '
import signal
signal.signal(signal.SIGINT, signal.SIG_DFL)
import fcntl, sys
try:
    fcntl.flock(9, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    print("turnctl: waiting for another set-up of .venv to end", file=sys.stderr)
    fcntl.flock(9, fcntl.LOCK_EX)
'
    root=$PWD
    venv_is_ready "$@" && return

    if [ -z "$ours" ] && [ -e .venv/.busy ]; then rm -f .venv/.ready-*; fi
    if [ -n "$ours" ] && { [ -e .venv/.busy ] || ! [ .venv/.made/ -ef . ] || ! [ -x .venv/bin/python ]; }; then
        if [ -e .venv/.busy ]; then venv_say "an earlier set-up did not finish: starting again"; fi
        venv_empty
    fi
    cp -p pyproject.toml .venv/.next
    : >.venv/.busy
    if [ ! -x .venv/bin/python ]; then
        venv_say "first use: making $root/.venv with $("$python" -V) (once; takes about a minute)"
        venv_module "$python" venv .venv || venv_give_up "could not make $root/.venv"
    fi

    extras=
    for part in "$@"; do
        if [ "$part" != run ]; then extras="$extras${extras:+,}$part"; fi
    done
    if [ -n "$extras" ]; then what=".[$extras]"; else what=.; fi
    if venv_differs "$@"; then
        venv_say "installing turnctl${extras:+ with $extras} into $root/.venv"
        venv_module .venv/bin/python pip install --quiet --disable-pip-version-check --no-input -e "$what" ||
            venv_give_up "could not install turnctl${extras:+ with $extras} (see above); without a network this cannot work"
    fi
    for part in run "$@"; do
        cp -p .venv/.next ".venv/.ready-$part.new" && mv ".venv/.ready-$part.new" ".venv/.ready-$part"
    done
    ln -sfn "$root" .venv/.made
    rm -f .venv/.next .venv/.busy
}

# whether pyproject.toml is another than the one that a part was installed by, or only carries another time
venv_differs() {
    for part in "$@"; do
        cmp -s .venv/.next ".venv/.ready-$part" || return 0
    done
    return 1
}

# all but the lock, which others may be waiting on
venv_empty() {
    find .venv -mindepth 1 -maxdepth 1 ! -name .lock -exec rm -rf {} +
}

venv_give_up() {
    if [ $? -eq 130 ]; then exit 130; fi # a Ctrl-C; the next use finds .busy and begins anew
    # what another part was installed by may have been changed half-way: nothing here may look finished
    if [ -n "$ours" ]; then venv_empty; else rm -f .venv/.ready-* .venv/.next .venv/.busy; fi
    venv_fail "$*; nothing was kept: run it again when the cause is gone"
}
