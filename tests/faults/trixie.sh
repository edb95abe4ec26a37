#!/usr/bin/env bash
# Debian 13 shown: a debootstrap of trixie from this machine's own package source, with the sources
# of this tree in it, where ./bootstrap, the build, the unit tests and the language cases run.
# Needs root, debootstrap, 6 GB in build/trixie and half an hour; ./check --long runs it.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD/build/trixie

[ "$(id -u)" -eq 0 ] || { echo "debootstrap needs root"; exit 1; }
command -v debootstrap >/dev/null || {
    DEBIAN_FRONTEND=noninteractive apt-get -q -y install --no-install-recommends debootstrap
}

# The mirror that this machine uses, whatever it is.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -v security |
    head -n 1)
[ -n "$mirror" ] || { echo "apt knows no package source"; exit 1; }

inside() { chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 "${pass[@]}" bash -c "$1"; }

# How this machine reaches its registries (proxy, certificates, index) holds inside too.
pass=()
while IFS= read -r -d '' pair; do
    case $pair in
        PIP_*=* | http_proxy=* | https_proxy=* | no_proxy=* | HTTP_PROXY=* | HTTPS_PROXY=* | \
            NO_PROXY=* | SSL_CERT_FILE=* | REQUESTS_CA_BUNDLE=*) pass+=("$pair") ;;
    esac
done </proc/self/environ

mounted=()
cleanup() {
    for place in "${mounted[@]}"; do umount -l "$place" || true; done
}
trap cleanup EXIT

if [ ! -f "$root/.whole" ]; then
    rm -rf "$root"
    debootstrap --variant=minbase --include=ca-certificates trixie "$root" "$mirror"
    touch "$root/.whole"
fi
for place in proc sys dev dev/shm dev/pts; do
    mount --bind "/$place" "$root/$place"
    mounted=("$root/$place" "${mounted[@]}")
done
# Names, certificates and apt's own settings of this machine.
cp /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null || true
mkdir -p "$root/etc/apt/apt.conf.d" "$root/usr/local/share/ca-certificates"
cp -r /etc/apt/apt.conf.d/*proxy* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/" 2>/dev/null &&
    inside update-ca-certificates
for pair in "${pass[@]}"; do # files that the variables name
    value=${pair#*=}
    [ -f "$value" ] && install -D -m 644 "$value" "$root$value"
done
[ -f /etc/pip.conf ] && cp /etc/pip.conf "$root/etc/pip.conf"

mkdir -p "$root/cadre"
if git rev-parse --git-dir >/dev/null 2>&1; then
    git ls-files -co --exclude-standard -z | tar --null -T - -cf - | tar -xf - -C "$root/cadre"
else
    tar --exclude=./build -cf - . | tar -xf - -C "$root/cadre"
fi
inside 'cd /cadre && ./check unit rules install cases client demo'
