package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"github.com/microsoft/durabletask-go/client"
	"github.com/microsoft/durabletask-go/task"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// How long an instance may take before a scenario fails.
const longPatience = 2 * time.Minute

// What goes on is of interest only where something fails.
type quiet struct{}

func (quiet) Debug(...any)          {}
func (quiet) Debugf(string, ...any) {}
func (quiet) Info(...any)           {}
func (quiet) Infof(string, ...any)  {}
func (quiet) Warn(...any)           {}
func (quiet) Warnf(string, ...any)  {}
func (quiet) Error(...any)          {}
func (quiet) Errorf(string, ...any) {}

var _ backend.Logger = quiet{}

// A client of a task hub; the SDK leaves naming the hub to the connection.
type hub struct {
	*client.TaskHubGrpcClient
	conn *grpc.ClientConn
}

func (s server) hub(name string) hub {
	transport := insecure.NewCredentials()
	if s.Certificate != "" {
		transport = value(credentials.NewClientTLSFromFile(s.Certificate, ""))
	}
	options := []grpc.DialOption{grpc.WithTransportCredentials(transport)}
	if name != "" {
		named := func(ctx context.Context) context.Context {
			return metadata.AppendToOutgoingContext(ctx, "taskhub", name)
		}
		options = append(options,
			grpc.WithUnaryInterceptor(func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				return invoke(named(ctx), method, req, reply, conn, opts...)
			}),
			grpc.WithStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, stream grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				return stream(named(ctx), desc, conn, method, opts...)
			}))
	}
	conn := value(grpc.NewClient(fmt.Sprintf("localhost:%d", s.Port), options...))
	return hub{client.NewTaskHubGrpcClient(conn, quiet{}), conn}
}

type (
	orchestrators map[string]task.Orchestrator
	activities    map[string]task.Activity
)

// Works with this code until the returned function is called.
func (h hub) work(orchestrators orchestrators, activities activities) func() {
	registry := task.NewTaskRegistry()
	for name, each := range orchestrators {
		must(registry.AddOrchestratorN(name, each))
	}
	for name, each := range activities {
		must(registry.AddActivityN(name, each))
	}
	ctx, cancel := context.WithCancel(context.Background())
	must(h.StartWorkItemListener(ctx, registry))
	return cancel
}

// A client, while a worker with this code runs.
func (s server) running(orchestrators orchestrators, activities activities, scenario func(hub)) {
	own := s.hub("")
	defer own.conn.Close()
	defer own.work(orchestrators, activities)()
	scenario(own)
}

func fresh(name string) api.InstanceID {
	return api.InstanceID(fmt.Sprintf("%s-%012x", name, rand.Uint64()>>16))
}

func (h hub) start(name string, input any, options ...api.NewOrchestrationOptions) api.InstanceID {
	return value(h.ScheduleNewOrchestration(now, name, append(options, api.WithInput(input))...))
}

func (h hub) ended(id api.InstanceID) *api.OrchestrationMetadata {
	ctx, cancel := context.WithTimeout(now, longPatience)
	defer cancel()
	return value(h.WaitForOrchestrationCompletion(ctx, id))
}

// What an instance that has ended well came to.
func output[T any](h hub, id api.InstanceID) T {
	found := h.ended(id)
	check(found.RuntimeStatus == api.RUNTIME_STATUS_COMPLETED, "%s: %+v", id, found)
	var result T
	if found.SerializedOutput != "" {
		must(json.Unmarshal([]byte(found.SerializedOutput), &result))
	}
	return result
}

func (h hub) state(id api.InstanceID) *api.OrchestrationMetadata {
	return value(h.FetchOrchestrationMetadata(now, id))
}

func (h hub) started(id api.InstanceID) *api.OrchestrationMetadata {
	ctx, cancel := context.WithTimeout(now, longPatience)
	defer cancel()
	return value(h.WaitForOrchestrationStart(ctx, id))
}

