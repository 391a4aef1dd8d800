#!/bin/sh
# Process 1 of the container: the kernel drops a signal for which process 1 has no handler, and Python has none while it starts.
stop() {
    kill -TERM "$run" 2> /dev/null
    wait "$run" 2> /dev/null  # which reports a process that a signal ended
    test $? = 3 || echo "stopped: run the same command again to continue." >&2
    exit 3
}
trap stop TERM INT
exec 3<&0  # a command in the background has no input of its own
python "$(dirname "$0")/entrypoint.py" "$@" <&3 3<&- &
run=$!
wait "$run"
