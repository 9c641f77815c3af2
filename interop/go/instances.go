package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/task"
	"google.golang.org/grpc/codes"
)

func simple(ctx *task.OrchestrationContext) (any, error) {
	var found any
	err := ctx.GetInput(&found)
	return found, err
}

func waiting(ctx *task.OrchestrationContext) (any, error) {
	var found any
	err := ctx.WaitForSingleEvent("go", -1).Await(&found)
	return found, err
}

func idsAreTakenOnce(s server) {
	s.running(orchestrators{"simple": simple}, nil, func(own hub) {
		id := own.start("simple", 1)
		same(output[int](own, id), 1, "the result")
		_, err := own.ScheduleNewOrchestration(now, "simple", api.WithInstanceID(id), api.WithInput(2))
		refusedWith(err, codes.AlreadyExists)
		same(output[int](own, id), 1, "the result")
	})
}

func policiesReplaceListedStatesOnly(s server) {
	s.running(orchestrators{"simple": simple, "waiting": waiting}, nil, func(own hub) {
		id := own.start("waiting", nil, api.WithInstanceID(fresh("reuse")))
		own.started(id)
		again := func(action api.CreateOrchestrationAction, states ...api.OrchestrationStatus) error {
			policy := &api.OrchestrationIdReusePolicy{Action: action, OperationStatus: states}
			_, err := own.ScheduleNewOrchestration(now, "simple", api.WithInstanceID(id), api.WithInput("new"),
				api.WithOrchestrationIdReusePolicy(policy))
			return err
		}
		running := api.RUNTIME_STATUS_RUNNING
		// The older instance goes on.
		must(again(api.REUSE_ID_ACTION_IGNORE, running))
		same(own.state(id).Name, "waiting", "the orchestrator")
		refusedWith(again(api.REUSE_ID_ACTION_TERMINATE, api.RUNTIME_STATUS_COMPLETED), codes.AlreadyExists)
		must(again(api.REUSE_ID_ACTION_TERMINATE, running))
		same(output[string](own, id), "new", "the result")
		refusedWith(again(api.REUSE_ID_ACTION_TERMINATE, running), codes.AlreadyExists)
		must(again(api.REUSE_ID_ACTION_TERMINATE, api.RUNTIME_STATUS_COMPLETED))
		same(output[string](own, id), "new", "the result")
	})
}

func badIDsAreRefused(s server) {
	own := s.hub("")
	defer own.conn.Close()
	for _, id := range []string{"@counter@a", fmt.Sprintf("%0101d", 0)} {
		_, err := own.ScheduleNewOrchestration(now, "simple", api.WithInstanceID(api.InstanceID(id)))
		refusedWith(err, codes.InvalidArgument)
	}
}

func unknownInstancesAreNamedAsSuch(s server) {
	own := s.hub("")
	defer own.conn.Close()
	id := fresh("unknown")
	_, err := own.FetchOrchestrationMetadata(now, id)
	check(errors.Is(err, api.ErrInstanceNotFound), "%v", err)
	refusedWith(own.RaiseEvent(now, id, "go"), codes.NotFound)
	refusedWith(own.SuspendOrchestration(now, id, ""), codes.NotFound)
	refusedWith(own.ResumeOrchestration(now, id, ""), codes.NotFound)
	must(own.TerminateOrchestration(now, id))
	err = own.PurgeOrchestrationState(now, id)
	check(errors.Is(err, api.ErrInstanceNotFound), "%v", err)
}

func aStartIsWaitedFor(s server) {
	own := s.hub("")
	defer own.conn.Close()
	id := own.start("waiting", nil, api.WithInstanceID(fresh("start")))
	ctx, cancel := context.WithTimeout(now, time.Second)
	defer cancel()
	_, err := own.WaitForOrchestrationStart(ctx, id)
	check(errors.Is(err, context.DeadlineExceeded), "%v", err)
	defer own.work(orchestrators{"waiting": waiting}, nil)()
	same(own.started(id).RuntimeStatus, api.RUNTIME_STATUS_RUNNING, "the status")
	own.raise(id, "go", "on")
	same(output[string](own, id), "on", "the result")
}

func terminateNeedsNoWorker(s server) {
	own := s.hub("")
	defer own.conn.Close()
	id := own.start("no worker has it", nil, api.WithInstanceID(fresh("end")))
	must(own.TerminateOrchestration(now, id, api.WithOutput(map[string]string{"why": "enough"})))
	found := own.ended(id)
	same(found.RuntimeStatus, api.RUNTIME_STATUS_TERMINATED, "the status")
	same(found.SerializedOutput, `{"why":"enough"}`, "the output")
	own.raise(id, "too late", nil)
	must(own.TerminateOrchestration(now, id, api.WithOutput("again")))
	same(own.state(id).SerializedOutput, `{"why":"enough"}`, "the output")
}

