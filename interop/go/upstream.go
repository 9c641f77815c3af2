package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/task"
)

// Scenarios of the vendor's end-to-end tests of Python and JavaScript that this module can run.

// Something that activities and orchestrators write down, from several goroutines.
type notes struct {
	lock sync.Mutex
	all  []string
}

func (n *notes) add(text string) {
	n.lock.Lock()
	defer n.lock.Unlock()
	n.all = append(n.all, text)
}

func (n *notes) read() []string {
	n.lock.Lock()
	defer n.lock.Unlock()
	return slices.Clone(n.all)
}

func (n *notes) count(text string) int {
	found := 0
	for _, each := range n.read() {
		if each == text {
			found++
		}
	}
	return found
}

// Fails before the attempt of that number, and writes down each.
func (n *notes) attempt(key string, good int) (any, error) {
	n.add(key)
	if number := n.count(key); number < good {
		return nil, fmt.Errorf("attempt %d", number)
	}
	return n.count(key), nil
}

// Waits for an instance that must fail.
func (h hub) failed(id api.InstanceID) {
	found := h.ended(id)
	same(found.RuntimeStatus, api.RUNTIME_STATUS_FAILED, "the status")
}

func (h hub) isThere(id api.InstanceID) bool {
	_, err := h.FetchOrchestrationMetadata(now, id)
	check(err == nil || errors.Is(err, api.ErrInstanceNotFound), "%v", err)
	return err == nil
}

func echo(ctx task.ActivityContext) (any, error) {
	var found any
	err := ctx.GetInput(&found)
	return found, err
}

func explode(ctx task.ActivityContext) (any, error) {
	var text string
	if err := ctx.GetInput(&text); err != nil {
		return nil, err
	}
	return nil, errors.New(text)
}

func nothingToDo(s server) {
	var turns notes
	idle := func(ctx *task.OrchestrationContext) (any, error) {
		var input any
		err := ctx.GetInput(&input)
		turns.add(fmt.Sprint(ctx.IsReplaying, " ", input))
		return nil, err
	}
	s.running(orchestrators{"idle": idle}, nil, func(own hub) {
		id := value(own.ScheduleNewOrchestration(now, "idle"))
		found := own.ended(id)
		same(found.RuntimeStatus, api.RUNTIME_STATUS_COMPLETED, "the status")
		same(turns.read(), []string{"false <nil>"}, "the turns")
		same([]string{found.Name, string(found.InstanceID)}, []string{"idle", string(id)}, "the names")
		same(found.SerializedInput, "", "the input")
		same(found.SerializedCustomStatus, "", "the custom status")
	})
}

// An activity fails; the orchestration undoes what was done before.
func failuresAreMadeGood(s server) {
	var undone notes
	give := func(ctx task.ActivityContext) (any, error) {
		var what string
		if err := ctx.GetInput(&what); err != nil {
			return nil, err
		}
		if what == "last" {
			return nil, errors.New("nothing left")
		}
		return what, nil
	}
	undo := func(ctx task.ActivityContext) (any, error) {
		var what string
		err := ctx.GetInput(&what)
		undone.add(what)
		return nil, err
	}
	careful := func(ctx *task.OrchestrationContext) (any, error) {
		var wanted, done []string
		if err := ctx.GetInput(&wanted); err != nil {
			return nil, err
		}
		for _, each := range wanted {
			var what string
			if failure := ctx.CallActivity("give", task.WithActivityInput(each)).Await(&what); failure != nil {
				for _, what := range done {
					if err := ctx.CallActivity("undo", task.WithActivityInput(what)).Await(nil); err != nil {
						return nil, err
					}
				}
				return failure.Error(), nil
			}
			done = append(done, what)
		}
		return "nothing failed", nil
	}
	s.running(orchestrators{"careful": careful}, activities{"give": give, "undo": undo}, func(own hub) {
		reason := output[string](own, own.start("careful", []string{"a", "b", "last", "c"}))
		check(strings.HasSuffix(reason, "nothing left"), "%q", reason)
		same(undone.read(), []string{"a", "b"}, "what was undone")
	})
}