func (h hub) raise(id api.InstanceID, name string, data any) {
	must(h.RaiseEvent(now, id, name, api.WithEventPayload(data)))
}

// Waits for something that the server does not announce.
func until(what string, isSo func() bool) {
	end := time.Now().Add(longPatience)
	for !isSo() {
		check(time.Now().Before(end), "not in time: %s", what)
		time.Sleep(20 * time.Millisecond)
	}
}

func hasCode(err error, code codes.Code) bool {
	var own interface{ GRPCStatus() *status.Status }
	return errors.As(err, &own) && own.GRPCStatus().Code() == code
}

func refusedWith(err error, code codes.Code) {
	check(hasCode(err, code), "%s was expected, not %v", code, err)
}

func double(ctx task.ActivityContext) (any, error) {
	var number int
	err := ctx.GetInput(&number)
	return number * 2, err
}

func sequence(ctx *task.OrchestrationContext) (any, error) {
	var number int
	if err := ctx.GetInput(&number); err != nil {
		return nil, err
	}
	for range 5 {
		if err := ctx.CallActivity("double", task.WithActivityInput(number)).Await(&number); err != nil {
			return nil, err
		}
	}
	return number, nil
}

func activitiesInSequence(s server) {
	s.running(orchestrators{"sequence": sequence}, activities{"double": double}, func(own hub) {
		id := own.start("sequence", 1)
		same(output[int](own, id), 32, "the result")
		found := own.state(id)
		same(found.SerializedInput, "1", "the input")
		same(found.Name, "sequence", "the name")
		check(!found.CreatedAt.IsZero() && !found.LastUpdatedAt.Before(found.CreatedAt), "%+v", found)
	})
}

func fanOutOfAThousand(s server) {
	fanOut := func(ctx *task.OrchestrationContext) (any, error) {
		var tasks []task.Task
		for number := range 1000 {
			tasks = append(tasks, ctx.CallActivity("double", task.WithActivityInput(number)))
		}
		total := 0
		for _, each := range tasks {
			var number int
			if err := each.Await(&number); err != nil {
				return nil, err
			}
			total += number
		}
		return total, nil
	}
	s.running(orchestrators{"fan_out": fanOut}, activities{"double": double}, func(own hub) {
		same(output[int](own, own.start("fan_out", nil)), 999*1000, "the sum")
	})
}

func falsyValuesSurvive(s server) {
	echo := func(ctx task.ActivityContext) (any, error) {
		var found any
		err := ctx.GetInput(&found)
		return found, err
	}
	echoes := func(ctx *task.OrchestrationContext) (any, error) {
		var values, found []any
		if err := ctx.GetInput(&values); err != nil {
			return nil, err
		}
		for _, each := range values {
			var echoed any
			if err := ctx.CallActivity("echo", task.WithActivityInput(each)).Await(&echoed); err != nil {
				return nil, err
			}
			found = append(found, echoed)
		}
		var event any = "nothing"
		if err := ctx.WaitForSingleEvent("empty", -1).Await(&event); err != nil {
			return nil, err
		}
		ctx.SetCustomStatus(`""`)
		return append(found, event), nil
	}
	values := []any{0.0, false, "", []any{}, map[string]any{}, " ", "ä€😀"}
	s.running(orchestrators{"echoes": echoes}, activities{"echo": echo}, func(own hub) {
		id := own.start("echoes", values)
		own.raise(id, "empty", "")
		same(output[[]any](own, id), append(slices.Clone(values), any("")), "the values")
		same(own.state(id).SerializedCustomStatus, `""`, "the status")
	})
}

