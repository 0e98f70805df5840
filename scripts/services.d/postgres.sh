# shellcheck shell=bash
# PostgreSQL: $PGBIN, the PATH's, or the newest installed.

postgres_port() { echo $((port_base + 40)); }
postgres_variable() { echo OUTBOX_TEST_POSTGRES; }
postgres_address() { echo "postgres://postgres@127.0.0.1:$(postgres_port)/postgres?sslmode=disable"; }

postgres_packages() { [[ -n $(postgres_bin) ]] || echo postgresql; }

postgres_bin() {
  local path=${PGBIN:+$PGBIN/initdb}
  [[ -n $path ]] || path=$(command -v initdb) || path=$(compgen -G '/usr/lib/postgresql/*/bin/initdb' | sort -V | tail -n 1)
  [[ -z $path ]] || dirname "$(readlink -f "$path")"
}

postgres_prepare() {
  local folder=$state/postgres old
  # A killed one's pid may still be there, of a process that only waits for its parent to notice; it would count as alive.
  if read -r old 2>/dev/null <"$folder/data/postmaster.pid" && [[ -z $(birth "$old") ]]; then rm "$folder/data/postmaster.pid"; fi
  if [[ ! -e $folder/data/PG_VERSION ]]; then
    "${as_nobody[@]}" env -C "$folder" "$(postgres_bin)/initdb" -D "$folder/data" -U postgres -A trust -E UTF8 --no-locale \
      --no-sync --no-instructions || { rm -rf "$folder/data"; return 1; }
  fi
}

# Without fsync a killed server loses nothing, only a killed machine does.
postgres_command() {
  command=("$(postgres_bin)/postgres" -D data -p "$(postgres_port)" -c listen_addresses=127.0.0.1 -c unix_socket_directories=
    -c fsync=off -c full_page_writes=off -c wal_level=logical -c max_connections=200 -c max_prepared_transactions=20
    -c shared_buffers=64MB -c dynamic_shared_memory_type=mmap)
}

# A start-up packet for user postgres; the answer begins with "R", authentication. While it recovers it is an "E", error.
postgres_ready() {
  [[ $(ask "$(postgres_port)" '\0\0\0\x17\0\x03\0\0user\0postgres\0\0' 1) == 52 ]]
}