// This module has no joins: each task of several is awaited.
func joinsThatFail(s server) {
	slow := func(task.ActivityContext) (any, error) {
		time.Sleep(200 * time.Millisecond)
		return "late", nil
	}
	begin := func(ctx *task.OrchestrationContext) (task.Task, task.Task) {
		return ctx.CallActivity("explode", task.WithActivityInput("first")), ctx.CallActivity("slow")
	}
	// The slow one goes on although the other has failed.
	orphans := func(ctx *task.OrchestrationContext) (any, error) {
		bad, _ := begin(ctx)
		return bad.Await(nil).Error(), nil
	}
	uncaught := func(ctx *task.OrchestrationContext) (any, error) {
		bad, good := begin(ctx)
		var text string
		if err := good.Await(&text); err != nil {
			return nil, err
		}
		return text, bad.Await(nil)
	}
	code := orchestrators{"orphans": orphans, "uncaught": uncaught}
	s.running(code, activities{"explode": explode, "slow": slow}, func(own hub) {
		reason := output[string](own, own.start("orphans", nil))
		check(strings.HasSuffix(reason, "first"), "%q", reason)
		own.failed(own.start("uncaught", nil))
	})
}

func childrenFanOut(s server) {
	var counted notes
	count := func(task.ActivityContext) (any, error) {
		counted.add("one")
		return nil, nil
	}
	many := func(ctx *task.OrchestrationContext) (any, error) {
		for range 3 {
			if err := ctx.CallActivity("count").Await(nil); err != nil {
				return nil, err
			}
		}
		return 3, nil
	}
	parent := func(ctx *task.OrchestrationContext) (any, error) {
		var children []task.Task
		for range 10 {
			children = append(children, ctx.CallSubOrchestrator("many"))
		}
		total := 0
		for _, each := range children {
			var number int
			if err := each.Await(&number); err != nil {
				return nil, err
			}
			total += number
		}
		return total, nil
	}
	s.running(orchestrators{"parent": parent, "many": many}, activities{"count": count}, func(own hub) {
		same(output[int](own, own.start("parent", nil)), 30, "the sum")
		same(counted.count("one"), 30, "the activities")
	})
}

func eventsOfThreeNames(s server) {
	names := []string{"A", "B", "C"}
	patient := func(ctx *task.OrchestrationContext) (any, error) {
		var found []string
		for _, name := range names {
			var text string
			if err := ctx.WaitForSingleEvent(name, -1).Await(&text); err != nil {
				return nil, err
			}
			found = append(found, text)
		}
		return found, nil
	}
	s.running(orchestrators{"patient": patient}, nil, func(own hub) {
		id := own.start("patient", nil)
		for _, name := range names {
			own.raise(id, name, strings.ToLower(name))
		}
		same(output[[]string](own, id), []string{"a", "b", "c"}, "the events")
	})
}

func fiveRounds(s server) {
	rounds := func(ctx *task.OrchestrationContext) (any, error) {
		var found []int
		if err := ctx.GetInput(&found); err != nil {
			return nil, err
		}
		more, err := takeNotes(ctx, 1)
		if err != nil {
			return nil, err
		}
		if found = append(found, more...); len(found) < 5 {
			ctx.ContinueAsNew(found, task.WithKeepUnprocessedEvents())
		}
		return found, nil
	}
	s.running(orchestrators{"rounds": rounds}, nil, func(own hub) {
		id := own.start("rounds", []int{})
		for number := range 5 {
			own.raise(id, "note", number)
		}
		same(output[[]int](own, id), upTo(5), "the events")
		same(own.state(id).SerializedInput, "[0,1,2,3]", "the input of the last execution")
	})
}

