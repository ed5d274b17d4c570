# SPDX-License-Identifier: Apache-2.0
# bash completion for heaptap. The build appends what "heaptap completion" and
# "heaptap-analyze completion" print: the contents of these arrays.

declare -gA _heaptap_options=() _heaptap_values=() _heaptap_operands=()

# Sets COMPREPLY to what begins with $2 and is of kind $1: words with blanks or | between them, or @KIND.
_heaptap_offer()
{
	case $1 in
	@any) ;;
	@pid) mapfile -t COMPREPLY < <(compgen -W "$(ps -eo pid=)" -- "$2") ;;
	@file) mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
	@directory) mapfile -t COMPREPLY < <(compgen -d -- "$2") ;;
	@trace) mapfile -t COMPREPLY < <(compgen -d -- "$2"; compgen -f -X '!*.htap' -- "$2") ;;
	@command) mapfile -t COMPREPLY < <(compgen -c -f -- "$2") ;;
	*) mapfile -t COMPREPLY < <(compgen -W "${1//|/ }" -- "$2") ;;
	esac
	case $1 in
	@file | @directory | @trace | @command) compopt -o filenames 2>/dev/null ;;
	esac
}

_heaptap()
{
	local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} before="" at first=2
	local -a operands=()

	COMPREPLY=()
	if [ "$COMP_CWORD" = 1 ] && [[ $word != -* ]]; then
		_heaptap_offer @trace "$word"
		mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "${!_heaptap_options[*]}" -- "$word")
		return
	fi
	# heaptap -p PID is heaptap attach -p PID, heaptap FILE is heaptap report FILE.
	if [[ $command = -* ]]; then
		command=attach first=1
	elif [ -z "${_heaptap_options[$command]+known}" ]; then
		command=report first=1
	fi
	# bash makes three words of --metric=peak.
	if [ "$word" = = ]; then
		word=
	fi
	for ((at = first; at < COMP_CWORD; at++)); do
		local current=${COMP_WORDS[at]}
		if [ "$current" = = ]; then
			continue
		elif [ -n "$before" ]; then
			before=
		elif [ -n "${_heaptap_values["$command $current"]-}" ]; then
			before=$current
		elif [ "$command" = run ] && { [ "$current" = -- ] || [[ $current != -* ]]; }; then
			# The command of run, and what that completes by itself.
			if [ "$current" = -- ]; then
				at=$((at + 1))
			fi
			if declare -F _command_offset >/dev/null; then
				_command_offset "$at"
			elif [ "$at" = "$COMP_CWORD" ]; then
				_heaptap_offer @command "$word"
			else
				_heaptap_offer @file "$word"
			fi
			return
		elif [[ $current != -* ]]; then
			operands+=("$current")
		fi
	done
	if [ -n "$before" ]; then
		_heaptap_offer "${_heaptap_values["$command $before"]}" "$word"
	elif [[ $word = -* ]]; then
		_heaptap_offer "${_heaptap_options[$command]}" "$word"
	else
		# The last kind counts for all further operands.
		local -a kinds
		read -r -a kinds <<<"${_heaptap_operands[$command]-}"
		at=${#operands[@]}
		if [ "$at" -ge ${#kinds[@]} ]; then
			at=$((${#kinds[@]} - 1))
		fi
		if [ "$at" -ge 0 ]; then
			_heaptap_offer "${kinds[at]}" "$word"
		fi
	fi
}
complete -F _heaptap heaptap

