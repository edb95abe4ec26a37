#!/usr/bin/env bash
# Debian 13 shown: a debootstrap of trixie from this machine's own package source, with the sources
# of this tree in it, where ./bootstrap, the build, the unit tests and the language cases run.
# Needs root, debootstrap, 6 GB in build/trixie and half an hour; ./check --long runs it.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD/build/trixie

[ "$(id -u)" -eq 0 ] || { echo "debootstrap needs root"; exit 1; }
# In mount points of its own: they are gone with this process, however it ends.
if [ -z "${CADRE_TRIXIE_APART-}" ]; then
    CADRE_TRIXIE_APART=1 exec unshare --mount --propagation private bash "$0"
fi
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

if [ ! -f "$root/.whole" ]; then
    rm -rf "$root"
    debootstrap --variant=minbase --include=ca-certificates trixie "$root" "$mirror"
    touch "$root/.whole"
fi
for place in proc sys dev dev/shm dev/pts; do
    mount --bind "/$place" "$root/$place"
done
# Names, certificates and settings by which this machine reaches its package sources.
cp /etc/resolv.conf /etc/hosts "$root/etc/"
mkdir -p "$root/etc/apt/apt.conf.d" "$root/usr/local/share/ca-certificates"
for file in /etc/apt/apt.conf.d/*; do
    grep -qiE 'proxy|https?::' "$file" && cp "$file" "$root/etc/apt/apt.conf.d/"
done
for file in /usr/local/share/ca-certificates/*.crt; do
    [ -f "$file" ] && cp "$file" "$root/usr/local/share/ca-certificates/"
done
inside update-ca-certificates
for pair in "${pass[@]}"; do # files that the variables name
    value=${pair#*=}
    if [ -f "$value" ]; then install -D -m 644 "$value" "$root$value"; fi
done
if [ -f /etc/pip.conf ]; then cp /etc/pip.conf "$root/etc/pip.conf"; fi

mkdir -p "$root/srv/checkout"
find "$root/srv/checkout" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
if git rev-parse --git-dir >/dev/null 2>&1; then
    git ls-files -co --exclude-standard -z | tar --null -T - -cf - | tar -xf - -C "$root/srv/checkout"
else
    tar --exclude=./build -cf - . | tar -xf - -C "$root/srv/checkout"
fi
inside 'cd /srv/checkout && ./check unit rules install cases client demo'
