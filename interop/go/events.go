package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs/v2"
	"github.com/coder/websocket"
)

// How long anything may take before a scenario fails.
const patience = 30 * time.Second

// Key, and its partition of 16.
var vectors = map[string]int{
	"a":                        12,
	"alphabet":                 6,
	"pk1":                      13,
	"house-42":                 15,
	"house-99999":              3,
	"123456789012":             5,
	"1234567890123":            10,
	"abcdefghijklmnopqrstuvwx": 4,
	"Straße":                   14,
	"partition-key-that-is-longer-than-24-bytes": 5,
}

var (
	earliest = azeventhubs.StartPosition{Earliest: to.Ptr(true)}
	noRetry  = azeventhubs.RetryOptions{MaxRetries: -1}
)

func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), patience)
}

// How a client reaches the server.
type reach struct {
	text    string
	options azeventhubs.ProducerClientOptions
}

func plain(s server) reach {
	return reach{text: s.connectionString(s.Key)}
}

func (r reach) once() reach {
	r.options.RetryOptions = noRetry
	return r
}

func (r reach) producer(hub string) *azeventhubs.ProducerClient {
	return value(azeventhubs.NewProducerClientFromConnectionString(r.text, hub, &r.options))
}

func (r reach) consumer(hub, group string) *azeventhubs.ConsumerClient {
	options := azeventhubs.ConsumerClientOptions{
		CustomEndpoint:   r.options.CustomEndpoint,
		NewWebSocketConn: r.options.NewWebSocketConn,
		RetryOptions:     r.options.RetryOptions,
		TLSConfig:        r.options.TLSConfig,
	}
	return value(azeventhubs.NewConsumerClientFromConnectionString(r.text, hub, group, &options))
}

type closer interface {
	Close(ctx context.Context) error
}

func end(client closer) {
	ctx, cancel := soon()
	defer cancel()
	err := client.Close(ctx)
	// The library for WebSockets says this when the other end has said goodbye.
	if err != nil && !errors.Is(err, io.EOF) {
		panic(err)
	}
}

// So many events of a partition, from a position on.
func (r reach) read(hub, partition string, options azeventhubs.PartitionClientOptions, count int) ([]*azeventhubs.ReceivedEventData, error) {
	client := r.consumer(hub, azeventhubs.DefaultConsumerGroup)
	defer end(client)
	own, err := client.NewPartitionClient(partition, &options)
	if err != nil {
		return nil, err
	}
	defer end(own)
	ctx, cancel := soon()
	defer cancel()
	var events []*azeventhubs.ReceivedEventData
	for len(events) < count {
		some, err := own.ReceiveEvents(ctx, count-len(events), nil)
		if err != nil {
			return events, fmt.Errorf("%d of %d: %w", len(events), count, err)
		}
		events = append(events, some...)
	}
	return events, nil
}

func readAll(s server, hub, partition string, count int) []*azeventhubs.ReceivedEventData {
	return value(plain(s).read(hub, partition, azeventhubs.PartitionClientOptions{StartPosition: earliest}, count))
}

func bodies(events []*azeventhubs.ReceivedEventData) []string {
	var texts []string
	for _, event := range events {
		texts = append(texts, string(event.Body))
	}
	return texts
}

// Sends texts as one batch.
func sendBatch(client *azeventhubs.ProducerClient, options *azeventhubs.EventDataBatchOptions, texts ...string) error {
	ctx, cancel := soon()
	defer cancel()
	batch, err := client.NewEventDataBatch(ctx, options)
	if err != nil {
		return err
	}
	for _, text := range texts {
		if err := batch.AddEventData(&azeventhubs.EventData{Body: []byte(text)}, nil); err != nil {
			return err
		}
	}
	return client.SendEventDataBatch(ctx, batch, nil)
}

func (r reach) send(hub, partition string, texts ...string) {
	client := r.producer(hub)
	defer end(client)
	must(sendBatch(client, &azeventhubs.EventDataBatchOptions{PartitionID: &partition}, texts...))
}

func numbers(count int) []string {
	var texts []string
	for number := range count {
		texts = append(texts, fmt.Sprint(number))
	}
	return texts
}

func last(client *azeventhubs.ProducerClient, partition string) int64 {
	ctx, cancel := soon()
	defer cancel()
	return value(client.GetPartitionProperties(ctx, partition, nil)).LastEnqueuedSequenceNumber
}

