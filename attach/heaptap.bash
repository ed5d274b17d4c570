# SPDX-License-Identifier: Apache-2.0
# bash completion for heaptap

_heaptap()
{
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	local commands="attach run doctor verify recover cleanup report export info dump symbols version help"
	local options="-p --pid -d --duration -o --output -f --force -q --quiet -v --verbose --json --lossless --hook --alloc-fn --sample --mmap --follow-forks --strict --linger --unwind --symbolize --no-cache --help"

	COMPREPLY=()
	# Behind run and its options: a command, and what that completes by itself.
	if [ "${COMP_WORDS[1]}" = run ]; then
		local at
		for ((at = 2; at < COMP_CWORD; at++)); do
			case ${COMP_WORDS[at]} in
			--)
				if declare -F _command_offset >/dev/null; then
					_command_offset $((at + 1))
				else
					mapfile -t COMPREPLY < <(compgen -c -f -- "$word")
				fi
				return
				;;
			esac
		done
	fi
	case $before in
	-p | --pid)
		mapfile -t COMPREPLY < <(compgen -W "$(ps -eo pid=)" -- "$word")
		return
		;;
	-o | --output)
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		return
		;;
	esac
	if [ "$COMP_CWORD" = 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W "$commands" -f -- "$word")
	elif [[ $word = -* ]]; then
		mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
	else
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
	fi
}
complete -F _heaptap heaptap
