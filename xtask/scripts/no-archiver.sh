#!/usr/bin/env bash
# Stands in for an archiver where nothing is linked: writes the archive it is asked for, without members.
# Knows the Unix form (a name that ends in .a) and Microsoft's (`-out:FILE`, a name that ends in .lib).
set -euo pipefail

for argument in "$@"; do
    case $argument in
    [-/]out:* | [-/]OUT:*) printf '!<arch>\n' >"${argument#?????}" ;;
    *.a | *.lib) printf '!<arch>\n' >"$argument" ;;
    esac
done