func timersFireInTime(s server) {
	sleepy := func(ctx *task.OrchestrationContext) (any, error) {
		var delay time.Duration
		if err := ctx.GetInput(&delay); err != nil {
			return nil, err
		}
		due := ctx.CurrentTimeUtc.Add(delay)
		err := ctx.CreateTimer(delay).Await(nil)
		return ctx.CurrentTimeUtc.Sub(due), err
	}
	s.running(orchestrators{"sleepy": sleepy}, nil, func(own hub) {
		for _, delay := range []time.Duration{300 * time.Millisecond, time.Second} {
			// The machine may be busy with other tests: the best of some counts.
			best := time.Hour
			for range 10 {
				late := output[time.Duration](own, own.start("sleepy", delay))
				check(late >= 0, "it was %s early", -late)
				if best = min(best, late); best < 250*time.Millisecond {
					break
				}
			}
			check(best < 250*time.Millisecond, "%s was %s late", delay, best)
		}
	})
}

// Takes as many events as its input says.
func takeNotes(ctx *task.OrchestrationContext, count int) ([]int, error) {
	found := []int{}
	for range count {
		var number int
		if err := ctx.WaitForSingleEvent("note", -1).Await(&number); err != nil {
			return nil, err
		}
		found = append(found, number)
	}
	return found, nil
}

func upTo(count int) []int {
	var numbers []int
	for number := range count {
		numbers = append(numbers, number)
	}
	return numbers
}

func eventsBeforeTheWaitAreKept(s server) {
	listener := func(ctx *task.OrchestrationContext) (any, error) {
		if err := ctx.CreateTimer(500 * time.Millisecond).Await(nil); err != nil {
			return nil, err
		}
		return takeNotes(ctx, 20)
	}
	s.running(orchestrators{"listener": listener}, nil, func(own hub) {
		id := own.start("listener", nil)
		for number := range 20 {
			own.raise(id, "note", number)
		}
		same(output[[]int](own, id), upTo(20), "the events")
	})
}

func aThousandEventsAcrossContinueAsNew(s server) {
	counting := func(ctx *task.OrchestrationContext) (any, error) {
		var found []int
		if err := ctx.GetInput(&found); err != nil {
			return nil, err
		}
		more, err := takeNotes(ctx, 10)
		if err != nil {
			return nil, err
		}
		if found = append(found, more...); len(found) < 1000 {
			ctx.ContinueAsNew(found, task.WithKeepUnprocessedEvents())
		}
		return found, nil
	}
	s.running(orchestrators{"counting": counting}, nil, func(own hub) {
		id := own.start("counting", []int{})
		for number := range 1000 {
			own.raise(id, "note", number)
		}
		same(output[[]int](own, id), upTo(1000), "the events")
	})
}

func lateResultsStayWithTheirExecution(s server) {
	slow := func(task.ActivityContext) (any, error) {
		time.Sleep(time.Second)
		return "late", nil
	}
	forgetful := func(ctx *task.OrchestrationContext) (any, error) {
		var round int
		if err := ctx.GetInput(&round); err != nil {
			return nil, err
		}
		if round == 0 {
			ctx.CallActivity("slow")
			if err := ctx.CreateTimer(100 * time.Millisecond).Await(nil); err != nil {
				return nil, err
			}
			ctx.ContinueAsNew(1)
			return nil, nil
		}
		err := ctx.CreateTimer(2 * time.Second).Await(nil)
		return "on time", err
	}
	s.running(orchestrators{"forgetful": forgetful}, activities{"slow": slow}, func(own hub) {
		same(output[string](own, own.start("forgetful", 0)), "on time", "the result")
	})
}