func timersAreReplayed(s server) {
	var times notes
	napping := func(ctx *task.OrchestrationContext) (any, error) {
		times.add(ctx.CurrentTimeUtc.String())
		if err := ctx.CreateTimer(300 * time.Millisecond).Await(nil); err != nil {
			return nil, err
		}
		err := ctx.CallActivity("echo", task.WithActivityInput(1)).Await(nil)
		return "awake", err
	}
	s.running(orchestrators{"napping": napping}, activities{"echo": echo}, func(own hub) {
		id := own.start("napping", nil)
		same(output[string](own, id), "awake", "the result")
		found := own.state(id)
		taken := found.LastUpdatedAt.Sub(found.CreatedAt)
		check(taken >= 290*time.Millisecond, "%s", taken)
		seen := times.read()
		check(len(seen) >= 3, "%v", seen)
		same(len(slices.Compact(seen)), 1, "the times at which replays begin")
	})
}

// Rounds with timers, children of every round, and children of children.
func roundsAndGenerations(s server) {
	counting := func(ctx *task.OrchestrationContext) (any, error) {
		var number int
		if err := ctx.GetInput(&number); err != nil {
			return nil, err
		}
		err := ctx.CreateTimer(10 * time.Millisecond).Await(nil)
		if number < 5 {
			ctx.ContinueAsNew(number + 1)
		}
		return number, err
	}
	child := func(ctx *task.OrchestrationContext) (any, error) {
		return ctx.ID, nil
	}
	families := func(ctx *task.OrchestrationContext) (any, error) {
		var ids []string
		if err := ctx.GetInput(&ids); err != nil {
			return nil, err
		}
		var id string
		err := ctx.CallSubOrchestrator("child").Await(&id)
		if ids = append(ids, id); len(ids) < 4 {
			ctx.ContinueAsNew(ids)
		}
		return ids, err
	}
	nesting := func(ctx *task.OrchestrationContext) (any, error) {
		var depth int
		if err := ctx.GetInput(&depth); err != nil {
			return nil, err
		}
		if depth == 0 {
			return ctx.ID, nil
		}
		var id string
		err := ctx.CallSubOrchestrator("nesting", task.WithSubOrchestratorInput(depth-1)).Await(&id)
		return id, err
	}
	code := orchestrators{"counting": counting, "child": child, "families": families, "nesting": nesting}
	s.running(code, nil, func(own hub) {
		same(output[int](own, own.start("counting", 0)), 5, "the rounds")
		ids := output[[]string](own, own.start("families", []string{}))
		slices.Sort(ids)
		same(len(slices.Compact(ids)), 4, "the ids of children")
		deepest := output[string](own, own.start("nesting", 5))
		check(own.isThere(api.InstanceID(deepest)), "%s", deepest)
	})
}

func purgedFamilies(s server) {
	leaf := func(*task.OrchestrationContext) (any, error) {
		return 1, nil
	}
	stem := func(ctx *task.OrchestrationContext) (any, error) {
		var number int
		id := task.WithSubOrchestrationInstanceID(string(ctx.ID) + "-leaf")
		err := ctx.CallSubOrchestrator("leaf", id).Await(&number)
		return number, err
	}
	s.running(orchestrators{"stem": stem, "leaf": leaf}, nil, func(own hub) {
		for _, recursive := range []bool{true, false} {
			id := own.start("stem", nil)
			same(output[int](own, id), 1, "the result")
			must(own.PurgeOrchestrationState(now, id, api.WithRecursivePurge(recursive)))
			check(!own.isThere(id), "it is purged")
			same(own.isThere(id+"-leaf"), !recursive, "its child")
		}
	})
}

func retriesMultiply(s server) {
	var seen notes
	thrice := &task.RetryPolicy{MaxAttempts: 3, InitialRetryInterval: 100 * time.Millisecond}
	bad := func(task.ActivityContext) (any, error) {
		seen.add("activity")
		return nil, errors.New("it is broken")
	}
	unlucky := func(ctx *task.OrchestrationContext) (any, error) {
		if !ctx.IsReplaying {
			seen.add("child")
		}
		return nil, ctx.CallActivity("bad", task.WithActivityRetryPolicy(thrice)).Await(nil)
	}
	stubborn := func(ctx *task.OrchestrationContext) (any, error) {
		err := ctx.CallSubOrchestrator("unlucky", task.WithSubOrchestrationRetryPolicy(thrice)).Await(nil)
		if err == nil || !strings.HasSuffix(err.Error(), "it is broken") {
			return "another failure", nil
		}
		return nil, err
	}
	s.running(orchestrators{"stubborn": stubborn, "unlucky": unlucky}, activities{"bad": bad}, func(own hub) {
		own.failed(own.start("stubborn", nil))
		same([]int{seen.count("child"), seen.count("activity")}, []int{3, 9}, "the attempts")
	})
}

