#compdef warmline-check-aof

autoload -U is-at-least

_warmline-check-aof() {
    typeset -A opt_args
    typeset -a _arguments_options
    local ret=1

    if is-at-least 5.2; then
        _arguments_options=(-s -S -C)
    else
        _arguments_options=(-s -C)
    fi

    local context curcontext="$curcontext" state line
    _arguments "${_arguments_options[@]}" : \
'--truncate-to-timestamp=[Cut off what was done after this time (aof-timestamp-enabled)]:SECONDS:_default' \
'-v[Print the version]' \
'--version[Print the version]' \
'--fix[Cut off what is not whole, after asking]' \
':file -- Manifest or append-only file:_files' \
&& ret=0
}

(( $+functions[_warmline-check-aof_commands] )) ||
_warmline-check-aof_commands() {
    local commands; commands=()
    _describe -t commands 'warmline-check-aof commands' commands "$@"
}

if [ "$funcstack[1]" = "_warmline-check-aof" ]; then
    _warmline-check-aof "$@"
else
    compdef _warmline-check-aof warmline-check-aof
fi
