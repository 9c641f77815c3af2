package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/philippseith/signalr"
)

// How a client talks.
type talk struct {
	transport signalr.TransportType
	format    signalr.TransferFormatType
	// Query and token as a client of the hub `room` has them.
	address string
	token   string
}

// What the server may call.
type receiver struct {
	signalr.Receiver
	told chan any
}

func newReceiver() *receiver {
	return &receiver{told: make(chan any, 100)}
}

func (r *receiver) Told(value any) {
	r.told <- value
}

func (r *receiver) next() string {
	select {
	case value := <-r.told:
		return fmt.Sprint(value)
	case <-time.After(patience):
		panic("nothing was told")
	}
}

// One that has an answer as well.
type answering struct {
	*receiver
}

func (answering) Name() string {
	return "Bob"
}

// One that fails to answer.
type failing struct {
	*receiver
}

func (failing) Name() string {
	panic("I will not say")
}

type silent struct{}

func (silent) Log(...any) error {
	return nil
}

// Sends the token with every request: by its own options this client leaves it out of
// what it posts beside server-sent events.
type bearer struct {
	token string
}

func (b bearer) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Authorization", "Bearer "+b.token)
	return http.DefaultTransport.RoundTrip(request)
}

func (t talk) connect(ctx context.Context) (signalr.Connection, error) {
	transport := signalr.WithTransports(t.transport)
	switch {
	case t.token == "":
		return signalr.NewHTTPConnection(ctx, t.address, transport)
	case t.transport == signalr.TransportServerSentEvents:
		client := &http.Client{Transport: bearer{t.token}}
		return signalr.NewHTTPConnection(ctx, t.address, transport, signalr.WithHTTPClient(client))
	}
	headers := signalr.WithHTTPHeaders(func() http.Header {
		return http.Header{"Authorization": []string{"Bearer " + t.token}}
	})
	return signalr.NewHTTPConnection(ctx, t.address, transport, headers)
}

func (t talk) client(target any, options ...func(signalr.Party) error) signalr.Client {
	connector := signalr.WithConnector(func() (signalr.Connection, error) { return t.connect(now) })
	all := append([]func(signalr.Party) error{
		connector, signalr.WithReceiver(target), signalr.TransferFormat(t.format), signalr.Logger(silent{}, false),
	}, options...)
	client := value(signalr.NewClient(now, all...))
	client.Start()
	ctx, cancel := soon()
	defer cancel()
	must(<-client.WaitForState(ctx, signalr.ClientConnected))
	return client
}

func room(s server, transport signalr.TransportType, format signalr.TransferFormatType) talk {
	return talk{transport, format, s.URL + "/client/?hub=room&colour=blue", s.Token}
}

// The client hands on the value and the error as two results, in either order.
func invoke(client signalr.Client, method string, values ...any) (any, error) {
	var answer signalr.InvokeResult
	results, late := client.Invoke(method, values...), time.After(patience)
	for {
		select {
		case result, more := <-results:
			if !more {
				return answer.Value, answer.Error
			}
			if result.Value != nil {
				answer.Value = result.Value
			}
			if result.Error != nil {
				answer.Error = result.Error
			}
		case <-late:
			return nil, errors.New("no answer to " + method)
		}
	}
}

// Numbers have another type by each protocol.
func answers(client signalr.Client, expected any, method string, values ...any) {
	same(fmt.Sprint(value(invoke(client, method, values...))), fmt.Sprint(expected), method)
}

func items(stream <-chan signalr.InvokeResult) ([]string, error) {
	var found []string
	for {
		select {
		case item, isMore := <-stream:
			if !isMore {
				return found, nil
			}
			if item.Error != nil {
				return found, item.Error
			}
			found = append(found, fmt.Sprint(item.Value))
		case <-time.After(patience):
			return found, errors.New("the stream does not end")
		}
	}
}

func everything(t talk, other talk) {
	own, beside := newReceiver(), newReceiver()
	client, second := t.client(answering{own}), other.client(beside)
	calls(t, client, own)
	streams(client)
	asks(t, client)
	for _, each := range []signalr.Client{client, second} {
		value(invoke(each, "enter", "g"))
	}
	for _, text := range []string{"first", "second"} {
		value(invoke(client, "tell_others", "g", text))
		same(beside.next(), text, "a group")
	}
	value(invoke(client, "tell_all", "everybody"))
	same(own.next()+beside.next(), "everybodyeverybody", "all")
	if t.format == signalr.TransferFormatBinary {
		all := allBytes(1)
		same(value(invoke(client, "echo_bytes", all)), any(all), "all bytes")
	}
	second.Stop()
	client.Stop()
	same(client.State(), signalr.ClientClosed, "the end")
}