func retriesEndInTime(s server) {
	var seen notes
	policy := &task.RetryPolicy{
		MaxAttempts: 9, InitialRetryInterval: 500 * time.Millisecond, BackoffCoefficient: 2, RetryTimeout: 3 * time.Second,
	}
	bad := func(task.ActivityContext) (any, error) {
		seen.add("activity")
		return nil, errors.New("it is broken")
	}
	hurried := func(ctx *task.OrchestrationContext) (any, error) {
		return nil, ctx.CallActivity("bad", task.WithActivityRetryPolicy(policy)).Await(nil)
	}
	s.running(orchestrators{"hurried": hurried}, activities{"bad": bad}, func(own hub) {
		own.failed(own.start("hurried", nil))
		// After 0.5 + 1 + 2 s the 3 s are over.
		same(seen.count("activity"), 4, "the attempts")
	})
}

// Which kind of task is retried by which policy, the key of its attempts, and the first
// attempt that ends well.
type retried struct {
	Kind, Policy, Key string
	Good              int
}

// The code of orchestrations that retry, by these policies.
func retrying(seen, times *notes, policies map[string]*task.RetryPolicy) (orchestrators, activities) {
	flaky := func(ctx task.ActivityContext) (any, error) {
		var wanted retried
		if err := ctx.GetInput(&wanted); err != nil {
			return nil, err
		}
		times.add(time.Now().Format(time.RFC3339Nano))
		return seen.attempt(wanted.Key, wanted.Good)
	}
	flakyChild := func(ctx *task.OrchestrationContext) (any, error) {
		var wanted retried
		if err := ctx.GetInput(&wanted); err != nil {
			return nil, err
		}
		return seen.attempt(wanted.Key, wanted.Good)
	}
	retry := func(ctx *task.OrchestrationContext) (any, error) {
		var wanted retried
		if err := ctx.GetInput(&wanted); err != nil {
			return nil, err
		}
		policy := policies[wanted.Policy]
		var each task.Task
		if wanted.Kind == "activity" {
			each = ctx.CallActivity("flaky", task.WithActivityInput(wanted), task.WithActivityRetryPolicy(policy))
		} else {
			each = ctx.CallSubOrchestrator("flaky_child",
				task.WithSubOrchestratorInput(wanted), task.WithSubOrchestrationRetryPolicy(policy))
		}
		var number int
		err := each.Await(&number)
		return number, err
	}
	return orchestrators{"retry": retry, "flaky_child": flakyChild}, activities{"flaky": flaky}
}

// Activities and children that fail some times, by policies that wait longer and longer.
func retriesByPolicy(s server) {
	const first = 100 * time.Millisecond
	var seen, times notes
	code, work := retrying(&seen, &times, map[string]*task.RetryPolicy{
		"plain":    {MaxAttempts: 3, InitialRetryInterval: first},
		"doubling": {MaxAttempts: 4, InitialRetryInterval: first, BackoffCoefficient: 2},
		"capped":   {MaxAttempts: 4, InitialRetryInterval: first, BackoffCoefficient: 10, MaxRetryInterval: 150 * time.Millisecond},
	})
	s.running(code, work, func(own hub) {
		for _, kind := range []string{"activity", "child"} {
			good := retried{kind, "plain", string(fresh("key")), 3}
			same(output[int](own, own.start("retry", good)), 3, "the attempt")
			bad := retried{kind, "plain", string(fresh("key")), 9}
			own.failed(own.start("retry", bad))
			same(seen.count(bad.Key), 3, "the attempts")
			once := retried{kind, "none", string(fresh("key")), 9}
			own.failed(own.start("retry", once))
			same(seen.count(once.Key), 1, "the attempts without a policy")
		}
		gaps := func(policy string) []time.Duration {
			before := len(times.read())
			wanted := retried{"activity", policy, string(fresh("key")), 4}
			same(output[int](own, own.start("retry", wanted)), 4, "the attempt")
			var gaps []time.Duration
			var last time.Time
			for _, text := range times.read()[before:] {
				at := value(time.Parse(time.RFC3339Nano, text))
				if !last.IsZero() {
					gaps = append(gaps, at.Sub(last))
				}
				last = at
			}
			return gaps
		}
		const slack = 5 * time.Millisecond
		found := gaps("doubling")
		for number, least := range []time.Duration{first, 2 * first, 4 * first} {
			check(found[number] >= least-slack, "%v", found)
		}
		found = gaps("capped")
		check(found[1] >= 150*time.Millisecond-slack && found[1] < time.Second, "%v", found)
	})
}

