#!/usr/bin/env bash
# std-source.sh FOLDER RELEASE: puts the standard library's source of that rustc release into FOLDER/library.
# Debian packages it as rust-src. The package is unpacked and not installed: apt works on lists of its own
# under FOLDER, so the system's package sources stay as they are.
set -euo pipefail

folder=$1
release=$2
suite=trixie-backports

fail() {
    echo "std-source.sh: $*" >&2
    echo "std-source.sh: with rustup, \`rustup component add rust-src\` brings the same source" >&2
    exit 1
}

for tool in apt-get apt-cache dpkg-deb; do
    command -v "$tool" >/dev/null || fail "needs a Debian system: $tool is not there"
done
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -r "$keyring" ] || fail "$keyring is not there, so packages cannot be verified"

# The mirror that this system uses already: from .sources files first, then from one-line .list files.
shopt -s nullglob
sources=(/etc/apt/sources.list.d/*.sources)
lists=(/etc/apt/sources.list /etc/apt/sources.list.d/*.list)
find_mirror() {
    if [ ${#sources[@]} -gt 0 ]; then
        sed -n 's/^URIs:[[:space:]]*\([^[:space:]]*\).*/\1/p' "${sources[@]}"
    fi
    cat "${lists[@]}" 2>/dev/null | sed -n 's/^deb[[:space:]]\+\(\[[^]]*\][[:space:]]*\)\?\([^[:space:]]*\).*/\2/p'
}
mirror=$(find_mirror | grep -m 1 -E '/debian/?$' || true)
[ -n "$mirror" ] || fail "no Debian mirror among the system's apt sources"

apt=$folder/apt
rm -rf "$folder"
mkdir -p "$apt/parts" "$apt/lists/partial" "$apt/cache/archives/partial"
trap 'rm -rf "$apt"' EXIT
echo "deb [signed-by=$keyring] $mirror $suite main" >"$apt/sources.list"
: >"$apt/status"
cat >"$apt/apt.conf" <<END
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "$apt/parts";
Dir::Etc::preferencesparts "$apt/parts";
Dir::State::lists "$apt/lists";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Acquire::Languages "none";
Acquire::IndexTargets::deb::DEP-11::DefaultEnabled "false";
Acquire::Check-Valid-Until "false";
Acquire::Retries "3";
APT::Sandbox::User "root";
END
export APT_CONFIG=$apt/apt.conf

apt-get update -qq || fail "apt cannot read the package list of $suite"
package=$(apt-cache madison rust-src | awk -F' *[|] *' -v release="$release" \
    'index($2, release "+") == 1 { print $2; exit }')
[ -n "$package" ] || fail "$suite has no rust-src for rustc $release"
(cd "$apt" && apt-get download -qq "rust-src=$package") || fail "cannot download rust-src $package"
mkdir "$apt/unpacked"
dpkg-deb --fsys-tarfile "$apt"/rust-src_*.deb | tar -x -C "$apt/unpacked" "./usr/src/rustc-$release/library"
# Last and in one move, so that an interrupted run leaves no half library behind.
mv "$apt/unpacked/usr/src/rustc-$release/library" "$folder/library"
