#!/bin/sh
# Installs Debian's Slurm and munge, without starting their services. Needs root.
set -eu
if command -v slurmctld >/dev/null && command -v slurmd >/dev/null && command -v munged >/dev/null
then
    exit 0
fi
# A policy that starts nothing: the daemons run in the foreground, with files of their own.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
fi
apt-get install -qq --no-install-recommends --yes slurmctld slurmd slurm-client munge >/dev/null