func properties(s server) {
	client := plain(s).producer("HOUSES")
	defer end(client)
	ctx, cancel := soon()
	defer cancel()
	found := value(client.GetEventHubProperties(ctx, nil))
	same(found.Name, "houses", "the name")
	same(found.PartitionIDs, []string{"0", "1", "2", "3"}, "the partitions")
	age := time.Since(found.CreatedOn)
	check(age >= 0 && age < time.Hour, "it is %s old", age)
	check(!found.GeoReplicationEnabled, "there is no other region")
	empty := value(client.GetPartitionProperties(ctx, "3", nil))
	check(empty.IsEmpty, "%+v", empty)
	same(empty.LastEnqueuedSequenceNumber, int64(-1), "the last number")
	same(empty.LastEnqueuedOffset, "-1", "the last offset")
	same(empty.PartitionID, "3", "the partition")
	other := plain(s).consumer("houses", "second")
	defer end(other)
	same(value(other.GetEventHubProperties(ctx, nil)).PartitionIDs, found.PartitionIDs, "the partitions")
}

func manyConnections(s server) {
	var group sync.WaitGroup
	var next atomic.Int32
	for range 32 {
		group.Go(func() {
			for next.Add(1) <= 1000 {
				client := plain(s).once().producer("houses")
				ctx, cancel := soon()
				value(client.GetEventHubProperties(ctx, nil))
				cancel()
				end(client)
			}
		})
	}
	group.Wait()
}

func batchOf500(s server) {
	plain(s).send("houses", "0", numbers(500)...)
	events := readAll(s, "houses", "0", 500)
	same(bodies(events), numbers(500), "the bodies")
	for number, event := range events {
		same(event.SequenceNumber, int64(number), "the number")
		check(event.Offset != "" && event.EnqueuedTime != nil, "%+v", event)
	}
}

// This client sends batches only; one of a single event is stored as an event.
func batchOfOne(s server) {
	plain(s).send("houses", "1", "same")
	plain(s).send("houses", "1", "same", "same")
	events := readAll(s, "houses", "1", 3)
	same(bodies(events), []string{"same", "same", "same"}, "the bodies")
	same(events[0].Properties, events[1].Properties, "the properties")
	same(events[0].PartitionKey, events[1].PartitionKey, "the key")
}

func sendsReturnAtOnce(s server) {
	client := plain(s).producer("houses")
	defer end(client)
	must(sendBatch(client, nil, "first"))
	started := time.Now()
	for range 20 {
		must(sendBatch(client, nil, "x"))
	}
	check(time.Since(started) < 5*time.Second, "it took %s", time.Since(started))
}

func keyedSends(s server) {
	client := plain(s).producer("keys")
	defer end(client)
	for key, number := range vectors {
		partition := fmt.Sprint(number)
		before := last(client, partition)
		must(sendBatch(client, &azeventhubs.EventDataBatchOptions{PartitionKey: &key}, key))
		same(last(client, partition), before+1, key)
	}
	event := readAll(s, "keys", "15", 1)[0]
	same(*event.PartitionKey, "house-42", "the key")
}

func keylessSendsSpreadEvenly(s server) {
	client := plain(s).producer("even")
	defer end(client)
	for range 40 {
		must(sendBatch(client, nil, "x"))
	}
	var counts []int64
	for number := range 4 {
		counts = append(counts, last(client, fmt.Sprint(number))+1)
	}
	same(counts, []int64{10, 10, 10, 10}, "the counts")
}

func typedProperties(s server) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	sent := azeventhubs.EventData{
		Body:          []byte{0, 1, 254, 255},
		ContentType:   to.Ptr("application/octet-stream"),
		MessageID:     to.Ptr("m-1"),
		CorrelationID: "c-1",
		Properties: map[string]any{
			"text": "Straße", "whole": int64(1 << 40), "small": int32(-7), "real": 1.5, "yes": true, "time": now,
		},
	}
	client := plain(s).producer("typed")
	defer end(client)
	ctx, cancel := soon()
	defer cancel()
	batch := value(client.NewEventDataBatch(ctx, nil))
	must(batch.AddEventData(&sent, nil))
	must(client.SendEventDataBatch(ctx, batch, nil))
	found := readAll(s, "typed", "0", 1)[0]
	same(found.Body, sent.Body, "the body")
	same(found.Properties["time"].(time.Time).UTC(), now, "the time")
	found.Properties["time"] = now
	same(found.Properties, sent.Properties, "the properties")
	same(*found.ContentType, "application/octet-stream", "the type")
	same(*found.MessageID, "m-1", "the id")
	same(found.CorrelationID, any("c-1"), "the other id")
}

