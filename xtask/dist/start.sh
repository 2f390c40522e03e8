#!/bin/sh
# Starts SiliconRoute's main job: measures this computer and shows what it found. Made for a double click;
# options given to this script go to `siliconroute up`. It needs no administrator rights and changes nothing
# outside of SiliconRoute's own folder in your home.
#
# The current folder stays what it is, and the folder of this script may have any name.

script=$0
if [ -L "$script" ]; then
    # A link to this script, as on a desktop. The dot keeps line ends that a name ends with.
    script=$(readlink -f -- "$script" && echo .)
    script=${script%??}
fi
case $script in
/*) ;;
*) script=$PWD/$script ;;
esac
program=${script%/*}/siliconroute

# A file manager may start scripts without a terminal: look for one, once. The variable's name is none of the
# program's settings, which all begin with the program's name.
if [ ! -t 0 ] && [ ! -t 1 ] && [ -z "${START_IN_TERMINAL-}" ] && [ -n "${DISPLAY-}${WAYLAND_DISPLAY-}" ]; then
    export START_IN_TERMINAL=1
    for terminal in "xdg-terminal-exec" "x-terminal-emulator -e" "gnome-terminal --" "konsole -e" \
        "xfce4-terminal -x" "xterm -e"; do
        if command -v "${terminal%% *}" >/dev/null 2>&1; then
            # shellcheck disable=SC2086 # the name and its option are two words
            exec $terminal "$script" "$@"
        fi
    done
fi
unset START_IN_TERMINAL

# What a double click does.
"$program" up --once --open "$@"
code=$?

case $code in
0 | 2 | 130) ;; # done, wrong options, interrupted: the program has said it all
*) printf '\nSiliconRoute ended with code %s. What may be wrong:\n  "%s" doctor\n' "$code" "$program" >&2 ;;
esac
# Without this the window of a double click would be gone before anyone could read it.
if [ -t 0 ] && [ -t 1 ]; then
    printf '\nPress Enter to close.\n'
    read -r _
fi
exit "$code"