func childrenReportToTheirParent(s server) {
	child := func(ctx *task.OrchestrationContext) (any, error) {
		var number int
		if err := ctx.GetInput(&number); err != nil {
			return nil, err
		}
		switch {
		case number < 0:
			return nil, errors.New("negative")
		case number == 0:
			return nil, ctx.WaitForSingleEvent("never", -1).Await(nil)
		}
		return number, nil
	}
	parent := func(ctx *task.OrchestrationContext) (any, error) {
		var number int
		if err := ctx.GetInput(&number); err != nil {
			return nil, err
		}
		id := task.WithSubOrchestrationInstanceID(string(ctx.ID) + "-child")
		err := ctx.CallSubOrchestrator("child", task.WithSubOrchestratorInput(number), id).Await(&number)
		if err != nil {
			return err.Error(), nil
		}
		return number, nil
	}
	s.running(orchestrators{"parent": parent, "child": child}, nil, func(own hub) {
		same(output[int](own, own.start("parent", 7)), 7, "the result")
		failed := output[string](own, own.start("parent", -1))
		check(strings.Contains(failed, "negative"), "%q", failed)
		id := own.start("parent", 0)
		until("the child", func() bool {
			_, err := own.FetchOrchestrationMetadata(now, id+"-child")
			return !errors.Is(err, api.ErrInstanceNotFound)
		})
		must(own.TerminateOrchestration(now, id+"-child", api.WithOutput("enough")))
		check(output[string](own, id) != "", "the parent learns of it")
	})
}

func defaultIDsOfChildrenDoNotCollide(s server) {
	leaf := func(ctx *task.OrchestrationContext) (any, error) {
		var number int
		err := ctx.GetInput(&number)
		return number, err
	}
	generations := func(ctx *task.OrchestrationContext) (any, error) {
		var rounds, result int
		if err := ctx.GetInput(&rounds); err != nil {
			return nil, err
		}
		if err := ctx.CallSubOrchestrator("leaf", task.WithSubOrchestratorInput(rounds)).Await(&result); err != nil {
			return nil, err
		}
		if result == 0 {
			return "done", nil
		}
		ctx.ContinueAsNew(rounds - 1)
		return nil, nil
	}
	s.running(orchestrators{"generations": generations, "leaf": leaf}, nil, func(own hub) {
		same(output[string](own, own.start("generations", 5)), "done", "the result")
	})
}

var policy = &task.RetryPolicy{MaxAttempts: 4, InitialRetryInterval: 50 * time.Millisecond}

func retriesReuseTheActionID(s server) {
	var attempts atomic.Int32
	flaky := func(task.ActivityContext) (any, error) {
		number := attempts.Add(1)
		if number%3 != 0 {
			return nil, fmt.Errorf("attempt %d", number)
		}
		return number, nil
	}
	persistent := func(ctx *task.OrchestrationContext) (any, error) {
		var results []int
		for range 3 {
			var number int
			if err := ctx.CallActivity("flaky", task.WithActivityRetryPolicy(policy)).Await(&number); err != nil {
				return nil, err
			}
			results = append(results, number)
		}
		return results, nil
	}
	s.running(orchestrators{"persistent": persistent}, activities{"flaky": flaky}, func(own hub) {
		same(output[[]int](own, own.start("persistent", nil)), []int{3, 6, 9}, "the attempts")
	})
}

func aRetriedChildStartsAfresh(s server) {
	var attempts atomic.Int32
	child := func(*task.OrchestrationContext) (any, error) {
		if number := attempts.Add(1); number < 3 {
			return nil, fmt.Errorf("attempt %d", number)
		}
		return "third", nil
	}
	parent := func(ctx *task.OrchestrationContext) (any, error) {
		var result string
		id := task.WithSubOrchestrationInstanceID(string(ctx.ID) + "-again")
		err := ctx.CallSubOrchestrator("flaky_child", id, task.WithSubOrchestrationRetryPolicy(policy)).Await(&result)
		return result, err
	}
	s.running(orchestrators{"persistent_parent": parent, "flaky_child": child}, nil, func(own hub) {
		same(output[string](own, own.start("persistent_parent", nil)), "third", "the result")
	})
}