func everyKindOfPosition(s server) {
	for number := range 3 {
		plain(s).send("positions", "0", fmt.Sprintf("%d-a", number), fmt.Sprintf("%d-b", number))
		// Each pair has a millisecond of its own.
		time.Sleep(20 * time.Millisecond)
	}
	all := readAll(s, "positions", "0", 6)
	third := all[2]
	before := third.EnqueuedTime.Add(-time.Millisecond)
	cases := []struct {
		start azeventhubs.StartPosition
		first int
	}{
		{azeventhubs.StartPosition{Offset: &third.Offset}, 3},
		{azeventhubs.StartPosition{Offset: &third.Offset, Inclusive: true}, 2},
		{azeventhubs.StartPosition{SequenceNumber: &third.SequenceNumber}, 3},
		{azeventhubs.StartPosition{SequenceNumber: &third.SequenceNumber, Inclusive: true}, 2},
		{azeventhubs.StartPosition{EnqueuedTime: &before}, 2},
		{azeventhubs.StartPosition{EnqueuedTime: third.EnqueuedTime, Inclusive: true}, 2},
		{earliest, 0},
	}
	for _, each := range cases {
		for _, prefetch := range []int32{0, -1} {
			options := azeventhubs.PartitionClientOptions{StartPosition: each.start, Prefetch: prefetch}
			events := value(plain(s).read("positions", "0", options, 6-each.first))
			same(bodies(events), bodies(all)[each.first:], fmt.Sprintf("%+v", each.start))
		}
	}
}

func latestSeesWhatComes(s server) {
	plain(s).send("positions", "0", "before")
	// The default is the end.
	for _, start := range []azeventhubs.StartPosition{{}, {Latest: to.Ptr(true)}} {
		done := make(chan []*azeventhubs.ReceivedEventData, 1)
		go func() {
			options := azeventhubs.PartitionClientOptions{StartPosition: start}
			done <- value(plain(s).read("positions", "0", options, 1))
		}()
		isDone := false
		for !isDone {
			select {
			case events := <-done:
				same(bodies(events), []string{"late"}, "the bodies")
				isDone = true
			case <-time.After(200 * time.Millisecond):
				plain(s).send("positions", "0", "late")
			}
		}
	}
}

func beyondTheEnd(s server) {
	start := azeventhubs.StartPosition{Offset: to.Ptr("99999999")}
	_, err := plain(s).once().read("positions", "0", azeventhubs.PartitionClientOptions{StartPosition: start}, 1)
	refused(err, "The supplied offset '99999999' is invalid")
}

func tooLarge(s server) {
	client := plain(s).once().producer("large")
	defer end(client)
	ctx, cancel := soon()
	defer cancel()
	batch := value(client.NewEventDataBatch(ctx, nil))
	must(batch.AddEventData(&azeventhubs.EventData{Body: make([]byte, 1_047_000)}, nil))
	err := batch.AddEventData(&azeventhubs.EventData{Body: make([]byte, 2_000)}, nil)
	check(errors.Is(err, azeventhubs.ErrEventDataTooLarge), "%v", err)
	must(client.SendEventDataBatch(ctx, batch, nil))
	_, err = client.NewEventDataBatch(ctx, &azeventhubs.EventDataBatchOptions{MaxBytes: 1_048_577})
	refused(err, "maximum size allowed by link (1048576)")
	must(sendBatch(client, nil, "again"))
	same(string(readAll(s, "large", "0", 2)[1].Body), "again", "the body")
}

func unknownEventHub(s server) {
	client := plain(s).once().producer("nowhere")
	defer end(client)
	ctx, cancel := soon()
	defer cancel()
	words := "The messaging entity 'nowhere' could not be found"
	_, err := client.GetEventHubProperties(ctx, nil)
	refused(err, words)
	_, err = client.NewEventDataBatch(ctx, nil)
	refused(err, words)
	_, err = plain(s).once().read("nowhere", "0", azeventhubs.PartitionClientOptions{}, 1)
	refused(err, words)
}