func calls(t talk, client signalr.Client, own *receiver) {
	answers(client, 42, "Add", 40, 2)
	answers(client, nil, "nothing")
	found := fmt.Sprint(value(invoke(client, "who")))
	check(strings.HasPrefix(found, "[alice ?") && strings.Contains(found, "colour=blue"), "%s", found)
	for method, words := range map[string]string{"fail": "HubException: as you wish", "missing": "Method does not exist"} {
		arguments := []any{}
		if method == "fail" {
			arguments = append(arguments, true)
		}
		_, err := invoke(client, method, arguments...)
		refused(err, words)
	}
	_, err := invoke(client, "fail", false)
	refused(err, "invoking 'fail' on the server.")
	text := strings.Repeat("x", 20_000) + "äöü\n€"
	if t.transport == signalr.TransportServerSentEvents {
		// This client loses the second part of what it does not read at once.
		text = "äöü\n€"
	}
	answers(client, text, "echo_text", text)
	for number := range 3 {
		if err := <-client.Send("tell_me", number); err != nil {
			panic(err)
		}
		same(own.next(), fmt.Sprint(number), "sends in order")
	}
}

func streams(client signalr.Client) {
	same(value(items(client.PullStream("count", 5, false))), []string{"0", "1", "2", "3", "4"}, "a stream")
	_, err := items(client.PullStream("count", 2, true))
	refused(err, "HubException: enough")
	_, err = items(client.PullStream("Add", 1, 2))
	refused(err, "is not a stream")
	upload := make(chan int)
	go func() {
		defer close(upload)
		for number := range 50 {
			upload <- number + 1
		}
	}()
	result := client.PushStreams("total", 10, upload)
	select {
	case total := <-result:
		must(total.Error)
		same(fmt.Sprint(total.Value), "12750", "an upload")
	case <-time.After(patience):
		panic("no total")
	}
}

func asks(t talk, client signalr.Client) {
	answers(client, "it is Bob", "ask")
	for _, target := range []any{failing{newReceiver()}, newReceiver()} {
		other := t.client(target)
		_, err := invoke(other, "ask")
		refused(err, "invoking 'ask' on the server.")
		other.Stop()
	}
}

func kind(transport signalr.TransportType, format signalr.TransferFormatType) func(server) {
	return func(s server) {
		elsewhere := s
		elsewhere.URL = s.Other
		everything(room(s, transport, format), room(elsewhere, transport, signalr.TransferFormatText))
	}
}

func wrongToken(s server) {
	wrong := s
	wrong.Token += "x"
	for _, transport := range []signalr.TransportType{signalr.TransportWebSockets, signalr.TransportServerSentEvents} {
		_, err := room(wrong, transport, signalr.TransferFormatText).connect(now)
		refused(err, "401")
	}
}

func otherHub(s server) {
	wrong := s
	wrong.Token = s.OtherToken
	_, err := room(wrong, signalr.TransportWebSockets, signalr.TransferFormatText).connect(now)
	refused(err, "403")
}

// A server that says so makes the client come back. One that does not should end it,
// but this client reads the end of the socket in another goroutine than the message: what
// comes first decides.
func comesBackWhenItMay(s server) {
	for _, format := range []signalr.TransferFormatType{signalr.TransferFormatText, signalr.TransferFormatBinary} {
		var connections atomic.Int32
		talk := room(s, signalr.TransportWebSockets, format)
		soonAgain := signalr.WithBackoff(func() backoff.BackOff { return backoff.NewConstantBackOff(50 * time.Millisecond) })
		client := value(signalr.NewClient(now, soonAgain, signalr.TransferFormat(format), signalr.Logger(silent{}, false),
			signalr.WithConnector(func() (signalr.Connection, error) {
				connections.Add(1)
				return talk.connect(now)
			})))
		client.Start()
		value(invoke(client, "who"))
		<-client.Send("end_me", true)
		until("it comes back", func() bool { return connections.Load() == 2 && client.State() == signalr.ClientConnected })
		answers(client, 3, "Add", 1, 2)
		client.Stop()
		same(client.State(), signalr.ClientClosed, "the end")
	}
}

