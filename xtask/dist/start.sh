#!/bin/sh
# Starts SiliconRoute's main job: measures this computer and prints what it found. Made for a double click;
# options given to this script go to `siliconroute up`. It needs no administrator rights and changes nothing
# outside of SiliconRoute's own folder in your home.

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd -P) || exit 1

# A file manager may start scripts without a terminal: look for one, once.
if [ ! -t 0 ] && [ ! -t 1 ] && [ -z "${SILICONROUTE_IN_TERMINAL-}" ] && [ -n "${DISPLAY-}${WAYLAND_DISPLAY-}" ]; then
    export SILICONROUTE_IN_TERMINAL=1
    for terminal in "xdg-terminal-exec" "x-terminal-emulator -e" "gnome-terminal --" "konsole -e" \
        "xfce4-terminal -x" "xterm -e"; do
        if command -v "${terminal%% *}" >/dev/null 2>&1; then
            # shellcheck disable=SC2086 # the name and its option are two words
            exec $terminal "$here/start.sh" "$@"
        fi
    done
fi

"$here/siliconroute" up --once "$@"
code=$?

case $code in
0 | 2 | 130) ;; # done, wrong options, interrupted: the program has said it all
*) printf '\nSiliconRoute ended with code %s. What may be wrong:\n  "%s/siliconroute" doctor\n' "$code" "$here" >&2 ;;
esac
# Without this the window of a double click would be gone before anyone could read it.
if [ -t 0 ] && [ -t 1 ]; then
    printf '\nPress Enter to close.\n'
    read -r _
fi
exit "$code"
