# Sourced by the other scripts: numbered steps with their time, long commands with a log and a sign of life, clear errors.
# A script sets `phase` (its name in the output) and `step_count` before its first step.

cd "$(dirname "${BASH_SOURCE[0]}")/.."
repository=$PWD
log_folder=$repository/build/logs
step_number=0

# Compile jobs: one a core, but no more than memory carries (a gRPC or torch source takes up to 2 GiB).
memory_gib=$(awk '/^MemAvailable:/ {print int($2 / 1048576)}' /proc/meminfo)
jobs=${SHOAL_JOBS:-$(nproc)}
[ "$jobs" -le $((memory_gib / 2 + 1)) ] || jobs=$((memory_gib / 2 + 1))

# Processes, and with a minus process groups, that end with this script, however it ends.
to_end=()
end_what_was_started() {
  [ ${#to_end[@]} = 0 ] || kill -- "${to_end[@]}" 2> /dev/null || true
}
trap end_what_was_started EXIT

begin_step() { # begin_step WHAT
  step_number=$((step_number + 1))
  step_started=$SECONDS
  echo "[$phase $step_number/$step_count] $1"
}

end_step() { # end_step RESULT
  echo "[$phase $step_number/$step_count] $1 ($((SECONDS - step_started)) s)"
}

die() { # die MESSAGE...
  printf 'error: %s\n' "$1" >&2
  shift
  [ $# = 0 ] || printf '       %s\n' "$@" >&2
  exit 1
}

show_life() { # show_life LOG: says what a long command last wrote, or after a minute of silence that it is still at work
  local last shown='' shown_at=$SECONDS
  while sleep 10 > /dev/null 2>&1 && kill -0 $$ 2> /dev/null; do
    last=$(tail -c 2000 "$1" | tr '\r' '\n' | grep '[[:alnum:]]' | tail -n 1 | sed 's/^ *//' | cut -c 1-90 || true)
    if [ "$last" != "$shown" ] || [ $((SECONDS - shown_at)) -ge 60 ]; then
      echo "    $((SECONDS - step_started)) s: $last"
      shown=$last shown_at=$SECONDS
    fi
  done
}

run_logged() { # run_logged NAME COMMAND...: runs it with its output in build/logs/NAME.log; on failure shows the log's end
  local log=$log_folder/$1.log status=0
  shift
  mkdir -p "$log_folder"
  : > "$log"
  show_life "$log" &
  to_end+=("$!")
  "$@" > "$log" 2>&1 < /dev/null || status=$?
  kill "${to_end[-1]}" 2> /dev/null || true
  wait "${to_end[-1]}" 2> /dev/null || true
  unset 'to_end[-1]'
  if [ "$status" != 0 ]; then
    echo "    the last lines of ${log#"$repository"/}:" >&2
    tail -n 25 "$log" | sed 's/^/    | /' >&2
  fi
  return "$status"
}

free_gib() { # free_gib FOLDER
  df --output=avail -BG "$1" | tail -n 1 | tr -dc '0-9'
}
