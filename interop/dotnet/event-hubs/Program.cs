// Sends events, reads partitions over and over, and lets two processors share them by
// blobs. Processors that balance lose some partitions at the start, and none later.

using System.Collections.Concurrent;
using Azure.Messaging.EventHubs;
using Azure.Messaging.EventHubs.Consumer;
using Azure.Messaging.EventHubs.Processor;
using Azure.Messaging.EventHubs.Producer;
using Azure.Storage.Blobs;

const string Hub = "houses";
const int Count = 100;
const int Reads = 50;
const int Settled = 8;

string Setting(string name) =>
    Environment.GetEnvironmentVariable(name) ?? throw new InvalidOperationException($"{name} is not set");

var container = new BlobContainerClient(Setting("BLOBS"), "dotnet-checkpoints");
await container.CreateIfNotExistsAsync();

var run = Guid.NewGuid().ToString("N");
await using (var producer = new EventHubProducerClient(Setting("EVENTS"), Hub))
{
    for (var number = 0; number < Count; number += 1)
    {
        var options = new CreateBatchOptions { PartitionKey = $"house-{number}" };
        using var batch = await producer.CreateBatchAsync(options);
        if (!batch.TryAdd(new EventData($"{run} {number}")))
        {
            throw new InvalidOperationException("an event does not fit into a batch");
        }
        await producer.SendAsync(batch);
    }
}

var missed = await ReadRepeatedlyAsync();
if (missed > 0)
{
    Console.Error.WriteLine($"{missed} of {Reads} reads of a partition with events brought none");
    return 1;
}

var losses = 0;
var seen = new ConcurrentDictionary<string, string>();
var troubles = new ConcurrentBag<string>();
var processors = Enumerable.Range(0, 2).Select(_ => Processor()).ToList();
foreach (var processor in processors)
{
    await processor.StartProcessingAsync();
}
var limit = DateTime.UtcNow.AddMinutes(2);
while (seen.Count < Count && DateTime.UtcNow < limit)
{
    await Task.Delay(100);
}

// Ownerships are renewed several times by then.
await Task.Delay(TimeSpan.FromSeconds(10));
var lost = Volatile.Read(ref losses);
foreach (var processor in processors)
{
    await processor.StopProcessingAsync();
}
var owners = seen.Values.Distinct().Count();
if (seen.Count < Count)
{
    Console.Error.WriteLine($"{seen.Count} of {Count} events came; {string.Join("; ", troubles)}");
    return 1;
}
if (lost > Settled)
{
    Console.Error.WriteLine($"{lost} partitions were lost: the processors steal from one another");
    return 1;
}
Console.WriteLine($"ok: {Count} events by {owners} processors, {lost} ownerships lost, {Reads} reads");
return 0;

// Each read opens a link of its own, and takes the first event of a partition.
async Task<int> ReadRepeatedlyAsync()
{
    await using var consumer = new EventHubConsumerClient(
        EventHubConsumerClient.DefaultConsumerGroupName, Setting("EVENTS"), Hub);
    var partitions = await consumer.GetPartitionIdsAsync();
    var options = new ReadEventOptions { MaximumWaitTime = TimeSpan.FromSeconds(10) };
    var without = 0;
    for (var number = 0; number < Reads; number += 1)
    {
        var partition = partitions[number % partitions.Length];
        var hasCome = false;
        await foreach (var read in consumer.ReadEventsFromPartitionAsync(partition, EventPosition.Earliest, options))
        {
            hasCome = read.Data is not null;
            break;
        }
        without += hasCome ? 0 : 1;
    }
    return without;
}

EventProcessorClient Processor()
{
    var options = new EventProcessorClientOptions
    {
        LoadBalancingUpdateInterval = TimeSpan.FromSeconds(2),
        PartitionOwnershipExpirationInterval = TimeSpan.FromSeconds(12),
    };
    var processor = new EventProcessorClient(
        container, EventHubConsumerClient.DefaultConsumerGroupName, Setting("EVENTS"), Hub, options);
    processor.PartitionInitializingAsync += arguments =>
    {
        arguments.DefaultStartingPosition = EventPosition.Earliest;
        return Task.CompletedTask;
    };
    processor.ProcessEventAsync += async arguments =>
    {
        var text = arguments.Data.EventBody.ToString();
        if (text.StartsWith(run))
        {
            seen.TryAdd(text, processor.Identifier);
        }
        await arguments.UpdateCheckpointAsync();
    };
    processor.PartitionClosingAsync += arguments =>
    {
        if (arguments.Reason == ProcessingStoppedReason.OwnershipLost)
        {
            Interlocked.Increment(ref losses);
        }
        return Task.CompletedTask;
    };
    processor.ProcessErrorAsync += arguments =>
    {
        troubles.Add($"{arguments.Operation}: {arguments.Exception.Message}");
        return Task.CompletedTask;
    };
    return processor;
}
