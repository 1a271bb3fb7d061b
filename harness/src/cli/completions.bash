
# A colon ends a word of bash, and is a part of names such as virtual:h100-80: such words are put
# together, and of each completion bash gets what follows the last colon.
_gpubench_with_colons() {
    local words=() cword=0 at whole begin
    for at in "${!COMP_WORDS[@]}"; do
        if (( at > 1 )) && [[ ${COMP_WORDS[at]} == :* || ${words[-1]} == *: ]]; then
            words[-1]+=${COMP_WORDS[at]}
        else
            words+=("${COMP_WORDS[at]}")
        fi
        (( at == COMP_CWORD )) && cword=$(( ${#words[@]} - 1 ))
    done
    whole=${words[cword]}
    local COMP_WORDS=("${words[@]}") COMP_CWORD=$cword
    _gpubench "$1" "$whole" "${words[cword - 1]}"
    if [[ $whole == *:* ]]; then
        begin=${whole%"${whole##*:}"}
        COMPREPLY=("${COMPREPLY[@]#"$begin"}")
    fi
}

complete -F _gpubench_with_colons -o bashdefault -o default gpubench
