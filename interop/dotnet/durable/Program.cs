using Microsoft.DurableTask;
using Microsoft.DurableTask.Client;
using Microsoft.DurableTask.Client.Entities;
using Microsoft.DurableTask.Entities;
using Microsoft.DurableTask.Worker;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;
using Steadfast.Interop;

string address = Environment.GetEnvironmentVariable("STEADFAST_DURABLE") ?? "http://localhost:4001";

HostApplicationBuilder builder = Host.CreateApplicationBuilder();
builder.Services.AddDurableTaskWorker(worker =>
{
    worker.Configure(options => options.EnableEntitySupport = true);
    worker.AddTasks(tasks =>
    {
        tasks.AddEntity<Counter>(nameof(Counter));
        tasks.AddEntity<PlainCounter>(nameof(PlainCounter));
        tasks.AddOrchestratorFunc<Transfer, bool>(nameof(Transfer), TransferFundsAsync);
    });
    worker.UseGrpc(address);
});
builder.Services.AddDurableTaskClient(client =>
{
    client.Configure(options => options.EnableEntitySupport = true);
    client.UseGrpc(address);
});
using IHost host = builder.Build();
await host.StartAsync();
DurableTaskClient client = host.Services.GetRequiredService<DurableTaskClient>();

string run = Guid.NewGuid().ToString("N");
string source = $"{run}-source";
string destination = $"{run}-destination";
await client.Entities.SignalEntityAsync(new EntityInstanceId(nameof(Counter), source), "Add", 100);
await client.Entities.SignalEntityAsync(new EntityInstanceId(nameof(PlainCounter), run), "add", 7);

// In both directions at once: neither order may wait for the other for ever.
var transfers = new List<string>();
for (int number = 0; number < 20; number++)
{
    bool isForth = number % 2 == 0;
    Transfer transfer = isForth ? new(source, destination, 10) : new(destination, source, 5);
    transfers.Add(await client.ScheduleNewOrchestrationInstanceAsync(nameof(Transfer), transfer));
}

using var patience = new CancellationTokenSource(TimeSpan.FromMinutes(2));
int done = 0;
foreach (string id in transfers)
{
    OrchestrationMetadata end = await client.WaitForInstanceCompletionAsync(id, true, patience.Token);
    Check(end.RuntimeStatus == OrchestrationRuntimeStatus.Completed, $"{id}: {end.FailureDetails}");
    done += end.ReadOutputAs<bool>() ? 1 : 0;
}

int sum = await ValueAsync(source) + await ValueAsync(destination);
Check(sum == 100, $"there are {sum} instead of 100 after {done} transfers");

// The locks go with the end of the last orchestration, which may be seen first.
while ((await client.Entities.GetEntityAsync(new EntityInstanceId(nameof(Counter), source)))?.LockedBy is { } holder)
{
    Check(!patience.IsCancellationRequested, $"still locked by {holder}");
    await Task.Delay(TimeSpan.FromMilliseconds(20));
}

EntityMetadata<int>? plain =
    await client.Entities.GetEntityAsync<int>(new EntityInstanceId(nameof(PlainCounter), run));
Check(plain?.State == 7, $"the plain counter is at {plain?.State}");
Console.WriteLine("ok");
await host.StopAsync();
return 0;

async Task<int> ValueAsync(string key)
{
    EntityMetadata<int>? found =
        await client.Entities.GetEntityAsync<int>(new EntityInstanceId(nameof(Counter), key));
    return found?.State ?? 0;
}

static void Check(bool isRight, string otherwise)
{
    if (!isRight)
    {
        Console.Error.WriteLine(otherwise);
        Environment.Exit(1);
    }
}

static async Task<bool> TransferFundsAsync(TaskOrchestrationContext context, Transfer transfer)
{
    var source = new EntityInstanceId(nameof(Counter), transfer.Source);
    var destination = new EntityInstanceId(nameof(Counter), transfer.Destination);

    // No operation of anybody else runs on either account until the locks are released.
    await using (await context.Entities.LockEntitiesAsync(source, destination))
    {
        int balance = await context.Entities.CallEntityAsync<int>(source, "Get");
        if (balance < transfer.Amount)
        {
            return false;
        }

        await context.Entities.CallEntityAsync(source, "Add", -transfer.Amount);
        await context.Entities.CallEntityAsync(destination, "Add", transfer.Amount);
        return true;
    }
}

/// <summary>Who pays whom how much.</summary>
public sealed record Transfer(string Source, string Destination, int Amount);