func family(ctx *task.OrchestrationContext) (any, error) {
	var depth int
	if err := ctx.GetInput(&depth); err != nil {
		return nil, err
	}
	if depth == 0 {
		return nil, ctx.WaitForSingleEvent("never", -1).Await(nil)
	}
	id := task.WithSubOrchestrationInstanceID(fmt.Sprintf("%s-%d", ctx.ID, depth-1))
	return nil, ctx.CallSubOrchestrator("family", task.WithSubOrchestratorInput(depth-1), id).Await(nil)
}

// The ids of a new family, once all of them run.
func (h hub) family() []api.InstanceID {
	id := h.start("family", 2, api.WithInstanceID(fresh("family")))
	ids := []api.InstanceID{id, id + "-1", id + "-1-0"}
	for _, each := range ids {
		until("a child", func() bool {
			_, err := h.FetchOrchestrationMetadata(now, each)
			return !errors.Is(err, api.ErrInstanceNotFound)
		})
		h.started(each)
	}
	return ids
}

func terminateReachesGrandchildrenIfTold(s server) {
	s.running(orchestrators{"family": family}, nil, func(own hub) {
		ids := own.family()
		must(own.TerminateOrchestration(now, ids[0], api.WithRecursiveTerminate(true)))
		for _, id := range ids {
			same(own.ended(id).RuntimeStatus, api.RUNTIME_STATUS_TERMINATED, "the status")
		}
		ids = own.family()
		must(own.TerminateOrchestration(now, ids[0], api.WithRecursiveTerminate(false)))
		same(own.ended(ids[0]).RuntimeStatus, api.RUNTIME_STATUS_TERMINATED, "the status")
		same(own.state(ids[2]).RuntimeStatus, api.RUNTIME_STATUS_RUNNING, "the status")
		must(own.TerminateOrchestration(now, ids[1]))
	})
}

func suspendedInstancesRunNothingAndMissNothing(s server) {
	collector := func(ctx *task.OrchestrationContext) (any, error) {
		var found []int
		for range 5 {
			more, err := takeNotes(ctx, 1)
			if err != nil {
				return nil, err
			}
			found = append(found, more...)
			ctx.SetCustomStatus(fmt.Sprint(len(found)))
		}
		return found, nil
	}
	s.running(orchestrators{"collector": collector}, nil, func(own hub) {
		id := own.start("collector", nil)
		own.raise(id, "note", 0)
		until("the first event", func() bool { return own.state(id).SerializedCustomStatus == "1" })
		must(own.SuspendOrchestration(now, id, "a reason"))
		must(own.SuspendOrchestration(now, id, "another"))
		same(own.state(id).RuntimeStatus, api.RUNTIME_STATUS_SUSPENDED, "the status")
		for number := 1; number < 5; number++ {
			own.raise(id, "note", number)
		}
		ctx, cancel := context.WithTimeout(now, time.Second)
		defer cancel()
		_, err := own.WaitForOrchestrationCompletion(ctx, id)
		check(errors.Is(err, context.DeadlineExceeded), "%v", err)
		same(own.state(id).RuntimeStatus, api.RUNTIME_STATUS_SUSPENDED, "the status")
		same(own.state(id).SerializedCustomStatus, "1", "the custom status")
		must(own.ResumeOrchestration(now, id, "a reason"))
		same(output[[]int](own, id), upTo(5), "the events")
	})
}

func purgeTakesWhatHasEnded(s server) {
	s.running(orchestrators{"simple": simple, "waiting": waiting, "family": family}, nil, func(own hub) {
		id := own.start("simple", 1)
		output[int](own, id)
		live := own.start("waiting", nil)
		own.started(live)
		check(errors.Is(own.PurgeOrchestrationState(now, live), api.ErrInstanceNotFound), "it runs")
		must(own.PurgeOrchestrationState(now, id))
		_, err := own.FetchOrchestrationMetadata(now, id)
		check(errors.Is(err, api.ErrInstanceNotFound), "%v", err)
		ids := own.family()
		must(own.TerminateOrchestration(now, ids[0]))
		for _, each := range ids {
			own.ended(each)
		}
		must(own.PurgeOrchestrationState(now, ids[0], api.WithRecursivePurge(true)))
		for _, each := range ids {
			_, err := own.FetchOrchestrationMetadata(now, each)
			check(errors.Is(err, api.ErrInstanceNotFound), "%s: %v", each, err)
		}
		must(own.TerminateOrchestration(now, live))
	})
}

func failuresAreTold(s server) {
	failing := func(*task.OrchestrationContext) (any, error) {
		return nil, errors.New("a reason")
	}
	s.running(orchestrators{"failing": failing}, nil, func(own hub) {
		id := own.start("failing", nil)
		same(own.ended(id).RuntimeStatus, api.RUNTIME_STATUS_FAILED, "the status")
	})
}

