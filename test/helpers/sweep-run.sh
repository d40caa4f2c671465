#!/bin/sh
# Usage: sweep-run.sh RUN_DIR
#
# Waits until standard input ends, that is until the test run that started this script has ended in whatever way, then
# kills the replica processes and the PostgreSQL it left behind and removes its directory.
set -u
run_dir=$1
trap '' HUP INT TERM

cat >/dev/null

# Slim images have /proc but no ps, macOS the other way round.
command_line() { # PID
  if [ -d /proc/self ]; then
    tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline"
  else
    ps -o args= -p "$1"
  fi
}

# A process is killed only if it still is what the list says: a number may have been given to somebody else meanwhile.
kill_if() { # PID PATTERN SIGNAL
  case $(command_line "$1") in
    *"$2"*) kill "-$3" "$1" 2>/dev/null ;;
    *) return 1 ;;
  esac
}

for listed in "$run_dir"/pids/*; do
  [ -e "$listed" ] && kill_if "${listed##*/}" "$(cat "$listed")" KILL
done

for pid_file in "$run_dir"/postgres-*/postmaster.pid; do
  [ -e "$pid_file" ] || continue
  pid=$(head -n 1 "$pid_file")
  tries=0
  while kill_if "$pid" "${pid_file%/postmaster.pid}" QUIT && [ $((tries += 1)) -le 50 ]; do
    sleep 0.1
  done
done

# initdb may have been interrupted and still be writing: twice.
rm -rf "$run_dir"
if [ -e "$run_dir" ]; then
  sleep 1
  rm -rf "$run_dir"
fi