// An open hub by its own path, without a token: whatever transport the client takes by
// itself, and server-sent events.
func openHub(s server) {
	own := newReceiver()
	address := s.URL + "/open"
	first := value(signalr.NewClient(now, signalr.WithHttpConnection(now, address), signalr.WithReceiver(own), signalr.Logger(silent{}, false)))
	first.Start()
	answers(first, 3, "Add", 1, 2)
	first.Stop()
	events := talk{signalr.TransportServerSentEvents, signalr.TransferFormatText, address, ""}.client(own)
	answers(events, 3, "Add", 1, 2)
	must(<-events.Send("tell_me", 7))
	same(own.next(), "7", "what was told")
	events.Stop()
}

// A client of an app server's hub, which has an answer and notes what it is told.
type farReceiver struct {
	answering
}

func (r farReceiver) Tick(value any) {
	r.told <- value
}

// An app server's hub at two nodes: calls, sends in order, and a client's result.
func appServer(s server) {
	for _, transport := range []signalr.TransportType{signalr.TransportWebSockets, signalr.TransportServerSentEvents} {
		far := func(url string) talk {
			return talk{transport, signalr.TransferFormatText, url + "/client/?hub=far", s.Token}
		}
		// Only a connection knows its id.
		var id string
		keepsID := signalr.WithConnector(func() (signalr.Connection, error) {
			connection, err := far(s.Other).connect(now)
			if err == nil {
				id = connection.ConnectionID()
			}
			return connection, err
		})
		own := farReceiver{answering{newReceiver()}}
		one, other := far(s.URL).client(newReceiver()), far(s.Other).client(own, keepsID)
		answers(one, "hi", "echo", "hi")
		for number := 1; number <= 3; number++ {
			value(invoke(one, "shout", number))
			same(own.next(), fmt.Sprint(number), "what all are told")
		}
		answers(one, "Bob", "ask", id)
		one.Stop()
		other.Stop()
	}
}

// A client of an app server's hub comes back by itself when its node leaves, wherever its
// way leads then. The test makes the node leave when the client says that it is here.
func comesBackFromNode(s server) {
	var connections atomic.Int32
	far := talk{signalr.TransportWebSockets, signalr.TransferFormatText, s.URL + "/client/?hub=far", s.Token}
	soonAgain := signalr.WithBackoff(func() backoff.BackOff { return backoff.NewConstantBackOff(200 * time.Millisecond) })
	client := value(signalr.NewClient(now, soonAgain, signalr.Logger(silent{}, false),
		signalr.WithConnector(func() (signalr.Connection, error) {
			connection, err := far.connect(now)
			if err == nil {
				connections.Add(1)
			}
			return connection, err
		})))
	client.Start()
	answers(client, "here", "echo", "here")
	fmt.Println("here")
	until("it comes back", func() bool { return connections.Load() >= 2 && client.State() == signalr.ClientConnected })
	answers(client, "again", "echo", "again")
	client.Stop()
}

// Scenarios that need a test that acts while they run.
var ledScenarios = []scenario{
	{"comes_back_from_node", comesBackFromNode},
}

var signalrScenarios = []scenario{
	{"web_sockets_json", kind(signalr.TransportWebSockets, signalr.TransferFormatText)},
	{"web_sockets_packed", kind(signalr.TransportWebSockets, signalr.TransferFormatBinary)},
	{"events_json", kind(signalr.TransportServerSentEvents, signalr.TransferFormatText)},
	{"wrong_token", wrongToken},
	{"other_hub", otherHub},
	{"comes_back_when_it_may", comesBackWhenItMay},
	{"open_hub", openHub},
	{"app_server", appServer},
}

// What the server tells a client of a chat is printed.
type chatReceiver struct {
	signalr.Receiver
}

func (chatReceiver) Told(text string) {
	fmt.Println("told", text)
}

// A client that talks to all others: it says when it is connected, sends each line of its
// input to all clients of the hub, and prints what it receives, until its input ends.
func chat(s server) {
	client := room(s, signalr.TransportWebSockets, signalr.TransferFormatText).client(&chatReceiver{})
	fmt.Println("connected")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		value(invoke(client, "tell_all", lines.Text()))
	}
	client.Stop()
}
