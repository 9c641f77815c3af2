// The chat of the documentation, as an app server of a running `steadfast dev`.
// SIGTERM ends it, by the mode that its first argument names.
//
//   dotnet bin/Release/net8.0/ChatSample.dll MigrateClients        or WaitForClientsClose

using Microsoft.AspNetCore.SignalR;
using Microsoft.Azure.SignalR;

var mode = args.FirstOrDefault() ?? nameof(GracefulShutdownMode.MigrateClients);
var builder = WebApplication.CreateBuilder(args);
builder.Services.AddSignalR().AddAzureSignalR(option =>
{
    option.ConnectionString = Environment.GetEnvironmentVariable("STEADFAST_REALTIME")
        ?? "Endpoint=http://localhost;Port=8888;AccessKey=ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789ABCDEFGH;Version=1.0;";
    option.GracefulShutdown.Mode = Enum.Parse<GracefulShutdownMode>(mode);
    option.GracefulShutdown.Timeout = TimeSpan.FromSeconds(30);
    option.GracefulShutdown.Add<Chat>(async c => await c.Clients.All.SendAsync("exit"));
});

var app = builder.Build();
app.MapHub<Chat>("/chat");
app.Run();

public class Chat : Hub
{
    public Task BroadcastMessage(string name, string message) =>
        Clients.All.SendAsync("broadcastMessage", name, message);

    public override async Task OnConnectedAsync()
    {
        Console.WriteLine($"{Context.ConnectionId} connected.");
        if (Migration() is { } feature)
        {
            Console.WriteLine($"[{feature.MigrateTo}] {Context.ConnectionId} is migrated from {feature.MigrateFrom}.");
        }
        await base.OnConnectedAsync();
    }

    public override async Task OnDisconnectedAsync(Exception? exception)
    {
        Console.WriteLine($"{Context.ConnectionId} disconnected.");
        if (Migration() is { } feature)
        {
            Console.WriteLine($"[{feature.MigrateFrom}] {Context.ConnectionId} will be migrated to {feature.MigrateTo}.");
        }
        await base.OnDisconnectedAsync(exception);
    }

    // The SDK puts it into the features of the connection. The documentation looks for
    // it in those of the request, where no version of the SDK sets it.
    private IConnectionMigrationFeature? Migration() =>
        Context.Features.Get<IConnectionMigrationFeature>();
}