func customStatusFollows(s server) {
	narrator := func(ctx *task.OrchestrationContext) (any, error) {
		for _, text := range []string{`"one"`, `{"two":2}`} {
			ctx.SetCustomStatus(text)
			if err := ctx.WaitForSingleEvent("next", -1).Await(nil); err != nil {
				return nil, err
			}
		}
		return "end", nil
	}
	s.running(orchestrators{"narrator": narrator}, nil, func(own hub) {
		id := own.start("narrator", nil)
		for _, text := range []string{`"one"`, `{"two":2}`} {
			until(text, func() bool { return own.state(id).SerializedCustomStatus == text })
			own.raise(id, "next", nil)
		}
		same(output[string](own, id), "end", "the result")
	})
}

func delayedStartIsNotEarly(s server) {
	s.running(orchestrators{"simple": simple}, nil, func(own hub) {
		start := time.Now().Add(3 * time.Second)
		id := own.start("simple", 1, api.WithStartTime(start))
		same(own.state(id).RuntimeStatus, api.RUNTIME_STATUS_PENDING, "the status")
		output[int](own, id)
		check(!time.Now().Before(start), "it is early")
	})
}

func hubsDoNotSeeOneAnother(s server) {
	shared := fresh("shared")
	for _, name := range []string{"blue", "green"} {
		own := s.hub(name)
		defer own.conn.Close()
		defer own.work(orchestrators{"simple": simple}, nil)()
		_, err := own.FetchOrchestrationMetadata(now, shared)
		check(errors.Is(err, api.ErrInstanceNotFound), "%v", err)
		own.start("simple", name, api.WithInstanceID(shared))
		same(output[string](own, shared), name, "the result")
	}
	same(output[string](s.hub("blue"), shared), "blue", "the result")
}

func aRaceOfTimerAndEvent(s server) {
	racing := func(ctx *task.OrchestrationContext) (any, error) {
		var timeout time.Duration
		if err := ctx.GetInput(&timeout); err != nil {
			return nil, err
		}
		if errors.Is(ctx.WaitForSingleEvent("go", timeout).Await(nil), task.ErrTaskCanceled) {
			return "timer", nil
		}
		return "event", nil
	}
	s.running(orchestrators{"racing": racing}, nil, func(own hub) {
		id := own.start("racing", 30*time.Second)
		own.raise(id, "GO", 1)
		same(output[string](own, id), "event", "the winner")
		same(output[string](own, own.start("racing", 100*time.Millisecond)), "timer", "the winner")
	})
}

func manyAtOnce(s server) {
	s.running(orchestrators{"sequence": sequence}, activities{"double": double}, func(own hub) {
		ids := make([]api.InstanceID, 50)
		var group sync.WaitGroup
		for number := range ids {
			group.Go(func() { ids[number] = own.start("sequence", number) })
		}
		group.Wait()
		for number, id := range ids {
			same(output[int](own, id), number*32, "the result")
		}
	})
}

var orchestrationScenarios = []scenario{
	{"activities_in_sequence", activitiesInSequence},
	{"fan_out_of_a_thousand", fanOutOfAThousand},
	{"falsy_values_survive", falsyValuesSurvive},
	{"timers_fire_in_time", timersFireInTime},
	{"events_before_the_wait_are_kept", eventsBeforeTheWaitAreKept},
	{"a_thousand_events_across_continue_as_new", aThousandEventsAcrossContinueAsNew},
	{"late_results_stay_with_their_execution", lateResultsStayWithTheirExecution},
	{"children_report_to_their_parent", childrenReportToTheirParent},
	{"default_ids_of_children_do_not_collide", defaultIDsOfChildrenDoNotCollide},
	{"retries_reuse_the_action_id", retriesReuseTheActionID},
	{"a_retried_child_starts_afresh", aRetriedChildStartsAfresh},
	{"custom_status_follows", customStatusFollows},
	{"delayed_start_is_not_early", delayedStartIsNotEarly},
	{"hubs_do_not_see_one_another", hubsDoNotSeeOneAnother},
	{"a_race_of_timer_and_event", aRaceOfTimerAndEvent},
	{"many_at_once", manyAtOnce},
}
