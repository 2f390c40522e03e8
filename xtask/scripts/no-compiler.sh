#!/usr/bin/env bash
# Stands in for a C compiler where nothing is linked: creates the output file it is asked for, empty.
# Knows `-o FILE` and `-oFILE` of the Unix compilers and `-FoFILE` and `/FoFILE` of Microsoft's.
set -euo pipefail

while [ $# -gt 0 ]; do
    case $1 in
    -o)
        : >"$2"
        shift
        ;;
    [-/]Fo*) : >"${1#?Fo}" ;;
    -o*) : >"${1#-o}" ;;
    esac
    shift
done
