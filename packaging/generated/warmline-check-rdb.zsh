#compdef warmline-check-rdb

autoload -U is-at-least

_warmline-check-rdb() {
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
'--format=[How statistics are printed]: :(table info csv)' \
'--output=[File to print to]:FILE:_files' \
'-v[Print the version]' \
'--version[Print the version]' \
'--stats[Count keys, by type and size]' \
':file -- RDB file:_files' \
&& ret=0
}

(( $+functions[_warmline-check-rdb_commands] )) ||
_warmline-check-rdb_commands() {
    local commands; commands=()
    _describe -t commands 'warmline-check-rdb commands' commands "$@"
}

if [ "$funcstack[1]" = "_warmline-check-rdb" ]; then
    _warmline-check-rdb "$@"
else
    compdef _warmline-check-rdb warmline-check-rdb
fi