var instanceScenarios = []scenario{
	{"ids_are_taken_once", idsAreTakenOnce},
	{"policies_replace_listed_states_only", policiesReplaceListedStatesOnly},
	{"bad_ids_are_refused", badIDsAreRefused},
	{"unknown_instances_are_named_as_such", unknownInstancesAreNamedAsSuch},
	{"a_start_is_waited_for", aStartIsWaitedFor},
	{"terminate_needs_no_worker", terminateNeedsNoWorker},
	{"terminate_reaches_grandchildren_if_told", terminateReachesGrandchildrenIfTold},
	{"suspended_instances_run_nothing_and_miss_nothing", suspendedInstancesRunNothingAndMissNothing},
	{"purge_takes_what_has_ended", purgeTakesWhatHasEnded},
	{"failures_are_told", failuresAreTold},
}

// Works on totals until its input ends or it is killed.
func workOnTotals(s server) {
	total := func(ctx *task.OrchestrationContext) (any, error) {
		total := 0
		for number := range 5 {
			if err := ctx.CallActivity("plus", task.WithActivityInput([]int{total, number})).Await(&total); err != nil {
				return nil, err
			}
			if err := ctx.CreateTimer(20 * time.Millisecond).Await(nil); err != nil {
				return nil, err
			}
		}
		var child int
		if err := ctx.CallSubOrchestrator("last", task.WithSubOrchestratorInput(total)).Await(&child); err != nil {
			return nil, err
		}
		var note int
		err := ctx.WaitForSingleEvent("note", -1).Await(&note)
		return child + note, err
	}
	last := func(ctx *task.OrchestrationContext) (any, error) {
		var number int
		if err := ctx.GetInput(&number); err != nil {
			return nil, err
		}
		err := ctx.CallActivity("plus", task.WithActivityInput([]int{number, 100})).Await(&number)
		return number, err
	}
	plus := func(ctx task.ActivityContext) (any, error) {
		var numbers []int
		if err := ctx.GetInput(&numbers); err != nil {
			return nil, err
		}
		return numbers[0] + numbers[1], nil
	}
	own := s.hub("")
	registry := task.NewTaskRegistry()
	must(registry.AddOrchestratorN("total", total))
	must(registry.AddOrchestratorN("last", last))
	must(registry.AddActivityN("plus", plus))
	// The server may be away at the moment; the SDK tries once to begin with.
	until("the server is there", func() bool { return own.StartWorkItemListener(now, registry) == nil })
	fmt.Println("at work")
	_, _ = io.Copy(io.Discard, bufio.NewReader(os.Stdin))
}

// A worker with one activity in Go, until its input ends. Its orchestration is in Java, and
// the other activities are in other languages; this SDK has no filters.
func workOnLanguages(s server) {
	own := s.hub("")
	own.work(nil, activities{"say_go": func(ctx task.ActivityContext) (any, error) {
		var number int
		err := ctx.GetInput(&number)
		return fmt.Sprint("go ", number), err
	}})
	_, _ = io.Copy(io.Discard, bufio.NewReader(os.Stdin))
}

// Calls until the server answers; what it has done already is done.
func stubborn(call func(context.Context) error, accepted codes.Code) {
	end := time.Now().Add(longPatience)
	for {
		ctx, cancel := context.WithTimeout(now, 5*time.Second)
		err := call(ctx)
		cancel()
		if err == nil {
			return
		}
		if hasCode(err, accepted) {
			return
		}
		check(time.Now().Before(end), "%v", err)
		time.Sleep(100 * time.Millisecond)
	}
}

// Begins so many totals and waits for all of them, whatever happens to the server and
// the worker.
func totals(s server, prefix, text string) {
	count := value(strconv.Atoi(text))
	own := s.hub("")
	id := func(number int) api.InstanceID { return api.InstanceID(fmt.Sprintf("%s-%d", prefix, number)) }
	for number := range count {
		stubborn(func(ctx context.Context) error {
			_, err := own.ScheduleNewOrchestration(ctx, "total", api.WithInstanceID(id(number)))
			return err
		}, codes.AlreadyExists)
		stubborn(func(ctx context.Context) error {
			return own.RaiseEvent(ctx, id(number), "note", api.WithEventPayload(1000*number))
		}, codes.OK)
		fmt.Println("begun")
	}
	for number := range count {
		stubborn(func(ctx context.Context) error {
			found, err := own.WaitForOrchestrationCompletion(ctx, id(number))
			if err != nil {
				return err
			}
			same(found.RuntimeStatus, api.RUNTIME_STATUS_COMPLETED, "the status")
			same(found.SerializedOutput, fmt.Sprint(110+1000*number), "the total")
			return nil
		}, codes.OK)
	}
	fmt.Println("all totals are right")
}
