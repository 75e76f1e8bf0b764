#!/bin/sh
# Stands in for python3 in the tests of bin/: makes a fake environment in no time and notes how it was called.
#   FAKE_LOG    where each call is noted
#   FAKE_REAL   the interpreter that does `-c` (the lock, the check of versions)
#   FAKE_PIP    what pip does: nothing special, `fail`, or `block` until a line can be read from FAKE_FIFO
here=${0%/*}
# a module that is run with Ctrl-C at its default is noted as what it is
if [ "$1" = -c ]; then
    case ${3:-} in venv | pip) shift 2 && set -- -m "$@" ;; esac
fi
echo "$*" >>"$FAKE_LOG"
case $1 in
-P)
    shift 3
    echo "ran: $*"
    cat
    ;;
-V) echo "Python 3.99.0" ;;
-c) exec "$FAKE_REAL" "$@" ;;
-m)
    case $2 in
    venv)
        mkdir -p "$3/bin"
        cp "$0" "$3/bin/python"
        echo "home = nowhere" >"$3/pyvenv.cfg"
        ;;
    pip)
        case ${FAKE_PIP:-} in
        fail)
            echo "no network" >&2
            exit 1
            ;;
        block)
            echo "pip $$" >"$FAKE_FIFO.ready"
            read -r line <"$FAKE_FIFO"
            ;;
        esac
        echo "pip says something"
        ;;
    pytest) echo "pytest in $PWD, safe path ${PYTHONSAFEPATH:-no}" ;;
    esac
    ;;
esac
