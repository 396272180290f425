# Completion of `varve` in bash. The tool itself says what a word can become.
_varve() {
    local line=${COMP_LINE:0:COMP_POINT} words last
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    last=${words[-1]}
    mapfile -t COMPREPLY < <("${words[0]}" complete "${words[@]:1}" 2>/dev/null)
    # To bash NAME@VERSION is three words, of which it replaces the last.
    if [[ $COMP_WORDBREAKS == *@* && $last == *@* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${last%"${last##*@}"}"}")
    fi
}
complete -o default -F _varve varve
