# shellcheck shell=bash
# What the services have in common: where they live, and how they are started, found again and ended. Each has a file that
# defines, with its NAME in front: _packages (for apt), _install (what apt doesn't bring), _port, _variable and _address
# (for the tests), _prepare (its folder, before each start), _command (sets the array command), _ready.

export LC_ALL=C

if ((EUID == 0)); then
  programs=/var/cache/watermill-outbox-services/programs
  as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups) # servers refuse to run as root, and should
else
  programs=${XDG_CACHE_HOME:-$HOME/.cache}/watermill-outbox-services/programs
  as_nobody=()
fi
state=${OUTBOX_SERVICES_DIR:-$(dirname "$programs")}
[[ $state == /* ]] || state=$PWD/$state
port_base=${OUTBOX_SERVICES_PORT_BASE:-$(cat "$state/port-base" 2>/dev/null || echo 23000)}

start_seconds=180 # a loaded machine's; an idle one needs 1 to 12
stop_seconds=60

fail() { echo "services: $*" >&2; exit 1; }

# lock_service lets one at a time start or end a service, until the calling (sub)shell exits.
lock_service() {
  mkdir -p "$state"
  exec 9>"$state/$1.lock"
  flock 9
}

# launch starts a service, unless it runs, and waits until it is ready.
launch() (
  name=$1 began=$SECONDS command=()
  lock_service "$name"
  if ! running "$name"; then
    make_folder "$state/$name"
    "${name}_prepare" >>"$state/$name/log" 2>&1 || { show_log "$name"; fail "$name: could not be prepared"; }
    "${name}_command"
    begin "$name" "${command[@]}"
  fi
  until "${name}_ready"; do
    running "$name" || { show_log "$name"; fail "$name: ended"; }
    ((SECONDS - began < start_seconds)) || { show_log "$name"; fail "$name: not ready after $start_seconds s"; }
    sleep 0.1
  done
  echo "$name: ready, $("${name}_address")"
)

# begin runs a command in the service's folder, detached from the terminal, and notes its pid.
begin() {
  local name=$1 folder=$state/$1 pid
  shift
  (
    cd "$folder" || exit
    exec setsid "${as_nobody[@]}" env -i PATH="$PATH" HOME="$folder" LC_ALL=C.UTF-8 TZ=UTC "$@" 9>&-
  ) </dev/null >>"$folder/log" 2>&1 &
  pid=$!
  echo "$pid $(birth "$pid")" >"$state/$name.pid"
}

# birth tells a process from a later one with the same pid: when it began, in ticks since the machine did. A process that
# has ended, with all its threads, and only waits for its parent to notice has none.
birth() {
  local stat
  stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
  read -r -a stat <<<"${stat##*) }" # the name before may hold spaces
  [[ ${stat[0]} == Z && ${stat[17]} -le 1 ]] || echo "${stat[19]}"
}

# family gives the pids of a process and all that come from it.
family() {
  ps -e -o pid=,ppid= | awk -v top="$1" '
    {parent[$1] = $2}
    END {for (pid in parent) {p = pid; while (p != top && p in parent) p = parent[p]; if (p == top) print pid}}'
}

# await_end waits for processes to end, deadline seconds at most.
await_end() {
  local deadline=$((SECONDS + $1)) pid
  shift
  for pid in "$@"; do
    while [[ -n $(birth "$pid") ]]; do
      ((SECONDS < deadline)) || return 1
      sleep 0.02
    done
  done
}

# running also sets pid.
running() {
  local born
  pid=
  read -r pid born 2>/dev/null <"$state/$1.pid" || return 1
  [[ -n $born && $(birth "$pid") == "$born" ]]
}

# halt stops a service gracefully, and by force after stop_seconds.
halt() (
  name=$1
  lock_service "$name"
  running "$name" || exit 0
  mapfile -t pids < <(family "$pid")
  kill -"$(stop_signal "$name")" "$pid"
  await_end "$stop_seconds" "$pid" || echo "services: $name: did not stop within $stop_seconds s; killed" >&2
  end_all "$name" "${pids[@]}"
)

slay() (
  name=$1
  lock_service "$name"
  running "$name" || exit 0
  mapfile -t pids < <(family "$pid")
  end_all "$name" "${pids[@]}"
)

# end_all kills what is left of a service.
end_all() {
  local name=$1
  shift
  kill -KILL "$@" 2>/dev/null || true
  await_end "$stop_seconds" "$@" || fail "$name: some of it can't be killed: $*"
  rm -f "$state/$name.pid"
}

halt_and_remove() {
  halt "$1"
  rm -rf "${state:?}/$1" "$state/$1.lock"
}

stop_signal() { case $1 in postgres) echo INT ;; *) echo TERM ;; esac; } # TERM lets postgres wait for its clients

make_folder() {
  mkdir -p "$1"
  if ((EUID == 0)); then chown 65534:65534 "$1"; fi
}

show_log() { tail -n 25 "$state/$1/log" >&2 || true; }

# ask sends bytes to a port and prints the beginning of the answer, in hexadecimal.
ask() {
  local port=$1 bytes=$2 count=$3
  {
    exec 3<>"/dev/tcp/127.0.0.1/$port" &&
      printf '%b' "$bytes" >&3 &&
      timeout 2 head -c "$count" <&3 | od -An -v -tx1 | tr -d ' \n'
  } 2>/dev/null || true
}

# install_all installs what the services lack: all packages in one go, then the rest.
install_all() (
  exec 8>"$programs/lock"
  flock 8
  packages=() installers=()
  for name in "$@"; do
    read -r -a needed <<<"$("${name}_packages")"
    packages+=("${needed[@]}")
    if declare -F "${name}_install" >/dev/null; then installers+=("$name"); fi
  done
  ((${#packages[@]} == 0)) || apt_install "${packages[@]}"
  install() { "${1}_install" 8>&-; }
  ((${#installers[@]} == 0)) || together install "${installers[@]}"
  chmod -R a+rX "$programs"
)

# apt_install keeps the packages' own services from being started.
apt_install() {
  local as_root=() policy=/usr/sbin/policy-rc.d
  ((EUID == 0)) || as_root=(sudo -n)
  echo "Installing with apt: $*"
  if [[ ! -e $policy ]]; then
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" install -m 755 /dev/stdin "$policy"
    # shellcheck disable=SC2064
    trap "${as_root[*]} rm -f $policy" EXIT
  fi
  quietly "${as_root[@]}" apt-get update &&
    quietly "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}

# quietly shows what a command printed only if it fails.
quietly() {
  local out
  out=$("$@" 2>&1) || { printf '%s\n' "$out" >&2; return 1; }
}
