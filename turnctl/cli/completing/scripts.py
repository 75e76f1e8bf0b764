"""The scripts that a shell loads: each asks turnctl what fits, and nothing else is decided in them."""

from __future__ import annotations

from turnctl.cli.completing.places import MARK

__all__ = ["NoScript", "script_for"]


class NoScript(Exception):
    """There is none for that shell, with what is installed here."""


_BASH = r"""
# It asks turnctl what fits; nothing is kept here, so it stays right when turnctl changes.

_turnctl() {
    local program=$1 line=${COMP_LINE:0:COMP_POINT} current=$2 answer kind word
    local IFS=$'\n'
    COMPREPLY=()
    [[ $program == '~/'* ]] && program=$HOME/${program:2}
    answer=$("$program" __complete bash "$line" "$current" 2>/dev/null </dev/null) || return 0
    kind=${answer%%$'\n'*}
    case $kind in
    words)
        answer=${answer#"$kind"}
        for word in ${answer#$'\n'}; do
            COMPREPLY+=("$word")
        done
        compopt -o nosort 2>/dev/null
        ;;
    files) compopt -o default 2>/dev/null || COMPREPLY=($(compgen -f -- "$current")) ;;
    folders) compopt -o dirnames 2>/dev/null || COMPREPLY=($(compgen -d -- "$current")) ;;
    command*)
        _turnctl_inner "${kind#command }" "$current"
        ;;
    esac
    return 0
}

# the command line that turnctl runs, from that letter on: as if it had been written alone
_turnctl_inner() {
    local begin=$1 current=$2 rest=$COMP_LINE at=0 n before
    for ((n = 0; n < ${#COMP_WORDS[@]}; n++)); do
        before=${rest%%"${COMP_WORDS[n]}"*}
        at=$((at + ${#before}))
        ((at >= begin)) && break
        at=$((at + ${#COMP_WORDS[n]}))
        rest=${COMP_LINE:at}
    done
    unset IFS
    if declare -F _comp_command_offset >/dev/null; then
        _comp_command_offset "$n"
    elif declare -F _command_offset >/dev/null; then
        _command_offset "$n"
    else
        local IFS=$'\n'
        if ((n == COMP_CWORD)); then
            COMPREPLY=($(compgen -c -- "$current"))
        else
            COMPREPLY=($(compgen -f -- "$current"))
        fi
        compopt -o filenames 2>/dev/null
    fi
}

complete -F _turnctl turnctl
"""

_ZSH = r"""
# It asks turnctl what fits; nothing is kept here, so it stays right when turnctl changes.

_turnctl() {
    local program=${(Q)words[1]} kind line value
    local -a lines found before
    [[ $program == '~/'* ]] && program=$HOME/${program[3,-1]}
    before=("${(@Q)words[1,CURRENT-1]}")
    lines=("${(@f)$(command $program __complete zsh "${before[@]}" "${(Q)PREFIX}" 2>/dev/null </dev/null)}")
    kind=$lines[1]
    case $kind in
    words)
        for line in "${(@)lines[2,-1]}"; do
            [[ -n $line ]] || continue
            value=${${line%%$'\t'*}//:/\\:}
            if [[ -n ${line#*$'\t'} ]]; then
                found+=("$value:${line#*$'\t'}")
            else
                found+=("$value")
            fi
        done
        _describe -V 'turnctl' found
        ;;
    files) _files ;;
    folders) _files -/ ;;
    command*)
        shift $((${kind#command } - 1)) words
        ((CURRENT -= ${kind#command } - 1))
        _normal
        ;;
    esac
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _turnctl "$@"
else
    compdef _turnctl turnctl
fi
"""

_FISH = r"""
# It asks turnctl what fits; nothing is kept here, so it stays right when turnctl changes.

function __turnctl_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l lines (command $words[1] __complete fish $words "$current" 2>/dev/null </dev/null)
    switch "$lines[1]"
        case words
            test (count $lines) -gt 1; and printf '%s\n' $lines[2..-1]
        case files
            __fish_complete_path "$current"
        case folders
            __fish_complete_directories "$current"
        case 'command *'
            set -l begin (string split ' ' -- $lines[1])[2]
            set -l inner
            test $begin -le (count $words); and set inner (string escape -- $words[$begin..-1])
            complete -C(string join ' ' -- $inner "$current")
    end
end

complete -c turnctl -f -k -a '(__turnctl_complete)'
"""


def script_for(shell: str) -> str:
    """The script. Raises ``NoScript``, with what to do, where there is none."""
    if shell == "powershell":
        return _of_click(shell)
    first = "#compdef turnctl\n" if shell == "zsh" else ""
    script = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}[shell]
    return f"{first}# {MARK} for {shell}, as turnctl completion {shell} prints it{script}"


def _of_click(shell: str) -> str:
    from click.shell_completion import get_completion_class

    from turnctl.cli.group import cli

    found = get_completion_class(shell)
    if found is None:
        from importlib.metadata import version

        raise NoScript(f"the installed click {version('click')} has no completion for {shell}; it came with click 8.5")
    return f"# {MARK} for {shell}\n{found(cli, {}, 'turnctl', '_TURNCTL_COMPLETE').source()}"
