using Microsoft.DurableTask.Entities;

namespace Steadfast.Interop;

/// <summary>The counter as a class: every method is an operation.</summary>
public sealed class Counter : TaskEntity<int>
{
    public void Add(int amount) => this.State += amount;

    public void Reset() => this.State = 0;

    public int Get() => this.State;
}

/// <summary>The same counter as one function.</summary>
public sealed class PlainCounter : ITaskEntity
{
    public ValueTask<object?> RunAsync(TaskEntityOperation operation)
    {
        int value = operation.State.GetState<int>();
        switch (operation.Name.ToLowerInvariant())
        {
            case "add":
                value += operation.GetInput<int>();
                break;
            case "reset":
                value = 0;
                break;
            case "get":
                return new ValueTask<object?>(value);
        }

        operation.State.SetState(value);
        return new ValueTask<object?>((object?)null);
    }
}
