package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs/v2/checkpoints"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
)

var (
	printing sync.Mutex
	printer  = json.NewEncoder(os.Stdout)
)

// Every line is JSON: what it owns, what it got, what it gave up.
func say(facts map[string]any) {
	printing.Lock()
	defer printing.Unlock()
	must(printer.Encode(facts))
}

// A processor that runs until its input ends. Options are JSON: hub, group, container,
// strategy, interval and expiry in seconds.
func process(s server, text string) {
	var options struct {
		Hub       string `json:"hub"`
		Group     string `json:"group"`
		Container string `json:"container"`
		Strategy  string `json:"strategy"`
		Interval  int    `json:"interval"`
		Expiry    int    `json:"expiry"`
	}
	must(json.Unmarshal([]byte(text), &options))
	if options.Strategy == "" {
		options.Strategy = string(azeventhubs.ProcessorStrategyGreedy)
	}
	blobs := value(container.NewClientFromConnectionString(s.blobs(s.AccountKey), options.Container, nil))
	store := value(checkpoints.NewBlobStore(blobs, nil))
	// Its blobs keep the case of names; those of other languages have lower case.
	client := withoutPort(s).consumer(strings.ToLower(options.Hub), strings.ToLower(options.Group))
	interval := time.Duration(options.Interval) * time.Second
	processor := value(azeventhubs.NewProcessor(client, store, &azeventhubs.ProcessorOptions{
		LoadBalancingStrategy:       azeventhubs.ProcessorStrategy(options.Strategy),
		UpdateInterval:              interval,
		PartitionExpirationDuration: time.Duration(options.Expiry) * time.Second,
		StartPositions:              azeventhubs.StartPositions{Default: earliest},
	}))
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	var group sync.WaitGroup
	group.Go(func() {
		for {
			own := processor.NextPartitionClient(ctx)
			if own == nil {
				return
			}
			group.Go(func() { follow(ctx, own) })
		}
	})
	if err := processor.Run(ctx); err != nil && ctx.Err() == nil {
		say(map[string]any{"error": err.Error()})
		os.Exit(1)
	}
	group.Wait()
	end(client)
	say(map[string]any{"left": true})
}

// The port stands apart: it would be part of the names of blobs, which processors of
// other languages leave out.
func withoutPort(s server) reach {
	own := plain(s)
	own.options.CustomEndpoint = fmt.Sprintf("localhost:%d", s.AMQP)
	own.text = s.text("localhost", s.Key) + ";UseDevelopmentEmulator=true"
	return own
}

// Handles events of a partition until another has it.
func follow(ctx context.Context, own *azeventhubs.ProcessorPartitionClient) {
	partition := own.PartitionID()
	say(map[string]any{"began": partition})
	reason := "left"
	for ctx.Err() == nil {
		// It waits for the whole count otherwise.
		soon, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		events, err := own.ReceiveEvents(soon, 100, nil)
		cancel()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			if ctx.Err() == nil {
				reason = err.Error()
			}
			break
		}
		for _, event := range events {
			say(map[string]any{"got": string(event.Body), "partition": partition, "sequence": event.SequenceNumber})
		}
		if len(events) == 0 {
			continue
		}
		if err := own.UpdateCheckpoint(ctx, events[len(events)-1], nil); err != nil {
			reason = err.Error()
			break
		}
		for _, event := range events {
			say(map[string]any{"kept": string(event.Body)})
		}
	}
	end(own)
	say(map[string]any{"ended": partition, "reason": reason})
}

// Sends an event a second to every partition until its input ends, and says which of them
// the server has acknowledged. Options are JSON: hub, partitions.
func sendNumbers(s server, text string) {
	var options struct {
		Hub        string `json:"hub"`
		Partitions int    `json:"partitions"`
	}
	must(json.Unmarshal([]byte(text), &options))
	producer := plain(s).producer(options.Hub)
	defer end(producer)
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		close(ended)
	}()
	pace := time.NewTicker(time.Second / time.Duration(options.Partitions))
	for number := 0; ; number++ {
		partition := fmt.Sprint(number % options.Partitions)
		text := fmt.Sprint("event ", number)
		batch := value(producer.NewEventDataBatch(now, &azeventhubs.EventDataBatchOptions{PartitionID: &partition}))
		must(batch.AddEventData(&azeventhubs.EventData{Body: []byte(text)}, nil))
		must(producer.SendEventDataBatch(now, batch, nil))
		say(map[string]any{"sent": text})
		select {
		case <-ended:
			return
		case <-pace.C:
		}
	}
}
