"""Prints every message of the protocol with all its fields set, as hexadecimal bytes.

The messages are those of the SDK, so the bytes are too. A message with a choice is
printed once per alternative. The lines stand in
crates/wire/tests/golden/durabletask.txt, and a test there reads and writes them.
"""

import re

from google.protobuf import descriptor

import durabletask.internal.orchestrator_service_pb2 as pb

FIELD = descriptor.FieldDescriptor
# What is never sent by us nor to us: the first form of entity work, and two events.
UNUSED = {"EntityBatchRequest", "OperationRequest", "HistoryStateEvent", "ContinueAsNewEvent"}


def snake(name):
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()


def value(field, owner):
    """Texts are the name of their field, so that no two can be mistaken."""
    if field.enum_type:
        return 1 if field.enum_type.name == "WorkerCapability" else 5
    if field.cpp_type == FIELD.CPPTYPE_STRING:
        return owner if field.name == "value" else snake(field.name)
    return {FIELD.CPPTYPE_BOOL: True, FIELD.CPPTYPE_DOUBLE: 0.5}.get(field.cpp_type, field.number)


def fill(message, depth, choice=None, owner=None):
    """Sets all fields, and of a choice the alternative of that name or the first."""
    for field in message.DESCRIPTOR.fields:
        oneof = field.containing_oneof
        if oneof and oneof.fields[0] is not field and choice is None:
            continue
        if oneof and choice is not None and field.name != choice:
            continue
        set_field(message, field, depth, owner)


def set_field(message, field, depth, owner):
    if field.message_type is None:
        if field.is_repeated:
            getattr(message, field.name).append(value(field, owner))
        else:
            setattr(message, field.name, value(field, owner))
    elif field.message_type.GetOptions().map_entry:
        target = getattr(message, field.name)
        kind = field.message_type.fields_by_name["value"]
        if kind.message_type is None:
            target["k"] = "v"
        else:
            target["k"].string_value = "v"
    elif field.message_type.name in UNUSED:
        pass
    elif field.is_repeated:
        fill(getattr(message, field.name).add(), depth + 1, None, snake(field.name))
    elif depth < 4:
        inner = getattr(message, field.name)
        inner.SetInParent()
        fill(inner, depth + 1, None, snake(field.name))


def alternatives(kind):
    oneofs = [one for one in kind.oneofs if len(one.fields) > 1]
    if not oneofs:
        return [None]
    fields = [field for field in oneofs[0].fields]
    unused = lambda field: field.message_type and field.message_type.name in UNUSED
    return [field.name for field in fields if not unused(field)]


def main():
    for name, kind in sorted(pb.DESCRIPTOR.message_types_by_name.items()):
        if name in UNUSED:
            continue
        for choice in alternatives(kind):
            message = getattr(pb, name)()
            fill(message, 0, choice)
            print(name, choice or "-", message.SerializeToString(deterministic=True).hex())


main()