func unknownPartition(s server) {
	client := plain(s).once().producer("houses")
	defer end(client)
	ctx, cancel := soon()
	defer cancel()
	words := "The specified partition is invalid"
	for _, partition := range []string{"4", "XYZ", "-1"} {
		_, err := client.GetPartitionProperties(ctx, partition, nil)
		refused(err, words)
		refused(sendBatch(client, &azeventhubs.EventDataBatchOptions{PartitionID: &partition}, "x"), words)
		_, err = plain(s).once().read("houses", partition, azeventhubs.PartitionClientOptions{StartPosition: earliest}, 1)
		refused(err, words)
	}
}

func annotatedMessages(s server) {
	client := plain(s).producer("typed")
	defer end(client)
	ctx, cancel := soon()
	defer cancel()
	batch := value(client.NewEventDataBatch(ctx, &azeventhubs.EventDataBatchOptions{PartitionID: to.Ptr("0")}))
	messages := []azeventhubs.AMQPAnnotatedMessage{
		{
			Body:                azeventhubs.AMQPAnnotatedMessageBody{Data: [][]byte{[]byte("full "), []byte("data")}},
			Header:              &azeventhubs.AMQPAnnotatedMessageHeader{Durable: true, Priority: 7},
			DeliveryAnnotations: map[any]any{"hop": "one"},
			MessageAnnotations:  map[any]any{"mine": "annotation"},
			Footer:              map[any]any{"sum": "two"},
			Properties:          &azeventhubs.AMQPAnnotatedMessageProperties{Subject: to.Ptr("subject"), GroupSequence: to.Ptr[uint32](3)},
		},
		{Body: azeventhubs.AMQPAnnotatedMessageBody{Value: "a value"}},
		{Body: azeventhubs.AMQPAnnotatedMessageBody{Sequence: [][]any{{"one", int64(2)}}}},
	}
	for _, message := range messages {
		must(batch.AddAMQPAnnotatedMessage(&message, nil))
	}
	must(client.SendEventDataBatch(ctx, batch, nil))
	events := readAll(s, "typed", "0", 3)
	raw := events[0].RawAMQPMessage
	same(raw.Body.Data, [][]byte{[]byte("full "), []byte("data")}, "the body")
	check(raw.Header.Durable && raw.Header.Priority == 7, "%+v", raw.Header)
	same(raw.DeliveryAnnotations["hop"], any("one"), "an annotation")
	same(raw.MessageAnnotations["mine"], any("annotation"), "another")
	same(raw.Footer, map[any]any{"sum": "two"}, "the footer")
	same(*raw.Properties.Subject, "subject", "the subject")
	same(*raw.Properties.GroupSequence, uint32(3), "the number in the group")
	same(events[1].RawAMQPMessage.Body.Value, any("a value"), "the value")
	same(events[2].RawAMQPMessage.Body.Sequence, [][]any{{"one", int64(2)}}, "the sequence")
}

func isCode(err error, code azeventhubs.ErrorCode) bool {
	var own *azeventhubs.Error
	return errors.As(err, &own) && own.Code == code
}

func badKey(s server) {
	wrong := reach{text: s.connectionString("wrong")}.once()
	client := wrong.producer("houses")
	defer end(client)
	err := sendBatch(client, nil, "x")
	check(isCode(err, azeventhubs.ErrorCodeUnauthorizedAccess), "%v", err)
	refused(err, "STF-6003")
}

func stolenByOwnerLevel(s server) {
	plain(s).send("epochs", "0", "x")
	ctx, cancel := soon()
	defer cancel()
	open := func(r reach, level int64) (*azeventhubs.ConsumerClient, *azeventhubs.PartitionClient) {
		client := r.consumer("epochs", azeventhubs.DefaultConsumerGroup)
		options := azeventhubs.PartitionClientOptions{StartPosition: earliest, OwnerLevel: &level}
		return client, value(client.NewPartitionClient("0", &options))
	}
	older, first := open(plain(s), 1)
	defer end(older)
	same(bodies(value(first.ReceiveEvents(ctx, 1, nil))), []string{"x"}, "the first")
	newer, second := open(plain(s), 2)
	defer end(newer)
	same(bodies(value(second.ReceiveEvents(ctx, 1, nil))), []string{"x"}, "the second")
	_, err := first.ReceiveEvents(ctx, 1, nil)
	check(isCode(err, azeventhubs.ErrorCodeOwnershipLost), "%v", err)
	refused(err, "with higher epoch of '2'")
	// A lower level is refused, and the owner goes on.
	late, third := open(plain(s).once(), 1)
	defer end(late)
	_, err = third.ReceiveEvents(ctx, 1, nil)
	check(isCode(err, azeventhubs.ErrorCodeOwnershipLost), "%v", err)
	refused(err, "with a higher epoch '2' already exists")
	plain(s).send("epochs", "0", "y")
	same(bodies(value(second.ReceiveEvents(ctx, 1, nil))), []string{"y"}, "the owner")
}

