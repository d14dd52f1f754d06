// The process that holds a pod's namespaces: it sleeps until it is told to stop, and reaps what is orphaned.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for child := 1; child > 0; {
			child, _ = syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		}
	}
}
