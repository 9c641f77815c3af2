// Unmodified Go modules against a running server.
//
//	clients events <what the server said> [scenario ..]
//	clients processor <what the server said> <options>
//	clients sender <what the server said> <options>
//	clients durable <what the server said> [scenario ..]
//	clients work <what the server said>
//	clients languages <what the server said>
//	clients totals <what the server said> <prefix> <count>
//	clients chat <what the server said>
//	clients signalr <what the server said> [scenario ..]
//
// Without scenarios all of an area run, one after another, but for those that are led.
package main

import (
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"time"
)

// A scenario panics if the server does not do what it must.
type scenario struct {
	name string
	run  func(server)
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: clients <area> <what the server said> [scenario ..]")
		os.Exit(2)
	}
	said := newServer(os.Args[2])
	rest := os.Args[3:]
	switch os.Args[1] {
	case "events":
		os.Exit(runAll(said, slices.Concat(eventScenarios, blobScenarios), rest))
	case "processor":
		process(said, rest[0])
	case "sender":
		sendNumbers(said, rest[0])
	case "durable":
		os.Exit(runAll(said, slices.Concat(orchestrationScenarios, instanceScenarios, upstreamScenarios), rest))
	case "work":
		workOnTotals(said)
	case "languages":
		workOnLanguages(said)
	case "totals":
		totals(said, rest[0], rest[1])
	case "chat":
		chat(said)
	case "signalr":
		all := signalrScenarios
		if len(rest) > 0 {
			all = slices.Concat(all, ledScenarios)
		}
		os.Exit(runAll(said, all, rest))
	default:
		fmt.Fprintf(os.Stderr, "there is no area %q\n", os.Args[1])
		os.Exit(2)
	}
}

// Runs the scenarios of these names, and returns the exit code.
func runAll(said server, all []scenario, names []string) int {
	failed := 0
	for _, name := range names {
		if !slices.ContainsFunc(all, func(each scenario) bool { return each.name == name }) {
			fmt.Fprintf(os.Stderr, "there is no scenario %q\n", name)
			failed++
		}
	}
	for _, each := range all {
		if len(names) > 0 && !slices.Contains(names, each.name) {
			continue
		}
		started := time.Now()
		outcome := "ok"
		if !runOne(said, each) {
			outcome = "FAILED"
			failed++
		}
		fmt.Printf("%s %s %.1f s\n", outcome, each.name, time.Since(started).Seconds())
	}
	if failed > 0 {
		return 1
	}
	return 0
}

func runOne(said server, each scenario) (passed bool) {
	defer func() {
		if problem := recover(); problem != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n%s\n", each.name, problem, debug.Stack())
		}
	}()
	each.run(said)
	return true
}