func sendAndRead(s server) {
	client := plain(s).producer("houses")
	defer end(client)
	start := last(client, "2")
	plain(s).send("houses", "2", numbers(100)...)
	plain(s).send("houses", "2", "last")
	options := azeventhubs.PartitionClientOptions{StartPosition: azeventhubs.StartPosition{SequenceNumber: &start}}
	if start < 0 {
		options.StartPosition = earliest
	}
	events := value(plain(s).read("houses", "2", options, 101))
	same(bodies(events), append(numbers(100), "last"), "the bodies")
	same(events[0].SequenceNumber, start+1, "the first number")
}

func parallelSendersKeepOrder(s server) {
	var group sync.WaitGroup
	for name := range 8 {
		group.Go(func() {
			client := plain(s).producer("houses")
			defer end(client)
			for number := range 20 {
				text := fmt.Sprintf("%d %d", name, number)
				must(sendBatch(client, &azeventhubs.EventDataBatchOptions{PartitionID: to.Ptr("1")}, text))
			}
		})
	}
	group.Wait()
	next := map[string]int{}
	for number, event := range readAll(s, "houses", "1", 160) {
		same(event.SequenceNumber, int64(number), "the number")
		name, rest, _ := strings.Cut(string(event.Body), " ")
		same(rest, fmt.Sprint(next[name]), "the order of "+name)
		next[name]++
	}
}

func (r reach) both(partition, text string) {
	r.send("houses", partition, text)
	options := azeventhubs.PartitionClientOptions{StartPosition: earliest}
	same(bodies(value(r.read("houses", partition, options, 1))), []string{text}, "the body")
}

func overTLS(s server) {
	port := fmt.Sprintf("localhost:%d", s.AMQPS)
	custom := azeventhubs.ProducerClientOptions{TLSConfig: s.trust(), CustomEndpoint: port}
	reach{text: s.text("localhost", s.Key), options: custom}.both("1", "custom")
	// With a port in its connection string the client looks for a certificate of host and
	// port, unless it gets the name to look for.
	named := s.trust()
	named.ServerName = "localhost"
	reach{text: s.text(port, s.Key), options: azeventhubs.ProducerClientOptions{TLSConfig: named}}.both("2", "tls")
}

func overWebSocket(s server) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: s.trust()}}
	dial := func(ctx context.Context, params azeventhubs.WebSocketConnParams) (net.Conn, error) {
		options := &websocket.DialOptions{Subprotocols: []string{"amqp"}, HTTPClient: client}
		socket, _, err := websocket.Dial(ctx, params.Host, options)
		if err != nil {
			return nil, err
		}
		return websocket.NetConn(context.Background(), socket, websocket.MessageBinary), nil
	}
	host := fmt.Sprintf("localhost:%d", s.HTTPS)
	options := azeventhubs.ProducerClientOptions{NewWebSocketConn: dial}
	reach{text: s.text(host, s.Key), options: options}.both("3", "web socket")
}

var eventScenarios = []scenario{
	{"properties", properties},
	{"many_connections", manyConnections},
	{"batch_of_500", batchOf500},
	{"batch_of_one", batchOfOne},
	{"sends_return_at_once", sendsReturnAtOnce},
	{"keyed_sends", keyedSends},
	{"keyless_sends_spread_evenly", keylessSendsSpreadEvenly},
	{"typed_properties", typedProperties},
	{"every_kind_of_position", everyKindOfPosition},
	{"latest_sees_what_comes", latestSeesWhatComes},
	{"beyond_the_end", beyondTheEnd},
	{"too_large", tooLarge},
	{"unknown_event_hub", unknownEventHub},
	{"unknown_partition", unknownPartition},
	{"annotated_messages", annotatedMessages},
	{"bad_key", badKey},
	{"stolen_by_owner_level", stolenByOwnerLevel},
	{"send_and_read", sendAndRead},
	{"parallel_senders_keep_order", parallelSendersKeepOrder},
	{"over_tls", overTLS},
	{"over_websocket", overWebSocket},
}
