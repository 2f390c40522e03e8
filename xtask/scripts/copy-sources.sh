#!/usr/bin/env bash
# copy-sources.sh CHECKOUT COPY: makes COPY hold the files of CHECKOUT that git tracks or would track, and nothing else.
#
# A file with the same contents is not written, so it keeps its time, and cargo, which goes by times, builds again only
# what has changed. Git compares, writes and removes; the copy is a repository of its own, since the program tells the
# commit that it was built from. Whoever calls this must see to it that no other run does at the same time.
set -euo pipefail
unset GIT_DIR GIT_WORK_TREE GIT_INDEX_FILE

checkout=$1 copy=$2
in_copy=(git -C "$copy" --git-dir=.git --work-tree=.)

update() {
    local index=$copy/.git/incoming tree commit
    { [ -d "$copy/.git" ] || git init --quiet "$copy"; } &&
        rm -f "$index" &&
        # A file that is not committed yet counts as well.
        GIT_INDEX_FILE=$index git --git-dir="$copy/.git" --work-tree="$checkout" add --all -- "$checkout" &&
        tree=$(GIT_INDEX_FILE=$index git --git-dir="$copy/.git" write-tree) &&
        "${in_copy[@]}" read-tree --reset -u "$tree" &&
        "${in_copy[@]}" clean -ffdxq &&
        commit=$(git -C "$checkout" rev-parse --verify HEAD) &&
        if [ "$("${in_copy[@]}" rev-parse HEAD 2>/dev/null)" != "$commit" ]; then
            "${in_copy[@]}" fetch --quiet --depth=1 "$checkout" HEAD &&
                "${in_copy[@]}" update-ref --no-deref HEAD "$commit"
        fi
}

# A run that was ended in the middle may have left the copy half written or locked.
update || {
    echo "copy-sources.sh: making $copy anew"
    rm -rf "$copy"
    update
}