func retriesByHandler(s server) {
	var seen, times notes
	handled := func(handle func(error) bool) *task.RetryPolicy {
		return &task.RetryPolicy{MaxAttempts: 9, InitialRetryInterval: 20 * time.Millisecond, Handle: handle}
	}
	code, work := retrying(&seen, &times, map[string]*task.RetryPolicy{
		"always":  handled(func(error) bool { return true }),
		"never":   handled(func(error) bool { return false }),
		"by_text": handled(func(err error) bool { return !strings.HasSuffix(err.Error(), "attempt 2") }),
	})
	s.running(code, work, func(own hub) {
		for _, kind := range []string{"activity", "child"} {
			good := retried{kind, "always", string(fresh("key")), 3}
			same(output[int](own, own.start("retry", good)), 3, "the attempt")
			for policy, most := range map[string]int{"never": 1, "by_text": 2} {
				bad := retried{kind, policy, string(fresh("key")), 9}
				own.failed(own.start("retry", bad))
				same(seen.count(bad.Key), most, policy)
			}
		}
	})
}

func onlyNewTurnsAreNoted(s server) {
	var seen notes
	talking := func(ctx *task.OrchestrationContext) (any, error) {
		note := func(text string) {
			if !ctx.IsReplaying {
				seen.add(text)
			}
		}
		note("before")
		err := ctx.CallActivity("echo", task.WithActivityInput(1)).Await(nil)
		note("after")
		return nil, err
	}
	s.running(orchestrators{"talking": talking}, activities{"echo": echo}, func(own hub) {
		output[any](own, own.start("talking", nil))
		same(seen.read(), []string{"before", "after"}, "the notes")
	})
}

func falsyValuesOfChildren(s server) {
	through := func(ctx *task.OrchestrationContext) (any, error) {
		var input, first, second any
		if err := ctx.GetInput(&input); err != nil {
			return nil, err
		}
		if err := ctx.CallActivity("echo", task.WithActivityInput(input)).Await(&first); err != nil {
			return nil, err
		}
		err := ctx.CallSubOrchestrator("simple", task.WithSubOrchestratorInput(input)).Await(&second)
		return []any{first, second}, err
	}
	s.running(orchestrators{"through": through, "simple": simple}, activities{"echo": echo}, func(own hub) {
		for _, each := range []any{0.0, "", false, nil} {
			same(output[[]any](own, own.start("through", each)), []any{each, each}, "the values")
			same(output[any](own, own.start("simple", each)), each, "the value")
		}
	})
}

var upstreamScenarios = []scenario{
	{"nothing_to_do", nothingToDo},
	{"failures_are_made_good", failuresAreMadeGood},
	{"joins_that_fail", joinsThatFail},
	{"children_fan_out", childrenFanOut},
	{"events_of_three_names", eventsOfThreeNames},
	{"five_rounds", fiveRounds},
	{"timers_are_replayed", timersAreReplayed},
	{"rounds_and_generations", roundsAndGenerations},
	{"purged_families", purgedFamilies},
	{"retries_multiply", retriesMultiply},
	{"retries_end_in_time", retriesEndInTime},
	{"retries_by_policy", retriesByPolicy},
	{"retries_by_handler", retriesByHandler},
	{"only_new_turns_are_noted", onlyNewTurnsAreNoted},
	{"falsy_values_of_children", falsyValuesOfChildren},
}
